//! Histories of transactions, and whether they are snapshot-isolated.
//!
//! Every row has a key, a version that each change of it makes one larger, and the number of the transaction that made it. So
//! a read says whose writes it saw, and the checks need no search:
//!
//! * each version of a row is made by exactly one applied transaction (no lost update, nothing applied twice);
//! * what is read was applied (no dirty read);
//! * who sees one write of a transaction sees all of them, and all that it saw (no read skew, no fractured read);
//! * of two reads one is the newer one in all rows (no long fork);
//! * who begins after another has ended sees at least what that one saw, and what it was told to be applied.
use std::collections::{BTreeMap, BTreeSet};

/// Key of a row.
pub type Key = u64;

/// A row as it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// 0 before the first change.
    pub version: u64,
    /// The transaction that made it; 0 before the first change.
    pub writer: u64,
}

/// What a client knows of the end of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Applied.
    Applied,
    /// Nothing of it is there.
    NotApplied,
    /// Nobody could say.
    Unknown,
}

/// One transaction.
#[derive(Debug, Clone)]
pub struct Transaction {
    /// Its number, from 1.
    pub number: u64,
    /// When it began, on one clock for all clients.
    pub began: u64,
    /// When its outcome came.
    pub ended: u64,
    /// Rows that it read.
    pub reads: BTreeMap<Key, Seen>,
    /// The new version of each row that it wrote.
    pub writes: BTreeMap<Key, u64>,
    /// What became of it.
    pub outcome: Outcome,
}

/// What is wrong with a history whose rows end like `last`; nothing if it is snapshot-isolated.
#[must_use]
pub fn violations(history: &[Transaction], last: &BTreeMap<Key, Seen>) -> Vec<String> {
    let mut found = Vec::new();
    let by_number: BTreeMap<u64, &Transaction> = history.iter().map(|t| (t.number, t)).collect();
    let applied = applied(history, last);
    check_versions(history, last, &applied, &mut found);
    for reader in history {
        check_read(reader, &by_number, &applied, &mut found);
    }
    check_order(history, &applied, &mut found);
    found
}

/// Numbers of the transactions that were applied: those that are said to be, and of the others whose outcome nobody knows those
/// whose rows were seen, or are needed between others.
fn applied(history: &[Transaction], last: &BTreeMap<Key, Seen>) -> BTreeSet<u64> {
    let mut applied: BTreeSet<u64> =
        history.iter().filter(|t| t.outcome == Outcome::Applied).map(|t| t.number).collect();
    let seen: BTreeSet<u64> =
        history.iter().flat_map(|t| t.reads.values()).chain(last.values()).map(|seen| seen.writer).collect();
    let unknown = || history.iter().filter(|t| t.outcome == Outcome::Unknown);
    applied.extend(unknown().map(|t| t.number).filter(|number| seen.contains(number)));
    for candidate in unknown() {
        let needed = candidate.writes.iter().any(|(key, version)| {
            let others = history.iter().filter(|t| applied.contains(&t.number));
            let made = others.filter_map(|t| t.writes.get(key)).any(|other| other == version);
            !made && last.get(key).is_some_and(|last| last.version >= *version)
        });
        if needed {
            applied.insert(candidate.number);
        }
    }
    applied
}

fn check_versions(
    history: &[Transaction],
    last: &BTreeMap<Key, Seen>,
    applied: &BTreeSet<u64>,
    found: &mut Vec<String>,
) {
    let mut writers: BTreeMap<(Key, u64), Vec<u64>> = BTreeMap::new();
    for transaction in history.iter().filter(|t| applied.contains(&t.number)) {
        for (key, version) in &transaction.writes {
            writers.entry((*key, *version)).or_default().push(transaction.number);
        }
    }
    for ((key, version), numbers) in &writers {
        if numbers.len() > 1 {
            found.push(format!("lost update: version {version} of row {key} is written by {numbers:?}"));
        }
        if last.get(key).is_none_or(|last| last.version < *version) {
            found.push(format!("lost write: version {version} of row {key}, by {numbers:?}, is not there at the end"));
        }
    }
    for (key, seen) in last {
        for version in 1..=seen.version {
            if !writers.contains_key(&(*key, version)) {
                found.push(format!("version {version} of row {key} was written by nobody who was told so"));
            }
        }
    }
}

/// What one transaction read is a state that there was: with each transaction that it saw, everything that one did and saw.
fn check_read(
    reader: &Transaction,
    by_number: &BTreeMap<u64, &Transaction>,
    applied: &BTreeSet<u64>,
    found: &mut Vec<String>,
) {
    let who = format!("transaction {}", reader.number);
    let mut seen: BTreeSet<u64> = BTreeSet::new();
    let mut new: Vec<u64> = reader.reads.values().map(|seen| seen.writer).filter(|writer| *writer != 0).collect();
    while let Some(writer) = new.pop() {
        if !seen.insert(writer) {
            continue;
        }
        let Some(writer) = by_number.get(&writer).filter(|writer| applied.contains(&writer.number)) else {
            found.push(format!("dirty read: {who} sees {writer}, which was not applied"));
            continue;
        };
        if writer.number == reader.number {
            found.push(format!("{who} saw its own write before it made it"));
            continue;
        }
        for (key, version) in &writer.writes {
            if reader.reads.get(key).is_some_and(|seen| seen.version < *version) {
                found.push(format!("read skew: {who} sees {}, but not its row {key}", writer.number));
            }
        }
        new.extend(writer.reads.values().map(|seen| seen.writer).filter(|writer| *writer != 0));
    }
    for (key, seen) in &reader.reads {
        let made = by_number.get(&seen.writer).and_then(|writer| writer.writes.get(key));
        if seen.writer != 0 && made != Some(&seen.version) {
            found
                .push(format!("{who} sees version {} of row {key}, which {} did not write", seen.version, seen.writer));
        }
    }
}

fn check_order(history: &[Transaction], applied: &BTreeSet<u64>, found: &mut Vec<String>) {
    for (index, one) in history.iter().enumerate() {
        for other in &history[index + 1..] {
            let common =
                || one.reads.iter().filter_map(|(key, seen)| Some((seen.version, other.reads.get(key)?.version)));
            if common().any(|(a, b)| a < b) && common().any(|(a, b)| a > b) {
                found.push(format!("long fork: {} and {} each see what the other does not", one.number, other.number));
            }
        }
        for later in history.iter().filter(|later| one.ended < later.began) {
            for (key, seen) in &later.reads {
                let told = one.outcome == Outcome::Applied && applied.contains(&one.number);
                let written = one.writes.get(key).filter(|_| told).copied();
                let known = written.max(one.reads.get(key).map(|seen| seen.version));
                if known.is_some_and(|known| seen.version < known) {
                    found.push(format!(
                        "stale read: {} sees version {} of row {key} after {} had ended, which knew version {known:?}",
                        later.number, seen.version, one.number
                    ));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Seen = Seen { version: 0, writer: 0 };

    fn seen(version: u64, writer: u64) -> Seen {
        Seen { version, writer }
    }

    /// A transaction in the time `number * 10 .. number * 10 + 5`.
    fn transaction(number: u64, reads: &[(Key, Seen)], writes: &[(Key, u64)]) -> Transaction {
        Transaction {
            number,
            began: number * 10,
            ended: number * 10 + 5,
            reads: reads.iter().copied().collect(),
            writes: writes.iter().copied().collect(),
            outcome: Outcome::Applied,
        }
    }

    /// All at the same time.
    fn concurrent(mut history: Vec<Transaction>) -> Vec<Transaction> {
        for transaction in &mut history {
            (transaction.began, transaction.ended) = (0, 100);
        }
        history
    }

    fn check(history: &[Transaction], last: &[(Key, Seen)], expected: &[&str]) {
        let found = violations(history, &last.iter().copied().collect());
        assert_eq!(found.len(), expected.len(), "{found:#?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.contains(expected), "{found} lacks {expected}");
        }
    }

    #[test]
    fn good_histories_pass() {
        check(&[], &[(1, FIRST)], &[]);
        let history = [
            transaction(1, &[(1, FIRST), (2, FIRST)], &[(1, 1), (2, 1)]),
            transaction(2, &[(1, seen(1, 1)), (3, FIRST)], &[(1, 2), (3, 1)]),
            transaction(3, &[(1, seen(2, 2)), (2, seen(1, 1)), (3, seen(1, 2))], &[]),
        ];
        check(&history, &[(1, seen(2, 2)), (2, seen(1, 1)), (3, seen(1, 2))], &[]);
        // Write skew is allowed: each reads what the other writes.
        let skew = concurrent(vec![
            transaction(1, &[(1, FIRST), (2, FIRST)], &[(1, 1)]),
            transaction(2, &[(1, FIRST), (2, FIRST)], &[(2, 1)]),
        ]);
        check(&skew, &[(1, seen(1, 1)), (2, seen(1, 2))], &[]);
    }

    #[test]
    fn lost_updates_and_lost_writes_are_found() {
        let both = concurrent(vec![transaction(1, &[(1, FIRST)], &[(1, 1)]), transaction(2, &[(1, FIRST)], &[(1, 1)])]);
        check(&both, &[(1, seen(1, 2))], &["lost update"]);
        check(&both[..1], &[(1, FIRST)], &["lost write"]);
        check(&[], &[(1, seen(1, 7))], &["by nobody"]);
    }

    #[test]
    fn dirty_reads_are_found_and_unknown_outcomes_are_either() {
        let mut history = vec![transaction(1, &[(1, FIRST)], &[(1, 1)]), transaction(2, &[(1, seen(1, 1))], &[])];
        history[0].outcome = Outcome::NotApplied;
        check(&history, &[(1, FIRST)], &["dirty read"]);
        history[0].outcome = Outcome::Unknown;
        check(&history, &[(1, seen(1, 1))], &[]);
        check(&history[..1], &[(1, FIRST)], &[]);
        // Seen by nobody, but the next version was made on top of it.
        history[1] = transaction(2, &[], &[(1, 2)]);
        check(&history, &[(1, seen(2, 2))], &[]);
    }

    #[test]
    fn read_skew_is_found_also_at_one_remove() {
        let writer = transaction(1, &[(1, FIRST), (2, FIRST)], &[(1, 1), (2, 1)]);
        let half = transaction(2, &[(1, seen(1, 1)), (2, FIRST)], &[]);
        let last = [(1, seen(1, 1)), (2, seen(1, 1))];
        check(&concurrent(vec![writer.clone(), half]), &last, &["read skew"]);
        // It sees the third, which saw the first, whose other row it does not see.
        let middle = transaction(3, &[(1, seen(1, 1)), (3, FIRST)], &[(3, 1)]);
        let half = transaction(4, &[(3, seen(1, 3)), (2, FIRST)], &[]);
        let last = [(1, seen(1, 1)), (2, seen(1, 1)), (3, seen(1, 3))];
        check(&concurrent(vec![writer, middle, half]), &last, &["read skew"]);
    }

    #[test]
    fn forks_and_stale_reads_are_found() {
        let writers = vec![transaction(1, &[], &[(1, 1)]), transaction(2, &[], &[(2, 1)])];
        let last = [(1, seen(1, 1)), (2, seen(1, 2))];
        let one = transaction(3, &[(1, seen(1, 1)), (2, FIRST)], &[]);
        let other = transaction(4, &[(1, FIRST), (2, seen(1, 2))], &[]);
        let fork = concurrent(writers.iter().cloned().chain([one, other]).collect());
        check(&fork, &last, &["long fork"]);

        let late = transaction(5, &[(1, FIRST)], &[]);
        check(&[writers[0].clone(), late.clone()], &last[..1], &["stale read"]);
        let reader = transaction(3, &[(1, seen(1, 1))], &[]);
        let slow = Transaction { ended: 1000, ..writers[0].clone() };
        check(&[slow, reader, late], &last[..1], &["stale read"]);
    }

    #[test]
    fn versions_belong_to_those_who_wrote_them() {
        let history = [transaction(1, &[(1, FIRST)], &[(1, 1)]), transaction(2, &[(1, seen(2, 1))], &[])];
        check(&history, &[(1, seen(1, 1))], &["did not write"]);
    }
}
