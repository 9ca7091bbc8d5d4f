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
use std::collections::HashSet;

use ancho_common::error::{Error, Result};
use arrow::{array::RecordBatch, datatypes::Schema, error::ArrowError, ipc::writer::StreamWriter};
use bytes::Bytes;
use http::{HeaderMap, header};

use super::cell::{Cell, csv_text, json_text};

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
