//! A hash table from keys to dense numbers.

use super::encoder::{Key, KeyEncoding};
use super::store::KeyStore;

const EMPTY: u32 = u32::MAX;

/// Numbers keys from 0 in the order of their arrival. What belongs to a key is kept by the caller, in a vector
/// indexed by its number. Keys are never taken out. At most 2³² − 1 keys.
#[derive(Debug, Clone)]
pub(crate) struct KeyMap {
    keys: KeyStore,
    /// Linear probing; at most three quarters are in use.
    slots: Vec<u32>,
}

impl KeyMap {
    pub(crate) fn new(encoding: KeyEncoding) -> Self {
        Self { keys: KeyStore::new(encoding), slots: Vec::new() }
    }

    pub(crate) fn keys(&self) -> &KeyStore {
        &self.keys
    }

    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// The number of a key.
    pub(crate) fn get(&self, key: Key<'_>) -> Option<usize> {
        if self.slots.is_empty() {
            return None;
        }
        match self.slots[self.probe(key)] {
            EMPTY => None,
            number => Some(number as usize),
        }
    }

    /// The number of a key, and whether it is new.
    pub(crate) fn insert(&mut self, key: Key<'_>) -> (usize, bool) {
        if (self.len() + 1) * 4 > self.slots.len() * 3 {
            self.grow();
        }
        let slot = self.probe(key);
        match self.slots[slot] {
            EMPTY => {
                let number = self.len();
                self.keys.push(key);
                self.slots[slot] = u32::try_from(number).unwrap_or(EMPTY);
                (number, true)
            }
            number => (number as usize, false),
        }
    }

    /// The slot that holds the key, or the empty one where it would go.
    fn probe(&self, key: Key<'_>) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = key.hash() as usize & mask;
        while self.slots[slot] != EMPTY && self.keys.get(self.slots[slot] as usize) != key {
            slot = (slot + 1) & mask;
        }
        slot
    }

    fn grow(&mut self) {
        let size = (self.slots.len() * 2).max(16);
        self.slots = vec![EMPTY; size];
        let mask = size - 1;
        for (number, key) in self.keys.iter().enumerate() {
            let mut slot = key.hash() as usize & mask;
            while self.slots[slot] != EMPTY {
                slot = (slot + 1) & mask;
            }
            self.slots[slot] = number as u32;
        }
    }

    /// Bytes in memory.
    pub(crate) fn memory(&self) -> usize {
        self.keys.memory() + self.slots.capacity() * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn behaves_like_a_map(texts in prop::collection::vec("[a-d]{0,4}", 0..300)) {
            let mut map = KeyMap::new(KeyEncoding::Rows);
            let mut model: HashMap<String, usize> = HashMap::new();
            for text in &texts {
                let next = model.len();
                let expected = (*model.entry(text.clone()).or_insert(next), model.len() > next);
                prop_assert_eq!(map.insert(Key::Bytes(text.as_bytes())), expected);
            }
            prop_assert_eq!(map.len(), model.len());
            for (text, number) in &model {
                prop_assert_eq!(map.get(Key::Bytes(text.as_bytes())), Some(*number));
            }
            prop_assert_eq!(map.get(Key::Bytes(b"e")), None);
        }
    }

    #[test]
    fn a_million_integers_take_few_bytes() {
        let mut map = KeyMap::new(KeyEncoding::Int64);
        for value in 0..1_000_000i64 {
            map.insert(Key::Int64(value * 1_000_003));
        }
        assert_eq!(map.len(), 1_000_000);
        assert_eq!(map.get(Key::Int64(999_999 * 1_000_003)), Some(999_999));
        assert!(map.memory() < 20_000_000, "{} bytes", map.memory());
    }
}
