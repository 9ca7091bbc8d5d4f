//! Reference answers, and the check of a result against them.
//!
//! Only scale 0.01 has them: DuckDB's over the data of this crate's generator, with all digits. At
//! other scales results are compared with another engine's. The answers of the specification for
//! scale 1 are no substitute: they are rounded to two decimals, which hides errors.

use super::queries::Query;
use crate::compare::{Mismatch, RowSet, diff_with};
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use std::fmt;

/// Embeds the stored answers of the given queries.
macro_rules! stored {
    ($($number:literal),*) => {
        [$(include_str!(concat!("../../answers/sf0.01/q", $number, ".tsv"))),*]
    };
}

/// Answers at scale 0.01, by position of the query.
const HUNDREDTH: [&str; 22] = stored!(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22);

/// A set of stored answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerKey {
    /// Scale factor 0.01, exact.
    Hundredth,
}

impl AnswerKey {
    /// The stored answers for a scale factor, when there are any.
    pub fn for_scale(scale: f64) -> Option<Self> {
        (scale == 0.01).then_some(AnswerKey::Hundredth)
    }

    /// The stored answer to a query as rows with the types of `schema`, the schema of the result to
    /// check.
    ///
    /// # Errors
    /// When the schema has another number of columns, or types that the answer's texts do not fit.
    pub fn answer(self, query: &Query, schema: &SchemaRef) -> anyhow::Result<RowSet> {
        match self {
            AnswerKey::Hundredth => RowSet::from_tsv(HUNDREDTH[query.number - 1], schema),
        }
    }
}

impl fmt::Display for AnswerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AnswerKey::Hundredth => "reference answers at scale 0.01",
        })
    }
}

/// Checks a result against the stored answer.
///
/// # Errors
/// A [`Mismatch`] with the first differing rows when the answer is wrong; a result without any batch
/// counts as wrong, since every query has a schema and most have rows.
pub fn check_answer(key: AnswerKey, query: &Query, result: &[RecordBatch]) -> Result<(), Mismatch> {
    let unreadable =
        |error: anyhow::Error| Mismatch { reason: format!("{error:#}"), missing: Vec::new(), unexpected: Vec::new() };
    let Some(first) = result.first() else {
        return Err(unreadable(anyhow::anyhow!("the result came without a batch")));
    };
    let expected = key.answer(query, &first.schema()).map_err(unreadable)?;
    let actual = RowSet::from_batches(result).map_err(unreadable)?;
    diff_with(&expected, &actual, &query.diff_options())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tpch::query;
    use arrow::array::{ArrayRef, Int64Array, StringArray};
    use std::sync::Arc;

    fn shipmodes(counts: [i64; 2]) -> Vec<RecordBatch> {
        let modes: ArrayRef = Arc::new(StringArray::from(vec!["MAIL", "SHIP"]));
        let high: ArrayRef = Arc::new(Int64Array::from(vec![64, 61]));
        let low: ArrayRef = Arc::new(Int64Array::from(counts.to_vec()));
        vec![RecordBatch::try_from_iter([("m", modes), ("h", high), ("l", low)]).expect("a batch")]
    }

    #[test]
    fn a_right_answer_passes_and_wrong_ones_fail() {
        let q12 = query(12).expect("Q12");
        assert_eq!(check_answer(AnswerKey::Hundredth, q12, &shipmodes([86, 96])), Ok(()));
        let mismatch = check_answer(AnswerKey::Hundredth, q12, &shipmodes([86, 97])).expect_err("96 is not 97");
        assert_eq!(mismatch.missing, ["\"SHIP\" | 61 | 96"]);
        assert_eq!(mismatch.unexpected, ["\"SHIP\" | 61 | 97"]);
        assert!(check_answer(AnswerKey::Hundredth, q12, &[]).is_err());
        assert!(check_answer(AnswerKey::Hundredth, query(6).expect("Q6"), &shipmodes([86, 96])).is_err());
    }

    #[test]
    fn only_one_scale_has_answers() {
        assert_eq!(AnswerKey::for_scale(0.01), Some(AnswerKey::Hundredth));
        assert_eq!(AnswerKey::for_scale(1.0), None);
        assert_eq!(AnswerKey::for_scale(0.1), None);
    }
}
