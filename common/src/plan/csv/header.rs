//! Which column of a CSV file is which of the table's: by the names in the file's first row, as files may differ in their order.
use arrow::{csv::reader::Format, datatypes::Schema};

use super::empty_texts::{Dialect, Marker};
use crate::error::{Error, Result};

/// Bytes of the first row together with what stands before it, once it is there as a whole.
pub(super) fn end_of_header(dialect: Dialect, bytes: &[u8]) -> Option<usize> {
    let mut marker = Marker::new(dialect, Vec::new(), true);
    let mut unused = Vec::new();
    bytes.iter().position(|byte| {
        unused.clear();
        marker.step(*byte, &mut unused);
        marker.is_behind_header()
    })
}

/// The columns of a table in the order of a file, as indices into the table's.
///
/// # Errors
/// `Invalid` if a name stands there twice or is none of the table's.
pub(super) fn columns_of(dialect: Dialect, header: &[u8], table: &Schema) -> Result<Vec<usize>> {
    let mut format = Format::default().with_header(true).with_delimiter(dialect.delimiter).with_quote(dialect.quote);
    if let Some(escape) = dialect.escape {
        format = format.with_escape(escape);
    }
    if let Some(comment) = dialect.comment {
        format = format.with_comment(comment);
    }
    let (names, _) = format.infer_schema(header, Some(0))?;
    let mut columns = Vec::with_capacity(names.fields().len());
    for field in names.fields() {
        let name = field.name();
        let column = table.index_of(name).map_err(|_| {
            let known: Vec<&str> = table.fields().iter().map(|field| field.name().as_str()).collect();
            Error::invalid(format!(
                "its first row names a column {name:?} that the files looked at to find the columns do not have ({}); name it \
                 there, or raise schema_infer_max_records",
                known.join(", ")
            ))
        })?;
        if columns.contains(&column) {
            return Err(Error::invalid(format!("its first row names the column {name:?} twice; name them apart")));
        }
        columns.push(column);
    }
    Ok(columns)
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, Field};

    use super::*;

    const DIALECT: Dialect = Dialect { delimiter: b',', quote: b'"', escape: None, comment: Some(b'#') };

    fn table(names: &[&str]) -> Schema {
        Schema::new(names.iter().map(|name| Field::new(*name, DataType::Utf8, true)).collect::<Vec<_>>())
    }

    #[test]
    fn the_first_row_may_stand_behind_comments_and_hold_line_breaks() {
        for (text, header) in [
            ("a,b\n1,2\n", "a,b\n"),
            ("\n\na,b\r\n1,2\n", "\n\na,b\r"),
            ("# a \" comment\na,\"b\nc\"\n1,2\n", "# a \" comment\na,\"b\nc\"\n"),
            ("\"a\"\"\n\",b\nx", "\"a\"\"\n\",b\n"),
        ] {
            let end = end_of_header(DIALECT, text.as_bytes());
            assert_eq!(end.map(|last| &text[..=last]), Some(header));
            for cut in 0..header.len() - 1 {
                assert_eq!(end_of_header(DIALECT, &text.as_bytes()[..cut]), None, "{:?}", &text[..cut]);
            }
        }
    }

    #[test]
    fn columns_are_found_by_name_in_any_order() {
        let table = table(&["a", "b", "c\nd"]);
        for (header, expected) in [
            ("a,b,\"c\nd\"\n", vec![0, 1, 2]),
            ("#x\n\"c\nd\",a\n", vec![2, 0]),
            ("\u{feff}b,a\r\n", vec![1, 0]),
            ("b", vec![1]),
        ] {
            assert_eq!(columns_of(DIALECT, header.as_bytes(), &table).unwrap(), expected, "{header:?}");
        }
        for (header, part) in [("a,a\n", "\"a\" twice"), ("a,x\n", "\"x\""), ("A,b\n", "\"A\"")] {
            let error = columns_of(DIALECT, header.as_bytes(), &table).unwrap_err();
            assert!(error.message.contains(part), "{error}");
        }
    }
}
