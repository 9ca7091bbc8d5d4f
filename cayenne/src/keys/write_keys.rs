//! The keys of one write: what it leaves of each after repeats of its own, and what that means for stored rows.

use super::encoder::{Key, KeyEncoding};
use super::map::KeyMap;
use super::memory::KeyMemory;
use super::position::Position;
use super::store::KeyStore;
use super::times::Times;

/// What happens to rows whose key is there already, in the table or earlier in the same write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyRule {
    /// The row that arrives last replaces the others, as by SQL `INSERT`.
    LastArrival,
    /// The row with the newest time stays; of several the one that arrived last. NULL is older than any time.
    NewestTime,
    /// A key must not be there already: the write fails. Rows that the same write deletes do not count, so this is
    /// also the rule of an `UPDATE`, which never replaces another row.
    Unique,
}

impl KeyRule {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            KeyRule::LastArrival => "last",
            KeyRule::NewestTime => "newest",
            KeyRule::Unique => "unique",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        [KeyRule::LastArrival, KeyRule::NewestTime, KeyRule::Unique].into_iter().find(|rule| rule.as_str() == text)
    }
}

/// What became of a row when it came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// The first of its key.
    First,
    /// It takes the place of an earlier row of the same write.
    Replaces(Position),
    /// An earlier row of the same write is newer.
    Late,
    /// The rule allows no second row.
    Repeated,
}

/// A row that is stored and visible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoredRow {
    pub(crate) position: Position,
    /// Its time, where times matter.
    pub(crate) time: Option<i64>,
}

/// What a key of a write means for the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A row with a new key.
    Inserted,
    /// The row takes the place of the stored one.
    Replaced,
    /// The stored row is newer: it stays, and the row of the write is hidden.
    Superseded,
    /// The stored row goes and none comes.
    Deleted,
    /// There was no row and there is none.
    Nothing,
    /// The rule allows no row with a stored key.
    Refused,
}

/// Each key of a write once.
#[derive(Debug)]
pub(crate) struct WriteKeys {
    account: KeyMemory,
    rule: KeyRule,
    map: KeyMap,
    /// Where the row is that stands for the key; nowhere if the write deleted it last.
    rows: Vec<Position>,
    /// Times of these rows in a table that has them, whether or not the rule of this write goes by them: that of the next
    /// one may.
    times: Option<Times>,
    /// Whether the write deletes the key, before the row that stands for it if there is one.
    deletes: Vec<bool>,
}

impl WriteKeys {
    pub(crate) fn new(encoding: KeyEncoding, rule: KeyRule, timed: bool, account: KeyMemory) -> Self {
        let times = timed.then(Times::default);
        Self { account, rule, map: KeyMap::new(encoding), rows: Vec::new(), times, deletes: Vec::new() }
    }

    /// Takes in a row; rows come in the order of their arrival.
    pub(crate) fn arrive(&mut self, key: Key<'_>, at: Position, time: Option<i64>) -> Arrival {
        let (number, new) = self.map.insert(key);
        if new {
            self.rows.push(at);
            self.deletes.push(false);
            if let Some(times) = &mut self.times {
                times.push(time);
            }
            return Arrival::First;
        }
        let before = self.rows[number];
        if before != Position::NOWHERE {
            match self.rule {
                KeyRule::Unique => return Arrival::Repeated,
                KeyRule::NewestTime if time < self.time(number) => return Arrival::Late,
                KeyRule::NewestTime | KeyRule::LastArrival => {}
            }
        }
        self.rows[number] = at;
        if let Some(times) = &mut self.times {
            times.set(number, time);
        }
        if before == Position::NOWHERE { Arrival::First } else { Arrival::Replaces(before) }
    }

    /// Takes in a deletion. Gives the row of the same write that goes with it.
    pub(crate) fn delete(&mut self, key: Key<'_>) -> Option<Position> {
        let (number, new) = self.map.insert(key);
        if new {
            self.rows.push(Position::NOWHERE);
            self.deletes.push(true);
            if let Some(times) = &mut self.times {
                times.push(None);
            }
            return None;
        }
        self.deletes[number] = true;
        let before = std::mem::replace(&mut self.rows[number], Position::NOWHERE);
        (before != Position::NOWHERE).then_some(before)
    }

    /// What a key means for the table, given the stored row.
    pub(crate) fn outcome(&self, number: usize, stored: Option<StoredRow>) -> Outcome {
        let comes = self.rows[number] != Position::NOWHERE;
        match (stored, comes) {
            (None, true) => Outcome::Inserted,
            (None, false) => Outcome::Nothing,
            (Some(_), false) => Outcome::Deleted,
            (Some(_), true) if self.deletes[number] => Outcome::Replaced,
            (Some(stored), true) => match self.rule {
                KeyRule::LastArrival => Outcome::Replaced,
                KeyRule::NewestTime if self.time(number) < stored.time => Outcome::Superseded,
                KeyRule::NewestTime => Outcome::Replaced,
                KeyRule::Unique => Outcome::Refused,
            },
        }
    }

    pub(crate) fn keys(&self) -> &KeyStore {
        self.map.keys()
    }

    pub(crate) fn len(&self) -> usize {
        self.map.len()
    }

    /// The number of a key.
    pub(crate) fn number(&self, key: Key<'_>) -> Option<usize> {
        self.map.get(key)
    }

    /// The row that stands for a key.
    pub(crate) fn row(&self, number: usize) -> Option<Position> {
        let row = self.rows[number];
        (row != Position::NOWHERE).then_some(row)
    }

    /// Its time.
    pub(crate) fn time(&self, number: usize) -> Option<i64> {
        self.times.as_ref().and_then(|times| times.get(number))
    }

    /// Whether there is memory for them; if so, it is accounted.
    pub(crate) fn fit(&self) -> bool {
        self.account.hold(self.memory())
    }

    /// Accounts for them, whether or not there is room.
    pub(crate) fn note(&self) {
        self.account.note(self.memory());
    }

    /// Bytes in memory.
    pub(crate) fn memory(&self) -> usize {
        self.map.memory()
            + self.rows.capacity() * size_of::<Position>()
            + self.times.as_ref().map_or(0, Times::memory)
            + self.deletes.capacity() * size_of::<bool>()
    }
}

/// A share of all keys: those whose hash leaves a certain rest. What does not fit in memory is done share by share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyShare {
    pub(crate) index: u64,
    pub(crate) of: u64,
}

impl KeyShare {
    pub(crate) const ALL: Self = Self { index: 0, of: 1 };

    pub(crate) fn holds(self, hash: u64) -> bool {
        // Not the low bits: those place keys in tables, which would then fill in lumps.
        (hash >> 40) % self.of == self.index
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Event {
        Row { key: i64, time: Option<i64> },
        Delete { key: i64 },
    }

    fn event() -> impl Strategy<Value = Event> {
        prop_oneof![
            4 => (0i64..6, prop::option::of(0i64..4)).prop_map(|(key, time)| Event::Row { key, time }),
            1 => (0i64..6).prop_map(|key| Event::Delete { key }),
        ]
    }

    /// One row after the other, each as if it were a write of its own.
    fn one_by_one(
        rule: KeyRule,
        stored: &BTreeMap<i64, (u32, Option<i64>)>,
        events: &[Event],
    ) -> BTreeMap<i64, (u32, Option<i64>)> {
        let mut table = stored.clone();
        for (number, event) in events.iter().enumerate() {
            match event {
                Event::Delete { key } => {
                    table.remove(key);
                }
                Event::Row { key, time } => {
                    let newer = table.get(key).is_none_or(|(_, stored)| time >= stored);
                    if rule == KeyRule::LastArrival || newer {
                        table.insert(*key, (100 + number as u32, *time));
                    }
                }
            }
        }
        table
    }

    proptest! {
        #[test]
        fn a_write_as_a_whole_is_as_its_rows_one_by_one(
            stored in prop::collection::btree_map(0i64..6, prop::option::of(0i64..4), 0..6),
            events in prop::collection::vec(event(), 0..20),
            by_time in any::<bool>(),
        ) {
            let rule = if by_time { KeyRule::NewestTime } else { KeyRule::LastArrival };
            let stored: BTreeMap<i64, (u32, Option<i64>)> =
                stored.into_iter().map(|(key, time)| (key, (key as u32, time))).collect();
            let mut keys = WriteKeys::new(KeyEncoding::Int64, rule, true, KeyMemory::unaccounted());
            let mut hidden = Vec::new();
            for (number, event) in events.iter().enumerate() {
                let at = Position { file: 0, row: 100 + number as u32 };
                match event {
                    Event::Row { key, time } => match keys.arrive(Key::Int64(*key), at, *time) {
                        Arrival::First => {}
                        Arrival::Replaces(before) => hidden.push(before.row),
                        Arrival::Late => hidden.push(at.row),
                        Arrival::Repeated => panic!("not under this rule"),
                    },
                    Event::Delete { key } => hidden.extend(keys.delete(Key::Int64(*key)).map(|row| row.row)),
                }
            }
            let mut table = stored.clone();
            for number in 0..keys.len() {
                let Key::Int64(key) = keys.keys().get(number) else { unreachable!() };
                let row = stored.get(&key).map(|(row, time)| StoredRow {
                    position: Position { file: 1, row: *row },
                    time: *time,
                });
                match keys.outcome(number, row) {
                    Outcome::Inserted | Outcome::Replaced => {
                        let row = keys.row(number).unwrap().row;
                        prop_assert!(!hidden.contains(&row));
                        let Event::Row { time, .. } = &events[row as usize - 100] else { unreachable!() };
                        table.insert(key, (row, *time));
                    }
                    Outcome::Superseded => hidden.push(keys.row(number).unwrap().row),
                    Outcome::Deleted => {
                        table.remove(&key);
                    }
                    Outcome::Nothing => {}
                    Outcome::Refused => panic!("not under this rule"),
                }
            }
            // Rows that are not the table's are hidden.
            let shown = events.iter().filter(|event| matches!(event, Event::Row { .. })).count() - hidden.len();
            prop_assert_eq!(shown, table.values().filter(|(row, _)| *row >= 100).count());
            // A delete makes the order of times start anew, which only the whole write knows: a stored newer row
            // is gone by then.
            prop_assert_eq!(table, one_by_one(rule, &stored, &events));
        }
    }

    #[test]
    fn unique_refuses_repeats_and_stored_keys_but_not_what_the_write_deletes() {
        let at = |row| Position { file: 0, row };
        let stored = Some(StoredRow { position: Position { file: 7, row: 7 }, time: None });
        let mut keys = WriteKeys::new(KeyEncoding::Int64, KeyRule::Unique, false, KeyMemory::unaccounted());
        assert_eq!(keys.arrive(Key::Int64(1), at(0), None), Arrival::First);
        assert_eq!(keys.arrive(Key::Int64(1), at(1), None), Arrival::Repeated);
        assert_eq!(keys.outcome(0, stored), Outcome::Refused);
        assert_eq!(keys.outcome(0, None), Outcome::Inserted);
        assert_eq!(keys.delete(Key::Int64(2)), None);
        assert_eq!(keys.arrive(Key::Int64(2), at(2), None), Arrival::First);
        assert_eq!(keys.outcome(1, stored), Outcome::Replaced);
        assert_eq!(keys.delete(Key::Int64(1)), Some(at(0)));
        assert_eq!(keys.outcome(0, stored), Outcome::Deleted);
    }

    #[test]
    fn shares_cut_all_keys_into_disjoint_sets() {
        let shares: Vec<KeyShare> = (0..5).map(|index| KeyShare { index, of: 5 }).collect();
        let mut sizes = [0; 5];
        for value in 0..10_000 {
            let hash = Key::Int64(value).hash();
            let holding: Vec<_> = shares.iter().filter(|share| share.holds(hash)).collect();
            assert_eq!(holding.len(), 1);
            sizes[holding[0].index as usize] += 1;
            assert!(KeyShare::ALL.holds(hash));
        }
        assert!(sizes.iter().all(|size| (1_500..2_500).contains(size)), "{sizes:?}");
    }
}
