//! `ALTER TABLE`: names, columns and parameters of a table. Each is one entry of the log; no row is rewritten.
use std::{collections::BTreeMap, sync::Arc};

use ancho_common::{
    alter::ColumnChange,
    error::{Error, ErrorKind, Result},
    ids::WriteId,
    partition::Partitioner,
    spec::settings,
};
use datafusion::{
    execution::SessionState,
    logical_expr::{
        DdlStatement, LogicalPlan,
        sqlparser::ast::{
            self, AlterColumnOperation, AlterTableOperation, ColumnDef, ColumnOption, Ident, ObjectName,
            RenameTableNameKind, SqlOption, Statement as Sql, helpers::stmt_create_table::CreateTableBuilder,
        },
    },
    sql::parser::Statement as DfStatement,
};

use super::{ddl, engine::QueryEngine, write::routes};
use crate::{
    frontend::caller::Caller,
    state::{ClusterState, Command, Table, check_layout, fixed_difference},
};

/// An `ALTER TABLE` of one operation.
#[derive(Debug, Clone)]
pub struct AlterTable {
    name: ObjectName,
    /// A missing table is fine.
    if_exists: bool,
    operation: Operation,
}

#[derive(Debug, Clone)]
enum Operation {
    RenameTable(ObjectName),
    AddColumn {
        column: ColumnDef,
        /// A column of that name is fine and stays.
        if_not_exists: bool,
    },
    DropColumn {
        name: String,
        /// A missing column is fine.
        if_exists: bool,
    },
    RenameColumn {
        name: String,
        to: String,
    },
    ChangeType(ColumnDef),
    SetOptions(Vec<SqlOption>),
    AddIndex(Vec<String>),
}

impl AlterTable {
    /// Sorts out what is offered.
    ///
    /// # Errors
    /// `Unsupported`, with the forms that are offered.
    pub fn parse(alter: ast::AlterTable) -> Result<Self> {
        let (name, if_exists) = (alter.name, alter.if_exists);
        let plain = !alter.only && alter.on_cluster.is_none() && alter.location.is_none() && alter.table_type.is_none();
        let Ok([operation]) = <[AlterTableOperation; 1]>::try_from(alter.operations) else {
            return Err(Error::unsupported("ALTER TABLE takes one change at a time; write one statement for each"));
        };
        let operation = if plain { Operation::of(operation) } else { None };
        let operation = operation.ok_or_else(|| {
            Error::unsupported(
                "of ALTER TABLE these forms are offered: RENAME TO …, ADD COLUMN …, DROP COLUMN …, RENAME COLUMN … TO …, \
                 ALTER COLUMN … TYPE …, SET (option = value)",
            )
        })?;
        Ok(Self { name, if_exists, operation })
    }

    /// Sorts out what is offered of `CREATE INDEX ON t (a, b)`.
    ///
    /// # Errors
    /// `Unsupported`, saying what is offered instead.
    pub fn create_index(index: ast::CreateIndex) -> Result<Self> {
        let offered = "CREATE INDEX ON t (a, b) is offered: an index is over columns, finds exact values, and goes \
                       by its columns; ALTER TABLE t SET (indexes = 'a, (b, c)') sets them all";
        let refused = |what: &str| Err(Error::unsupported(format!("{what}; {offered}")));
        if index.name.is_some() {
            return refused("indexes have no names");
        }
        let plain =
            index.using.is_none() && index.include.is_empty() && index.predicate.is_none() && index.with.is_empty();
        if index.unique {
            return refused("an index rejects no row that repeats a value; declare a PRIMARY KEY for that");
        }
        let options = index.index_options.is_empty() && index.alter_options.is_empty();
        if !plain || !options || index.nulls_distinct.is_some() || index.concurrently {
            return refused("this form of CREATE INDEX is not offered");
        }
        let column = |column: &ast::IndexColumn| match &column.column.expr {
            ast::Expr::Identifier(name)
                if column.operator_class.is_none()
                    && column.column.options == ast::OrderByOptions::default()
                    && column.column.with_fill.is_none() =>
            {
                Some(folded(name))
            }
            _ => None,
        };
        let Some(columns) = index.columns.iter().map(column).collect::<Option<Vec<_>>>() else {
            return refused("an index is over columns, without an order");
        };
        Ok(Self { name: index.table_name, if_exists: false, operation: Operation::AddIndex(columns) })
    }

    /// Carries it out, again if the columns of the table are changed meanwhile.
    ///
    /// # Errors
    /// `NotFound`, `AlreadyExists` or `Invalid`, naming table and column; `Unavailable` while a partition has no serving owner.
    pub async fn run(&self, engine: &QueryEngine, caller: &Caller) -> Result<u64> {
        if let Operation::RenameTable(to) = &self.operation {
            let (name, to) = (ddl::object_name(&self.name)?, ddl::object_name(to)?);
            let command = Command::RenameTable { name, to, if_exists: self.if_exists };
            return engine.define(command, caller).await;
        }
        engine
            .write_attempts(|state, attempt| async move {
                let name = ddl::object_name(&self.name)?;
                let command = match state.table(&name) {
                    Some(table) => self.command(attempt.session(), &state, table).await?,
                    None if self.if_exists => None,
                    None => return Err(Error::not_found(format!("table {name} does not exist")).into()),
                };
                match command {
                    Some(command) => Ok(engine.define(command, caller).await?),
                    None => Ok(0),
                }
            })
            .await
    }

    /// What to propose; nothing if everything is as it is wanted.
    async fn command(&self, session: &SessionState, state: &ClusterState, table: &Table) -> Result<Option<Command>> {
        let exists = |name: &str| table.schema.0.column_with_name(name).is_some();
        let change = match &self.operation {
            Operation::RenameTable(_) => return Err(Error::internal("a renaming of a table is no change of columns")),
            Operation::SetOptions(options) => return set_options(table, options),
            Operation::AddIndex(columns) => return add_index(table, columns),
            Operation::AddColumn { column, if_not_exists } => {
                check_options(column)?;
                let column = planned(session, column).await?;
                if *if_not_exists && exists(column.name()) {
                    return Ok(None);
                }
                ColumnChange::Add { column }
            }
            Operation::DropColumn { name, if_exists } => {
                if *if_exists && !exists(name) {
                    return Ok(None);
                }
                ColumnChange::Drop { name: name.clone() }
            }
            Operation::RenameColumn { name, to } => ColumnChange::Rename { name: name.clone(), to: to.clone() },
            Operation::ChangeType(column) => ColumnChange::Widen { column: planned(session, column).await? },
        };
        check_change(state, table, &change)?;
        let (schema_version, write_id) = (table.schema_version, WriteId::new());
        Ok(Some(Command::AlterColumns { table: table.id, schema_version, change, write_id }))
    }
}

impl Operation {
    fn of(operation: AlterTableOperation) -> Option<Self> {
        Some(match operation {
            AlterTableOperation::RenameTable { table_name: RenameTableNameKind::To(to) } => Self::RenameTable(to),
            AlterTableOperation::AddColumn { if_not_exists, column_def, column_position: None, .. } => {
                Self::AddColumn { column: column_def, if_not_exists }
            }
            AlterTableOperation::DropColumn { column_names, if_exists, drop_behavior: None, .. } => {
                let [name] = column_names.as_slice() else { return None };
                Self::DropColumn { name: folded(name), if_exists }
            }
            AlterTableOperation::RenameColumn { old_column_name, new_column_name } => {
                Self::RenameColumn { name: folded(&old_column_name), to: folded(&new_column_name) }
            }
            AlterTableOperation::AlterColumn {
                column_name,
                op: AlterColumnOperation::SetDataType { data_type, using: None, .. },
            } => Self::ChangeType(ColumnDef { name: column_name, data_type, options: Vec::new() }),
            AlterTableOperation::SetOptionsParens { options } => Self::SetOptions(options),
            AlterTableOperation::SetTblProperties { table_properties } => Self::SetOptions(table_properties),
            _ => return None,
        })
    }
}

/// A name as the table has it.
fn folded(name: &Ident) -> String {
    if name.quote_style.is_some() { name.value.clone() } else { name.value.to_lowercase() }
}

fn check_options(column: &ColumnDef) -> Result<()> {
    match column.options.iter().find(|option| !matches!(option.option, ColumnOption::Null)) {
        None => Ok(()),
        Some(option) => Err(Error::unsupported(format!(
            "column {}: {} is not offered for a column that is added; rows that exist have NULL in it",
            folded(&column.name),
            option.option
        ))),
    }
}

/// A column as it would be in a table that is created with it.
async fn planned(session: &SessionState, column: &ColumnDef) -> Result<arrow::datatypes::Field> {
    let table = CreateTableBuilder::new(ObjectName::from(vec![Ident::new("t")])).columns(vec![column.clone()]).build();
    let statement = DfStatement::Statement(Box::new(Sql::CreateTable(table)));
    match session.statement_to_plan(statement).await? {
        LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(create)) if create.input.schema().fields().len() == 1 => {
            let field = create.input.schema().field(0);
            Ok(arrow::datatypes::Field::new(field.name(), ddl::stored_type(field.data_type()), field.is_nullable()))
        }
        _ => Err(Error::internal(format!("column {} was planned as something else", column.name))),
    }
}

/// The checks that the state does not make itself.
fn check_change(state: &ClusterState, table: &Table, change: &ColumnChange) -> Result<()> {
    table.altered(change)?;
    let partitioner = Partitioner::try_new(Arc::clone(&table.schema.0), &table.partition_spec)?;
    if partitioner.source_columns().iter().any(|column| column == change.name()) {
        return Err(Error::invalid(format!(
            "table {} is partitioned by column {}, which stays as it is",
            table.name,
            change.name()
        )));
    }
    // Owners that are away could fall behind by more than the state remembers.
    if table.partitions.values().any(|partition| partition.version > 0) {
        routes(state, table)?;
    }
    Ok(())
}

fn set_options(table: &Table, options: &[SqlOption]) -> Result<Option<Command>> {
    if table.dataset.is_some() {
        return Err(Error::unsupported(format!(
            "the parameters of table {} are those of its spec; apply that",
            table.name
        )));
    }
    let mut params = table.params.clone();
    for (name, value) in ddl::options(options.to_vec())? {
        // The other spelling says the same.
        match name.as_str() {
            "sort_columns" => drop(params.remove("cayenne_sort_columns")),
            "cayenne_sort_columns" => drop(params.remove("sort_columns")),
            _ => {}
        }
        if value.eq_ignore_ascii_case("default") {
            params.remove(&name);
        } else {
            settings::check_table_option(&name, &value)
                .map_err(|problem| Error::invalid(format!("table option {name}: {problem}")))?;
            params.insert(name, value);
        }
    }
    adjusted(table, params, None)
}

fn add_index(table: &Table, columns: &[String]) -> Result<Option<Command>> {
    if table.dataset.is_some() {
        return Err(Error::unsupported(format!(
            "the indexes of table {} are those of its spec; apply that",
            table.name
        )));
    }
    let mut indexes = settings::indexes(&table.params);
    if indexes.iter().any(|known| known == columns) {
        let text = format!("table {} has an index over ({}) already", table.name, columns.join(", "));
        return Err(Error::already_exists(text));
    }
    indexes.push(columns.to_vec());
    let mut params = table.params.clone();
    let list = settings::index_list(&indexes);
    settings::check_table_option(settings::INDEXES, &list).map_err(Error::invalid)?;
    params.insert(settings::INDEXES.to_owned(), list);
    adjusted(table, params, None)
}

/// The command that gives a table other parameters, where they may change and are others.
///
/// # Errors
/// They contradict each other or the columns, or one of them is decided when a table is made.
pub(super) fn adjusted(
    table: &Table,
    params: BTreeMap<String, String>,
    definition: Option<String>,
) -> Result<Option<Command>> {
    let of_snapshots = settings::snapshot_problem(&params, table.dataset.is_some());
    if let Some((option, problem)) = settings::contradictions(&params).into_iter().chain(of_snapshots).next() {
        return Err(Error::invalid(format!("table option {option}: {problem}")));
    }
    if let Some(fixed) = fixed_difference(&table.params, &params) {
        return Err(Error::new(
            ErrorKind::Unsupported,
            format!("table {}: {fixed} is decided when the table is made; make it anew to change it", table.name),
        ));
    }
    check_layout(&table.name, &table.schema.0, &params)?;
    let changed = params != table.params || definition.is_some();
    let schema_version = table.schema_version;
    Ok(changed.then_some(Command::SetParams { table: table.id, schema_version, params, definition }))
}

#[cfg(test)]
mod tests {
    use super::super::statement::Statement;

    #[test]
    fn the_forms_of_alter_table() {
        for sql in [
            "alter table t rename to u",
            "alter table t add column c bigint",
            "alter table if exists t add c decimal(10, 2) null",
            "alter table t add column if not exists c bigint",
            "alter table t drop column c",
            "alter table t drop column if exists c",
            "alter table t rename column a to \"B\"",
            "alter table t alter column a type bigint",
            "alter table t alter column a set data type bigint",
            "alter table t set (sort_columns = 'a', cayenne_compaction_max_levels = 2)",
            "create index on t (a)",
            "create index on t (a, \"B\")",
        ] {
            assert!(matches!(Statement::parse(sql), Ok(Statement::AlterTable(_))), "{sql}");
        }
        for sql in [
            "alter table t add column a int, add column b int",
            "alter table t drop column c cascade",
            "alter table t alter column a type bigint using a + 1",
            "alter table t alter column a set not null",
            "alter table t add constraint k primary key (a)",
            "alter table t add column c int first",
            "create index i on t (a)",
            "create index if not exists i on t (a)",
            "create unique index on t (a)",
            "create index on t (a desc)",
            "create index on t (a + 1)",
            "create index on t using hash (a)",
        ] {
            assert!(Statement::parse(sql).is_err(), "{sql}");
        }
    }
}
