//! Arrow schemas as bytes and text: an IPC schema message is the one form of a schema that Arrow keeps stable.
use std::{fmt::Write, sync::Arc};

use arrow::{
    datatypes::{Schema, SchemaRef},
    ipc::{convert::try_schema_from_flatbuffer_bytes, writer::IpcDataGenerator, writer::IpcWriteOptions},
};

use crate::error::{Error, Result};

/// The schema as an IPC schema message.
#[must_use]
pub fn to_ipc(schema: &Schema) -> Vec<u8> {
    let mut tracker = arrow::ipc::writer::DictionaryTracker::new(false);
    IpcDataGenerator::default()
        .schema_to_bytes_with_dictionary_tracker(schema, &mut tracker, &IpcWriteOptions::default())
        .ipc_message
}

/// Reads what [`to_ipc`] wrote.
///
/// # Errors
/// The bytes are not an IPC schema message.
pub fn from_ipc(bytes: &[u8]) -> Result<SchemaRef> {
    try_schema_from_flatbuffer_bytes(bytes)
        .map(Arc::new)
        .map_err(|e| Error::corrupt(format!("stored schema cannot be read: {e}")))
}

/// Lower-case hexadecimal text.
#[must_use]
pub fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut out, b| {
        // Writing to a String cannot fail.
        let _ = write!(out, "{b:02x}");
        out
    })
}

/// Reads what [`to_hex`] wrote.
///
/// # Errors
/// The text has an odd length or a character that is not a hexadecimal digit.
pub fn from_hex(text: &str) -> Result<Vec<u8>> {
    let bytes = text.as_bytes();
    if !bytes.len().is_multiple_of(2) {
        return Err(Error::corrupt("hexadecimal text has an odd length"));
    }
    bytes
        .chunks_exact(2)
        .map(|pair| {
            std::str::from_utf8(pair)
                .ok()
                .and_then(|digits| u8::from_str_radix(digits, 16).ok())
                .ok_or_else(|| Error::corrupt("hexadecimal text has a character that is not a digit"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, Field, TimeUnit};

    use super::*;

    #[test]
    fn a_schema_survives_bytes_and_text() {
        let schema = Schema::new(vec![
            Field::new("k", DataType::Int64, false),
            Field::new("s", DataType::Utf8View, true),
            Field::new("t", DataType::Timestamp(TimeUnit::Nanosecond, Some("Etc/UTC".into())), true),
            Field::new("d", DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8)), true),
        ]);
        let back = from_hex(&to_hex(&to_ipc(&schema))).and_then(|b| from_ipc(&b)).unwrap();
        assert_eq!(*back, schema);
        assert!(from_hex("0").is_err() && from_hex("zz").is_err() && from_ipc(&[1, 2]).is_err());
    }
}
