//! The 22 queries with the default substitution parameters of the specification, in SQL that
//! DataFusion and DuckDB both run.
//!
//! Two texts differ from the specification without changing an answer: Q15 names its revenue view in
//! a `with` clause, and Q6 writes its bounds 0.06 ± 0.01 as 0.05 and 0.07, so that no engine adds
//! them as binary floats and loses the upper one. Q11 keeps the fraction 0.0001 at every scale (the
//! specification divides it by the scale factor), as the reference answers do.

use crate::compare::{DiffOptions, SortKey};

/// One of the 22 queries.
#[derive(Debug, Clone, Copy)]
pub struct Query {
    /// 1 to 22.
    pub number: usize,
    /// The specification's name for it.
    pub title: &'static str,
    /// The statement, without a semicolon.
    pub sql: &'static str,
    /// Its `ORDER BY`.
    pub order: &'static [SortKey],
    /// Its `LIMIT`.
    pub limit: Option<usize>,
    /// Positions of columns that are averages or quotients, which engines compute with different
    /// numbers of digits.
    pub approximate: &'static [usize],
}

impl Query {
    /// `Q7`, as reports call it.
    pub fn label(&self) -> String {
        format!("Q{}", self.number)
    }

    /// The rules under which two answers to this query are equal.
    pub fn diff_options(&self) -> DiffOptions {
        DiffOptions {
            order: self.order.to_vec(),
            limit: self.limit,
            approximate: self.approximate.to_vec(),
            ..DiffOptions::default()
        }
    }
}

/// Query `number` (1 to 22).
pub fn query(number: usize) -> Option<&'static Query> {
    QUERIES.get(number.checked_sub(1)?)
}

const fn asc(column: usize) -> SortKey {
    SortKey::ascending(column)
}

const fn desc(column: usize) -> SortKey {
    SortKey::descending(column)
}

/// Builds one entry of [`QUERIES`].
macro_rules! query {
    ($number:literal, $title:literal, order: [$($key:expr),*], limit: $limit:expr, approximate: [$($column:literal),*]) => {
        Query {
            number: $number,
            title: $title,
            sql: include_str!(concat!("../../queries/q", $number, ".sql")),
            order: &[$($key),*],
            limit: $limit,
            approximate: &[$($column),*],
        }
    };
}

/// All queries in the order of their numbers.
#[rustfmt::skip]
pub const QUERIES: [Query; 22] = [
    query!(1, "pricing summary report", order: [asc(0), asc(1)], limit: None, approximate: [6, 7, 8]),
    query!(2, "minimum cost supplier", order: [desc(0), asc(2), asc(1), asc(3)], limit: Some(100), approximate: []),
    query!(3, "shipping priority", order: [desc(1), asc(2)], limit: Some(10), approximate: []),
    query!(4, "order priority checking", order: [asc(0)], limit: None, approximate: []),
    query!(5, "local supplier volume", order: [desc(1)], limit: None, approximate: []),
    query!(6, "forecasting revenue change", order: [], limit: None, approximate: []),
    query!(7, "volume shipping", order: [asc(0), asc(1), asc(2)], limit: None, approximate: []),
    query!(8, "national market share", order: [asc(0)], limit: None, approximate: [1]),
    query!(9, "product type profit measure", order: [asc(0), desc(1)], limit: None, approximate: []),
    query!(10, "returned item reporting", order: [desc(2)], limit: Some(20), approximate: []),
    query!(11, "important stock identification", order: [desc(1)], limit: None, approximate: []),
    query!(12, "shipping modes and order priority", order: [asc(0)], limit: None, approximate: []),
    query!(13, "customer distribution", order: [desc(1), desc(0)], limit: None, approximate: []),
    query!(14, "promotion effect", order: [], limit: None, approximate: [0]),
    query!(15, "top supplier", order: [asc(0)], limit: None, approximate: []),
    query!(16, "parts and suppliers", order: [desc(3), asc(0), asc(1), asc(2)], limit: None, approximate: []),
    query!(17, "small-quantity-order revenue", order: [], limit: None, approximate: [0]),
    query!(18, "large volume customer", order: [desc(4), asc(3)], limit: Some(100), approximate: []),
    query!(19, "discounted revenue", order: [], limit: None, approximate: []),
    query!(20, "potential part promotion", order: [asc(0)], limit: None, approximate: []),
    query!(21, "suppliers who kept orders waiting", order: [desc(1), asc(0)], limit: Some(100), approximate: []),
    query!(22, "global sales opportunity", order: [asc(0)], limit: None, approximate: []),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_the_positions() {
        for (i, entry) in QUERIES.iter().enumerate() {
            assert_eq!(entry.number, i + 1);
            assert_eq!(query(i + 1).map(|q| q.sql), Some(entry.sql));
            assert_eq!(entry.sql.contains("order by"), !entry.order.is_empty(), "{}", entry.label());
            assert_eq!(entry.sql.contains("\nlimit "), entry.limit.is_some(), "{}", entry.label());
            assert!(!entry.sql.contains(';'));
        }
        assert!(query(0).is_none());
        assert!(query(23).is_none());
    }
}
