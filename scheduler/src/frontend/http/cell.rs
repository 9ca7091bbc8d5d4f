//! One value as JSON or as a CSV field, by the table in [`render`](super::render).
use std::io::Write as _;

use arrow::{
    array::{Array, AsArray, OffsetSizeTrait},
    datatypes::{DataType, Float16Type, Float32Type, Float64Type},
    error::ArrowError,
    util::display::{ArrayFormatter, FormatOptions},
};

/// Writes the values of one array.
pub(super) struct Cell<'a> {
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
    /// For an array of an edge type.
    pub(super) fn new(array: &'a dyn Array) -> Result<Self, ArrowError> {
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

    /// Appends a value as JSON.
    pub(super) fn json(&self, row: usize, out: &mut Vec<u8>) -> Result<(), ArrowError> {
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

    /// Appends a value as a CSV field.
    pub(super) fn csv(&self, row: usize, out: &mut Vec<u8>) -> Result<(), ArrowError> {
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

/// Appends a JSON string.
pub(super) fn json_text(text: &str, out: &mut Vec<u8>) {
    // Writing text to memory cannot fail.
    let _ = serde_json::to_writer(out, text);
}

/// Appends a CSV field, quoted if it has to be.
pub(super) fn csv_text(text: &str, out: &mut Vec<u8>) {
    if !text.is_empty() && !text.contains([',', '"', '\r', '\n']) {
        out.extend_from_slice(text.as_bytes());
        return;
    }
    let _ = write!(out, "\"{}\"", text.replace('"', "\"\""));
}
