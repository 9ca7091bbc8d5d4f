//! One DataFusion process with all rows in memory: what distribution must not change. It computes with Ancho's exact
//! arithmetic; whether that is right is for written rows to say.
use ancho_common::{exact, partition::functions};
use datafusion::{
    error::Result,
    execution::SessionStateBuilder,
    physical_plan::collect,
    prelude::{DataFrame, SessionConfig, SessionContext},
    sql::parser::Statement,
};

use crate::{
    client::Answer,
    corpus::{QueryCase, TableCase},
};

/// The process.
pub struct Reference {
    context: SessionContext,
}

impl Reference {
    /// An empty one that plans with this many streams.
    #[must_use]
    pub fn new(streams: usize) -> Self {
        let mut config = SessionConfig::new().with_target_partitions(streams).with_information_schema(true);
        exact::configure(config.options_mut());
        let state = SessionStateBuilder::new()
            .with_config(config)
            .with_default_features()
            .with_analyzer_rules(exact::analyzer_rules())
            .build();
        let context = SessionContext::new_with_state(state);
        for function in functions::all().into_iter().chain(exact::functions()) {
            context.register_udf(function.as_ref().clone());
        }
        for aggregate in exact::aggregates() {
            context.register_udaf(aggregate.as_ref().clone());
        }
        Self { context }
    }

    /// The session, to register more.
    #[must_use]
    pub fn context(&self) -> &SessionContext {
        &self.context
    }

    /// Creates a table of the corpus with its rows.
    ///
    /// # Errors
    /// A statement fails.
    pub async fn load(&self, table: &TableCase) -> Result<()> {
        for sql in &table.statements {
            frame(&self.context, sql).await?.collect().await?;
        }
        Ok(())
    }

    /// Runs a query of the corpus under its settings.
    ///
    /// # Errors
    /// The query fails.
    pub async fn run(&self, case: &QueryCase) -> Result<Answer> {
        if case.settings.is_empty() {
            return answer(&self.context, &case.sql).await;
        }
        let mut state = self.context.state();
        for (key, value) in &case.settings {
            state.config_mut().options_mut().set(key, value)?;
        }
        let state = SessionStateBuilder::new_from_existing(state).build();
        answer(&SessionContext::new_with_state(state), &case.sql).await
    }
}

/// A statement, its numbers read as the cluster reads them.
async fn frame(context: &SessionContext, sql: &str) -> Result<DataFrame> {
    let state = context.state();
    let dialect = state.config().options().sql_parser.dialect;
    let mut statement = state.sql_to_statement(sql, &dialect)?;
    if let Statement::Statement(statement) = &mut statement {
        exact::literals::mark_doubles(statement.as_mut());
    }
    context.execute_logical_plan(state.statement_to_plan(statement).await?).await
}

async fn answer(context: &SessionContext, sql: &str) -> Result<Answer> {
    // The schema of the physical plan: the logical one does not have its types unified yet.
    let plan = frame(context, sql).await?.create_physical_plan().await?;
    Ok(Answer { schema: plan.schema(), batches: collect(plan, context.task_ctx()).await? })
}
