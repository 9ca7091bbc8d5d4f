//! Keys one after the other, as bytes in one buffer or as integers.

use super::encoder::{Key, KeyEncoding};

/// A list of keys of one encoding.
#[derive(Debug, Clone)]
pub(crate) enum KeyStore {
    Int64(Vec<i64>),
    /// Key `i` ends at `ends[i]` and begins where the one before it ends.
    Rows {
        data: Vec<u8>,
        ends: Vec<u64>,
    },
}

impl KeyStore {
    pub(crate) fn new(encoding: KeyEncoding) -> Self {
        match encoding {
            KeyEncoding::Int64 => KeyStore::Int64(Vec::new()),
            KeyEncoding::Rows => KeyStore::Rows { data: Vec::new(), ends: Vec::new() },
        }
    }

    pub(crate) fn encoding(&self) -> KeyEncoding {
        match self {
            KeyStore::Int64(_) => KeyEncoding::Int64,
            KeyStore::Rows { .. } => KeyEncoding::Rows,
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            KeyStore::Int64(values) => values.len(),
            KeyStore::Rows { ends, .. } => ends.len(),
        }
    }

    pub(crate) fn get(&self, index: usize) -> Key<'_> {
        match self {
            KeyStore::Int64(values) => Key::Int64(values[index]),
            KeyStore::Rows { data, ends } => {
                let start = if index == 0 { 0 } else { ends[index - 1] };
                Key::Bytes(&data[start as usize..ends[index] as usize])
            }
        }
    }

    /// Keys of a table all have one encoding.
    pub(crate) fn push(&mut self, key: Key<'_>) {
        match (self, key) {
            (KeyStore::Int64(values), Key::Int64(value)) => values.push(value),
            (KeyStore::Rows { data, ends }, Key::Bytes(bytes)) => {
                data.extend_from_slice(bytes);
                ends.push(data.len() as u64);
            }
            _ => debug_assert!(false, "a key of another encoding"),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Key<'_>> {
        (0..self.len()).map(|index| self.get(index))
    }

    /// Bytes in memory.
    pub(crate) fn memory(&self) -> usize {
        match self {
            KeyStore::Int64(values) => values.capacity() * size_of::<i64>(),
            KeyStore::Rows { data, ends } => data.capacity() + ends.capacity() * size_of::<u64>(),
        }
    }
}
