//! Merging of column statistics. A bound is kept only while it is exact: for unknown plus known, nothing is known.
use std::cmp::Ordering;

use ancho_common::partition::key;
use arrow::datatypes::{DataType, Schema};

use super::cluster::ColumnSummary;

/// Statistics of rows with their number, without which "no bound" could mean "only NULLs" or "not known".
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Statistics {
    pub(super) rows: u64,
    pub(super) columns: Vec<ColumnSummary>,
}

impl Statistics {
    /// Of no rows.
    pub(super) fn empty(schema: &Schema) -> Self {
        Self { rows: 0, columns: empty_columns(schema) }
    }

    /// Of all but so many of these rows. Bounds still enclose the rest; how many NULLs are left is not known.
    pub(super) fn without(mut self, rows: u64, schema: &Schema) -> Self {
        if rows == 0 {
            return self;
        }
        self.rows = self.rows.saturating_sub(rows);
        if self.rows == 0 {
            return Self::empty(schema);
        }
        for column in &mut self.columns {
            column.nulls = column.nulls.filter(|nulls| *nulls == 0);
        }
        self
    }

    /// Of these rows and the others together.
    pub(super) fn merge(mut self, rows: u64, columns: &[ColumnSummary], schema: &Schema) -> Self {
        for (index, field) in schema.fields().iter().enumerate() {
            let unknown = ColumnSummary::default();
            // A summary that is missing says nothing about its rows.
            let other = columns.get(index).unwrap_or(&unknown);
            if let Some(own) = self.columns.get_mut(index) {
                *own = merge_column((own, self.rows), (other, rows), field.data_type());
            }
        }
        self.rows = self.rows.saturating_add(rows);
        self
    }
}

/// Summaries of no rows: no NULLs and no bounds.
pub(super) fn empty_columns(schema: &Schema) -> Vec<ColumnSummary> {
    vec![ColumnSummary { nulls: Some(0), min: None, max: None }; schema.fields().len()]
}

fn merge_column(a: (&ColumnSummary, u64), b: (&ColumnSummary, u64), data_type: &DataType) -> ColumnSummary {
    if a.1 == 0 {
        return if b.1 == 0 { a.0.clone() } else { b.0.clone() };
    }
    if b.1 == 0 {
        return a.0.clone();
    }
    let nulls = a.0.nulls.zip(b.0.nulls).map(|(x, y)| x.saturating_add(y));
    let bound = |of: fn(&ColumnSummary) -> Option<&str>, wanted: Ordering| -> Option<String> {
        // Rows that are all NULL bound nothing: the other side's bound holds for both.
        match (only_nulls(a), only_nulls(b)) {
            (true, _) => of(b.0).map(str::to_owned),
            (_, true) => of(a.0).map(str::to_owned),
            _ => merge_bound(of(a.0)?, of(b.0)?, data_type, wanted),
        }
    };
    ColumnSummary {
        nulls,
        min: bound(|c| c.min.as_deref(), Ordering::Less),
        max: bound(|c| c.max.as_deref(), Ordering::Greater),
    }
}

fn only_nulls((column, rows): (&ColumnSummary, u64)) -> bool {
    column.nulls == Some(rows)
}

/// The bound of two that compares as `wanted` to the other; none where the texts cannot be compared.
fn merge_bound(a: &str, b: &str, data_type: &DataType, wanted: Ordering) -> Option<String> {
    let order = key::compare(a, b, data_type)?;
    Some(if order == wanted || order == Ordering::Equal { a } else { b }.to_owned())
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::Field;

    use super::*;

    fn summary(nulls: Option<u64>, min: Option<&str>, max: Option<&str>) -> ColumnSummary {
        ColumnSummary { nulls, min: min.map(str::to_owned), max: max.map(str::to_owned) }
    }

    fn merged(data_type: DataType, parts: &[(u64, ColumnSummary)]) -> ColumnSummary {
        let schema = Schema::new(vec![Field::new("c", data_type, true)]);
        let all = parts.iter().fold(Statistics::empty(&schema), |all, (rows, column)| {
            all.merge(*rows, std::slice::from_ref(column), &schema)
        });
        all.columns[0].clone()
    }

    #[test]
    fn bounds_follow_the_type_and_unknown_wins_over_known() {
        let a = summary(Some(1), Some("9"), Some("9"));
        let b = summary(Some(0), Some("10"), Some("10"));
        let parts = [(3, a.clone()), (1, b.clone())];
        assert_eq!(merged(DataType::Int64, &parts), summary(Some(1), Some("9"), Some("10")));
        assert_eq!(merged(DataType::Utf8, &parts), summary(Some(1), Some("10"), Some("9")));
        assert_eq!(merged(DataType::Float64, &parts), summary(Some(1), None, None));
        let unknown = summary(None, None, Some("11"));
        let with_unknown = [(3, a), (1, b), (5, unknown.clone())];
        assert_eq!(merged(DataType::Int64, &with_unknown), summary(None, None, Some("11")));
        assert_eq!(merged(DataType::Int64, &[(5, unknown.clone())]), unknown);
    }

    #[test]
    fn deleted_rows_leave_bounds_that_enclose_the_rest() {
        let schema = Schema::new(vec![Field::new("c", DataType::Int64, true)]);
        let of = |nulls: u64| Statistics { rows: 5, columns: vec![summary(Some(nulls), Some("1"), Some("9"))] };
        assert_eq!(of(2).without(0, &schema), of(2));
        let left = of(2).without(1, &schema);
        assert_eq!((left.rows, &left.columns[0]), (4, &summary(None, Some("1"), Some("9"))));
        assert_eq!(of(0).without(4, &schema).columns[0], summary(Some(0), Some("1"), Some("9")));
        assert_eq!(of(2).without(5, &schema), Statistics::empty(&schema));
        // Rows that were all NULL when they were counted may not be any more: nothing is known of them.
        let nulls = Statistics { rows: 2, columns: vec![summary(Some(2), None, None)] }.without(1, &schema);
        let more = nulls.merge(1, &[summary(Some(0), Some("3"), Some("3"))], &schema);
        assert_eq!(more.columns[0], summary(None, None, None));
    }

    #[test]
    fn rows_without_values_leave_the_bounds_of_the_others() {
        let nulls = summary(Some(4), None, None);
        let known = summary(Some(0), Some("1"), Some("2"));
        let none = summary(Some(0), None, None);
        let expected = summary(Some(4), Some("1"), Some("2"));
        assert_eq!(merged(DataType::Int64, &[(4, nulls.clone()), (2, known.clone())]), expected);
        assert_eq!(merged(DataType::Int64, &[(2, known), (0, none.clone()), (4, nulls.clone())]), expected);
        assert_eq!(merged(DataType::Int64, &[(4, nulls.clone()), (4, nulls)]), summary(Some(8), None, None));
        assert_eq!(merged(DataType::Int64, &[]), none);
    }
}
