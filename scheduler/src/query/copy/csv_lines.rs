//! Rows as lines of CSV, from which the same rows can be read again: NULL is nothing at all, an empty text is `""`.
use ancho_common::{
    error::{Error, Result},
    spec::source::CsvOptions,
};
use arrow::{
    datatypes::DataType,
    error::ArrowError,
    record_batch::RecordBatch,
    util::display::{ArrayFormatter, FormatOptions},
};

/// What the characters mean.
pub(super) struct CsvLines {
    delimiter: u8,
    quote: u8,
    escape: Option<u8>,
    comment: Option<u8>,
    /// Whoever reads it takes `""` for NULL.
    quoted_is_null: bool,
}

impl CsvLines {
    pub(super) fn new(options: &CsvOptions) -> Self {
        let byte = |c: char| u8::try_from(c).unwrap_or(b',');
        Self {
            delimiter: byte(options.delimiter),
            quote: byte(options.quote),
            escape: options.escape.map(byte),
            comment: options.comment.map(byte),
            quoted_is_null: options.quoted_is_null,
        }
    }

    /// The names of the columns.
    pub(super) fn header(&self, batch: &RecordBatch, out: &mut Vec<u8>) {
        let schema = batch.schema();
        for (index, field) in schema.fields().iter().enumerate() {
            if index > 0 {
                out.push(self.delimiter);
            }
            self.value(field.name().as_bytes(), index, out);
        }
        out.push(b'\n');
    }

    /// The rows.
    ///
    /// # Errors
    /// `Unsupported` for a column of lists or structs; `Invalid` for a value that has no text.
    pub(super) fn rows(&self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        let schema = batch.schema();
        if let Some(nested) = schema.fields().iter().find(|field| has_no_text(field.data_type())) {
            return Err(Error::unsupported(format!(
                "column {} has the type {}, which CSV cannot hold; write Parquet, or leave the column out",
                nested.name(),
                nested.data_type()
            )));
        }
        let options = FormatOptions::default().with_display_error(false);
        let columns = batch.columns().iter().map(|column| ArrayFormatter::try_new(column.as_ref(), &options));
        let columns = columns.collect::<Result<Vec<_>, ArrowError>>()?;
        // Of dictionaries the value counts, and columns of type Null have no bitmap of their own.
        let nulls: Vec<_> = batch.columns().iter().map(|column| column.logical_nulls()).collect();
        let mut text = String::new();
        for row in 0..batch.num_rows() {
            for (index, (column, nulls)) in columns.iter().zip(&nulls).enumerate() {
                if index > 0 {
                    out.push(self.delimiter);
                }
                if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                    // An empty line is no row for readers of this dialect.
                    if columns.len() == 1 && self.quoted_is_null {
                        out.extend([self.quote, self.quote]);
                    }
                    continue;
                }
                text.clear();
                column.value(row).write(&mut text).map_err(|e| {
                    Error::invalid(format!("column {}: a value has no text: {e}", schema.field(index).name()))
                })?;
                self.value(text.as_bytes(), index, out);
            }
            out.push(b'\n');
        }
        Ok(())
    }

    /// A value that is not NULL.
    fn value(&self, value: &[u8], index: usize, out: &mut Vec<u8>) {
        let special = |byte: &u8| {
            matches!(byte, b'\n' | b'\r')
                || *byte == self.delimiter
                || *byte == self.quote
                || self.escape == Some(*byte)
        };
        let is_comment = index == 0 && value.first().is_some_and(|first| self.comment == Some(*first));
        if !value.is_empty() && !is_comment && !value.iter().any(special) {
            out.extend_from_slice(value);
            return;
        }
        out.push(self.quote);
        for byte in value {
            match self.escape {
                Some(escape) if *byte == escape || *byte == self.quote => out.push(escape),
                None if *byte == self.quote => out.push(self.quote),
                _ => {}
            }
            out.push(*byte);
        }
        out.push(self.quote);
    }
}

fn has_no_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => has_no_text(values),
        other => other.is_nested(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, NullArray, StringArray};

    use super::*;

    fn text(columns: Vec<(&str, ArrayRef)>, options: &CsvOptions) -> String {
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let lines = CsvLines::new(options);
        let mut out = Vec::new();
        lines.header(&batch, &mut out);
        lines.rows(&batch, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn null_is_nothing_and_an_empty_text_is_two_quotes() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some(""), None, Some("a,\"b\"\nc"), Some("#x")]));
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(-3), None]));
        let nothing: ArrayRef = Arc::new(NullArray::new(4));
        let columns = vec![("s,t", texts), ("n", numbers), ("nothing", nothing)];
        let plain = CsvOptions::default();
        let expected = "\"s,t\",n,nothing\n\"\",1,\n,,\n\"a,\"\"b\"\"\nc\",-3,\n#x,,\n";
        assert_eq!(text(columns.clone(), &plain), expected);
        let other = CsvOptions { delimiter: '|', escape: Some('\\'), comment: Some('#'), ..CsvOptions::default() };
        let expected = "s,t|n|nothing\n\"\"|1|\n||\n\"a,\\\"b\\\"\nc\"|-3|\n\"#x\"||\n";
        assert_eq!(text(columns, &other), expected);
    }

    #[test]
    fn one_column_of_nulls_has_a_line_for_each() {
        let column: ArrayRef = Arc::new(StringArray::from(vec![None, Some(""), None]));
        assert_eq!(text(vec![("s", Arc::clone(&column))], &CsvOptions::default()), "s\n\n\"\"\n\n");
        let lenient = CsvOptions { quoted_is_null: true, ..CsvOptions::default() };
        assert_eq!(text(vec![("s", column)], &lenient), "s\n\"\"\n\"\"\n\"\"\n");
    }
}
