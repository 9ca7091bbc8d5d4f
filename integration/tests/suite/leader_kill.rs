//! The leading scheduler is killed twenty times while clients run statements and DDL through all schedulers.
//!
//! What was acknowledged is there, what was refused is not, nothing is there twice, and every statement ends in time,
//! with an answer or a typed error.
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use ancho_common::error::ErrorKind;
use ancho_integration::{
    Client, Failure,
    client::{first_column, single_integer},
    cluster::processes::ProcessBuilder,
    run, turns, wait_until,
};
use anyhow::{Context, bail, ensure};
use futures::future::join_all;
use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};

const ROUNDS: u32 = 20;
const WORKERS: usize = 4;

/// Within this time every statement must end.
const STATEMENT_LIMIT: Duration = Duration::from_secs(15);

/// What became of a statement that changes something.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Effect {
    Applied,
    NotApplied,
    Unknown,
}

/// Everything one client did to one table.
#[derive(Debug)]
struct History {
    table: String,
    created: Effect,
    inserted: Effect,
    dropped: Option<Effect>,
}

/// Rows of the one INSERT that each table gets.
const ROWS: i64 = 3;

/// A client that goes from scheduler to scheduler.
struct Worker {
    number: usize,
    clients: Vec<Client>,
    histories: Vec<History>,
    answers: usize,
    errors: BTreeMap<&'static str, usize>,
    slowest: Duration,
}

impl Worker {
    fn new(number: usize, clients: Vec<Client>) -> Self {
        let (histories, errors) = (Vec::new(), BTreeMap::new());
        Self { number, clients, histories, answers: 0, errors, slowest: Duration::ZERO }
    }

    /// Runs until it is told to stop.
    async fn work(mut self, stop: Arc<AtomicBool>) -> anyhow::Result<Self> {
        let mut turn = self.number;
        while !stop.load(Ordering::Relaxed) {
            turn += 1;
            let client = self.clients[turn % self.clients.len()].clone();
            let table = format!("kill_{}_{turn}", self.number);
            let history = self.one_table(&client, table, turn.is_multiple_of(3)).await?;
            self.histories.push(history);
            sleep(Duration::from_millis(20)).await;
        }
        Ok(self)
    }

    async fn one_table(&mut self, client: &Client, table: String, drop: bool) -> anyhow::Result<History> {
        let create = format!("CREATE TABLE {table} (id BIGINT) PARTITION BY (bucket(2, id))");
        let created = self.change(client, &create).await?;
        let mut history = History { table, created, inserted: Effect::NotApplied, dropped: None };
        if created != Effect::Applied {
            return Ok(history);
        }
        let insert = format!("INSERT INTO {} VALUES (1), (2), (3)", history.table);
        history.inserted = self.change(client, &insert).await?;
        let count = format!("SELECT count(*) FROM {}", history.table);
        if let Some(answer) = self.statement(&count, client.query(&count)).await? {
            let rows = single_integer(&answer)?;
            ensure!(possible_rows(history.inserted).contains(&rows), "{history:?} shows {rows} rows");
        }
        if drop {
            history.dropped = Some(self.change(client, &format!("DROP TABLE {}", history.table)).await?);
        }
        Ok(history)
    }

    async fn change(&mut self, client: &Client, sql: &str) -> anyhow::Result<Effect> {
        let before = self.errors.get(UNKNOWN).copied();
        Ok(match self.statement(sql, client.update(sql)).await? {
            Some(_) => Effect::Applied,
            None if self.errors.get(UNKNOWN).copied() != before => Effect::Unknown,
            None => Effect::NotApplied,
        })
    }

    /// The answer, or nothing if the statement failed in a way that it may.
    async fn statement<T>(
        &mut self,
        sql: &str,
        running: impl Future<Output = Result<T, Failure>>,
    ) -> anyhow::Result<Option<T>> {
        let start = Instant::now();
        let ended = timeout(STATEMENT_LIMIT, running).await;
        self.slowest = self.slowest.max(start.elapsed());
        match ended {
            Err(_) => bail!("no end within {STATEMENT_LIMIT:?}: {sql}"),
            Ok(Ok(answer)) => {
                self.answers += 1;
                Ok(Some(answer))
            }
            Ok(Err(failure)) => {
                let class = allowed(&failure).with_context(|| format!("{sql}\n{failure}"))?;
                *self.errors.entry(class).or_default() += 1;
                Ok(None)
            }
        }
    }
}

const UNKNOWN: &str = "outcome unknown";

/// The class of a failure that clients may see while leaders die.
fn allowed(failure: &Failure) -> Option<&'static str> {
    let kind = failure.kind();
    if !failure.from_server {
        // The connection broke: nobody knows how far the server came.
        let broken = [ErrorKind::Unavailable, ErrorKind::Unknown, ErrorKind::Cancelled, ErrorKind::Internal];
        return broken.contains(&kind).then_some(UNKNOWN);
    }
    match kind {
        ErrorKind::Unknown => Some(UNKNOWN),
        // Clients should never see it.
        ErrorKind::StaleRoute => None,
        kind if kind.retryable() => Some(kind.code()),
        _ => None,
    }
}

fn possible_rows(inserted: Effect) -> BTreeSet<i64> {
    match inserted {
        Effect::Applied => BTreeSet::from([ROWS]),
        Effect::NotApplied => BTreeSet::from([0]),
        Effect::Unknown => BTreeSet::from([0, ROWS]),
    }
}

#[test]
fn nothing_acknowledged_is_lost() {
    run(async {
        let _turn = turns::alone().await?;
        let mut cluster = ProcessBuilder::default()
            .schedulers(3)
            .executors(2)
            .partition_wait(Duration::from_secs(8))
            .session_ttl(Duration::from_secs(5))
            .start()
            .await?;
        let clients = (0..3).map(|i| cluster.client(i)).collect::<anyhow::Result<Vec<_>>>()?;
        let stop = Arc::new(AtomicBool::new(false));
        let workers: Vec<_> =
            (0..WORKERS).map(|n| tokio::spawn(Worker::new(n, clients.clone()).work(Arc::clone(&stop)))).collect();

        let mut elections = Vec::new();
        for round in 0..ROUNDS {
            let leader = cluster.wait_leader(STATEMENT_LIMIT).await?;
            sleep(Duration::from_millis(300 + u64::from(round % 5) * 150)).await;
            cluster.kill_scheduler(leader)?;
            let start = Instant::now();
            let next = cluster.wait_leader(STATEMENT_LIMIT).await;
            let next = next.with_context(|| format!("round {round}: scheduler {leader} was killed"))?;
            ensure!(next != leader);
            elections.push(start.elapsed());
            cluster.start_scheduler(leader)?;
            cluster.wait_scheduler_ready(leader).await?;
            if workers.iter().any(JoinHandle::is_finished) {
                // It ended with an error, which is the one to show.
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
        let workers = join_all(workers).await.into_iter().collect::<Result<anyhow::Result<Vec<_>>, _>>()??;
        cluster.wait_ready().await?;

        elections.sort();
        println!("elections: median {:?}, longest {:?}", elections[elections.len() / 2], elections.last());
        for w in &workers {
            println!("client {}: {} answers, errors {:?}, slowest {:?}", w.number, w.answers, w.errors, w.slowest);
        }
        ensure!(workers.iter().all(|w| w.answers > 20), "too few statements ran to mean anything");
        let histories: Vec<&History> = workers.iter().flat_map(|w| &w.histories).collect();
        for client in &clients {
            check_tables(client, &histories).await.with_context(|| format!("as {} sees it", client.url()))?;
        }
        check_rows(&clients[0], &histories).await?;
        cluster.stop().await
    });
}

/// Exactly the tables that must be there are there.
async fn check_tables(client: &Client, histories: &[&History]) -> anyhow::Result<()> {
    let sql = "SELECT table_name FROM information_schema.tables WHERE table_name LIKE 'kill%'";
    let names = first_column(&client.query(sql).await?)?;
    let there: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    ensure!(there.len() == names.len(), "a table is listed twice: {names:?}");
    for history in histories {
        let exists = there.contains(history.table.as_str());
        let possible = match (history.created, history.dropped) {
            (Effect::NotApplied, _) | (Effect::Applied, Some(Effect::Applied)) => !exists,
            (Effect::Applied, None | Some(Effect::NotApplied)) => exists,
            (Effect::Unknown, _) | (Effect::Applied, Some(Effect::Unknown)) => true,
        };
        ensure!(possible, "{history:?}: the table {}", if exists { "exists" } else { "is gone" });
    }
    let known: BTreeSet<&str> = histories.iter().map(|h| h.table.as_str()).collect();
    ensure!(there.is_subset(&known), "tables that nobody created: {there:?}");
    Ok(())
}

/// Every table that is certainly there holds the rows of its INSERT, once.
async fn check_rows(client: &Client, histories: &[&History]) -> anyhow::Result<()> {
    for history in histories {
        if history.created != Effect::Applied || !matches!(history.dropped, None | Some(Effect::NotApplied)) {
            continue;
        }
        let sql = format!("SELECT count(*) FROM {}", history.table);
        let rows = wait_until(&sql, Duration::from_secs(30), || async {
            Ok(Some(single_integer(&client.query(&sql).await?)?))
        });
        let rows = rows.await?;
        ensure!(possible_rows(history.inserted).contains(&rows), "{history:?} holds {rows} rows");
    }
    Ok(())
}
