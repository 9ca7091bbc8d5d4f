//! Files whose name says that they are compressed.
use bytes::Bytes;
use datafusion::{
    common::parsers::CompressionTypeVariant, datasource::file_format::file_compression_type::FileCompressionType,
    error::Result,
};
use futures::stream::BoxStream;

/// Ending of the names of files that are compressed as gzip.
pub const GZIP: &str = ".gz";

/// Endings of other kinds, which are not read.
pub const OTHERS: &[&str] = &[".bz2", ".xz", ".zst", ".zip", ".lz4", ".snappy", ".br"];

/// The content of a file of this name, of which these are the bytes.
///
/// # Errors
/// In the stream: bytes that are no gzip.
pub fn content<'a>(name: &str, bytes: BoxStream<'a, Result<Bytes>>) -> Result<BoxStream<'a, Result<Bytes>>> {
    let variant = match is_gzip(name) {
        true => CompressionTypeVariant::GZIP,
        false => CompressionTypeVariant::UNCOMPRESSED,
    };
    FileCompressionType::from(variant).convert_stream(bytes)
}

/// Whether a file of this name is compressed.
#[must_use]
pub fn is_gzip(name: &str) -> bool {
    name.ends_with(GZIP)
}
