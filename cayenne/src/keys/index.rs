//! Where the rows of stored keys are, within a budget of memory.
//!
//! As long as it fits, the index is exact: each key with the position of its row. When it does not, it becomes one
//! Bloom filter per file, and a key that may be in a file is looked for there. Filters are made smaller as the table
//! grows, so the budget holds, and what is said stays true.
//!
//! Rows that are gone are not taken out: a position counts only while its file is visible and the row is not
//! deleted, which the caller knows. A key that is visible is always found.

use std::collections::HashMap;

use uuid::Uuid;

use super::bloom::BloomFilter;
use super::encoder::{Key, KeyEncoding};
use super::map::KeyMap;
use super::memory::KeyMemory;
use super::position::Position;
use super::times::Times;
use super::write_keys::StoredRow;

/// The keys of the newest version of a partition.
#[derive(Debug)]
pub(crate) struct KeyIndex {
    account: KeyMemory,
    timed: bool,
    files: Vec<IndexedFile>,
    numbers: HashMap<Uuid, u32>,
    content: Content,
}

#[derive(Debug)]
struct IndexedFile {
    id: Uuid,
    rows: u64,
}

#[derive(Debug)]
enum Content {
    Exact {
        map: KeyMap,
        rows: Vec<Position>,
        times: Times,
    },
    /// One filter per file.
    Filtered(Vec<BloomFilter>),
}

/// What the index knows of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// No visible row has it.
    Absent,
    /// If a visible row has it, then this one.
    At(StoredRow),
    /// Ask the files for which [`KeyIndex::may_be_in`] holds.
    Unknown,
}

impl KeyIndex {
    /// An empty index that holds about as many bytes as it may.
    pub(crate) fn new(encoding: KeyEncoding, timed: bool, account: KeyMemory) -> Self {
        let content = Content::Exact { map: KeyMap::new(encoding), rows: Vec::new(), times: Times::default() };
        Self { account, timed, files: Vec::new(), numbers: HashMap::new(), content }
    }

    /// The number of a file in positions. A file must be here before its keys.
    pub(crate) fn add_file(&mut self, id: Uuid, rows: u64) -> u32 {
        if let Some(number) = self.numbers.get(&id) {
            return *number;
        }
        let number = self.files.len() as u32;
        self.files.push(IndexedFile { id, rows });
        self.numbers.insert(id, number);
        if let Content::Filtered(filters) = &mut self.content {
            filters.push(BloomFilter::with_capacity(rows));
            self.fit();
        }
        number
    }

    pub(crate) fn number_of(&self, id: Uuid) -> Option<u32> {
        self.numbers.get(&id).copied()
    }

    /// The file with this number.
    pub(crate) fn file(&self, number: u32) -> Uuid {
        self.files[number as usize].id
    }

    /// The newest row of a key is here.
    pub(crate) fn insert(&mut self, key: Key<'_>, at: Position, time: Option<i64>) {
        match &mut self.content {
            Content::Exact { map, rows, times } => {
                let (number, new) = map.insert(key);
                if new {
                    rows.push(at);
                    if self.timed {
                        times.push(time);
                    }
                    if !self.account.hold(self.memory()) {
                        self.become_filtered();
                    }
                } else {
                    rows[number] = at;
                    if self.timed {
                        times.set(number, time);
                    }
                }
            }
            Content::Filtered(filters) => filters[at.file as usize].add(key),
        }
    }

    pub(crate) fn find(&self, key: Key<'_>) -> Found {
        match &self.content {
            Content::Exact { map, rows, times } => match map.get(key) {
                None => Found::Absent,
                Some(number) => Found::At(StoredRow {
                    position: rows[number],
                    time: if self.timed { times.get(number) } else { None },
                }),
            },
            Content::Filtered(filters) => {
                let hash = key.hash();
                if filters.iter().any(|filter| filter.may_contain(hash)) { Found::Unknown } else { Found::Absent }
            }
        }
    }

    /// Whether a file may hold a key.
    pub(crate) fn may_be_in(&self, file: u32, key: Key<'_>) -> bool {
        match &self.content {
            Content::Exact { .. } => self.find(key).is_at(file),
            Content::Filtered(filters) => filters[file as usize].may_contain(key.hash()),
        }
    }

    pub(crate) fn is_exact(&self) -> bool {
        matches!(self.content, Content::Exact { .. })
    }

    /// Whether more than half of it is about rows that are gone.
    pub(crate) fn is_stale(&self, visible_files: usize, visible_rows: u64) -> bool {
        const SLACK: u64 = 4096;
        let keys = match &self.content {
            Content::Exact { map, .. } => map.len() as u64,
            Content::Filtered(_) => 0,
        };
        keys > visible_rows * 2 + SLACK || self.files.len() > visible_files * 2 + 64
    }

    /// Bytes in memory.
    pub(crate) fn memory(&self) -> usize {
        match &self.content {
            Content::Exact { map, rows, times } => {
                map.memory() + rows.capacity() * size_of::<Position>() + times.memory()
            }
            Content::Filtered(filters) => filters.iter().map(BloomFilter::memory).sum(),
        }
    }

    fn become_filtered(&mut self) {
        let mut filters: Vec<BloomFilter> =
            self.files.iter().map(|file| BloomFilter::with_capacity(file.rows)).collect();
        if let Content::Exact { map, rows, .. } = &self.content {
            for (key, at) in map.keys().iter().zip(rows) {
                filters[at.file as usize].add(key);
            }
        }
        self.content = Content::Filtered(filters);
        self.fit();
    }

    /// Makes filters fit into what may be held, and accounts for them.
    fn fit(&mut self) {
        if !self.account.hold(self.memory()) {
            self.shrink(self.account.limit());
        }
        self.account.note(self.memory());
    }

    /// Folds the largest filters until all fit.
    fn shrink(&mut self, budget: usize) {
        let Content::Filtered(filters) = &mut self.content else { return };
        let mut memory: usize = filters.iter().map(BloomFilter::memory).sum();
        while memory > budget {
            let largest = filters.iter().map(BloomFilter::memory).max().unwrap_or(0);
            let mut folded = false;
            for filter in filters.iter_mut().filter(|filter| filter.memory() == largest) {
                if memory > budget && filter.fold() {
                    memory -= largest - filter.memory();
                    folded = true;
                }
            }
            if !folded {
                return;
            }
        }
    }
}

impl Found {
    fn is_at(self, file: u32) -> bool {
        matches!(self, Found::At(row) if row.position.file == file)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever the budget: a key that is there is never said to be absent.
        #[test]
        fn visible_keys_are_always_found(
            files in prop::collection::vec(prop::collection::vec(0i64..3000, 1..1500), 1..6),
            budget in prop::sample::select(vec![0usize, 200, 4_000, 40_000, 1 << 30]),
        ) {
            let mut index = KeyIndex::new(KeyEncoding::Int64, true, KeyMemory::new(budget, None));
            let mut model: HashMap<i64, StoredRow> = HashMap::new();
            for keys in &files {
                let id = Uuid::new_v4();
                let file = index.add_file(id, keys.len() as u64);
                prop_assert_eq!(index.add_file(id, 0), file);
                prop_assert_eq!(index.file(file), id);
                for (row, key) in keys.iter().enumerate() {
                    let stored = StoredRow { position: Position { file, row: row as u32 }, time: Some(*key) };
                    index.insert(Key::Int64(*key), stored.position, stored.time);
                    model.insert(*key, stored);
                }
            }
            for (key, stored) in &model {
                let key = Key::Int64(*key);
                prop_assert!(index.may_be_in(stored.position.file, key));
                match index.find(key) {
                    Found::At(at) => prop_assert_eq!(at, *stored),
                    Found::Unknown => prop_assert!(!index.is_exact()),
                    Found::Absent => prop_assert!(false, "it is there"),
                }
            }
            if index.is_exact() {
                prop_assert_eq!(index.find(Key::Int64(-1)), Found::Absent);
            } else {
                prop_assert!(index.memory() <= budget.max(8 * files.len()), "{} > {}", index.memory(), budget);
            }
        }
    }

    #[test]
    fn filters_keep_most_foreign_keys_away() {
        let mut index = KeyIndex::new(KeyEncoding::Int64, false, KeyMemory::new(300_000, None));
        let file = index.add_file(Uuid::new_v4(), 100_000);
        for value in 0..100_000 {
            index.insert(Key::Int64(value), Position { file, row: value as u32 }, None);
        }
        assert!(!index.is_exact());
        let wrong = (100_000..200_000).filter(|value| index.find(Key::Int64(*value)) != Found::Absent).count();
        assert!(wrong < 3_000, "{wrong} of 100,000");
    }

    #[test]
    fn an_index_of_rows_that_are_gone_is_stale() {
        let mut index = KeyIndex::new(KeyEncoding::Int64, false, KeyMemory::new(1 << 30, None));
        let file = index.add_file(Uuid::new_v4(), 10_000);
        for value in 0..10_000 {
            index.insert(Key::Int64(value), Position { file, row: value as u32 }, None);
        }
        assert!(!index.is_stale(1, 10_000));
        assert!(index.is_stale(1, 100));
    }
}
