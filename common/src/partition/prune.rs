//! Which partitions a filter can leave out.
//!
//! Three sound steps, each conjunct of the filter on its own; a partition stays unless a conjunct excludes it:
//! 1. a conjunct over nothing but partition columns is computed on the partition's own values;
//! 2. `column = constant`, `column IN (constants)` and `column IS NULL` go through the partition expression
//!    (`bucket(16, k)`, `year(d)`, …): only partitions with one of the resulting values can match;
//! 3. `column < constant` and its kin go through expressions that keep order (`year(d)`).
use std::{cmp::Ordering, collections::BTreeSet, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, new_null_array},
    datatypes::{DataType, Schema},
    record_batch::{RecordBatch, RecordBatchOptions},
};
use datafusion::{
    common::{DFSchema, ScalarValue},
    logical_expr::{Expr, Operator, utils::split_conjunction},
    prelude::SessionContext,
};

use super::{
    key::{self, PartitionKey},
    spec::{Kind, PartitionExpr, Partitioner},
};
use crate::error::Result;

impl Partitioner {
    /// For each key, whether its partition may hold a row that passes all `filters` (over the table's columns,
    /// unqualified or qualified).
    ///
    /// # Errors
    /// A stored key is not of its expression's type.
    pub fn may_match(&self, filters: &[Expr], keys: &[PartitionKey]) -> Result<Vec<bool>> {
        let mut keep = vec![true; keys.len()];
        if self.expressions().is_empty() || keys.is_empty() {
            return Ok(keep);
        }
        for conjunct in filters.iter().flat_map(split_conjunction) {
            self.apply_identity(conjunct, keys, &mut keep)?;
            for (position, expr) in self.expressions().iter().enumerate() {
                if let Some(test) = self.test(expr, conjunct) {
                    for (kept, key) in keep.iter_mut().zip(keys) {
                        *kept &= test.passes(key.0.get(position).and_then(Option::as_deref), expr);
                    }
                }
            }
        }
        Ok(keep)
    }

    /// Step 1: the conjunct computed on the partition columns themselves.
    fn apply_identity(&self, conjunct: &Expr, keys: &[PartitionKey], keep: &mut [bool]) -> Result<()> {
        let identity = |index: usize| {
            self.expressions().iter().position(|e| matches!(e.kind, Kind::Column) && e.column == Some(index))
        };
        let columns = conjunct.column_refs();
        let bound = !columns.is_empty()
            && columns.iter().all(|c| self.schema().index_of(&c.name).ok().and_then(identity).is_some());
        if !bound || conjunct.is_volatile() || contains_subquery(conjunct) {
            return Ok(());
        }
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(self.schema().fields().len());
        for (index, field) in self.schema().fields().iter().enumerate() {
            arrays.push(match identity(index) {
                Some(position) => {
                    let texts: Vec<Option<&str>> =
                        keys.iter().map(|k| k.0.get(position).and_then(Option::as_deref)).collect();
                    key::values(&texts, field.data_type())?
                }
                None => new_null_array(field.data_type(), keys.len()),
            });
        }
        // All columns nullable: the unused ones are NULL here.
        let fields: Vec<_> = self.schema().fields().iter().map(|f| f.as_ref().clone().with_nullable(true)).collect();
        let schema = Arc::new(Schema::new(fields));
        let options = RecordBatchOptions::new().with_row_count(Some(keys.len()));
        let Ok(batch) = RecordBatch::try_new_with_options(Arc::clone(&schema), arrays, &options) else { return Ok(()) };
        let Ok(df_schema) = DFSchema::try_from(schema.as_ref().clone()) else { return Ok(()) };
        let Ok(unqualified) = strip_qualifiers(conjunct) else { return Ok(()) };
        // A filter that cannot be computed here (for instance one that fails for some value) prunes nothing.
        let computed = SessionContext::new()
            .create_physical_expr(unqualified, &df_schema)
            .and_then(|e| e.evaluate(&batch))
            .and_then(|v| v.into_array(keys.len()));
        if let Ok(mask) = computed
            && let Some(mask) = mask.as_boolean_opt()
        {
            for (row, kept) in keep.iter_mut().enumerate() {
                *kept &= mask.is_valid(row) && mask.value(row);
            }
        }
        Ok(())
    }

    /// Steps 2 and 3: what the conjunct says about the values of one partition expression.
    fn test(&self, expr: &PartitionExpr, conjunct: &Expr) -> Option<Test> {
        let column = expr.column?;
        let name = self.schema().field(column).name();
        // A function may tell apart what `=` does not, such as the texts of 0.0 and -0.0. Buckets do not.
        if matches!(expr.kind, Kind::Function { .. }) && !equal_are_same(self.schema().field(column).data_type()) {
            return None;
        }
        let is_column = |e: &Expr| matches!(e, Expr::Column(c) if c.name == *name);
        match conjunct {
            Expr::BinaryExpr(b) => {
                let (op, constant) = match (b.left.as_ref(), b.right.as_ref()) {
                    (l, Expr::Literal(v, _)) if is_column(l) => (b.op, v),
                    (Expr::Literal(v, _), r) if is_column(r) => (b.op.swap()?, v),
                    _ => return None,
                };
                if constant.is_null() {
                    return None;
                }
                let image = self.image(expr, column, constant)?;
                match op {
                    Operator::Eq => Some(Test::In(BTreeSet::from([image]))),
                    _ if !matches!(expr.kind, Kind::Function { monotone: true }) => None,
                    Operator::Lt | Operator::LtEq => Some(Test::AtMost(image?)),
                    Operator::Gt | Operator::GtEq => Some(Test::AtLeast(image?)),
                    _ => None,
                }
            }
            Expr::IsNull(e) if is_column(e) => {
                let null = ScalarValue::try_from(self.schema().field(column).data_type()).ok()?;
                Some(Test::In(BTreeSet::from([self.image(expr, column, &null)?])))
            }
            Expr::InList(list) if !list.negated && is_column(&list.expr) => {
                let mut images = BTreeSet::new();
                for item in &list.list {
                    let Expr::Literal(value, _) = item else { return None };
                    if !value.is_null() {
                        images.insert(self.image(expr, column, value)?);
                    }
                }
                Some(Test::In(images))
            }
            Expr::Between(b) if !b.negated && is_column(&b.expr) => {
                if !matches!(expr.kind, Kind::Function { monotone: true }) {
                    return None;
                }
                let (Expr::Literal(low, _), Expr::Literal(high, _)) = (b.low.as_ref(), b.high.as_ref()) else {
                    return None;
                };
                if low.is_null() || high.is_null() {
                    return None;
                }
                Some(Test::Within(self.image(expr, column, low)??, self.image(expr, column, high)??))
            }
            _ => None,
        }
    }

    /// The partition expression's value for a constant of its column: outer `None` if it cannot be told.
    fn image(&self, expr: &PartitionExpr, column: usize, constant: &ScalarValue) -> Option<Option<String>> {
        let field = self.schema().field(column);
        // Another type could compare under other rules than the column's own values do.
        if constant.data_type() != *field.data_type() {
            let cast = constant.cast_to(field.data_type()).ok()?;
            if cast.is_null() || cast.cast_to(&constant.data_type()).ok()? != *constant {
                return None;
            }
            return self.image(expr, column, &cast);
        }
        let arrays: Vec<ArrayRef> = self
            .schema()
            .fields()
            .iter()
            .enumerate()
            .map(|(i, f)| if i == column { constant.to_array().ok() } else { Some(new_null_array(f.data_type(), 1)) })
            .collect::<Option<_>>()?;
        let fields: Vec<_> = self.schema().fields().iter().map(|f| f.as_ref().clone().with_nullable(true)).collect();
        let row = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).ok()?;
        let value = self.evaluate_one(expr, &row).ok()?;
        Some(key::canonical(&value).ok()?.pop().flatten())
    }
}

enum Test {
    In(BTreeSet<Option<String>>),
    AtMost(String),
    AtLeast(String),
    Within(String, String),
}

impl Test {
    fn passes(&self, value: Option<&str>, expr: &PartitionExpr) -> bool {
        // A NULL image under an order comparison: the column may still be non-NULL, so it stays.
        let order = |bound: &str| value.and_then(|v| key::compare(v, bound, &expr.data_type));
        match self {
            Test::In(images) => images.contains(&value.map(str::to_owned)),
            Test::AtMost(bound) => order(bound) != Some(Ordering::Greater),
            Test::AtLeast(bound) => order(bound) != Some(Ordering::Less),
            Test::Within(low, high) => order(low) != Some(Ordering::Less) && order(high) != Some(Ordering::Greater),
        }
    }
}

/// Whether two values that `=` holds equal are the same for every function. Two floats may be equal and differ in sign.
fn equal_are_same(data_type: &DataType) -> bool {
    match data_type {
        DataType::Float16 | DataType::Float32 | DataType::Float64 | DataType::Interval(_) => false,
        DataType::Dictionary(_, values) => equal_are_same(values),
        other => !other.is_nested(),
    }
}

fn contains_subquery(expr: &Expr) -> bool {
    use datafusion::common::tree_node::TreeNode;
    expr.exists(|e| Ok(matches!(e, Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_)))).unwrap_or(true)
}

fn strip_qualifiers(expr: &Expr) -> datafusion::error::Result<Expr> {
    use datafusion::common::{
        Column,
        tree_node::{Transformed, TreeNode},
    };
    expr.clone()
        .transform(|e| {
            Ok(match e {
                Expr::Column(c) => Transformed::yes(Expr::Column(Column::new_unqualified(c.name))),
                other => Transformed::no(other),
            })
        })
        .map(|t| t.data)
}

#[cfg(test)]
mod tests {
    use arrow::{
        array::{Date32Array, Float64Array, Int64Array, StringArray},
        compute::filter_record_batch,
        datatypes::Field,
    };
    use datafusion::prelude::SessionContext;

    use super::*;
    use crate::partition::{PartitionSpec, functions, spec::simplified};

    fn rows() -> RecordBatch {
        let schema = Arc::new(Schema::new(vec![
            Field::new("k", DataType::Int64, true),
            Field::new("s", DataType::Utf8, true),
            Field::new("d", DataType::Date32, true),
            Field::new("f", DataType::Float64, true),
        ]));
        let f = [0.0, -0.0, f64::NAN, 1.5, -f64::NAN, f64::INFINITY];
        let s = [None, Some(""), Some("NULL"), Some("a/b"), Some("A/B"), Some("%")];
        RecordBatch::try_new(
            schema,
            vec![
                Arc::new(Int64Array::from_iter((0..600).map(|i| (i % 7 != 0).then_some(i % 40)))),
                Arc::new(StringArray::from_iter((0..600).map(|i| s[i % 6]))),
                Arc::new(Date32Array::from_iter((0..600).map(|i| (i % 11 != 0).then_some(i * 20 - 3000)))),
                Arc::new(Float64Array::from_iter((0..600).map(|i| (i % 13 != 0).then_some(f[i % 6])))),
            ],
        )
        .unwrap()
    }

    /// Pruning must never lose a row: what the filter keeps of all rows is what it keeps of the kept partitions.
    #[test]
    fn no_partition_with_a_matching_row_is_left_out() {
        let context = SessionContext::new();
        for f in functions::all() {
            context.register_udf(f.as_ref().clone());
        }
        let all = rows();
        let df_schema = DFSchema::try_from(all.schema().as_ref().clone()).unwrap();
        let specs = [
            &["bucket(8, k)"][..],
            &["k"],
            &["s"],
            &["year(d)"],
            &["d"],
            &["s", "bucket(2, k)"],
            &["k % 5", "month(d)"],
            &["cast(f as varchar)"],
            &["coalesce(s, 'none')", "nvl2(k, 1, 0)"],
        ];
        let filters = [
            ("k = 3", true),
            ("k in (3, 4, null)", true),
            ("k is null", true),
            ("k <> 3", false),
            ("s = ''", true),
            ("s is null", true),
            ("s <> 'NULL'", false),
            ("s like 'a%' or s is null", false),
            ("d >= date '1969-06-01' and d < date '1970-03-01'", true),
            ("d between date '1965-01-01' and date '1966-01-01'", true),
            ("d is null", true),
            ("k = 3 and s = '%'", true),
            ("k > 35", false),
            ("cast(k as varchar) = '7'", false),
            ("3 = k", true),
            ("date '1970-01-01' > d", false),
            ("not (s = '')", false),
            ("s not in ('', null)", false),
            ("f = 0.0", true),
            ("f in (-0.0, 1.5)", true),
            ("f is null", true),
        ];
        let mut pruned = 0;
        for spec in specs {
            let spec = PartitionSpec::new(spec.iter().map(ToString::to_string).collect());
            let partitioner = Partitioner::try_new(all.schema(), &spec).unwrap();
            let parts = partitioner.split(&all).unwrap();
            let keys: Vec<PartitionKey> = parts.iter().map(|(k, _)| k.clone()).collect();
            for (filter, _) in filters {
                let expr = context.parse_sql_expr(filter, &df_schema).unwrap();
                let physical = context.create_physical_expr(expr.clone(), &df_schema).unwrap();
                let coerced = simplified(expr, &df_schema).unwrap();
                let keep = partitioner.may_match(&[coerced], &keys).unwrap();
                for ((key, part), kept) in parts.iter().zip(&keep) {
                    let mask = physical.evaluate(part).unwrap().into_array(part.num_rows()).unwrap();
                    let matching = filter_record_batch(part, mask.as_boolean()).unwrap().num_rows();
                    assert!(*kept || matching == 0, "{spec:?} {filter}: {key} holds {matching} rows");
                    pruned += usize::from(!kept);
                }
            }
        }
        assert!(pruned > 300, "pruning does something ({pruned})");
    }
}
