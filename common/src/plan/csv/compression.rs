//! Files whose name says that they are compressed.
use std::io::ErrorKind;

use bytes::Bytes;
use datafusion::{
    datasource::file_format::file_compression_type::FileCompressionType,
    error::{DataFusionError, Result},
};
use futures::{StreamExt, TryStreamExt, stream::BoxStream};

use crate::error::Error;

/// Ending of the names of files that are compressed as gzip.
pub const GZIP: &str = ".gz";

/// Endings of other kinds, which are not read.
pub const OTHERS: &[&str] = &[".bz2", ".xz", ".zst", ".zip", ".lz4", ".snappy", ".br"];

/// The content of a file of this name, of which these are the bytes.
///
/// # Errors
/// In the stream: bytes that are no gzip.
pub fn content<'a>(name: &str, bytes: BoxStream<'a, Result<Bytes>>) -> Result<BoxStream<'a, Result<Bytes>>> {
    if !is_gzip(name) {
        return Ok(bytes);
    }
    let content = FileCompressionType::GZIP.convert_stream(bytes)?;
    Ok(content.map_err(spoiled).boxed())
}

/// What a decoder raises is the file's fault, unlike what the store raises.
fn spoiled(error: DataFusionError) -> DataFusionError {
    match error {
        DataFusionError::IoError(e)
            if matches!(e.kind(), ErrorKind::InvalidInput | ErrorKind::InvalidData | ErrorKind::UnexpectedEof) =>
        {
            Error::invalid(format!("it cannot be unpacked as gzip: {e}")).into()
        }
        other => other,
    }
}

/// Whether a file of this name is compressed.
#[must_use]
pub fn is_gzip(name: &str) -> bool {
    name.ends_with(GZIP)
}
