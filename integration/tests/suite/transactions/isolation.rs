//! Transfers as transactions by many clients through all schedulers, while executors are killed and the leader changes: the
//! recorded history is snapshot-isolated.
//!
//! `ANCHO_HISTORY_SECONDS` sets how long the clients work.
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use ancho_common::error::ErrorKind;
use ancho_integration::{
    Answer, Client,
    client::{Failure, single_integer},
    cluster::processes::{ProcessBuilder, Processes},
    history::{Key, Outcome, Seen, Transaction, violations},
    run, turns,
};
use anyhow::{Context, ensure};
use arrow::{array::AsArray, datatypes::Int64Type};
use futures::future::try_join_all;
use tokio::time::{sleep, timeout};

/// Few, so that transfers meet; in as many partitions.
const ACCOUNTS: u64 = 12;
const BALANCE: i64 = 1000;
const CLIENTS: usize = 16;
/// How long the clients work at least, unless said otherwise.
const SECONDS: u64 = 20;
/// A busy machine needs more time until this much has happened, and gets up to as many seconds.
const ENOUGH: u64 = 40;
const MOST_SECONDS: u64 = 180;
/// Longest time for one call.
const CALL_LIMIT: Duration = Duration::from_secs(20);

/// What all clients share.
struct Load {
    clients: Vec<Client>,
    start: Instant,
    numbers: AtomicU64,
    /// Transactions that were applied.
    applied: AtomicU64,
    stop: AtomicBool,
}

impl Load {
    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

/// What was read of the accounts: their rows, and the sum of their balances.
fn accounts(answer: &Answer) -> anyhow::Result<(BTreeMap<Key, Seen>, i64)> {
    let mut rows = BTreeMap::new();
    let mut total = 0;
    for batch in &answer.batches {
        let column = |index: usize| batch.column(index).as_primitive::<Int64Type>();
        for row in 0..batch.num_rows() {
            let number = |index: usize| u64::try_from(column(index).value(row));
            rows.insert(number(0)?, Seen { version: number(2)?, writer: number(3)? });
            total += column(1).value(row);
        }
    }
    Ok((rows, total))
}

async fn called<T>(call: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let late = || Failure::local(ancho_common::error::Error::unavailable("no answer in time"));
    timeout(CALL_LIMIT, call).await.unwrap_or_else(|_| Err(late()))
}

/// One transaction after the other until the end; what came of them.
async fn work(load: Arc<Load>, client: usize) -> anyhow::Result<Vec<Transaction>> {
    let mut history = Vec::new();
    let mut turn = client;
    while !load.stop.load(Ordering::Relaxed) {
        turn += 1;
        let number = load.numbers.fetch_add(1, Ordering::Relaxed) + 1;
        let began = load.now();
        let mut transaction = Transaction {
            number,
            began,
            ended: began,
            reads: BTreeMap::new(),
            writes: BTreeMap::new(),
            outcome: Outcome::NotApplied,
        };
        let through = &load.clients[turn % load.clients.len()];
        transaction.outcome = transfer(through, &mut transaction).await?;
        transaction.ended = load.now();
        if transaction.outcome == Outcome::Applied {
            load.applied.fetch_add(1, Ordering::Relaxed);
        } else {
            sleep(Duration::from_millis(20)).await;
        }
        history.push(transaction);
    }
    Ok(history)
}

/// Reads two accounts, or all of them, and moves money between two.
async fn transfer(client: &Client, transaction: &mut Transaction) -> anyhow::Result<Outcome> {
    let number = transaction.number;
    let (from, to) = (number * 7 % ACCOUNTS, (number * 7 + 1 + number % (ACCOUNTS - 1)) % ACCOUNTS);
    let everything = number.is_multiple_of(4);
    let only_reads = number.is_multiple_of(8);
    let columns = "SELECT id, balance, version, writer FROM accounts";
    let read = if everything { columns.to_owned() } else { format!("{columns} WHERE id IN ({from}, {to})") };
    let Ok(open) = called(client.begin()).await else { return Ok(Outcome::NotApplied) };
    let Ok(answer) = called(open.query(&read)).await else { return Ok(given_up(&open).await) };
    let (rows, total) = accounts(&answer)?;
    ensure!(rows.len() == if everything { 12 } else { 2 }, "transaction {number} read {} rows", rows.len());
    ensure!(!everything || total == BALANCE * 12, "transaction {number} saw a total of {total}");
    transaction.reads = rows;
    if !only_reads {
        let amount = number % 9 + 1;
        for (id, change) in [(from, format!("- {amount}")), (to, format!("+ {amount}"))] {
            let version = transaction.reads[&id].version + 1;
            let sql = format!(
                "UPDATE accounts SET balance = balance {change}, version = {version}, writer = {number} WHERE id = {id}"
            );
            match called(open.update(&sql)).await {
                Ok(rows) => ensure!(rows == 1, "an update in transaction {number} changed {rows} rows"),
                Err(_) => return Ok(given_up(&open).await),
            }
            transaction.writes.insert(id, version);
        }
        // What it did itself it sees, and its snapshot stays.
        match called(open.query(&read)).await {
            Ok(answer) => {
                let (again, total) = accounts(&answer)?;
                let expected = transaction.reads.iter().map(|(id, seen)| {
                    let own = transaction.writes.get(id).map(|version| Seen { version: *version, writer: number });
                    (*id, own.unwrap_or(*seen))
                });
                ensure!(again == expected.collect(), "transaction {number} read {again:?} after its writes");
                ensure!(!everything || total == BALANCE * 12, "transaction {number} sees a total of {total}");
            }
            Err(_) => return Ok(given_up(&open).await),
        }
    }
    let named = open.with_header("x-ancho-request-id", &request(number))?;
    Ok(match called(named.commit()).await {
        Ok(()) => Outcome::Applied,
        Err(failure) if failure.from_server && failure.kind() != ErrorKind::Unknown => Outcome::NotApplied,
        Err(_) => Outcome::Unknown,
    })
}

async fn given_up(open: &Client) -> Outcome {
    let _ = called(open.roll_back()).await;
    Outcome::NotApplied
}

fn request(number: u64) -> String {
    format!("transfer-{number}")
}

/// Kills executors and leaders in turn until the time is over and enough has happened.
async fn trouble(cluster: &mut Processes, load: &Load, time: Duration) -> anyhow::Result<usize> {
    let mut kills = 0;
    let most = time.max(Duration::from_secs(MOST_SECONDS));
    let goes_on = |kills: usize| {
        let passed = load.start.elapsed();
        let enough = kills >= 3 && load.applied.load(Ordering::Relaxed) >= ENOUGH;
        passed < time || (!enough && passed < most)
    };
    while goes_on(kills) {
        sleep(Duration::from_millis(1500)).await;
        if kills % 3 == 2 {
            let leader = cluster.wait_leader(Duration::from_secs(30)).await?;
            cluster.kill_scheduler(leader)?;
            sleep(Duration::from_millis(700)).await;
            cluster.start_scheduler(leader)?;
        } else {
            let victim = kills % 3;
            cluster.kill_executor(victim)?;
            sleep(Duration::from_millis(300)).await;
            cluster.start_executor(victim)?;
        }
        cluster.wait_ready().await?;
        kills += 1;
    }
    Ok(kills)
}

#[test]
fn histories_are_snapshot_isolated() {
    run(async {
        let _turn = turns::alone().await?;
        let mut cluster = ProcessBuilder::default()
            .schedulers(3)
            .executors(3)
            .partition_wait(Duration::from_secs(3))
            .session_ttl(Duration::from_secs(3))
            .start()
            .await?;
        let clients = (0..3).map(|n| cluster.client(n)).collect::<anyhow::Result<Vec<_>>>()?;
        clients[0]
            .update(
                "CREATE TABLE accounts (id BIGINT, balance BIGINT, version BIGINT, writer BIGINT) \
                 PARTITION BY (bucket(12, id))",
            )
            .await?;
        let first: Vec<String> = (0..ACCOUNTS).map(|id| format!("({id}, {BALANCE}, 0, 0)")).collect();
        clients[0].update(&format!("INSERT INTO accounts VALUES {}", first.join(", "))).await?;

        let seconds = std::env::var("ANCHO_HISTORY_SECONDS").ok().and_then(|s| s.parse().ok()).unwrap_or(SECONDS);
        let start = Instant::now();
        let load = Arc::new(Load {
            clients: clients.clone(),
            start,
            numbers: AtomicU64::new(0),
            applied: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        });
        let workers: Vec<_> = (0..CLIENTS).map(|n| tokio::spawn(work(Arc::clone(&load), n))).collect();
        let kills = trouble(&mut cluster, &load, Duration::from_secs(seconds)).await;
        load.stop.store(true, Ordering::Relaxed);
        let histories = try_join_all(workers).await?;
        let kills = kills?;
        cluster.wait_ready().await?;

        let mut history = Vec::new();
        for transactions in histories {
            history.extend(transactions?);
        }
        for transaction in history.iter_mut().filter(|t| t.outcome == Outcome::Unknown) {
            let sql =
                format!("SELECT count(*) FROM system.writes WHERE request_id = '{}'", request(transaction.number));
            let known = single_integer(&clients[0].query(&sql).await?)?;
            transaction.outcome = if known == 1 { Outcome::Applied } else { Outcome::NotApplied };
        }
        let count = |outcome| history.iter().filter(|t| t.outcome == outcome).count();
        let (applied, lost) = (count(Outcome::Applied), count(Outcome::NotApplied));
        println!("{kills} kills; {applied} transactions were applied, {lost} were not");
        ensure!(applied > 20 && kills >= 3, "too little happened");
        for client in &clients {
            let answer = client.query("SELECT id, balance, version, writer FROM accounts").await?;
            let (last, total) = accounts(&answer)?;
            ensure!(total == BALANCE * 12, "the total is {total}");
            let found = violations(&history, &last);
            ensure!(found.is_empty(), "{} violations: {:#?}", found.len(), &found[..found.len().min(20)]);
        }
        cluster.stop().await.context("stop")
    });
}
