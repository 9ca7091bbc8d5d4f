//! Statements of a transaction, staged one on top of the other: what it sees, what its commit does, and what it must
//! not do to others.

use std::collections::{BTreeMap, BTreeSet};

use arrow::array::RecordBatch;
use cayenne::{
    CompactionResources, Error, KeyRule, Partition, PartitionOptions, ScanRequest, TableSettings, TransactionPart,
    TransactionSummary, WriteMode, WriteOptions, scan,
};
use tempfile::TempDir;
use uuid::Uuid;

use crate::harness::*;
use crate::keyed::*;

/// Histories, unless `CAYENNE_MODEL_RUNS` says otherwise.
const RUNS: u64 = 6;

/// What a partition holds, by id.
type Rows = BTreeMap<i64, i64>;

/// An open transaction next to what it should see.
struct Open {
    snapshot: u64,
    staged: Option<Uuid>,
    before: Rows,
    sees: Rows,
    /// Ids that it has written.
    written: BTreeSet<i64>,
}

impl Open {
    async fn begin(partition: &Partition) -> Self {
        let before: Rows = values(partition).await.into_iter().collect();
        let (sees, written) = (before.clone(), BTreeSet::new());
        Self { snapshot: partition.version(), staged: None, before, sees, written }
    }

    fn pin(&self, partition: &Partition) -> cayenne::PinnedVersion {
        match self.staged {
            None => partition.pin(Some(self.snapshot)).unwrap(),
            Some(staged) => partition.pin_with(self.snapshot, staged).unwrap(),
        }
    }

    async fn check(&self, partition: &Partition, what: &str) {
        let pin = self.pin(partition);
        let found: Vec<(i64, i64)> = rows_of(&pin).await.into_iter().map(|row| (row.id, row.value)).collect();
        let expected: Vec<(i64, i64)> = self.sees.iter().map(|(id, value)| (*id, *value)).collect();
        assert_eq!(found, expected, "{what}");
        assert_eq!(pin.summary().rows, expected.len() as u64, "{what}");
        // By key, as the index knows it or not.
        for id in [0, 3] {
            let request = ScanRequest { predicates: vec![is_id(id)], ..ScanRequest::default() };
            let found = decode(&run(scan(std::slice::from_ref(&pin), &request).unwrap()).await);
            let found: Vec<i64> = found.into_iter().map(|row| row.value).collect();
            assert_eq!(found, self.sees.get(&id).copied().into_iter().collect::<Vec<_>>(), "{what}, id {id}");
        }
    }

    /// Deletes rows by their names and adds others, as one statement.
    async fn statement(
        &mut self,
        partition: &Partition,
        rule: KeyRule,
        gone: &[i64],
        new: &[(i64, i64)],
    ) -> cayenne::Result<TransactionSummary> {
        let write_id = Uuid::new_v4();
        let options = WriteOptions { key_rule: Some(rule), ..WriteOptions::default() };
        let mut writer = partition.begin_write_with(write_id, WriteMode::Append, options).await?;
        for batch in row_ids(&self.pin(partition), |id| gone.contains(&id)).await {
            writer.delete_batch(&batch)?;
        }
        if !new.is_empty() {
            writer.write(batch(new)).await?;
        }
        let part = TransactionPart { snapshot: self.snapshot, over: self.staged };
        let summary = writer.finish_within(part).await?;
        for id in gone {
            self.sees.remove(id);
        }
        self.sees.extend(new.iter().copied());
        self.written.extend(gone.iter().copied().chain(new.iter().map(|(id, _)| *id)));
        self.staged = Some(write_id);
        Ok(summary)
    }

    /// As the owner of a partition is told to commit: checked against what came since, and then published.
    async fn commit(&self, partition: &Partition) -> cayenne::Result<()> {
        let Some(staged) = self.staged else { return Ok(()) };
        let current = partition.version();
        let effect = partition.rebase(staged, current).await?;
        let before = partition.summary().rows;
        partition.publish(staged, current + 1).await?;
        let keys = effect.keys.map(|keys| (keys.inserted + keys.replaced, keys.replaced + keys.deleted));
        let (added, removed) = keys.unwrap_or((effect.data.rows, 0));
        assert_eq!(partition.summary().rows + removed + effect.deleted_rows, before + added, "the effect was foretold");
        Ok(())
    }
}

fn is_id(id: i64) -> std::sync::Arc<dyn datafusion::physical_expr::PhysicalExpr> {
    use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};
    let column = std::sync::Arc::new(Column::new("id", 0));
    let value = std::sync::Arc::new(Literal::new(datafusion::common::ScalarValue::Int64(Some(id))));
    std::sync::Arc::new(BinaryExpr::new(column, datafusion::logical_expr::Operator::Eq, value))
}

fn batch(new: &[(i64, i64)]) -> RecordBatch {
    rows(&new.iter().map(|(id, value)| row(*id, *value)).collect::<Vec<_>>())
}

fn table(dir: &TempDir, keyed: bool) -> Partition {
    let settings = if keyed { by_id() } else { TableSettings::default() };
    create_keyed(dir.path(), settings, PartitionOptions::default())
}

fn conflict<T: std::fmt::Debug>(outcome: cayenne::Result<T>) {
    assert!(matches!(outcome, Err(Error::WriteConflict { .. })), "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_sees_what_it_did_and_nobody_else_does() {
    for keyed in [false, true] {
        let dir = TempDir::new().unwrap();
        let partition = table(&dir, keyed);
        put(&partition, WriteMode::Append, &[batch(&[(1, 10), (2, 20), (3, 30)])]).await;
        let mut open = Open::begin(&partition).await;
        let first = open.statement(&partition, KeyRule::LastArrival, &[], &[(4, 40), (5, 50)]).await.unwrap();
        assert_eq!((first.own.data.rows, first.whole.data.rows), (2, 2), "keyed = {keyed}");
        open.check(&partition, "after an insert").await;
        // A row of the snapshot, and one of its own.
        let second = open.statement(&partition, KeyRule::Unique, &[2, 4], &[(2, 21), (4, 41)]).await.unwrap();
        assert_eq!((second.own.data.rows, second.own.deleted_rows), (2, 2));
        assert_eq!((second.whole.data.rows, second.whole.data.deleted_rows, second.whole.deleted_rows), (3, 1, 1));
        open.check(&partition, "after an update").await;
        open.statement(&partition, KeyRule::Unique, &[1, 5], &[]).await.unwrap();
        open.check(&partition, "after a delete").await;
        assert_eq!(values(&partition).await, [(1, 10), (2, 20), (3, 30)], "others see nothing of it");
        assert_eq!(partition.staged().len(), 1, "what is staged is one write");
        let staged = open.staged.unwrap();
        drop(open.pin(&partition));
        drop(partition);
        // It is as durable as any staged write.
        let partition = reopen(dir.path(), PartitionOptions::default()).await;
        assert_eq!(partition.staged()[0].write_id, staged);
        open.check(&partition, "after a restart").await;
        open.commit(&partition).await.unwrap();
        assert_eq!(values(&partition).await, [(2, 21), (3, 30), (4, 41)]);
        assert!(partition.verify().await.unwrap().damaged.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_one_key_replace_each_other_over_statements() {
    let dir = TempDir::new().unwrap();
    let partition = table(&dir, true);
    put(&partition, WriteMode::Append, &[batch(&[(1, 10), (2, 20)])]).await;
    let mut open = Open::begin(&partition).await;
    open.statement(&partition, KeyRule::LastArrival, &[], &[(2, 21), (3, 30), (3, 31)]).await.unwrap();
    open.check(&partition, "an insert over a stored row").await;
    open.statement(&partition, KeyRule::LastArrival, &[], &[(2, 22), (3, 32)]).await.unwrap();
    open.check(&partition, "an insert over its own rows").await;
    open.statement(&partition, KeyRule::LastArrival, &[2], &[]).await.unwrap();
    open.statement(&partition, KeyRule::LastArrival, &[], &[(2, 23)]).await.unwrap();
    open.check(&partition, "an insert after a delete").await;
    let repeated = open.statement(&partition, KeyRule::Unique, &[1], &[(3, 0)]).await;
    assert!(matches!(repeated, Err(Error::DuplicateKey { .. })), "an update takes no other row's place: {repeated:?}");
    open.check(&partition, "after a statement that failed").await;
    open.commit(&partition).await.unwrap();
    assert_eq!(values(&partition).await, [(1, 10), (2, 23), (3, 32)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_to_be_committed_wins() {
    for keyed in [false, true] {
        let dir = TempDir::new().unwrap();
        let partition = table(&dir, keyed);
        put(&partition, WriteMode::Append, &[batch(&[(1, 10), (2, 20)])]).await;
        let mut loser = Open::begin(&partition).await;
        let mut winner = Open::begin(&partition).await;
        loser.statement(&partition, KeyRule::Unique, &[1], &[(1, 11)]).await.unwrap();
        winner.statement(&partition, KeyRule::Unique, &[1], &[(1, 12)]).await.unwrap();
        winner.commit(&partition).await.unwrap();
        loser.check(&partition, "its snapshot stays").await;
        conflict(loser.commit(&partition).await);
        partition.discard(loser.staged.unwrap()).await.unwrap();
        // Late statements see it at once.
        conflict(loser_again(&partition, winner.snapshot, &winner.before).await);
        assert_eq!(values(&partition).await, [(1, 12), (2, 20)]);
        // What concerns other rows does not meet.
        let mut one = Open::begin(&partition).await;
        let mut other = Open::begin(&partition).await;
        one.statement(&partition, KeyRule::Unique, &[1], &[(1, 13)]).await.unwrap();
        other.statement(&partition, KeyRule::LastArrival, &[2], &[(5, 50)]).await.unwrap();
        other.commit(&partition).await.unwrap();
        one.commit(&partition).await.unwrap();
        assert_eq!(values(&partition).await, [(1, 13), (5, 50)]);
    }
    // Two that insert one key: without a primary key both rows stay, with one the first wins.
    for keyed in [false, true] {
        let dir = TempDir::new().unwrap();
        let partition = table(&dir, keyed);
        let mut one = Open::begin(&partition).await;
        let mut other = Open::begin(&partition).await;
        one.statement(&partition, KeyRule::LastArrival, &[], &[(1, 1)]).await.unwrap();
        other.statement(&partition, KeyRule::LastArrival, &[], &[(1, 2)]).await.unwrap();
        other.commit(&partition).await.unwrap();
        if keyed {
            conflict(one.commit(&partition).await);
        } else {
            one.commit(&partition).await.unwrap();
            assert_eq!(values(&partition).await, [(1, 1), (1, 2)]);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_insert_meets_those_who_wrote_its_keys_and_nobody_else() {
    let dir = TempDir::new().unwrap();
    let partition = table(&dir, true);
    put(&partition, WriteMode::Append, &[batch(&[(1, 10), (2, 20), (3, 30), (4, 40)])]).await;
    let mut open = Open::begin(&partition).await;
    open.statement(&partition, KeyRule::LastArrival, &[], &[(1, 11), (9, 90)]).await.unwrap();
    // A row is replaced, one goes, one comes.
    upsert(&partition, &[batch(&[(2, 21), (8, 80)])]).await;
    delete_keys(&partition, &[(3, "EU")]).await;
    open.check(&partition, "its snapshot stays").await;
    open.statement(&partition, KeyRule::LastArrival, &[], &[(1, 12), (4, 41), (5, 50)]).await.unwrap();
    open.check(&partition, "an insert of other keys").await;
    for key in [2, 3, 8] {
        conflict(open.statement(&partition, KeyRule::LastArrival, &[], &[(key, 0)]).await);
    }
    open.check(&partition, "after statements that failed").await;
    open.commit(&partition).await.unwrap();
    assert_eq!(values(&partition).await, [(1, 12), (2, 21), (4, 41), (5, 50), (8, 80), (9, 90)]);

    // A key that an earlier statement has written counts as well.
    let mut open = Open::begin(&partition).await;
    open.statement(&partition, KeyRule::LastArrival, &[], &[(6, 60)]).await.unwrap();
    upsert(&partition, &[batch(&[(6, 61)])]).await;
    conflict(open.statement(&partition, KeyRule::LastArrival, &[], &[(7, 70)]).await);
}

/// An update of row 1 by a transaction that has an old snapshot.
async fn loser_again(partition: &Partition, snapshot: u64, before: &Rows) -> cayenne::Result<TransactionSummary> {
    let (before, sees) = (before.clone(), before.clone());
    let mut open = Open { snapshot, staged: None, before, sees, written: BTreeSet::new() };
    open.statement(partition, KeyRule::Unique, &[1], &[(1, 14)]).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_staged_before_must_be_there() {
    let dir = TempDir::new().unwrap();
    let partition = table(&dir, false);
    let mut open = Open::begin(&partition).await;
    open.statement(&partition, KeyRule::LastArrival, &[], &[(1, 1)]).await.unwrap();
    partition.discard(open.staged.unwrap()).await.unwrap();
    let gone = open.staged.unwrap();
    assert!(matches!(partition.pin_with(0, gone), Err(Error::UnknownWrite { .. })));
    let write_id = Uuid::new_v4();
    let mut writer = partition.begin_write(write_id, WriteMode::Append).await.unwrap();
    writer.write(batch(&[(2, 2)])).await.unwrap();
    conflict(writer.finish_within(TransactionPart { snapshot: 0, over: Some(gone) }).await);
    let writer = partition.begin_write(write_id, WriteMode::Overwrite).await.unwrap();
    let whole = writer.finish_within(TransactionPart { snapshot: 0, over: None }).await;
    assert!(matches!(whole, Err(Error::BadOption { .. })), "{whole:?}");
    assert!(partition.staged().is_empty() && data_files(dir.path()).is_empty());
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    fn id(&mut self) -> i64 {
        self.below(8) as i64
    }
}

/// Two transactions, other writers, compaction and restarts, in random order against maps.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_histories() {
    let (mut commits, mut conflicts) = (0, 0);
    let runs = std::env::var("CAYENNE_MODEL_RUNS").ok().and_then(|text| text.parse().ok()).unwrap_or(RUNS);
    for seed in 0..runs {
        let (committed, lost) = history(seed).await;
        commits += committed;
        conflicts += lost;
    }
    println!("{commits} transactions were committed, {conflicts} ended in a conflict");
    assert!(commits > 3 && conflicts > 3, "the histories are one-sided: {commits} commits, {conflicts} conflicts");
}

async fn history(seed: u64) -> (usize, usize) {
    let dir = TempDir::new().unwrap();
    let resources = CompactionResources::new(64 << 20, None).unwrap();
    let mut random = Random(seed);
    let mut partition = table(&dir, true);
    let mut stored = Rows::new();
    // When each id was last changed, by version.
    let mut changed: BTreeMap<i64, u64> = BTreeMap::new();
    let mut open: Vec<Open> = Vec::new();
    let (mut commits, mut conflicts, mut next) = (0, 0, 0);
    for step in 0..60 {
        let what = format!("seed {seed}, step {step}");
        next += 1;
        match random.below(12) {
            0 | 1 if open.len() < 2 => open.push(Open::begin(&partition).await),
            2 | 3 => {
                let id = random.id();
                upsert(&partition, &[batch(&[(id, next)])]).await;
                stored.insert(id, next);
                changed.insert(id, partition.version());
            }
            4 => {
                let id = random.id();
                delete_keys(&partition, &[(id, "EU")]).await;
                if stored.remove(&id).is_some() {
                    changed.insert(id, partition.version());
                }
            }
            5 => {
                partition.compact_all(&resources).await.unwrap();
            }
            6 => {
                drop(partition);
                partition = reopen(dir.path(), PartitionOptions::default()).await;
            }
            7 if !open.is_empty() => {
                let transaction = open.swap_remove(random.below(open.len() as u64) as usize);
                // A row that it added and took away again is no change.
                let Open { before, sees, written, .. } = &transaction;
                let touched: Vec<i64> =
                    written.iter().copied().filter(|id| before.contains_key(id) || sees.contains_key(id)).collect();
                match transaction.commit(&partition).await {
                    Ok(()) => {
                        for id in &touched {
                            assert_eq!(stored.get(id), before.get(id), "{what}: a change since the snapshot is lost");
                            match transaction.sees.get(id) {
                                Some(value) => stored.insert(*id, *value),
                                None => stored.remove(id),
                            };
                            changed.insert(*id, partition.version());
                        }
                        commits += 1;
                    }
                    outcome => {
                        conflict(outcome);
                        let met = |id: &i64| changed.get(id).is_some_and(|version| *version > transaction.snapshot);
                        assert!(touched.iter().any(met), "{what}: there is nobody to be in conflict with");
                        partition.discard(transaction.staged.unwrap()).await.unwrap();
                        conflicts += 1;
                    }
                }
            }
            _ if !open.is_empty() => {
                let number = random.below(open.len() as u64) as usize;
                let transaction = &mut open[number];
                let late = partition.version() > transaction.snapshot;
                let id = random.id();
                let there = transaction.sees.contains_key(&id);
                let outcome = match (random.below(3), there) {
                    (0, true) => transaction.statement(&partition, KeyRule::Unique, &[id], &[]).await,
                    (1, true) => transaction.statement(&partition, KeyRule::Unique, &[id], &[(id, next)]).await,
                    _ => transaction.statement(&partition, KeyRule::LastArrival, &[], &[(id, next)]).await,
                };
                if outcome.is_err() {
                    conflict(outcome);
                    assert!(late, "{what}: there is nobody to be in conflict with");
                    let transaction = open.swap_remove(number);
                    if let Some(staged) = transaction.staged {
                        partition.discard(staged).await.unwrap();
                    }
                    conflicts += 1;
                }
            }
            _ => {}
        }
        for transaction in &open {
            transaction.check(&partition, &what).await;
        }
        let expected: Vec<(i64, i64)> = stored.iter().map(|(id, value)| (*id, *value)).collect();
        assert_eq!(values(&partition).await, expected, "{what}");
    }
    (commits, conflicts)
}
