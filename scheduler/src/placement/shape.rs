//! Which tables line up: those whose partitions are the same set of buckets.
use ancho_common::partition::{PartitionKey, PartitionSpec};

/// The numbers of buckets of a table that is partitioned by buckets only, with the hash that fills them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) buckets: Vec<u32>,
    pub(super) hash_version: u32,
}

impl Shape {
    /// None for a table with another kind of expression or with none. An unpartitioned table has no shape: lining
    /// these up would put all of them on one executor.
    pub(super) fn of(spec: &PartitionSpec) -> Option<Self> {
        let buckets: Vec<u32> = spec.expressions.iter().map(|e| bucket_count(e)).collect::<Option<_>>()?;
        (!buckets.is_empty()).then_some(Self { buckets, hash_version: spec.hash_version })
    }
}

/// `n` of `bucket(n, …)`. Anything unusual counts as another kind of expression, which costs only the alignment.
fn bucket_count(expression: &str) -> Option<u32> {
    let text = expression.trim();
    let name = text.get(.."bucket".len())?;
    let arguments = text.get("bucket".len()..)?.trim_start().strip_prefix('(')?.strip_suffix(')')?;
    if !name.eq_ignore_ascii_case("bucket") || arguments.contains(['(', ')']) {
        return None;
    }
    arguments.split_once(',')?.0.trim().parse().ok()
}

/// Orders keys with numbers as numbers: bucket 2 before bucket 10, NULL first.
pub(super) fn sort_key(key: &PartitionKey) -> Vec<(Option<u64>, Option<String>)> {
    key.0.iter().map(|value| (value.as_ref().and_then(|v| v.parse().ok()), value.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tables_of_buckets_have_a_shape() {
        let shape = |expressions: &[&str]| {
            Shape::of(&PartitionSpec::new(expressions.iter().map(|e| (*e).to_owned()).collect())).map(|s| s.buckets)
        };
        assert_eq!(shape(&["bucket(16, k)"]), Some(vec![16]));
        assert_eq!(shape(&[" BUCKET ( 16 , \"K\" ) ", "bucket(3,b)"]), Some(vec![16, 3]));
        for other in [&[][..], &["k"], &["year(d)"], &["bucket(16, k) + 1"], &["bucket(4, k) + bucket(4, j)"], &["ü"]]
        {
            assert_eq!(shape(other), None, "{other:?}");
        }
    }

    #[test]
    fn numbers_sort_as_numbers() {
        let mut keys: Vec<_> = ["10", "2", "1"].map(|v| PartitionKey(vec![Some(v.into())])).into();
        keys.push(PartitionKey(vec![None]));
        keys.sort_by_cached_key(sort_key);
        let texts: Vec<_> = keys.iter().map(|k| k.to_string()).collect();
        assert_eq!(texts, ["∅", "1", "2", "10"]);
    }
}
