//! Rows as a table for people, as CSV, or as JSON lines.
use std::io::Write;

use ancho_common::error::Error;
use anyhow::Context;
use arrow::{
    array::{Array, RecordBatch},
    datatypes::{DataType, Schema, SchemaRef},
    json::{WriterBuilder, writer::LineDelimited},
    util::display::{ArrayFormatter, DurationFormat, FormatOptions},
};
use clap::ValueEnum;
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets::UTF8_FULL_CONDENSED};

/// How rows are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A table; NULL is written as NULL
    Table,
    /// A line of names, then comma-separated values; NULL is an empty field
    Csv,
    /// One JSON object per row and line
    Json,
}

/// When a row is written as a block of `name | value` lines instead of a table line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expanded {
    /// Where the table would not fit the terminal.
    Auto,
    /// Always.
    On,
    /// Never.
    Off,
}

/// Rows that share one table; a longer result is written as several.
const TABLE_ROWS: usize = 5000;

/// Least width of a column that is worth wrapping for.
const MIN_WRAPPED: usize = 10;

/// Writes the rows of one result.
pub struct Renderer<'w> {
    out: &'w mut (dyn Write + Send),
    format: Format,
    expanded: Expanded,
    /// Width of the terminal; `None` writes lines as long as they are.
    width: Option<usize>,
    schema: SchemaRef,
    waiting: Vec<RecordBatch>,
    waiting_rows: usize,
    /// Rows written in expanded blocks, which are numbered.
    numbered: usize,
    tables: usize,
}

impl<'w> Renderer<'w> {
    /// Starts a result.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn new(
        out: &'w mut (dyn Write + Send),
        format: Format,
        expanded: Expanded,
        width: Option<usize>,
        schema: SchemaRef,
    ) -> anyhow::Result<Self> {
        let renderer =
            Self { out, format, expanded, width, schema, waiting: Vec::new(), waiting_rows: 0, numbered: 0, tables: 0 };
        if format == Format::Csv {
            let names: Vec<String> = renderer.schema.fields().iter().map(|f| csv_field(f.name())).collect();
            writeln!(renderer.out, "{}", names.join(","))?;
        }
        Ok(renderer)
    }

    /// Takes the next rows. CSV and JSON are written at once.
    ///
    /// # Errors
    /// The output cannot be written, or a value has no text.
    pub fn add(&mut self, batch: &RecordBatch) -> anyhow::Result<()> {
        match self.format {
            Format::Csv => self.write_csv(batch),
            Format::Json => self.write_json(batch),
            Format::Table => {
                let mut offset = 0;
                while offset < batch.num_rows() {
                    let length = (TABLE_ROWS - self.waiting_rows).min(batch.num_rows() - offset);
                    self.waiting.push(batch.slice(offset, length));
                    self.waiting_rows += length;
                    offset += length;
                    if self.waiting_rows == TABLE_ROWS {
                        self.write_waiting()?;
                    }
                }
                Ok(())
            }
        }
    }

    /// Writes what waits. A result without rows still shows its columns.
    ///
    /// # Errors
    /// As [`Renderer::add`].
    pub fn finish(mut self) -> anyhow::Result<()> {
        if self.format == Format::Table && (self.waiting_rows > 0 || self.tables == 0) {
            self.write_waiting()?;
        }
        self.out.flush()?;
        Ok(())
    }

    fn write_csv(&mut self, batch: &RecordBatch) -> anyhow::Result<()> {
        let options = options("");
        let formatters = formatters(batch, &options)?;
        // Arrays of the type NULL keep no record of their NULLs, so it is asked for what each value means.
        let nulls: Vec<_> = batch.columns().iter().map(|column| column.logical_nulls()).collect();
        let mut line = String::new();
        for row in 0..batch.num_rows() {
            line.clear();
            for (position, (formatter, nulls)) in formatters.iter().zip(&nulls).enumerate() {
                if position > 0 {
                    line.push(',');
                }
                if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) {
                    let text = text(formatter, row)?;
                    // An empty text is not NULL.
                    line.push_str(&if text.is_empty() { "\"\"".to_owned() } else { csv_field(&text) });
                }
            }
            writeln!(self.out, "{line}")?;
        }
        Ok(())
    }

    fn write_json(&mut self, batch: &RecordBatch) -> anyhow::Result<()> {
        let mut writer = WriterBuilder::new().with_explicit_nulls(true).build::<_, LineDelimited>(&mut self.out);
        writer.write(batch).context("write the rows as JSON")?;
        writer.finish().context("write the rows as JSON")?;
        Ok(())
    }

    fn write_waiting(&mut self) -> anyhow::Result<()> {
        self.tables += 1;
        self.waiting_rows = 0;
        let batches = std::mem::take(&mut self.waiting);
        let rows = texts(&batches)?;
        let natural = natural_widths(&self.schema, &rows);
        // Three characters of frame around each column, and one at the end.
        let total: usize = natural.iter().map(|width| width + 3).sum::<usize>() + 1;
        let fits = self.width.is_none_or(|width| total <= width);
        let wrappable = self.width.is_none_or(|width| natural.len() * (MIN_WRAPPED + 3) <= width);
        let expanded = match self.expanded {
            Expanded::On => true,
            Expanded::Off => false,
            Expanded::Auto => !fits && !wrappable,
        };
        if expanded && !rows.is_empty() {
            return self.write_expanded(&rows);
        }
        let mut table = Table::new();
        table.load_style(UTF8_FULL_CONDENSED);
        match self.width {
            Some(width) if !fits && wrappable => {
                table.set_content_arrangement(ContentArrangement::Dynamic);
                table.set_width(u16::try_from(width).unwrap_or(u16::MAX));
            }
            _ => {
                table.set_content_arrangement(ContentArrangement::Disabled);
            }
        }
        table.set_header(self.schema.fields().iter().map(|f| Cell::new(f.name())));
        for row in rows {
            table.add_row(row.into_iter().map(Cell::new));
        }
        for (position, field) in self.schema.fields().iter().enumerate() {
            if is_number(field.data_type())
                && let Some(column) = table.column_mut(position)
            {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        writeln!(self.out, "{table}")?;
        Ok(())
    }

    fn write_expanded(&mut self, rows: &[Vec<String>]) -> anyhow::Result<()> {
        let names: Vec<&str> = self.schema.fields().iter().map(|f| f.name().as_str()).collect();
        let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        for row in rows {
            self.numbered += 1;
            writeln!(self.out, "─── row {} {}", self.numbered, "─".repeat(width.max(20)))?;
            for (name, value) in names.iter().zip(row) {
                let padding = " ".repeat(width - name.chars().count());
                // Further lines of a value stand below its first.
                let value = value.replace('\n', &format!("\n{} │ ", " ".repeat(width)));
                writeln!(self.out, "{name}{padding} │ {value}")?;
            }
        }
        Ok(())
    }
}

fn options(null: &'static str) -> FormatOptions<'static> {
    FormatOptions::new().with_null(null).with_display_error(true).with_duration_format(DurationFormat::Pretty)
}

fn formatters<'b>(batch: &'b RecordBatch, options: &'b FormatOptions<'b>) -> anyhow::Result<Vec<ArrayFormatter<'b>>> {
    let formatters = batch.columns().iter().map(|column| ArrayFormatter::try_new(column.as_ref(), options));
    Ok(formatters.collect::<Result<Vec<_>, _>>().map_err(|e| Error::internal(format!("show the rows: {e}")))?)
}

fn text(formatter: &ArrayFormatter<'_>, row: usize) -> anyhow::Result<String> {
    Ok(formatter.value(row).try_to_string()?)
}

/// Every value as text, row by row.
fn texts(batches: &[RecordBatch]) -> anyhow::Result<Vec<Vec<String>>> {
    let options = options("NULL");
    let mut rows = Vec::with_capacity(batches.iter().map(RecordBatch::num_rows).sum());
    for batch in batches {
        let formatters = formatters(batch, &options)?;
        for row in 0..batch.num_rows() {
            rows.push(formatters.iter().map(|f| text(f, row)).collect::<anyhow::Result<Vec<_>>>()?);
        }
    }
    Ok(rows)
}

/// Widest line of each column in characters, its name included.
fn natural_widths(schema: &Schema, rows: &[Vec<String>]) -> Vec<usize> {
    let widest = |text: &str| text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    let mut widths: Vec<usize> = schema.fields().iter().map(|f| widest(f.name())).collect();
    for row in rows {
        for (width, value) in widths.iter_mut().zip(row) {
            *width = (*width).max(widest(value));
        }
    }
    widths
}

fn is_number(data_type: &DataType) -> bool {
    data_type.is_numeric()
}

/// A field as CSV needs it: in quotes where it holds a separator, quotes or line ends, or blanks at its ends.
fn csv_field(text: &str) -> String {
    let plain = !text.contains([',', '"', '\n', '\r']) && text.trim() == text;
    if plain { text.to_owned() } else { format!("\"{}\"", text.replace('"', "\"\"")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, NullArray, StringArray};

    fn sample() -> RecordBatch {
        let number: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None]));
        let word: ArrayRef = Arc::new(StringArray::from(vec![Some("a, \"b\""), Some("")]));
        RecordBatch::try_from_iter_with_nullable([("n", number, true), ("word", word, true)]).expect("a batch")
    }

    fn rendered(format: Format, expanded: Expanded, width: Option<usize>, batches: &[RecordBatch]) -> String {
        let mut out = Vec::new();
        let schema = sample().schema();
        let mut renderer = Renderer::new(&mut out, format, expanded, width, schema).expect("started");
        for batch in batches {
            renderer.add(batch).expect("added");
        }
        renderer.finish().expect("finished");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn csv_quotes_what_needs_it_and_tells_null_from_empty() {
        let text = rendered(Format::Csv, Expanded::Auto, None, &[sample()]);
        assert_eq!(text, "n,word\n1,\"a, \"\"b\"\"\"\n,\"\"\n");
        assert_eq!(rendered(Format::Csv, Expanded::Auto, None, &[]), "n,word\n");
    }

    #[test]
    fn a_column_of_the_type_null_is_empty_in_csv_and_null_elsewhere() {
        let untyped: ArrayRef = Arc::new(NullArray::new(2));
        let word: ArrayRef = Arc::new(StringArray::from(vec![Some(""), None]));
        let batch =
            RecordBatch::try_from_iter_with_nullable([("n", untyped, true), ("word", word, true)]).expect("a batch");
        let shown = |format| {
            let mut out = Vec::new();
            let mut renderer = Renderer::new(&mut out, format, Expanded::Off, None, batch.schema()).expect("started");
            renderer.add(&batch).expect("added");
            renderer.finish().expect("finished");
            String::from_utf8(out).expect("text")
        };
        assert_eq!(shown(Format::Csv), "n,word\n,\"\"\n,\n");
        assert_eq!(shown(Format::Json).lines().next(), Some(r#"{"n":null,"word":""}"#));
        assert_eq!(shown(Format::Table).matches("NULL").count(), 3);
    }

    #[test]
    fn json_has_one_object_a_line_with_nulls() {
        let text = rendered(Format::Json, Expanded::Auto, None, &[sample(), sample()]);
        assert_eq!(text.lines().count(), 4);
        assert_eq!(text.lines().next(), Some(r#"{"n":1,"word":"a, \"b\""}"#));
        assert_eq!(text.lines().nth(1), Some(r#"{"n":null,"word":""}"#));
        assert_eq!(rendered(Format::Json, Expanded::Auto, None, &[]), "");
    }

    #[test]
    fn tables_show_null_and_their_columns_even_without_rows() {
        let text = rendered(Format::Table, Expanded::Auto, None, &[sample()]);
        assert!(text.contains("│ NULL ┆"), "{text}");
        let empty = rendered(Format::Table, Expanded::Auto, None, &[]);
        assert!(empty.contains("n") && empty.contains("word"), "{empty}");
    }

    #[test]
    fn a_table_that_is_too_wide_is_expanded() {
        let text = rendered(Format::Table, Expanded::Auto, Some(12), &[sample()]);
        assert!(text.starts_with("─── row 1 ") && text.contains("n    │ NULL"), "{text}");
        let text = rendered(Format::Table, Expanded::Off, Some(12), &[sample()]);
        assert!(text.contains("┆"), "{text}");
    }

    #[test]
    fn long_results_are_written_as_several_tables() {
        let many: ArrayRef = Arc::new(Int64Array::from_iter_values(0..2 * TABLE_ROWS as i64 + 1));
        let words: ArrayRef = Arc::new(StringArray::from_iter_values((0..2 * TABLE_ROWS + 1).map(|_| "x")));
        let batch =
            RecordBatch::try_from_iter_with_nullable([("n", many, true), ("word", words, true)]).expect("a batch");
        let text = rendered(Format::Table, Expanded::Off, None, &[batch]);
        assert_eq!(text.matches("word").count(), 3);
        assert!(text.contains(&format!(" {} ", 2 * TABLE_ROWS)));
    }
}
