//! Rows of files into a table, as one `INSERT`.
use std::{collections::HashMap, sync::Arc};

use ancho_common::{
    error::{Error, Result},
    spec::source::FileFormat,
};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::{
    datasource::provider_as_source,
    functions::encoding::expr_fn::decode,
    logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, cast, lit},
    prelude::ident,
    scalar::ScalarValue,
};

use super::{Copy, What};
use crate::{
    frontend::caller::Caller,
    query::{
        attempt::Attempt,
        ddl,
        engine::{QueryEngine, existing},
        source,
        write::WriteKind,
    },
    state::Table,
};

impl QueryEngine {
    /// Adds the rows of the files to the table, and says how many they were.
    pub(super) async fn copy_from(&self, copy: &Copy, caller: &Caller) -> Result<u64> {
        let What::Table(name, columns) = &copy.what else {
            return Err(Error::internal("rows are copied into a query"));
        };
        let name = ddl::object_name(name)?;
        let columns: Vec<String> = columns.iter().map(folded).collect();
        let (name, columns) = (&name, &columns);
        self.write_attempts(|state, attempt| async move {
            let table = existing(&state, name)?;
            let attempt = match &copy.files.s3 {
                None => attempt,
                Some(options) => attempt.reaching(options)?,
            };
            let plan = rows(&attempt, copy, &table, columns).await?;
            let written = self.write_rows(&attempt, (&state, &table), plan, WriteKind::Append, caller).await;
            written.map_err(|e| e.context(&format!("copying from {}", copy.files.from)))
        })
        .await
    }
}

/// As SQL folds a name.
fn folded(name: &datafusion::logical_expr::sqlparser::ast::Ident) -> String {
    if name.quote_style.is_some() { name.value.clone() } else { name.value.to_lowercase() }
}

/// The rows of the files in the columns of the table.
async fn rows(attempt: &Attempt, copy: &Copy, table: &Table, columns: &[String]) -> Result<LogicalPlan> {
    let schema = &table.schema.0;
    if let Some(unknown) = columns.iter().find(|name| schema.index_of(name).is_err()) {
        return Err(Error::invalid(format!("table {} has no column {unknown}", table.name)));
    }
    let named: Vec<String> = match columns {
        [] => schema.fields().iter().map(|field| field.name().clone()).collect(),
        some => some.to_vec(),
    };
    let files = source::table_as(attempt.session(), &copy.files, |found| declared(found, copy, table, &named)).await?;
    let given = files.schema();
    if let Some(unknown) = given.fields().iter().find(|field| !named.contains(field.name())) {
        return Err(Error::invalid(format!(
            "{} has a column {}, which {} not take; name the columns: COPY {} (…)",
            copy.files.from,
            unknown.name(),
            if columns.is_empty() { format!("table {} does", table.name) } else { "the statement does".to_owned() },
            table.name
        )));
    }
    if let Some(missing) = columns.iter().find(|name| given.index_of(name).is_err()) {
        return Err(Error::invalid(format!("{} has no column {missing}", copy.files.from)));
    }
    let values = schema.fields().iter().map(|field| {
        let value = match given.index_of(field.name()) {
            Ok(index) => value(ident(field.name()), given.field(index).data_type(), field.data_type()),
            Err(_) if field.is_nullable() => lit(ScalarValue::try_from(field.data_type())?),
            Err(_) => {
                let text = format!("column {} of table {} needs a value and is missing", field.name(), table.name);
                return Err(Error::invalid(text));
            }
        };
        Ok(value.alias(field.name()))
    });
    let values = values.collect::<Result<Vec<Expr>>>()?;
    Ok(LogicalPlanBuilder::scan("source", provider_as_source(files), None)?.project(values)?.build()?)
}

/// Texts are read as the table's types, and not as what they look like; columns without names are those of the statement.
fn declared(found: SchemaRef, copy: &Copy, table: &Table, named: &[String]) -> Result<SchemaRef> {
    let FileFormat::Csv(csv) = &copy.files.format else { return Ok(found) };
    let types: HashMap<&str, &FieldRef> =
        table.schema.0.fields().iter().map(|field| (field.name().as_str(), field)).collect();
    if !csv.has_header && found.fields().len() != named.len() {
        return Err(Error::invalid(format!(
            "{} has {} columns, and {} are expected; name them: COPY {} (…)",
            copy.files.from,
            found.fields().len(),
            named.len(),
            table.name
        )));
    }
    let fields = found.fields().iter().enumerate().map(|(index, field)| {
        let name = if csv.has_header { field.name() } else { &named[index] };
        match types.get(name.as_str()) {
            Some(column) => Arc::new(Field::new(name, read_as(column.data_type()), true)),
            None => Arc::clone(field),
        }
    });
    Ok(Arc::new(Schema::new(fields.collect::<Vec<_>>())))
}

/// The type in which the reader of CSV gives values of a type. Bytes are hexadecimal digits there.
fn read_as(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => DataType::Utf8,
        DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Dictionary(_, values) => read_as(values),
        other => other.clone(),
    }
}

/// A value of a file in the type of the table's column.
fn value(given: Expr, from: &DataType, to: &DataType) -> Expr {
    let plain = match to {
        DataType::Dictionary(_, values) => values.as_ref(),
        other => other,
    };
    let value = if from.is_string() && plain.is_binary() { decode(given, lit("hex")) } else { given };
    if from == to { value } else { cast(value, to.clone()) }
}
