//! Keys as bytes, for the metastore: the encoding's id, the number of keys, the keys, a checksum.

use xxhash_rust::xxh64::xxh64;

use super::encoder::{Key, KeyEncoding};
use super::store::KeyStore;

const HEADER: usize = 1 + 8;
const CHECKSUM: usize = 8;

/// The bytes of a list of keys.
pub(crate) fn encode(keys: &KeyStore) -> Vec<u8> {
    let mut bytes = vec![keys.encoding().id()];
    bytes.extend_from_slice(&(keys.len() as u64).to_le_bytes());
    for key in keys.iter() {
        match key {
            Key::Int64(value) => bytes.extend_from_slice(&value.to_le_bytes()),
            Key::Bytes(key) => {
                bytes.extend_from_slice(&(key.len() as u32).to_le_bytes());
                bytes.extend_from_slice(key);
            }
        }
    }
    let checksum = xxh64(&bytes, 0);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes
}

/// The inverse of [`encode`]; the message says what is wrong with the bytes.
pub(crate) fn decode(bytes: &[u8], expected: KeyEncoding) -> Result<KeyStore, String> {
    let body = bytes.len().checked_sub(CHECKSUM).filter(|body| *body >= HEADER).ok_or("it is cut short")?;
    let (body, checksum) = bytes.split_at(body);
    if xxh64(body, 0).to_le_bytes() != checksum {
        return Err("its checksum does not fit".to_owned());
    }
    if body[0] != expected.id() {
        return Err(format!("it has key encoding {} and the table has {}", body[0], expected.id()));
    }
    let mut rest = &body[1..];
    let mut take = |length: usize| -> Result<&[u8], String> {
        let taken = rest.get(..length).ok_or("it is cut short")?;
        rest = &rest[length..];
        Ok(taken)
    };
    let count = u64::from_le_bytes(array(take(8)?));
    let mut keys = KeyStore::new(expected);
    for _ in 0..count {
        match expected {
            KeyEncoding::Int64 => keys.push(Key::Int64(i64::from_le_bytes(array(take(8)?)))),
            KeyEncoding::Rows => {
                let length = u32::from_le_bytes(array(take(4)?));
                keys.push(Key::Bytes(take(length as usize)?));
            }
        }
    }
    if rest.is_empty() { Ok(keys) } else { Err(format!("{} bytes too many", rest.len())) }
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(bytes);
    array
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn store(encoding: KeyEncoding, keys: &[Vec<u8>]) -> KeyStore {
        let mut store = KeyStore::new(encoding);
        for (number, key) in keys.iter().enumerate() {
            match encoding {
                KeyEncoding::Int64 => store.push(Key::Int64(number as i64 - 3)),
                KeyEncoding::Rows => store.push(Key::Bytes(key)),
            }
        }
        store
    }

    proptest! {
        #[test]
        fn keys_come_back_and_damage_is_noticed(
            keys in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..9), 0..20),
            at in any::<prop::sample::Index>(),
            bit in 0u8..8,
        ) {
            for encoding in KeyEncoding::ALL {
                let store = store(encoding, &keys);
                let mut bytes = encode(&store);
                let back = decode(&bytes, encoding).unwrap();
                prop_assert_eq!(back.len(), store.len());
                prop_assert!(back.iter().eq(store.iter()));
                let at = at.index(bytes.len());
                prop_assert!(decode(&bytes[..at], encoding).is_err());
                bytes[at] ^= 1 << bit;
                prop_assert!(decode(&bytes, encoding).is_err());
            }
        }
    }

    #[test]
    fn another_encoding_is_named() {
        let bytes = encode(&KeyStore::new(KeyEncoding::Rows));
        assert_eq!(decode(&bytes, KeyEncoding::Int64).unwrap_err(), "it has key encoding 1 and the table has 2");
    }
}
