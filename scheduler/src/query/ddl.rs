//! `CREATE TABLE`, and the names that it, `DROP TABLE` and `ALTER TABLE` use.
use std::{collections::BTreeMap, sync::Arc};

use ancho_common::{
    error::{Condition, Error, Result},
    ids::TableId,
    partition::{PartitionSpec, Partitioner},
    spec::settings::{self, UnsupportedTypeAction},
    storable,
};
use arrow::{
    compute::can_cast_types,
    datatypes::{DataType, Field, Schema as ArrowSchema, SchemaRef},
    record_batch::RecordBatch,
};
use datafusion::{
    common::{Constraint, TableReference},
    execution::SessionState,
    logical_expr::{
        DdlStatement, LogicalPlan,
        sqlparser::ast::{
            CreateTable, CreateTableOptions, Expr as SqlExpr, ObjectName, SqlOption, Statement as Sql,
            WrappedCollection,
        },
    },
    sql::parser::Statement as DfStatement,
};

use super::{
    attempt::{bind, understood},
    merged, names,
};
pub use crate::planner::catalog::table_name;
use crate::state::{Dataset, NewPartition, NewTable, Schema, TableName};

/// A `CREATE TABLE` as the cluster understands it.
#[derive(Debug)]
pub struct CreateRequest {
    /// What to propose.
    pub table: NewTable,
    /// The query to fill it with.
    pub query: Option<LogicalPlan>,
}

/// Understands a `CREATE TABLE`, whose query may have parameters: their types decide those of the columns.
///
/// # Errors
/// `Invalid` or `Unsupported`, naming the clause, column or expression at fault.
pub async fn create_request(
    session: &SessionState,
    mut create: CreateTable,
    parameters: Option<&RecordBatch>,
) -> Result<CreateRequest> {
    refuse_unsupported(&create)?;
    let partition_by = create.partition_by.take().map(|e| expressions(*e)).unwrap_or_default();
    let mut params = table_params(std::mem::replace(&mut create.table_options, CreateTableOptions::None))?;
    if let Some(WrappedCollection::NoWrapping(list) | WrappedCollection::Parentheses(list)) = create.cluster_by.take() {
        take_cluster_by(list, &mut params)?;
    }
    let of_snapshots = settings::snapshot_problem(&params, false);
    if let Some((option, problem)) = settings::contradictions(&params).into_iter().chain(of_snapshots).next() {
        return Err(Error::invalid(format!("table option {option}: {problem}")));
    }
    let has_query = create.query.is_some();
    let statement = DfStatement::Statement(Box::new(Sql::CreateTable(create)));
    let plan = session.statement_to_plan(merged::separate(statement, session)?).await?;
    let LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(create)) = plan else {
        return Err(Error::unsupported("this form of CREATE TABLE is not offered"));
    };
    if let Some((column, _)) = create.column_defaults.first() {
        return Err(Error::unsupported(format!("column {column}: DEFAULT is not offered; give the value in INSERT")));
    }
    let input = bind(understood(create.input.as_ref().clone())?, parameters)?;
    let declared = input.schema().as_arrow().clone();
    if let Some((name, _)) = declared.fields().iter().find_map(|field| field.name().split_once(names::MARK)) {
        let text = format!("column {name} is there more than once; name the columns that the table is to have");
        return Err(Error::invalid(text).with(Condition::DuplicateColumn));
    }
    let schema = with_storable_types(&stored_schema(&declared, has_query), sql_type_action(&params)?)?;
    let primary_key = primary_key(&create.constraints, &schema)?;
    let name = table_name(&create.name)?;
    let table = new_table(name, schema, partition_by, primary_key, params)?;
    let table =
        NewTable { if_not_exists: create.if_not_exists, or_replace: create.or_replace, loading: has_query, ..table };
    Ok(CreateRequest { table, query: has_query.then_some(input) })
}

/// A table with the partitions that are known beforehand.
///
/// # Errors
/// The partition expressions or a column's type are not usable; names them.
pub fn new_table(
    name: TableName,
    schema: SchemaRef,
    partition_by: Vec<String>,
    primary_key: Vec<String>,
    params: BTreeMap<String, String>,
) -> Result<NewTable> {
    storable::check(&schema)?;
    let partition_spec = PartitionSpec::new(partition_by);
    let partitioner = Partitioner::try_new(Arc::clone(&schema), &partition_spec)?;
    let keys = partitioner.enumerated_keys().unwrap_or_default();
    let table = NewTable {
        name,
        if_not_exists: false,
        or_replace: false,
        schema: Schema(schema),
        partition_spec,
        primary_key,
        params,
        dataset: None::<Dataset>,
        loading: false,
        partitions: keys.into_iter().map(|key| NewPartition { key, owners: Vec::new() }).collect(),
    };
    table.validate()?;
    Ok(table)
}

fn refuse_unsupported(create: &CreateTable) -> Result<()> {
    let refused = [
        (create.external, "EXTERNAL"),
        (create.temporary, "TEMPORARY"),
        (create.transient, "TRANSIENT"),
        (create.like.is_some(), "LIKE"),
        (create.clone.is_some(), "CLONE"),
        (create.inherits.is_some(), "INHERITS"),
    ];
    match refused.iter().find(|(given, _)| *given) {
        Some((_, clause)) => Err(Error::unsupported(format!("CREATE TABLE … {clause} is not offered"))),
        None => Ok(()),
    }
}

/// `PARTITION BY (a, b)` parses as a tuple, `PARTITION BY (a)` and `PARTITION BY a` as expressions.
fn expressions(expr: SqlExpr) -> Vec<String> {
    match expr {
        SqlExpr::Tuple(items) => items.iter().map(ToString::to_string).collect(),
        SqlExpr::Nested(inner) => expressions(*inner),
        other => vec![other.to_string()],
    }
}

fn table_params(given: CreateTableOptions) -> Result<BTreeMap<String, String>> {
    let list = match given {
        CreateTableOptions::None => return Ok(BTreeMap::new()),
        CreateTableOptions::With(list) | CreateTableOptions::Options(list) | CreateTableOptions::Plain(list) => list,
        CreateTableOptions::TableProperties(list) => list,
    };
    let params = options(list)?;
    for (key, value) in &params {
        settings::check_table_option(key, value)
            .map_err(|problem| Error::invalid(format!("table option {key}: {problem}")))?;
    }
    Ok(params)
}

/// Options as names and values, which are still to be checked.
///
/// # Errors
/// One has another form than `name = value`, or stands there twice.
pub(super) fn options(list: Vec<SqlOption>) -> Result<BTreeMap<String, String>> {
    let mut params = BTreeMap::new();
    for option in list {
        let SqlOption::KeyValue { key, value } = option else {
            return Err(Error::unsupported(format!("table option {option} is not offered; write key = value")));
        };
        let key = key.value.to_lowercase();
        if params.insert(key.clone(), value.to_string().trim_matches('\'').to_owned()).is_some() {
            return Err(Error::invalid(format!("table option {key} is given twice; give it once")));
        }
    }
    Ok(params)
}

/// `CLUSTER BY (a, b)` and `CLUSTER BY a, b`, as the option that says the same.
fn take_cluster_by(list: Vec<SqlExpr>, params: &mut BTreeMap<String, String>) -> Result<()> {
    let mut columns: Vec<String> = Vec::new();
    for expr in list.into_iter().flat_map(members) {
        let SqlExpr::Identifier(name) = &expr else {
            return Err(Error::invalid(format!("CLUSTER BY takes names of columns, and {expr} is none")));
        };
        let name = if name.quote_style.is_some() { name.value.clone() } else { name.value.to_lowercase() };
        if name.contains(',') {
            return Err(Error::unsupported(format!("CLUSTER BY: the name {name:?} has a comma; rename the column")));
        }
        columns.push(name);
    }
    match params.insert("cayenne_cluster_by".to_owned(), columns.join(",")) {
        None => Ok(()),
        Some(_) => Err(Error::invalid("CLUSTER BY and the option cayenne_cluster_by say the same; write one of them")),
    }
}

fn members(expr: SqlExpr) -> Vec<SqlExpr> {
    match expr {
        SqlExpr::Tuple(items) => items,
        SqlExpr::Nested(inner) => members(*inner),
        other => vec![other],
    }
}

/// What SQL asks for of columns that cannot be stored. Nobody declares a column to have it left out.
fn sql_type_action(params: &BTreeMap<String, String>) -> Result<UnsupportedTypeAction> {
    match UnsupportedTypeAction::of(params) {
        action @ (UnsupportedTypeAction::Error | UnsupportedTypeAction::String) => Ok(action),
        UnsupportedTypeAction::Warn | UnsupportedTypeAction::Ignore => Err(Error::invalid(
            "table option unsupported_type_action: in CREATE TABLE only error and string are possible; leave the column out",
        )),
    }
}

/// The schema after what is to become of columns that cannot be stored.
///
/// # Errors
/// `Invalid`, naming a column that cannot be stored, nor its values as text where that is asked for.
pub fn with_storable_types(schema: &ArrowSchema, action: UnsupportedTypeAction) -> Result<SchemaRef> {
    let mut fields: Vec<Arc<Field>> = Vec::new();
    for field in schema.fields() {
        let Err(refused) = storable::check_column(field) else {
            fields.push(Arc::clone(field));
            continue;
        };
        match action {
            UnsupportedTypeAction::Error => return Err(refused),
            UnsupportedTypeAction::String if can_cast_types(field.data_type(), &DataType::Utf8) => {
                fields.push(Arc::new(Field::new(field.name(), DataType::Utf8, field.is_nullable())));
            }
            UnsupportedTypeAction::String => return Err(refused.context("its values have no text either")),
            UnsupportedTypeAction::Warn => tracing::warn!(column = field.name(), %refused, "a column is left out"),
            UnsupportedTypeAction::Ignore => {}
        }
    }
    Ok(Arc::new(ArrowSchema::new(fields)))
}

/// The schema as stored. Dictionary keys are widened, since values of several partitions must fit one dictionary; a
/// table made from a query takes NULLs in every column.
fn stored_schema(declared: &ArrowSchema, nullable: bool) -> SchemaRef {
    let fields: Vec<Field> = declared
        .fields()
        .iter()
        .map(|f| Field::new(f.name(), stored_type(f.data_type()), nullable || f.is_nullable()))
        .collect();
    Arc::new(ArrowSchema::new(fields))
}

/// The type that values of a column are stored as.
#[must_use]
pub fn stored_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Dictionary(_, value) => DataType::Dictionary(Box::new(DataType::Int32), value.clone()),
        // UUIDs in Parquet and the like: the same bytes.
        DataType::FixedSizeBinary(_) => DataType::Binary,
        // The type of an untyped NULL: text can hold whatever comes later.
        DataType::Null => DataType::Utf8View,
        other => with_small_lists(other),
    }
}

/// The type with `List` for each `LargeList` in it: the same to SQL. Between the nodes the library announces both as
/// `List`, and whoever receives the rows would take 64-bit offsets for 32-bit ones.
#[must_use]
pub fn with_small_lists(data_type: &DataType) -> DataType {
    let inner =
        |field: &Arc<Field>| Arc::new(field.as_ref().clone().with_data_type(with_small_lists(field.data_type())));
    match data_type {
        DataType::List(item) | DataType::LargeList(item) => DataType::List(inner(item)),
        DataType::FixedSizeList(item, length) => DataType::FixedSizeList(inner(item), *length),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(inner).collect()),
        other => other.clone(),
    }
}

/// The schema of a table made from the files of a dataset, which say themselves where there is no NULL.
///
/// # Errors
/// As [`with_storable_types`].
pub fn dataset_schema(schema: &ArrowSchema, params: &BTreeMap<String, String>) -> Result<SchemaRef> {
    with_storable_types(&stored_schema(schema, false), UnsupportedTypeAction::of(params))
}

/// The schema of a table made for rows that a client sends.
#[must_use]
pub fn source_schema(schema: &ArrowSchema) -> SchemaRef {
    stored_schema(schema, true)
}

fn primary_key(constraints: &datafusion::common::Constraints, schema: &SchemaRef) -> Result<Vec<String>> {
    let mut key = Vec::new();
    for constraint in constraints.iter() {
        match constraint {
            Constraint::PrimaryKey(columns) => {
                key = columns.iter().map(|i| schema.field(*i).name().clone()).collect();
            }
            Constraint::Unique(_) => {
                return Err(Error::unsupported("UNIQUE is not offered; declare a PRIMARY KEY"));
            }
        }
    }
    Ok(key)
}

/// A name as written in `DROP TABLE` or `ALTER TABLE`.
///
/// # Errors
/// It has too many parts, or names another catalog or schema.
pub fn object_name(name: &ObjectName) -> Result<TableName> {
    let parts: Option<Vec<String>> = name
        .0
        .iter()
        .map(|part| {
            part.as_ident().map(|i| if i.quote_style.is_some() { i.value.clone() } else { i.value.to_lowercase() })
        })
        .collect();
    let reference = match parts.as_deref() {
        Some([table]) => TableReference::bare(table.clone()),
        Some([schema, table]) => TableReference::partial(schema.clone(), table.clone()),
        Some([catalog, schema, table]) => TableReference::full(catalog.clone(), schema.clone(), table.clone()),
        _ => return Err(Error::invalid(format!("{name} is not a table name"))),
    };
    table_name(&reference)
}

/// The id that an outcome of `CreateTable` carries.
///
/// # Errors
/// The outcome is of another kind.
pub fn created(outcome: &crate::state::Outcome) -> Result<(TableId, bool)> {
    match outcome {
        crate::state::Outcome::Table { id, created } => Ok((*id, *created)),
        other => Err(Error::internal(format!("the answer to CREATE TABLE is of another kind: {other:?}"))),
    }
}
