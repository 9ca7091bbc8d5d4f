//! Transfers between rows of different partitions by many clients: every read sees the same total.
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use ancho_common::error::ErrorKind;
use ancho_integration::{Client, client::single_integer, cluster::in_process::ClusterBuilder, run, turns};
use anyhow::{bail, ensure};
use futures::future::try_join_all;

/// Accounts; few, so that transfers meet.
const ACCOUNTS: usize = 8;
const BALANCE: i64 = 1000;
const CLIENTS: usize = 8;
const TRANSFERS: usize = 8;

#[test]
fn the_total_stays() {
    run(async {
        let _turn = turns::shared().await?;
        let cluster = ClusterBuilder::default().executors(2).start().await?;
        let client = cluster.client()?;
        client.update("CREATE TABLE accounts (id BIGINT, balance BIGINT) PARTITION BY (bucket(8, id))").await?;
        let values: Vec<String> = (0..ACCOUNTS).map(|id| format!("({id}, {BALANCE})")).collect();
        client.update(&format!("INSERT INTO accounts VALUES {}", values.join(", "))).await?;
        let stop = Arc::new(AtomicBool::new(false));
        let reader = tokio::spawn(read(cluster.client()?, Arc::clone(&stop)));
        let writers = (0..CLIENTS).map(|n| transfer(client.clone(), n));
        let conflicts: usize = try_join_all(writers).await?.into_iter().sum();
        stop.store(true, Ordering::Relaxed);
        let reads = reader.await??;
        println!("{conflicts} of {} transfers ended in a conflict; {reads} reads", CLIENTS * TRANSFERS);
        let moved = single_integer(&client.query("SELECT sum(balance * (id + 1)) FROM accounts").await?)?;
        ensure!(moved == expected(), "some transfer was applied in part, twice or not at all: {moved}");
        cluster.stop().await
    });
}

/// From, to and amount of a client's transfer.
fn pair(client: usize, number: usize) -> (usize, usize, i64) {
    let from = (client * 3 + number) % ACCOUNTS;
    let to = (from + 1 + (client + number) % (ACCOUNTS - 1)) % ACCOUNTS;
    (from, to, i64::try_from(client + number).unwrap() % 5 + 1)
}

/// The balances weighted by account after all transfers, in whatever order.
fn expected() -> i64 {
    let mut balances = vec![BALANCE; ACCOUNTS];
    for (from, to, amount) in (0..CLIENTS).flat_map(|c| (0..TRANSFERS).map(move |n| pair(c, n))) {
        balances[from] -= amount;
        balances[to] += amount;
    }
    (1..).zip(balances).map(|(weight, balance)| weight * balance).sum()
}

/// Transfers one after the other; a conflict is tried again. How many conflicts there were.
async fn transfer(client: Client, number: usize) -> anyhow::Result<usize> {
    let mut conflicts = 0;
    for n in 0..TRANSFERS {
        let (from, to, amount) = pair(number, n);
        let sql = format!(
            "UPDATE accounts SET balance = balance + CASE WHEN id = {from} THEN -{amount} ELSE {amount} END \
             WHERE id IN ({from}, {to})"
        );
        loop {
            match client.update(&sql).await {
                Ok(rows) => {
                    ensure!(rows == 2, "a transfer changed {rows} rows");
                    break;
                }
                Err(failure) if failure.kind() == ErrorKind::Conflict => conflicts += 1,
                Err(failure) => bail!("{sql}: {failure}"),
            }
        }
    }
    Ok(conflicts)
}

async fn read(client: Client, stop: Arc<AtomicBool>) -> anyhow::Result<usize> {
    let mut reads = 0;
    while !stop.load(Ordering::Relaxed) {
        let total = single_integer(&client.query("SELECT sum(balance) FROM accounts").await?)?;
        ensure!(total == BALANCE * i64::try_from(ACCOUNTS)?, "a read saw a total of {total}");
        reads += 1;
    }
    Ok(reads)
}
