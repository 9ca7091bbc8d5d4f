//! Tables as they were: the table functions behind `FOR VERSION AS OF` and `FOR TIMESTAMP AS OF`.
use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use ancho_common::{
    error::{Error, Result},
    plan::host::VERSION_RETENTION,
};
use arrow::datatypes::{DataType, TimeUnit};
use datafusion::{
    catalog::{TableFunctionArgs, TableFunctionImpl},
    common::{ScalarValue, TableReference},
    datasource::TableProvider,
    error::Result as DfResult,
    logical_expr::Expr,
};

use super::{catalog::table_name, table::AnchoTable, topology::Topology};

/// A table at a version: `table_at_version('name', 5)`.
pub const AT_VERSION: &str = "table_at_version";
/// A table at a time: `table_at_time('name', TIMESTAMP '…')`.
pub const AT_TIME: &str = "table_at_time";

/// Owners may count the time since a version was superseded a little faster.
const MARGIN: Duration = Duration::from_secs(30);

/// One of the functions.
#[derive(Debug, Clone, Copy)]
pub enum TimeTravel {
    /// To a version.
    Version,
    /// To a time.
    Time,
}

impl TimeTravel {
    /// Its name in SQL.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Version => AT_VERSION,
            Self::Time => AT_TIME,
        }
    }

    fn table(self, args: &TableFunctionArgs<'_, '_>) -> Result<Arc<dyn TableProvider>> {
        let [Expr::Literal(name, _), wanted] = args.exprs() else {
            return Err(Error::invalid(format!("{} takes the name of a table and what to go back to", self.name())));
        };
        let name = match name.try_as_str().flatten() {
            Some(name) => table_name(&TableReference::from(name))?,
            None => return Err(Error::invalid(format!("{} takes the name of a table as a text", self.name()))),
        };
        let topology = args.session().config().get_extension::<Topology>();
        let topology =
            topology.ok_or_else(|| Error::internal(format!("{} is planned outside a query", self.name())))?;
        let table = topology.state.table(&name);
        let table = table.ok_or_else(|| Error::not_found(format!("table {name} does not exist")))?;
        if table.partitions.keys().any(|partition| topology.staged.contains_key(partition)) {
            return Err(Error::unsupported(format!(
                "this transaction has changed table {name}, so its former versions can only be read in another one"
            )));
        }
        let version = match self {
            Self::Version => whole_number(wanted)?,
            Self::Time => table.version_at(millis(wanted)?)?,
        };
        let former = table.as_of(version, now_ms(), VERSION_RETENTION.saturating_sub(MARGIN))?;
        Ok(Arc::new(AnchoTable::new(Arc::new(former))))
    }
}

impl TableFunctionImpl for TimeTravel {
    fn call_with_args(&self, args: TableFunctionArgs<'_, '_>) -> DfResult<Arc<dyn TableProvider>> {
        Ok(self.table(&args)?)
    }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn literal(expr: &Expr, what: &str) -> Result<ScalarValue> {
    match expr {
        Expr::Literal(value, _) if !value.is_null() => Ok(value.clone()),
        _ => Err(Error::invalid(format!("{what} must be known before the query runs; {expr} is not"))),
    }
}

fn whole_number(expr: &Expr) -> Result<u64> {
    let value = literal(expr, "a version")?;
    let number = if value.data_type().is_integer() { value.cast_to(&DataType::UInt64).ok() } else { None };
    match number {
        Some(ScalarValue::UInt64(Some(version))) => Ok(version),
        _ => Err(Error::invalid(format!("{value} is not a version; versions are whole numbers"))),
    }
}

/// Texts and timestamps without a zone are in UTC.
fn millis(expr: &Expr) -> Result<u64> {
    let value = literal(expr, "a time")?;
    let to = DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()));
    let fits = value.data_type().is_string() || matches!(value.data_type(), DataType::Timestamp(..) | DataType::Date32);
    let cast = if fits { value.cast_to(&to).ok() } else { None };
    match cast {
        Some(ScalarValue::TimestampMillisecond(Some(at), _)) => Ok(u64::try_from(at).unwrap_or(0)),
        _ => Err(Error::invalid(format!("{value} is not a time; write TIMESTAMP '2026-01-31 12:00:00'"))),
    }
}
