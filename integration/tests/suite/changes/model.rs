//! Random statements against a map, compared after each; `ANCHO_SEED` repeats a run, `ANCHO_RUNS` makes more.
use std::env;

use ancho_integration::{Client, cluster::in_process::ClusterBuilder, run, turns};
use anyhow::{Context, ensure};

use super::{Rows, rows_of};

/// Statements of a run.
const STATEMENTS: usize = 40;

/// A small generator with a seed, so that a failure can be repeated.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, n: i64) -> i64 {
        i64::try_from(self.next() >> 33).unwrap() % n
    }
}

/// What the table should hold: keys may repeat.
#[derive(Default)]
struct Model(Vec<(i64, Option<i64>)>);

impl Model {
    fn rows(&self) -> Rows {
        let mut rows = Rows::new();
        for (k, v) in &self.0 {
            *rows.entry((Some(*k), *v)).or_default() += 1;
        }
        rows
    }

    /// Keeps the rows that `change` gives something for; says how many it was told to count.
    fn change(&mut self, change: impl Fn(i64, Option<i64>) -> Option<Option<(i64, Option<i64>)>>) -> usize {
        let mut counted = 0;
        let mut rows = Vec::new();
        for (k, v) in self.0.drain(..) {
            match change(k, v) {
                None => rows.push((k, v)),
                Some(new) => {
                    counted += 1;
                    rows.extend(new);
                }
            }
        }
        self.0 = rows;
        counted
    }

    /// A statement, applied here; its text and the count that it must report.
    fn statement(&mut self, random: &mut Random) -> (String, usize) {
        let (a, m) = (random.below(40), random.below(6) + 2);
        let r = random.below(m);
        match random.below(13) {
            0..=3 => {
                let rows: Vec<(i64, Option<i64>)> = (0..=random.below(30))
                    .map(|_| (random.below(60), Some(random.below(100)).filter(|v| *v > 8)))
                    .collect();
                let text = |v: &Option<i64>| v.map_or("NULL".to_owned(), |v| v.to_string());
                let values: Vec<String> = rows.iter().map(|(k, v)| format!("({k}, {})", text(v))).collect();
                let count = rows.len();
                self.0.extend(rows);
                (format!("INSERT INTO m VALUES {}", values.join(", ")), count)
            }
            4 => {
                let count = self.change(|k, v| (k % m == r).then_some(Some((k, v.map(|v| v + a)))));
                (format!("UPDATE m SET v = v + {a} WHERE k % {m} = {r}"), count)
            }
            5 => {
                let count = self.change(|k, v| v.is_some_and(|v| v % m == r).then_some(Some((k + a, v))));
                (format!("UPDATE m SET k = k + {a} WHERE v % {m} = {r}"), count)
            }
            6 => {
                let count = self.change(|_, v| v.is_some_and(|v| v < a).then_some(None));
                (format!("DELETE FROM m WHERE v < {a}"), count)
            }
            7 => {
                let count = self.change(|k, _| (k % m == r).then_some(None));
                (format!("DELETE FROM m WHERE k % {m} = {r}"), count)
            }
            8 => {
                let largest = self.0.iter().filter_map(|(_, v)| *v).max();
                let count = self.change(|_, v| (v.is_some() && v == largest).then_some(None));
                ("DELETE FROM m WHERE v = (SELECT max(v) FROM m)".to_owned(), count)
            }
            9 => {
                let count = self.change(|k, v| (k == a || k == a + 1).then_some(Some((k, v.map(|v| v + k)))));
                let source = format!("(VALUES ({a}), ({})) AS s (k)", a + 1);
                (format!("UPDATE m SET v = v + s.k FROM {source} WHERE m.k = s.k"), count)
            }
            10 => {
                let known = self.0.iter().any(|(k, _)| *k == a);
                let mut count = self.change(|k, v| (k == a).then_some(v.map(|v| (k, Some(v + 1)))));
                if !known {
                    self.0.push((a, Some(1)));
                    count += 1;
                }
                let text = format!(
                    "MERGE INTO m USING (SELECT CAST({a} AS BIGINT) AS k) AS s ON m.k = s.k \
                     WHEN MATCHED AND m.v IS NULL THEN DELETE WHEN MATCHED THEN UPDATE SET v = m.v + 1 \
                     WHEN NOT MATCHED THEN INSERT VALUES (s.k, 1)"
                );
                (text, count)
            }
            11 => {
                let nulls: Vec<i64> = self.0.iter().filter(|(_, v)| v.is_none()).map(|(k, _)| *k).collect();
                let count = self.change(|k, v| (v.is_some() && nulls.contains(&k)).then_some(Some((k, None))));
                let text = "UPDATE m SET v = NULL WHERE v IS NOT NULL AND k IN (SELECT k FROM m WHERE v IS NULL)";
                (text.to_owned(), count)
            }
            _ if a == 0 => {
                let count = self.0.len();
                self.0.clear();
                ("DELETE FROM m".to_owned(), count)
            }
            _ => {
                let count = self.change(|k, _| (k > a + 30).then_some(None));
                (format!("DELETE FROM m WHERE k > {a} + 30"), count)
            }
        }
    }
}

#[test]
fn random_statements_do_what_a_map_does() {
    run(async {
        let _turn = turns::shared().await?;
        let number = |name: &str, default: u64| env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(default);
        let cluster = ClusterBuilder::default().executors(2).start().await?;
        let client = cluster.client()?;
        let first = number("ANCHO_SEED", 1);
        for seed in first..first + number("ANCHO_RUNS", 2) {
            let spec = if seed % 2 == 0 { "k % 3" } else { "bucket(5, k)" };
            client.update(&format!("CREATE TABLE m (k BIGINT, v BIGINT) PARTITION BY ({spec})")).await?;
            one_run(&client, seed).await.with_context(|| format!("seed {seed}"))?;
            client.update("DROP TABLE m").await?;
        }
        cluster.stop().await
    });
}

async fn one_run(client: &Client, seed: u64) -> anyhow::Result<()> {
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let mut model = Model::default();
    for step in 0..STATEMENTS {
        let (sql, count) = model.statement(&mut random);
        let reported = client.update(&sql).await.with_context(|| format!("step {step}: {sql}"))?;
        ensure!(usize::try_from(reported)? == count, "step {step}: {sql} reports {reported} rows, not {count}");
        let found = rows_of(client, "m").await?;
        ensure!(found == model.rows(), "step {step}: {sql} leaves {found:?}, not {:?}", model.rows());
    }
    Ok(())
}
