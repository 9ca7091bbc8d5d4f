//! Tells one statement from another: a request that comes again must ask for what it asked for before.
use arrow::{
    array::{Array, RecordBatch},
    error::ArrowError,
    util::display::{ArrayFormatter, FormatOptions},
};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh64::Xxh64;

use crate::error::{Error, Result};

/// XXH64 of a statement's text and of the values bound to it. It is kept in the log: what is computed never changes.
///
/// Two statements of one fingerprint are taken for the same one. It guards against mistakes, not against malice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(u64);

impl Fingerprint {
    /// Of a statement with the rows of its parameters, if it has any. White space around the text and a semicolon behind
    /// it do not count; how the values are laid out in memory does not, either.
    ///
    /// # Errors
    /// A value has no text, such as a date beyond the calendar.
    pub fn of(text: &str, parameters: Option<&RecordBatch>) -> Result<Self> {
        let mut hash = Xxh64::new(0);
        add(&mut hash, text.trim().trim_end_matches(';').trim_end());
        if let Some(rows) = parameters {
            let unprintable = |e: ArrowError| Error::invalid(format!("a parameter has no text form: {e}"));
            let options = FormatOptions::new().with_display_error(false);
            for column in rows.columns() {
                let values = ArrayFormatter::try_new(column.as_ref(), &options).map_err(unprintable)?;
                let nulls = column.logical_nulls();
                for row in 0..rows.num_rows() {
                    if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                        hash.update(&[0]);
                    } else {
                        hash.update(&[1]);
                        add(&mut hash, &values.value(row).try_to_string().map_err(unprintable)?);
                    }
                }
            }
        }
        Ok(Self(hash.digest()))
    }
}

/// A text with its length, so that two texts are not one.
fn add(hash: &mut Xxh64, text: &str) {
    hash.update(&(text.len() as u64).to_le_bytes());
    hash.update(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, StringArray};

    use super::*;

    fn row(columns: Vec<ArrayRef>) -> RecordBatch {
        let names = ["a", "b"].iter();
        RecordBatch::try_from_iter(names.zip(columns).map(|(name, column)| (*name, column))).unwrap()
    }

    fn texts(a: Option<&str>, b: Option<&str>) -> RecordBatch {
        row(vec![Arc::new(StringArray::from(vec![a])), Arc::new(StringArray::from(vec![b]))])
    }

    #[test]
    fn statements_are_told_apart_by_text_and_values_and_by_nothing_else() {
        let of = |text: &str, rows: Option<&RecordBatch>| Fingerprint::of(text, rows).unwrap();
        let insert = "INSERT INTO t VALUES ($1, $2)";
        let all = [
            of(insert, None),
            of("INSERT INTO u VALUES ($1, $2)", None),
            of(insert, Some(&texts(Some("ab"), Some("c")))),
            of(insert, Some(&texts(Some("a"), Some("bc")))),
            of(insert, Some(&texts(Some("abc"), None))),
            of(insert, Some(&texts(Some("abc"), Some("")))),
            of(insert, Some(&texts(None, Some("abc")))),
        ];
        for (i, one) in all.iter().enumerate() {
            for other in &all[i + 1..] {
                assert_ne!(one, other);
            }
        }
        assert_eq!(of(" INSERT INTO t VALUES ($1, $2) ;\n", None), all[0]);
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![7, 1, 2]));
        let (sliced, fresh) = (row(vec![numbers]).slice(1, 2), row(vec![Arc::new(Int64Array::from(vec![1, 2]))]));
        assert_eq!(of(insert, Some(&sliced)), of(insert, Some(&fresh)));
    }

    #[test]
    fn what_is_computed_stays() {
        // Stored in logs: a change of this number would refuse the repetition of a request that is under way.
        assert_eq!(Fingerprint::of("DELETE FROM t", None).unwrap(), Fingerprint(7_069_316_246_513_991_776));
    }
}
