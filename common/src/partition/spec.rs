//! Partition expressions: as declared ([`PartitionSpec`]) and as checked against a schema ([`Partitioner`]).
use std::sync::Arc;

use arrow::{
    array::ArrayRef,
    datatypes::{DataType, SchemaRef},
    record_batch::RecordBatch,
};
use datafusion::{
    common::{Column, DFSchema, tree_node::TreeNode},
    logical_expr::{Expr, Volatility, simplify::SimplifyContext},
    optimizer::simplify_expressions::ExprSimplifier,
    physical_expr::PhysicalExpr,
    prelude::SessionContext,
};
use serde::{Deserialize, Serialize};

use super::{
    functions, hash,
    key::{self, PartitionKey},
};
use crate::error::{Error, Result};

/// Declared partitioning: SQL expressions over the table's columns, none for an unpartitioned table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionSpec {
    /// `bucket(16, k)`, a column, or a deterministic expression.
    pub expressions: Vec<String>,
    /// Version of the hash below `bucket`.
    pub hash_version: u32,
}

impl Default for PartitionSpec {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

impl PartitionSpec {
    /// With the newest hash.
    #[must_use]
    pub fn new(expressions: Vec<String>) -> Self {
        Self { expressions, hash_version: hash::HASH_VERSION }
    }
}

/// What a partition expression computes, as far as pruning and co-location can use it.
#[derive(Debug, Clone)]
pub enum Kind {
    /// The value of a column.
    Column,
    /// The bucket of a column.
    Bucket(u32),
    /// A function of exactly one column. `monotone`: never falls where the column grows.
    Function {
        /// Order of the column is kept.
        monotone: bool,
    },
    /// An expression over several columns.
    Other,
}

/// One checked partition expression.
#[derive(Debug, Clone)]
pub struct PartitionExpr {
    /// As declared.
    pub sql: String,
    /// What it computes.
    pub kind: Kind,
    /// Index of its column in the schema, if it reads exactly one.
    pub column: Option<usize>,
    /// Type of its values.
    pub data_type: DataType,
    physical: Arc<dyn PhysicalExpr>,
}

/// A partition spec checked against a schema; computes keys and splits rows.
#[derive(Debug, Clone)]
pub struct Partitioner {
    schema: SchemaRef,
    spec: PartitionSpec,
    expressions: Vec<PartitionExpr>,
}

/// Most partitions that are created with the table.
const MAX_ENUMERATED: usize = 65_536;

impl Partitioner {
    /// Checks the expressions against the schema.
    ///
    /// # Errors
    /// Names the expression and what is wrong: syntax, an unknown column, a function whose value changes between
    /// calls, no column at all, or a type that cannot be a partition value.
    pub fn try_new(schema: SchemaRef, spec: &PartitionSpec) -> Result<Self> {
        let context = SessionContext::new();
        for function in functions::all() {
            context.register_udf(function.as_ref().clone());
        }
        let df_schema = DFSchema::try_from(schema.as_ref().clone())?;
        let expressions = spec
            .expressions
            .iter()
            .map(|sql| {
                PartitionExpr::try_new(&context, &schema, &df_schema, sql)
                    .map_err(|e| e.context(&format!("partition expression `{sql}`")))
            })
            .collect::<Result<Vec<_>>>()?;
        for (i, expr) in expressions.iter().enumerate() {
            if expressions[..i].iter().any(|e| e.sql == expr.sql) {
                return Err(Error::invalid(format!("partition expression `{}` is given twice", expr.sql)));
            }
        }
        Ok(Self { schema, spec: spec.clone(), expressions })
    }

    /// Schema of the table.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The partitioning as declared.
    #[must_use]
    pub fn spec(&self) -> &PartitionSpec {
        &self.spec
    }

    /// The checked expressions, in declared order.
    #[must_use]
    pub fn expressions(&self) -> &[PartitionExpr] {
        &self.expressions
    }

    /// `(buckets, column index)` if the only expression is a bucket.
    #[must_use]
    pub fn single_bucket(&self) -> Option<(u32, usize)> {
        match self.expressions.as_slice() {
            [PartitionExpr { kind: Kind::Bucket(n), column: Some(c), .. }] => Some((*n, *c)),
            _ => None,
        }
    }

    /// All keys, if they are known without looking at rows: one for an unpartitioned table, every combination of
    /// buckets if all expressions are buckets.
    #[must_use]
    pub fn enumerated_keys(&self) -> Option<Vec<PartitionKey>> {
        let mut keys = vec![PartitionKey::default()];
        for expr in &self.expressions {
            let Kind::Bucket(n) = expr.kind else { return None };
            if keys.len().saturating_mul(n as usize) > MAX_ENUMERATED {
                return None;
            }
            keys = keys
                .iter()
                .flat_map(|k| {
                    (0..n).map(|b| {
                        let mut key = k.clone();
                        key.0.push(Some(b.to_string()));
                        key
                    })
                })
                .collect();
        }
        Some(keys)
    }

    /// Values of each expression for the rows of a batch.
    ///
    /// # Errors
    /// An expression cannot be computed for some row.
    pub fn evaluate(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
        self.expressions.iter().map(|e| e.evaluate(batch, self.spec.hash_version)).collect()
    }

    pub(super) fn evaluate_one(&self, expr: &PartitionExpr, batch: &RecordBatch) -> Result<ArrayRef> {
        expr.evaluate(batch, self.spec.hash_version)
    }

    /// A key for people: `bucket(16, k)=3, year(d)=1995`; `all rows` without expressions.
    #[must_use]
    pub fn describe(&self, key: &PartitionKey) -> String {
        if self.expressions.is_empty() {
            return "all rows".into();
        }
        let parts: Vec<String> = self
            .expressions
            .iter()
            .zip(&key.0)
            .map(|(e, v)| format!("{}={}", e.sql, key::readable(v.as_deref(), &e.data_type)))
            .collect();
        parts.join(", ")
    }

    /// Names of the columns that the expressions read.
    #[must_use]
    pub fn source_columns(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for expr in &self.expressions {
            for column in datafusion::physical_expr::utils::collect_columns(&expr.physical) {
                if !names.iter().any(|n| n == column.name()) {
                    names.push(column.name().to_owned());
                }
            }
        }
        names
    }
}

impl PartitionExpr {
    fn try_new(context: &SessionContext, schema: &SchemaRef, df_schema: &DFSchema, sql: &str) -> Result<Self> {
        let expr = context.parse_sql_expr(sql, df_schema)?;
        check_deterministic(&expr)?;
        let mut columns: Vec<usize> = expr
            .column_refs()
            .into_iter()
            .map(|c| schema.index_of(&c.name).map_err(|e| Error::invalid(e.to_string())))
            .collect::<Result<_>>()?;
        columns.sort_unstable();
        columns.dedup();
        if columns.is_empty() {
            return Err(Error::invalid("it reads no column, so all rows would share one partition; name a column"));
        }
        let kind = classify(&expr, columns.len())?;
        let expr_column = match &expr {
            Expr::Column(column) => Some(Column::new_unqualified(column.name()).quoted_flat_name()),
            _ => None,
        };
        // Some functions, such as `coalesce`, exist for the planner only, which writes them as CASE.
        let physical = context.create_physical_expr(simplified(expr, df_schema)?, df_schema)?;
        let data_type = physical.data_type(schema)?;
        if !key::is_key_type(&data_type) {
            let advice = match (expr_column, data_type.is_floating()) {
                (Some(column), true) => format!("another column, or whole numbers of it: CAST({column} AS BIGINT)"),
                _ => "an integer, string, date, time, timestamp, decimal, binary or boolean expression, or bucket(n, column) of a \
                      column of such a type"
                    .to_owned(),
            };
            return Err(Error::invalid(format!("its type {data_type} cannot be a partition value; use {advice}")));
        }
        let column = (columns.len() == 1).then(|| columns[0]);
        Ok(Self { sql: sql.to_owned(), kind, column, data_type, physical })
    }

    fn evaluate(&self, batch: &RecordBatch, hash_version: u32) -> Result<ArrayRef> {
        // Stored buckets follow the table's own hash version, whatever the SQL function computes today.
        if let (Kind::Bucket(n), Some(column)) = (&self.kind, self.column) {
            return Ok(Arc::new(hash::buckets(hash_version, batch.column(column), *n)?));
        }
        let value = self.physical.evaluate(batch).and_then(|v| v.into_array(batch.num_rows()));
        value.map_err(|e| Error::from(e).context(&format!("partition expression `{}`", self.sql)))
    }
}

/// The expression with equal types where they meet, as the planner would simplify it.
pub(super) fn simplified(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    let context = SimplifyContext::builder().with_schema(Arc::new(schema.clone())).build();
    let simplifier = ExprSimplifier::new(context);
    Ok(simplifier.simplify(simplifier.coerce(expr, schema)?)?)
}

fn check_deterministic(expr: &Expr) -> Result<()> {
    let mut problem = None;
    expr.apply(|e| {
        let found = match e {
            Expr::ScalarFunction(f) if f.func.signature().volatility != Volatility::Immutable => {
                Some(format!("{} gives another value at another time", f.func.name()))
            }
            Expr::AggregateFunction(_) | Expr::WindowFunction(_) => {
                Some("an aggregate or window function has no value for a single row".to_owned())
            }
            Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_) => {
                Some("a subquery cannot be part of it".to_owned())
            }
            _ => None,
        };
        problem = problem.take().or(found);
        Ok(datafusion::common::tree_node::TreeNodeRecursion::Continue)
    })?;
    problem.map_or(Ok(()), |p| Err(Error::invalid(p)))
}

fn classify(expr: &Expr, columns: usize) -> Result<Kind> {
    Ok(match expr {
        Expr::Column(_) => Kind::Column,
        Expr::ScalarFunction(f) if f.func.name() == "bucket" => match f.args.as_slice() {
            [Expr::Literal(n, _), Expr::Column(_)] => {
                let n: Option<u32> = n.to_string().parse().ok();
                let n = n.filter(|n| (1..=hash::MAX_BUCKETS).contains(n)).ok_or_else(|| {
                    Error::invalid(format!("the number of buckets must be between 1 and {}", hash::MAX_BUCKETS))
                })?;
                Kind::Bucket(n)
            }
            _ => return Err(Error::invalid("write bucket(n, column) with a constant n and a column")),
        },
        _ if columns == 1 => Kind::Function { monotone: is_monotone(expr) },
        _ => Kind::Other,
    })
}

/// Functions that never fall where their one column grows.
fn is_monotone(expr: &Expr) -> bool {
    let Expr::ScalarFunction(f) = expr else { return false };
    match (f.func.name(), f.args.as_slice()) {
        ("year", [Expr::Column(_)]) => true,
        ("date_trunc", [Expr::Literal(..), Expr::Column(_)]) => true,
        ("date_part", [Expr::Literal(part, _), Expr::Column(_)]) => {
            part.to_string().trim_matches('\'').eq_ignore_ascii_case("year")
        }
        _ => false,
    }
}
