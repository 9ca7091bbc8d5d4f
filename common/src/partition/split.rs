//! Splits rows by partition key.
use std::{collections::HashMap, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, UInt32Array},
    compute::take_record_batch,
    datatypes::Int32Type,
    record_batch::RecordBatch,
    row::{RowConverter, SortField},
};

use super::{
    key::{self, PartitionKey},
    spec::Partitioner,
};
use crate::error::{Error, Result};

impl Partitioner {
    /// The rows of a batch, one batch per key that occurs. Order within a key is kept; no row is lost or repeated.
    ///
    /// # Errors
    /// A partition expression cannot be computed for some row.
    pub fn split(&self, batch: &RecordBatch) -> Result<Vec<(PartitionKey, RecordBatch)>> {
        if batch.num_rows() == 0 {
            return Ok(Vec::new());
        }
        if self.expressions().is_empty() {
            return Ok(vec![(PartitionKey::default(), batch.clone())]);
        }
        let values = self.evaluate(batch)?;
        let groups = if let (Some((n, _)), [buckets]) = (self.single_bucket(), values.as_slice()) {
            group_buckets(buckets, n)?
        } else {
            group_rows(&values)?
        };
        let mut out = Vec::with_capacity(groups.len());
        for rows in groups {
            let first = rows.first().copied().unwrap_or(0) as usize;
            let key = self.key_of(&values, first)?;
            let part = if rows.len() == batch.num_rows() {
                batch.clone()
            } else {
                take_record_batch(batch, &UInt32Array::from(rows)).map_err(|e| Error::internal(e.to_string()))?
            };
            out.push((key, part));
        }
        Ok(out)
    }

    fn key_of(&self, values: &[ArrayRef], row: usize) -> Result<PartitionKey> {
        let texts =
            values.iter().map(|v| Ok(key::canonical(&v.slice(row, 1))?.pop().flatten())).collect::<Result<Vec<_>>>()?;
        Ok(PartitionKey(texts))
    }
}

fn row_index(row: usize) -> Result<u32> {
    u32::try_from(row).map_err(|_| Error::internal("a batch has more rows than 32 bits can number"))
}

fn group_buckets(buckets: &ArrayRef, n: u32) -> Result<Vec<Vec<u32>>> {
    let mut groups = vec![Vec::new(); n as usize];
    for (row, bucket) in buckets.as_primitive::<Int32Type>().values().iter().enumerate() {
        let group = usize::try_from(*bucket).ok().and_then(|b| groups.get_mut(b));
        group.ok_or_else(|| Error::internal(format!("bucket {bucket} of {n} does not exist")))?.push(row_index(row)?);
    }
    groups.retain(|g| !g.is_empty());
    Ok(groups)
}

fn group_rows(values: &[ArrayRef]) -> Result<Vec<Vec<u32>>> {
    let failed = |e: arrow::error::ArrowError| Error::internal(e.to_string());
    let fields = values.iter().map(|v| SortField::new(v.data_type().clone())).collect();
    let converter = RowConverter::new(fields).map_err(failed)?;
    let rows = converter.convert_columns(&values.iter().map(Arc::clone).collect::<Vec<_>>()).map_err(failed)?;
    let mut index: HashMap<&[u8], usize> = HashMap::new();
    let keyed: Vec<_> = rows.iter().collect();
    let mut groups: Vec<Vec<u32>> = Vec::new();
    for (row, key) in keyed.iter().enumerate() {
        let group = *index.entry(key.as_ref()).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[group].push(row_index(row)?);
    }
    Ok(groups)
}

#[cfg(test)]
mod tests {
    use arrow::{
        array::{Date32Array, Float64Array, Int64Array, StringArray},
        datatypes::{DataType, Field, Schema},
    };

    use super::*;
    use crate::partition::PartitionSpec;

    fn batch() -> RecordBatch {
        let schema = Arc::new(Schema::new(vec![
            Field::new("k", DataType::Int64, true),
            Field::new("s", DataType::Utf8, true),
            Field::new("d", DataType::Date32, true),
        ]));
        let k = Int64Array::from_iter((0..1000).map(|i| (i % 7 != 0).then_some(i)));
        let s = StringArray::from_iter((0..1000).map(|i| match i % 5 {
            0 => None,
            1 => Some(""),
            2 => Some("NULL"),
            3 => Some("a/b"),
            _ => Some("A/B"),
        }));
        let d = Date32Array::from_iter((0..1000).map(|i| (i % 11 != 0).then_some(i * 30 - 5000)));
        RecordBatch::try_new(schema, vec![Arc::new(k), Arc::new(s), Arc::new(d)]).unwrap()
    }

    fn split(expressions: &[&str]) -> Vec<(PartitionKey, RecordBatch)> {
        let spec = PartitionSpec::new(expressions.iter().map(ToString::to_string).collect());
        Partitioner::try_new(batch().schema(), &spec).unwrap().split(&batch()).unwrap()
    }

    #[test]
    fn no_row_is_lost_and_no_key_comes_twice() {
        for spec in [&["bucket(16, k)"][..], &["s"], &["year(d)"], &["s", "bucket(3, k)"], &["k % 3", "d is null"], &[]]
        {
            let parts = split(spec);
            assert_eq!(parts.iter().map(|(_, b)| b.num_rows()).sum::<usize>(), 1000, "{spec:?}");
            let mut keys: Vec<_> = parts.iter().map(|(k, _)| k).collect();
            keys.sort();
            keys.dedup();
            assert_eq!(keys.len(), parts.len(), "{spec:?}");
        }
        assert_eq!(split(&["s"]).len(), 5);
    }

    #[test]
    fn unusable_expressions_are_refused_with_their_reason() {
        for (expression, reason) in [
            ("nope", "nope"),
            ("random()", "another time"),
            ("1 + 1", "reads no column"),
            ("bucket(0, k)", "between 1 and"),
            ("bucket(4, k + 1)", "with a constant n and a column"),
            ("sum(k)", "aggregate"),
            ("k * 1.5e0", "Float64"),
        ] {
            let spec = PartitionSpec::new(vec![expression.into()]);
            let error = Partitioner::try_new(batch().schema(), &spec).unwrap_err().to_string();
            assert!(error.contains(reason) && error.contains(expression), "{error}");
        }
    }

    #[test]
    fn what_is_recommended_instead_of_a_floating_point_column_is_accepted() {
        let schema = Arc::new(Schema::new(vec![Field::new("The d", DataType::Float64, true)]));
        let partitioner = |expression: &str| {
            Partitioner::try_new(Arc::clone(&schema), &PartitionSpec::new(vec![expression.to_owned()]))
        };
        let told = partitioner("\"The d\"").unwrap_err().to_string();
        let advice = "CAST(\"The d\" AS BIGINT)";
        assert!(told.ends_with(advice) && !told.contains("bucket("), "{told}");
        let values = Float64Array::from(vec![Some(1.5), Some(-0.0), Some(0.25), None, Some(1.0)]);
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(values)]).unwrap();
        let rows: Vec<usize> =
            partitioner(advice).unwrap().split(&batch).unwrap().iter().map(|p| p.1.num_rows()).collect();
        assert_eq!((rows.len(), rows.iter().sum::<usize>()), (3, 5));
        let told = partitioner("bucket(4, \"The d\")").unwrap_err().to_string();
        assert!(told.contains("another column"), "{told}");
    }
}
