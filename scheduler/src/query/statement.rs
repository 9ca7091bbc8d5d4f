//! What a text asks for.
use ancho_common::{
    error::{Error, Result},
    exact::literals::mark_doubles,
};
use datafusion::{
    logical_expr::sqlparser::ast::{self, CreateTable, Statement as Sql},
    sql::parser::{DFParser, DFParserBuilder, Statement as DfStatement},
};

use super::names::mark_duplicates;
use crate::frontend::service::StatementKind;

/// A statement, sorted by what runs it.
#[derive(Debug, Clone)]
pub enum Statement {
    /// Yields rows.
    Query(DfStatement),
    /// `EXPLAIN [ANALYZE] [VERBOSE]` of a statement.
    Explain {
        /// What is explained.
        inner: Box<Statement>,
        /// Runs it, and shows what it took.
        analyze: bool,
        /// More detail.
        verbose: bool,
    },
    /// `CREATE TABLE`, with or without a query.
    CreateTable(Box<CreateTable>),
    /// `INSERT`.
    Insert(DfStatement),
    /// `DROP TABLE`.
    DropTable {
        /// Tables, as written.
        names: Vec<ast::ObjectName>,
        /// A missing one is fine.
        if_exists: bool,
    },
}

impl Statement {
    /// Parses exactly one statement.
    ///
    /// # Errors
    /// `Invalid` for bad syntax, nothing, or several statements; `Unsupported` for statements that are not offered.
    pub fn parse(sql: &str) -> Result<Self> {
        let mut parsed = parser(sql)?.parse_statements().map_err(|e| Error::invalid(text(&e)))?;
        let first = parsed.pop_front().ok_or_else(|| Error::invalid("the statement is empty"))?;
        if !parsed.is_empty() {
            return Err(Error::invalid(format!(
                "{} statements in one request; send them one by one",
                parsed.len() + 1
            )));
        }
        Self::classify(first)
    }

    fn classify(statement: DfStatement) -> Result<Self> {
        match statement {
            DfStatement::Explain(explain) => Ok(Self::Explain {
                inner: Box::new(Self::classify(*explain.statement)?),
                analyze: explain.options.analyze,
                verbose: explain.options.verbose,
            }),
            DfStatement::CopyTo(_) => Err(not_offered("COPY")),
            DfStatement::CreateExternalTable(_) => {
                Err(Error::unsupported("CREATE EXTERNAL TABLE is not offered; declare a dataset and use `ancho apply`"))
            }
            DfStatement::Reset(_) => Err(not_offered("RESET")),
            DfStatement::Statement(sql) => Self::classify_sql(*sql),
        }
    }

    fn classify_sql(sql: Sql) -> Result<Self> {
        match sql {
            Sql::CreateTable(mut create) => {
                if let Some(query) = &mut create.query {
                    mark_doubles(query);
                }
                Ok(Self::CreateTable(Box::new(create)))
            }
            Sql::Drop { object_type: ast::ObjectType::Table, if_exists, names, .. } => {
                Ok(Self::DropTable { names, if_exists })
            }
            Sql::Insert(mut insert) => {
                if let Some(query) = &mut insert.source {
                    mark_doubles(query);
                    mark_duplicates(query);
                }
                Ok(Self::Insert(DfStatement::Statement(Box::new(Sql::Insert(insert)))))
            }
            Sql::Query(mut query) => {
                mark_doubles(&mut query);
                mark_duplicates(&mut query);
                Ok(Self::Query(DfStatement::Statement(Box::new(Sql::Query(query)))))
            }
            query @ (Sql::ShowTables { .. }
            | Sql::ShowColumns { .. }
            | Sql::ShowVariable { .. }
            | Sql::ShowFunctions { .. }
            | Sql::ShowDatabases { .. }
            | Sql::ShowSchemas { .. }
            | Sql::ExplainTable { .. }) => Ok(Self::Query(DfStatement::Statement(Box::new(query)))),
            Sql::Explain { statement, analyze, verbose, .. } => {
                Ok(Self::Explain { inner: Box::new(Self::classify_sql(*statement)?), analyze, verbose })
            }
            other => {
                let words: Vec<String> = other.to_string().split_whitespace().take(2).map(str::to_owned).collect();
                Err(not_offered(&words.join(" ")))
            }
        }
    }

    /// Whether it yields rows.
    #[must_use]
    pub fn kind(&self) -> StatementKind {
        match self {
            Self::Query(_) | Self::Explain { .. } => StatementKind::Query,
            Self::CreateTable(_) | Self::Insert(_) | Self::DropTable { .. } => StatementKind::Update,
        }
    }
}

fn parser(sql: &str) -> Result<DFParser<'_>> {
    DFParserBuilder::new(sql).with_recursion_limit(RECURSION_LIMIT).build().map_err(|e| Error::invalid(text(&e)))
}

/// Depth of nested expressions that the parser follows.
const RECURSION_LIMIT: usize = 200;

fn text(error: &datafusion::error::DataFusionError) -> String {
    error.strip_backtrace()
}

fn not_offered(what: &str) -> Error {
    Error::unsupported(format!(
        "{what} is not offered; SELECT, INSERT, CREATE TABLE, DROP TABLE, SHOW, DESCRIBE and EXPLAIN are"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_sorted_by_what_runs_them() {
        for (sql, kind) in [
            ("select 1", StatementKind::Query),
            ("with a as (select 1) select * from a", StatementKind::Query),
            ("values (1)", StatementKind::Query),
            ("show tables", StatementKind::Query),
            ("describe t", StatementKind::Query),
            ("explain select 1", StatementKind::Query),
            ("explain analyze verbose select 1", StatementKind::Query),
            ("insert into t values (1)", StatementKind::Update),
            ("create table t (a int) partition by (bucket(4, a), year(d))", StatementKind::Update),
            ("create table t as select 1", StatementKind::Update),
            ("drop table if exists t", StatementKind::Update),
        ] {
            assert_eq!(Statement::parse(sql).unwrap().kind(), kind, "{sql}");
        }
    }

    #[test]
    fn anything_else_is_refused_with_a_reason() {
        for sql in ["", "select 1; select 2", "selec 1", "begin", "update t set a = 1", "copy t to 'x'", "set a = 1"] {
            let error = Statement::parse(sql).unwrap_err();
            assert!(!error.message.is_empty(), "{sql}");
        }
    }
}
