//! Rows as JSON, CSV or an Arrow stream.
//!
//! | type | JSON | CSV |
//! |---|---|---|
//! | NULL | `null` | nothing |
//! | boolean | `true`, `false` | the same |
//! | integers | number, all digits | the same |
//! | floats | number; `"NaN"`, `"inf"`, `"-inf"` as text | the same without quotes |
//! | decimals | text with all digits: most JSON readers turn numbers into floats | the digits |
//! | text | text | text; empty text as `""` |
//! | binary | text of hexadecimal digits | the same |
//! | date, time, timestamp | ISO 8601 text, with the offset if the type has a zone | the same |
//! | interval, duration | text | the same |
//! | list | array | its JSON |
//! | struct | object | its JSON |
//! | map | array of `{"key", "value"}`, since keys need not be text | its JSON |
//! | union | its value | its JSON |
//!
//! Columns of equal name would hide one another in a JSON object: the second `id` is called `id_2`, and so on.
use std::{collections::HashSet, io::Write as _};

use ancho_common::error::{Error, Result};
use arrow::{
    array::{Array, AsArray, OffsetSizeTrait, RecordBatch},
    datatypes::{DataType, Float16Type, Float32Type, Float64Type, Schema},
    error::ArrowError,
    ipc::writer::StreamWriter,
    util::display::{ArrayFormatter, FormatOptions},
};
use bytes::Bytes;
use http::{HeaderMap, header};

/// Form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// An array of objects.
    Json,
    /// RFC 4180 with a header line.
    Csv,
    /// An Arrow IPC stream.
    Arrow,
}

impl Format {
    /// The first format of `Accept` that is offered, JSON without such a header; `None` if none is.
    #[must_use]
    pub fn accepted(headers: &HeaderMap) -> Option<Self> {
        let Some(accept) = headers.get(header::ACCEPT) else { return Some(Self::Json) };
        accept.to_str().ok()?.split(',').find_map(|range| match range.split(';').next().unwrap_or_default().trim() {
            "application/json" | "application/*" | "*/*" | "" => Some(Self::Json),
            "text/csv" | "text/*" => Some(Self::Csv),
            "application/vnd.apache.arrow.stream" => Some(Self::Arrow),
            _ => None,
        })
    }

    /// Its media type.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Csv => "text/csv; charset=utf-8; header=present",
            Self::Arrow => "application/vnd.apache.arrow.stream",
        }
    }
}

/// Renders one answer part by part.
pub struct Renderer {
    form: Form,
}

enum Form {
    Json {
        /// `"name":` of each column.
        names: Vec<Vec<u8>>,
        started: bool,
    },
    Csv {
        /// The header line, until it is out.
        header: Vec<u8>,
    },
    Arrow(Box<StreamWriter<Vec<u8>>>),
}

impl Renderer {
    /// For rows of `schema`, which is of edge types.
    ///
    /// # Errors
    /// The schema cannot be encoded.
    pub fn new(format: Format, schema: &Schema) -> Result<Self> {
        let names = || schema.fields().iter().map(|field| field.name().as_str());
        let form = match format {
            Format::Json => Form::Json {
                names: distinct(names())
                    .iter()
                    .map(|name| {
                        let mut out = Vec::with_capacity(name.len() + 3);
                        json_text(name, &mut out);
                        out.push(b':');
                        out
                    })
                    .collect(),
                started: false,
            },
            Format::Csv => {
                let mut header = Vec::new();
                for (index, name) in names().enumerate() {
                    if index > 0 {
                        header.push(b',');
                    }
                    csv_text(name, &mut header);
                }
                header.extend_from_slice(b"\r\n");
                Form::Csv { header }
            }
            Format::Arrow => Form::Arrow(Box::new(StreamWriter::try_new(Vec::new(), schema).map_err(unrendered)?)),
        };
        Ok(Self { form })
    }

    /// The next rows.
    ///
    /// # Errors
    /// A value has no text form, such as a date outside of the calendar.
    pub fn rows(&mut self, batch: &RecordBatch) -> Result<Bytes> {
        match &mut self.form {
            Form::Json { names, started } => json_rows(batch, names, started).map_err(unrendered),
            Form::Csv { header } => csv_rows(batch, std::mem::take(header)).map_err(unrendered),
            Form::Arrow(writer) => {
                writer.write(batch).map_err(unrendered)?;
                Ok(std::mem::take(writer.get_mut()).into())
            }
        }
    }

    /// What comes after the last row; also the head if there was no row.
    ///
    /// # Errors
    /// As [`Renderer::rows`].
    pub fn end(&mut self) -> Result<Bytes> {
        match &mut self.form {
            Form::Json { started, .. } => Ok(Bytes::from_static(if *started { b"]\n" } else { b"[]\n" })),
            Form::Csv { header } => Ok(std::mem::take(header).into()),
            Form::Arrow(writer) => {
                writer.finish().map_err(unrendered)?;
                Ok(std::mem::take(writer.get_mut()).into())
            }
        }
    }
}

fn unrendered(error: ArrowError) -> Error {
    Error::invalid(format!("a result value has no form in this format: {error}"))
}

fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let names: Vec<&str> = names.collect();
    let mut taken: HashSet<String> = HashSet::new();
    let originals: HashSet<&str> = names.iter().copied().collect();
    names
        .iter()
        .map(|name| {
            let mut unique = (*name).to_string();
            let mut number = 2;
            while taken.contains(&unique) || (unique != **name && originals.contains(unique.as_str())) {
                unique = format!("{name}_{number}");
                number += 1;
            }
            taken.insert(unique.clone());
            unique
        })
        .collect()
}

fn json_rows(batch: &RecordBatch, names: &[Vec<u8>], started: &mut bool) -> Result<Bytes, ArrowError> {
    let columns = batch.columns().iter().map(|c| Cell::new(c.as_ref())).collect::<Result<Vec<_>, _>>()?;
    let mut out = Vec::new();
    for row in 0..batch.num_rows() {
        out.extend_from_slice(if *started { b",\n" } else { b"[" });
        *started = true;
        out.push(b'{');
        for (index, (name, column)) in names.iter().zip(&columns).enumerate() {
            if index > 0 {
                out.push(b',');
            }
            out.extend_from_slice(name);
            column.json(row, &mut out)?;
        }
        out.push(b'}');
    }
    Ok(out.into())
}

fn csv_rows(batch: &RecordBatch, header: Vec<u8>) -> Result<Bytes, ArrowError> {
    let columns = batch.columns().iter().map(|c| Cell::new(c.as_ref())).collect::<Result<Vec<_>, _>>()?;
    let mut out = header;
    for row in 0..batch.num_rows() {
        for (index, column) in columns.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            column.csv(row, &mut out)?;
        }
        out.extend_from_slice(b"\r\n");
    }
    Ok(out.into())
}

/// Writes the values of one array.
struct Cell<'a> {
    array: &'a dyn Array,
    value: CellValue<'a>,
}

enum CellValue<'a> {
    /// Digits or a word that JSON takes as they are.
    Plain(ArrayFormatter<'a>),
    /// Text that needs no escapes.
    Quoted(ArrayFormatter<'a>),
    Float,
    Text,
    List(Box<Cell<'a>>),
    Struct(Vec<(&'a str, Cell<'a>)>),
    Map(Box<Cell<'a>>, Box<Cell<'a>>),
    Union(Vec<(i8, Cell<'a>)>),
}

impl<'a> Cell<'a> {
    fn new(array: &'a dyn Array) -> Result<Self, ArrowError> {
        // By default a value without a text form would be replaced by a note inside the text.
        let options = FormatOptions::new().with_display_error(false);
        let value = match array.data_type() {
            DataType::Utf8 | DataType::LargeUtf8 => CellValue::Text,
            DataType::Float16 | DataType::Float32 | DataType::Float64 => CellValue::Float,
            DataType::List(_) => CellValue::List(Box::new(Self::new(array.as_list::<i32>().values().as_ref())?)),
            DataType::LargeList(_) => CellValue::List(Box::new(Self::new(array.as_list::<i64>().values().as_ref())?)),
            DataType::FixedSizeList(..) => {
                CellValue::List(Box::new(Self::new(array.as_fixed_size_list().values().as_ref())?))
            }
            DataType::Struct(fields) => {
                let columns = fields.iter().zip(array.as_struct().columns());
                CellValue::Struct(
                    columns
                        .map(|(f, c)| Ok((f.name().as_str(), Self::new(c.as_ref())?)))
                        .collect::<Result<_, ArrowError>>()?,
                )
            }
            DataType::Map(..) => {
                let map = array.as_map();
                CellValue::Map(Box::new(Self::new(map.keys().as_ref())?), Box::new(Self::new(map.values().as_ref())?))
            }
            DataType::Union(fields, _) => {
                let union = array.as_union();
                CellValue::Union(
                    fields
                        .iter()
                        .map(|(id, _)| Ok((id, Self::new(union.child(id).as_ref())?)))
                        .collect::<Result<_, ArrowError>>()?,
                )
            }
            kind if kind.is_integer() || matches!(kind, DataType::Boolean | DataType::Null) => {
                CellValue::Plain(ArrayFormatter::try_new(array, &options)?)
            }
            _ => CellValue::Quoted(ArrayFormatter::try_new(array, &options)?),
        };
        Ok(Self { array, value })
    }

    fn is_null(&self, row: usize) -> bool {
        self.array.data_type() == &DataType::Null || self.array.is_null(row)
    }

    fn json(&self, row: usize, out: &mut Vec<u8>) -> Result<(), ArrowError> {
        if self.is_null(row) {
            out.extend_from_slice(b"null");
            return Ok(());
        }
        match &self.value {
            CellValue::Plain(formatter) => out.extend_from_slice(formatter.value(row).try_to_string()?.as_bytes()),
            CellValue::Quoted(formatter) => json_text(&formatter.value(row).try_to_string()?, out),
            CellValue::Text => json_text(text(self.array, row), out),
            CellValue::Float => match float(self.array, row) {
                (digits, true) => out.extend_from_slice(digits.as_bytes()),
                (word, false) => json_text(&word, out),
            },
            CellValue::List(items) => {
                let (start, end) = list_range(self.array, row);
                separated(out, b'[', b']', start..end, |item, out| items.json(item, out))?;
            }
            CellValue::Struct(fields) => {
                separated(out, b'{', b'}', fields.iter(), |(name, field), out| {
                    json_text(name, out);
                    out.push(b':');
                    field.json(row, out)
                })?;
            }
            CellValue::Map(keys, values) => {
                let offsets = self.array.as_map().value_offsets();
                separated(out, b'[', b']', offsets[row] as usize..offsets[row + 1] as usize, |entry, out| {
                    out.extend_from_slice(b"{\"key\":");
                    keys.json(entry, out)?;
                    out.extend_from_slice(b",\"value\":");
                    values.json(entry, out)?;
                    out.push(b'}');
                    Ok(())
                })?;
            }
            CellValue::Union(children) => {
                let union = self.array.as_union();
                let id = union.type_id(row);
                match children.iter().find(|(child, _)| *child == id) {
                    Some((_, child)) => child.json(union.value_offset(row), out)?,
                    None => return Err(ArrowError::SchemaError(format!("union without a member {id}"))),
                }
            }
        }
        Ok(())
    }

    fn csv(&self, row: usize, out: &mut Vec<u8>) -> Result<(), ArrowError> {
        if self.is_null(row) {
            return Ok(());
        }
        match &self.value {
            CellValue::Plain(formatter) | CellValue::Quoted(formatter) => {
                csv_text(&formatter.value(row).try_to_string()?, out)
            }
            CellValue::Text => csv_text(text(self.array, row), out),
            CellValue::Float => csv_text(&float(self.array, row).0, out),
            CellValue::List(_) | CellValue::Struct(_) | CellValue::Map(..) | CellValue::Union(_) => {
                let mut nested = Vec::new();
                self.json(row, &mut nested)?;
                csv_text(&String::from_utf8_lossy(&nested), out);
            }
        }
        Ok(())
    }
}

fn text(array: &dyn Array, row: usize) -> &str {
    match array.data_type() {
        DataType::LargeUtf8 => array.as_string::<i64>().value(row),
        _ => array.as_string::<i32>().value(row),
    }
}

/// The digits of a float that read back as the same float, and whether JSON takes them as a number.
fn float(array: &dyn Array, row: usize) -> (String, bool) {
    match array.data_type() {
        DataType::Float64 => {
            let value = array.as_primitive::<Float64Type>().value(row);
            (format!("{value:?}"), value.is_finite())
        }
        DataType::Float32 => {
            let value = array.as_primitive::<Float32Type>().value(row);
            (format!("{value:?}"), value.is_finite())
        }
        _ => {
            let value = array.as_primitive::<Float16Type>().value(row).to_f32();
            (format!("{value:?}"), value.is_finite())
        }
    }
}

fn list_range(array: &dyn Array, row: usize) -> (usize, usize) {
    fn of<O: OffsetSizeTrait>(offsets: &[O], row: usize) -> (usize, usize) {
        (offsets[row].as_usize(), offsets[row + 1].as_usize())
    }
    match array.data_type() {
        DataType::FixedSizeList(_, size) => {
            let size = usize::try_from(*size).unwrap_or(0);
            (row * size, (row + 1) * size)
        }
        DataType::LargeList(_) => of(array.as_list::<i64>().value_offsets(), row),
        _ => of(array.as_list::<i32>().value_offsets(), row),
    }
}

fn separated<T>(
    out: &mut Vec<u8>,
    open: u8,
    close: u8,
    items: impl Iterator<Item = T>,
    mut write: impl FnMut(T, &mut Vec<u8>) -> Result<(), ArrowError>,
) -> Result<(), ArrowError> {
    out.push(open);
    for (index, item) in items.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write(item, out)?;
    }
    out.push(close);
    Ok(())
}

fn json_text(text: &str, out: &mut Vec<u8>) {
    // Writing text to memory cannot fail.
    let _ = serde_json::to_writer(out, text);
}

fn csv_text(text: &str, out: &mut Vec<u8>) {
    if !text.is_empty() && !text.contains([',', '"', '\r', '\n']) {
        out.extend_from_slice(text.as_bytes());
        return;
    }
    let _ = write!(out, "\"{}\"", text.replace('"', "\"\""));
}
