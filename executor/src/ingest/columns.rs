//! Statistics of staged rows in the form the schedulers keep.
use ancho_common::{
    error::{Error, Result},
    partition::key::canonical_scalar,
};
use cayenne::DataSummary;
use datafusion::common::ScalarValue;
use serde::Serialize;

/// One column, as the replicated state names its fields.
#[derive(Debug, Serialize)]
struct Column {
    nulls: Option<u64>,
    min: Option<String>,
    max: Option<String>,
}

/// JSON list with one entry per column of the table. Bounds are exact, or absent where the type has no canonical text.
pub(super) fn to_json(summary: &DataSummary) -> Result<String> {
    // What is known of rows that repeat a key and will not be seen is known of too many rows.
    let nulls = |count: u64| (count == 0 || summary.deleted_rows == 0).then_some(count);
    let columns: Vec<Column> = summary
        .columns
        .iter()
        .map(|column| Column { nulls: nulls(column.null_count), min: text(&column.min), max: text(&column.max) })
        .collect();
    serde_json::to_string(&columns).map_err(|e| Error::internal(format!("column statistics: {e}")))
}

fn text(bound: &Option<ScalarValue>) -> Option<String> {
    // A type without a canonical text, such as a floating-point number, has no bound there.
    bound.as_ref().and_then(|value| canonical_scalar(value).ok().flatten())
}

#[cfg(test)]
mod tests {
    use cayenne::ColumnSummary;

    use super::*;

    #[test]
    fn bounds_are_canonical_texts_and_floats_have_none() {
        let column = |min, max| ColumnSummary { null_count: 2, min, max };
        let summary = DataSummary {
            rows: 5,
            deleted_rows: 0,
            bytes: 10,
            files: 1,
            columns: vec![
                column(Some(ScalarValue::Date32(Some(-1))), Some(ScalarValue::Date32(Some(3)))),
                column(Some(ScalarValue::Float64(Some(1.0))), None),
                column(Some(ScalarValue::Utf8View(Some(String::new()))), Some(ScalarValue::Utf8View(Some("z".into())))),
            ],
        };
        assert_eq!(
            to_json(&summary).unwrap(),
            r#"[{"nulls":2,"min":"-1","max":"3"},{"nulls":2,"min":null,"max":null},{"nulls":2,"min":"","max":"z"}]"#
        );
    }
}
