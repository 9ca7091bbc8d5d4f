//! Tells `""` from an empty field: the text goes through a reader that cannot, so it is marked before and restored behind.
//!
//! `""` becomes `"␁"` with the control character U+0001 inside, and a value that begins with that character gets one more, so
//! that no value is taken for a marked one. In a file of one column an empty line is NULL; the reader would skip it.
use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, GenericStringArray, OffsetSizeTrait, StringViewArray},
    datatypes::DataType,
};

use crate::error::{Error, Result};

/// Begins a value that was changed.
const MARK: u8 = 1;
const MARK_CHAR: char = '\u{1}';

/// What the characters of a file mean.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dialect {
    pub(super) delimiter: u8,
    pub(super) quote: u8,
    pub(super) escape: Option<u8>,
    pub(super) comment: Option<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    LineStart,
    FieldStart,
    /// In a field that does not begin with a quote, or behind its end quote.
    Plain,
    /// Behind the quote that begins a field; it is held back.
    Opened,
    /// Behind two quotes that begin a field; both are held back.
    OpenedTwice,
    Quoted,
    /// Behind a quote inside of a quoted field: its end, or the first of two.
    QuotedQuote,
    Escaped,
    Comment,
}

/// Marks the empty texts of a file, which comes in pieces.
#[derive(Debug)]
pub(super) struct Marker {
    dialect: Dialect,
    /// Columns of text, in the order of the file.
    texts: Vec<bool>,
    column: usize,
    place: Place,
    /// The names of the columns are still to come.
    header: bool,
    /// Behind a carriage return that ended a line.
    returned: bool,
    /// Of the file, from one; counted by line feeds.
    line: u64,
    /// Where the last quoted value began.
    opened: u64,
}

impl Marker {
    pub(super) fn new(dialect: Dialect, texts: Vec<bool>, header: bool) -> Self {
        Self { dialect, texts, column: 0, place: Place::LineStart, header, returned: false, line: 1, opened: 1 }
    }

    /// The names of the columns have been read to their end.
    pub(super) fn is_behind_header(&self) -> bool {
        !self.header && self.place == Place::LineStart
    }

    /// The next piece, marked.
    pub(super) fn mark(&mut self, piece: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(piece.len() + 64);
        for &byte in piece {
            self.step(byte, &mut out);
        }
        out
    }

    /// What was held back at the end of the file.
    ///
    /// # Errors
    /// `Invalid` if a value's end quote is missing: the file is cut off, or rows were taken for one value.
    pub(super) fn end(&mut self) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        match std::mem::replace(&mut self.place, Place::LineStart) {
            Place::Opened | Place::Quoted | Place::Escaped => {
                return Err(Error::invalid(format!(
                    "the quote in line {} is not closed before the end of the file; is the file whole, and are quotes inside \
                     of values doubled?",
                    self.opened
                )));
            }
            Place::OpenedTwice => self.empty(&mut out),
            _ => {}
        }
        Ok(out)
    }

    pub(super) fn step(&mut self, byte: u8, out: &mut Vec<u8>) {
        let quote = self.dialect.quote;
        let returned = std::mem::take(&mut self.returned);
        self.line += u64::from(byte == b'\n');
        if self.place == Place::LineStart && self.dialect.comment != Some(byte) {
            match byte {
                // The rest of a line break.
                b'\n' if returned => {}
                // An empty line of one column is a row without a value, but the reader takes it for none.
                b'\n' | b'\r' if self.texts.len() == 1 && !self.header => out.extend([quote, quote]),
                b'\n' | b'\r' => {}
                _ => self.header = false,
            }
        }
        self.place = match self.place {
            Place::LineStart if self.dialect.comment == Some(byte) => Place::Comment,
            Place::LineStart | Place::FieldStart if byte == quote => {
                self.place = Place::Opened;
                self.opened = self.line;
                return;
            }
            Place::LineStart | Place::FieldStart => {
                let next = self.unquoted(byte);
                if next == Place::Plain {
                    self.first(byte, out);
                }
                next
            }
            Place::Plain => self.unquoted(byte),
            Place::Opened if byte == quote => {
                self.place = Place::OpenedTwice;
                return;
            }
            Place::Opened => {
                out.push(quote);
                self.first(byte, out);
                self.quoted(byte)
            }
            Place::OpenedTwice if byte == quote => {
                // The first character of the value is a quote.
                out.extend([quote, quote]);
                Place::Quoted
            }
            Place::OpenedTwice => {
                let next = self.place_behind(byte);
                match next {
                    Place::Plain => out.extend([quote, quote]),
                    _ => self.empty(out),
                }
                self.unquoted(byte)
            }
            Place::Quoted => self.quoted(byte),
            Place::QuotedQuote if byte == quote => Place::Quoted,
            Place::QuotedQuote => self.unquoted(byte),
            Place::Escaped => Place::Quoted,
            Place::Comment if byte == b'\n' => Place::LineStart,
            Place::Comment => Place::Comment,
        };
        self.returned = byte == b'\r' && self.place == Place::LineStart;
        out.push(byte);
    }

    fn quoted(&self, byte: u8) -> Place {
        match byte {
            _ if self.dialect.escape == Some(byte) => Place::Escaped,
            _ if byte == self.dialect.quote => Place::QuotedQuote,
            _ => Place::Quoted,
        }
    }

    fn place_behind(&self, byte: u8) -> Place {
        match byte {
            b'\n' | b'\r' => Place::LineStart,
            _ if byte == self.dialect.delimiter => Place::FieldStart,
            _ => Place::Plain,
        }
    }

    /// Outside of quotes.
    fn unquoted(&mut self, byte: u8) -> Place {
        let next = self.place_behind(byte);
        match next {
            Place::LineStart => self.column = 0,
            Place::FieldStart => self.column += 1,
            _ => {}
        }
        next
    }

    fn is_text(&self) -> bool {
        self.texts.get(self.column).copied().unwrap_or(false)
    }

    /// Before the first character of a value.
    fn first(&self, byte: u8, out: &mut Vec<u8>) {
        if byte == MARK && self.is_text() {
            out.push(MARK);
        }
    }

    fn empty(&self, out: &mut Vec<u8>) {
        out.push(self.dialect.quote);
        if self.is_text() {
            out.push(MARK);
        }
        out.push(self.dialect.quote);
    }
}

/// A column whose marked texts are what they were.
pub(super) fn restored(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Utf8 => restored_texts::<i32>(column),
        DataType::LargeUtf8 => restored_texts::<i64>(column),
        DataType::Utf8View => {
            let texts = column.as_string_view();
            if !texts.iter().flatten().any(is_marked) {
                return Arc::clone(column);
            }
            Arc::new(texts.iter().map(|text| text.map(unmarked)).collect::<StringViewArray>())
        }
        _ => Arc::clone(column),
    }
}

fn restored_texts<O: OffsetSizeTrait>(column: &ArrayRef) -> ArrayRef {
    let texts = column.as_string::<O>();
    if !texts.iter().flatten().any(is_marked) {
        return Arc::clone(column);
    }
    Arc::new(texts.iter().map(|text| text.map(unmarked)).collect::<GenericStringArray<O>>())
}

fn is_marked(text: &str) -> bool {
    text.starts_with(MARK_CHAR)
}

fn unmarked(text: &str) -> &str {
    text.strip_prefix(MARK_CHAR).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use arrow::{
        array::StringArray,
        csv::ReaderBuilder,
        datatypes::{Field, Schema},
    };
    use proptest::prelude::*;

    use super::*;

    const DIALECT: Dialect = Dialect { delimiter: b',', quote: b'"', escape: None, comment: None };

    /// Marks in pieces of `size`, reads, restores.
    fn read(text: &str, dialect: Dialect, columns: usize, size: usize) -> Vec<Vec<Option<String>>> {
        let mut marker = Marker::new(dialect, vec![true; columns], false);
        let mut marked: Vec<u8> = text.as_bytes().chunks(size.max(1)).flat_map(|piece| marker.mark(piece)).collect();
        marked.extend(marker.end().unwrap());
        let schema: Vec<Field> = (0..columns).map(|i| Field::new(i.to_string(), DataType::Utf8, true)).collect();
        let mut builder = ReaderBuilder::new(Arc::new(Schema::new(schema))).with_delimiter(dialect.delimiter);
        if let Some(escape) = dialect.escape {
            builder = builder.with_escape(escape);
        }
        if let Some(comment) = dialect.comment {
            builder = builder.with_comment(comment);
        }
        let reader = builder.with_quote(dialect.quote).build(marked.as_slice()).unwrap();
        let mut rows = Vec::new();
        for batch in reader {
            let batch = batch.unwrap();
            let columns: Vec<ArrayRef> = batch.columns().iter().map(restored).collect();
            rows.extend((0..batch.num_rows()).map(|row| {
                let value = |column: &ArrayRef| {
                    let texts: &StringArray = column.as_string();
                    (!texts.is_null(row)).then(|| texts.value(row).to_owned())
                };
                columns.iter().map(value).collect()
            }));
        }
        rows
    }

    #[test]
    fn quoted_empty_texts_are_told_from_empty_fields() {
        let row = |a: Option<&str>, b: Option<&str>| vec![a.map(str::to_owned), b.map(str::to_owned)];
        for size in 1..9 {
            let text = "\"\",\n,\"\"\n\"\"\"\",\"a\n\"\",b\"\n\u{1},\"\u{1}x\"\n\"\",\"\"";
            let expected = [
                row(Some(""), None),
                row(None, Some("")),
                row(Some("\""), Some("a\n\",b")),
                row(Some("\u{1}"), Some("\u{1}x")),
                row(Some(""), Some("")),
            ];
            assert_eq!(read(text, DIALECT, 2, size), expected, "in pieces of {size}");
            let odd = Dialect { delimiter: b';', quote: b'\'', escape: Some(b'\\'), comment: Some(b'#') };
            let text = "# it's '' a comment\r\n'';'\\'';\r\n'\\\\';'';\r\n";
            let expected = [
                vec![Some(String::new()), Some("'".to_owned()), None],
                vec![Some("\\".to_owned()), Some(String::new()), None],
            ];
            assert_eq!(read(text, odd, 3, size), expected, "in pieces of {size}");
        }
    }

    #[test]
    fn empty_lines_of_one_column_are_null_behind_its_name() {
        let mut marker = Marker::new(DIALECT, vec![true], true);
        assert_eq!(marker.mark(b"\r\n\nname\r\n\r\nx\n\n\"\"\n"), b"\r\n\nname\r\n\"\"\r\nx\n\"\"\n\"\x01\"\n");
        let mut two = Marker::new(DIALECT, vec![true, true], false);
        assert_eq!(two.mark(b"\na,b\n\n"), b"\na,b\n\n");
    }

    #[test]
    fn a_quote_without_its_end_is_an_error_with_its_line() {
        let odd = Dialect { escape: Some(b'\\'), ..DIALECT };
        for (text, dialect, line) in [
            ("a,b\n1,\"abc\n2,x\n", DIALECT, 2),
            ("a\n\"", DIALECT, 2),
            ("\"x\"\"", DIALECT, 1),
            ("\"x\ny\",\"z", DIALECT, 2),
            ("\"x\\", odd, 1),
            ("\"x\\\"", odd, 1),
        ] {
            let mut marker = Marker::new(dialect, vec![true, true], false);
            marker.mark(text.as_bytes());
            let error = marker.end().unwrap_err();
            assert!(error.message.contains(&format!("in line {line} ")), "{text:?}: {error}");
        }
        for text in ["", "\"\"", "\"x\"", "x\"", "\"x\"\n", "\"x\"\"\"", "#\""] {
            let mut marker = Marker::new(Dialect { comment: Some(b'#'), ..DIALECT }, vec![true, true], false);
            marker.mark(text.as_bytes());
            assert!(marker.end().is_ok(), "{text:?}");
        }
    }

    proptest! {
        /// Whatever is written by the rules is read back.
        #[test]
        fn any_rows_come_back(
            rows in (1usize..4).prop_flat_map(|columns| {
                prop::collection::vec(prop::collection::vec(prop::option::of("[a\",\r\n\u{1} ]{0,4}"), columns), 1..12)
            }),
            line_break in prop::sample::select(vec!["\n", "\r\n"]),
            size in 1usize..20,
        ) {
            let field = |value: &Option<String>| match value {
                None => String::new(),
                Some(text) => format!("\"{}\"", text.replace('"', "\"\"")),
            };
            let line = |row: &Vec<_>| row.iter().map(field).collect::<Vec<_>>().join(",") + line_break;
            let text: String = rows.iter().map(line).collect();
            prop_assert_eq!(read(&text, DIALECT, rows[0].len(), size), rows);
        }
    }
}
