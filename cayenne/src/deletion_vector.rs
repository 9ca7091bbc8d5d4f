//! Positions of a data file whose rows are deleted.
//!
//! A vector is stored with a SHA-256 over the name of its file and its bytes, so that one that was changed, cut or
//! attached to another file is noticed. It is never treated as empty: without it deleted rows would come back.

use roaring::RoaringTreemap;
use sha2::{Digest, Sha256};
use vortex::buffer::Buffer;
use vortex::error::VortexResult;
use vortex::scan::selection::Selection;
use vortex::scan::strict_sorted_buffer::StrictSortedBuffer;

/// The deleted positions of one file, at least one. Immutable; more deletes make a new vector.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DeletionVector {
    positions: RoaringTreemap,
}

/// A vector as it is stored.
#[derive(Debug, Clone)]
pub(crate) struct EncodedVector {
    pub(crate) bytes: Vec<u8>,
    pub(crate) sha256: [u8; 32],
}

impl DeletionVector {
    pub(crate) fn new(positions: RoaringTreemap) -> Self {
        Self { positions }
    }

    /// How many rows are deleted.
    pub(crate) fn rows(&self) -> u64 {
        self.positions.len()
    }

    pub(crate) fn positions(&self) -> &RoaringTreemap {
        &self.positions
    }

    /// The rows that are left, for a scan of the file.
    pub(crate) fn selection(&self) -> VortexResult<Selection> {
        // A sorted list, not a bitmap: the library's bitmaps are of another version of the crate, and a list is shared by all pieces.
        let positions: Buffer<u64> = self.positions.iter().collect();
        StrictSortedBuffer::try_new(positions).map(Selection::ExcludeByIndex)
    }

    /// `file` is the file's name, which the checksum covers.
    pub(crate) fn encode(&self, file: &str) -> std::io::Result<EncodedVector> {
        let mut bytes = Vec::with_capacity(self.positions.serialized_size());
        self.positions.serialize_into(&mut bytes)?;
        let sha256 = checksum(file, &bytes);
        Ok(EncodedVector { bytes, sha256 })
    }

    /// The inverse of [`encode`](Self::encode) for a file of `file_rows` rows; the message says what is wrong.
    pub(crate) fn decode(file: &str, file_rows: u64, bytes: &[u8], sha256: &[u8]) -> Result<Self, String> {
        if checksum(file, bytes) != sha256 {
            return Err("its SHA-256 differs from the recorded one".to_owned());
        }
        let positions = RoaringTreemap::deserialize_from(bytes).map_err(|error| error.to_string())?;
        match positions.max() {
            None => Err("it is empty".to_owned()),
            Some(last) if last >= file_rows => {
                Err(format!("it names position {last} and the file has {file_rows} rows"))
            }
            Some(_) => Ok(Self { positions }),
        }
    }
}

fn checksum(file: &str, bytes: &[u8]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    hasher.update(file.as_bytes());
    hasher.update([0]);
    hasher.update(bytes);
    hasher.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vector(positions: &[u64]) -> DeletionVector {
        DeletionVector::new(positions.iter().copied().collect())
    }

    #[test]
    fn comes_back_as_it_was() {
        let vector = vector(&[0, 7, 8, 1 << 33]);
        let EncodedVector { bytes, sha256 } = vector.encode("files/a.vortex").unwrap();
        let back = DeletionVector::decode("files/a.vortex", (1 << 33) + 1, &bytes, &sha256).unwrap();
        assert_eq!(back, vector);
        assert_eq!(back.rows(), 4);
    }

    #[test]
    fn is_refused_when_it_is_not_whole_or_not_of_this_file() {
        let EncodedVector { bytes, sha256 } = vector(&[3, 99]).encode("files/a.vortex").unwrap();
        let decode = |file: &str, rows, bytes: &[u8]| DeletionVector::decode(file, rows, bytes, &sha256);
        assert!(decode("files/a.vortex", 100, &bytes).is_ok());
        assert!(decode("files/b.vortex", 100, &bytes).is_err());
        assert!(decode("files/a.vortex", 99, &bytes).unwrap_err().contains("position 99"));
        assert!(decode("files/a.vortex", 100, &bytes[..bytes.len() - 1]).is_err());
        for index in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[index] ^= 1;
            assert!(decode("files/a.vortex", 100, &flipped).is_err());
        }
        let empty = DeletionVector::new(RoaringTreemap::new()).encode("files/a.vortex").unwrap();
        assert!(DeletionVector::decode("files/a.vortex", 100, &empty.bytes, &empty.sha256).is_err());
    }
}
