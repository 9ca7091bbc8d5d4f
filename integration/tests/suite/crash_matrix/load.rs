//! Statements of every kind over five tables, side by side, whose outcome is known: each has a request id, so one that failed
//! is sent again until it is applied, and then it is applied once.
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use ancho_common::error::ErrorKind;
use ancho_integration::{Answer, Client, wait_until};
use anyhow::{bail, ensure};
use futures::future::{join_all, try_join_all};
use tokio::time::{sleep, timeout};

use crate::changes::{Rows, pairs};

/// Keys of the table with a primary key.
const KEYS: i64 = 200;
/// Rows of the tables that are updated.
const ROWS: i64 = 100;
/// A statement must end within this.
const STATEMENT_LIMIT: Duration = Duration::from_secs(40);
/// A statement must be applied within this once everything is up.
const APPLIED_WITHIN: Duration = Duration::from_secs(60);

/// Statements of one table, in order; those of one step side by side.
type Script = Vec<Vec<String>>;

/// See the module's description.
#[derive(Debug)]
pub(super) struct Load {
    client: Client,
    /// Names the requests.
    name: String,
    /// Rounds that were begun.
    rounds: i64,
    /// What is left to do of the last round, by table.
    open: Vec<Vec<Vec<(String, String)>>>,
}

impl Load {
    /// Makes the tables.
    pub(super) async fn start(client: Client, name: &str) -> anyhow::Result<Self> {
        for table in ["a", "c", "d", "e"] {
            client.update(&format!("CREATE TABLE {table} (k BIGINT, v BIGINT) PARTITION BY (bucket(4, k))")).await?;
        }
        client.update("CREATE TABLE b (k BIGINT, v BIGINT, PRIMARY KEY (k)) PARTITION BY (bucket(4, k))").await?;
        for table in ["c", "d"] {
            let rows = format!("INSERT INTO {table} SELECT value, 0 FROM generate_series(1, {ROWS}) AS g(value)");
            ensure!(client.update(&rows).await? == ROWS);
        }
        let mut load = Self { client, name: name.to_owned(), rounds: 0, open: Vec::new() };
        // Partitions that never held rows would move away from an executor that is down.
        load.round().await?;
        load.finish().await?;
        load.check().await?;
        Ok(load)
    }

    /// Begins a round: appends, upserts with deletes by key, an update beside an insert, two updates of the same rows, and a
    /// replacement of all rows.
    fn scripts(round: i64) -> [Script; 5] {
        let series = |table: &str, from: i64, to: i64| {
            format!("INSERT INTO {table} SELECT value, {round} FROM generate_series({from}, {to}) AS g(value)")
        };
        let update = "UPDATE d SET v = v + 1".to_owned();
        [
            vec![vec![series("a", round * 100, round * 100 + 99)]],
            vec![vec![series("b", 1, KEYS)], vec![format!("DELETE FROM b WHERE k % 10 = {}", round % 10)]],
            vec![vec![
                format!("UPDATE c SET v = v + 1 WHERE k <= {ROWS}"),
                format!("INSERT INTO c VALUES ({}, {round})", 1_000 + round),
            ]],
            vec![vec![update.clone(), update]],
            vec![vec!["TRUNCATE TABLE e".to_owned()], vec![series("e", 1, 50)]],
        ]
    }

    /// What the tables hold after the begun rounds, all of which are done.
    fn expected(&self) -> BTreeMap<&'static str, Rows> {
        let (done, last) = (self.rounds, self.rounds - 1);
        let row = |k: i64, v: i64| ((Some(k), Some(v)), 1);
        let appended = (0..done).flat_map(|r| (r * 100..r * 100 + 100).map(move |k| row(k, r)));
        let keyed = (1..=KEYS).filter(|k| k % 10 != last % 10).map(|k| row(k, last));
        let updated = (1..=ROWS).map(|k| row(k, done)).chain((0..done).map(|r| row(1_000 + r, r)));
        BTreeMap::from([
            ("a", appended.collect()),
            ("b", keyed.filter(|_| done > 0).collect()),
            ("c", updated.collect()),
            ("d", (1..=ROWS).map(|k| row(k, 2 * done)).collect()),
            ("e", (1..=50).filter(|_| done > 0).map(|k| row(k, last)).collect()),
        ])
    }

    /// Runs a round. What fails stays open, and so does all that comes after it in its table.
    pub(super) async fn round(&mut self) -> anyhow::Result<()> {
        ensure!(self.is_done(), "the last round is not done");
        let round = self.rounds;
        self.rounds += 1;
        let named = |table: usize, script: Script| {
            let step = |at: usize, statements: Vec<String>| {
                let id = |n: usize| format!("{}-{round}-{table}-{at}-{n}", self.name);
                statements.into_iter().enumerate().map(|(n, sql)| (id(n), sql)).collect()
            };
            script.into_iter().enumerate().map(|(at, statements)| step(at, statements)).collect()
        };
        self.open = Self::scripts(round).into_iter().enumerate().map(|(table, script)| named(table, script)).collect();
        self.go_on(false).await
    }

    /// Whether nothing is open.
    pub(super) fn is_done(&self) -> bool {
        self.open.iter().all(Vec::is_empty)
    }

    /// Sends what is open until all of it is applied.
    pub(super) async fn finish(&mut self) -> anyhow::Result<()> {
        self.go_on(true).await?;
        ensure!(self.is_done());
        Ok(())
    }

    async fn go_on(&mut self, patient: bool) -> anyhow::Result<()> {
        let client = &self.client;
        let tables = std::mem::take(&mut self.open).into_iter().map(|mut steps| async move {
            while let Some(step) = steps.first() {
                let outcomes = join_all(step.iter().map(|(id, sql)| apply(client, id, sql, patient))).await;
                let applied = outcomes.into_iter().collect::<anyhow::Result<Vec<bool>>>()?;
                let mut applied = applied.into_iter();
                let left: Vec<_> = step.iter().filter(|_| !applied.next().unwrap_or(false)).cloned().collect();
                if !left.is_empty() {
                    steps[0] = left;
                    break;
                }
                steps.remove(0);
            }
            anyhow::Ok(steps)
        });
        self.open = try_join_all(tables).await?;
        Ok(())
    }

    /// The answer to a query, as soon as every owner has its session.
    async fn answer(&self, sql: &str) -> anyhow::Result<Answer> {
        let limit = Duration::from_secs(20);
        wait_until(sql, limit, || async { Ok(Some(self.client.query(sql).await?)) }).await
    }

    /// Every table holds what the rounds make, all of which are done.
    pub(super) async fn check(&self) -> anyhow::Result<()> {
        for (table, expected) in self.expected() {
            let sql = format!("SELECT k, v FROM {table}");
            let found = pairs(&self.answer(&sql).await?)?;
            if found != expected {
                let short: Vec<_> = expected.iter().filter(|(row, n)| found.get(row) != Some(n)).take(5).collect();
                let more: Vec<_> = found.iter().filter(|(row, n)| expected.get(row) != Some(n)).take(5).collect();
                bail!(
                    "table {table} after {} rounds: {} rows and not {}; missing {short:?}, wrong {more:?}",
                    self.rounds,
                    found.len(),
                    expected.len()
                );
            }
        }
        Ok(())
    }
}

/// Sends a statement, patiently until it is applied, or until it fails. Conflicts are always tried again.
async fn apply(client: &Client, id: &str, sql: &str, patient: bool) -> anyhow::Result<bool> {
    let client = client.clone().with_header("x-ancho-request-id", id)?;
    let begun = Instant::now();
    loop {
        let failure = match timeout(STATEMENT_LIMIT, client.update(sql)).await {
            Ok(Ok(_)) => return Ok(true),
            Ok(Err(failure)) => failure,
            Err(_) => bail!("no end within {STATEMENT_LIMIT:?}: {sql}"),
        };
        let may_be = !failure.from_server
            || failure.kind().retryable()
            || matches!(failure.kind(), ErrorKind::Unknown | ErrorKind::Exhausted);
        ensure!(may_be, "{sql} fails in a way it must not: {failure}");
        if !patient && failure.kind() != ErrorKind::Conflict {
            return Ok(false);
        }
        ensure!(begun.elapsed() < APPLIED_WITHIN, "{sql} is not applied: {failure}");
        sleep(Duration::from_millis(100)).await;
    }
}
