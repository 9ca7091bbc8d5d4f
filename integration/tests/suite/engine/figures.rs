//! `EXPLAIN ANALYZE` shows at each node of each stage what that node did.
use std::collections::{BTreeMap, BTreeSet};

use ancho_integration::{Client, cluster::in_process::ClusterBuilder, run, turns};
use anyhow::{Context, bail, ensure};

use super::texts;

/// Rows of table `u`. No figure of rows reaches a thousand, from which on they are shown rounded.
const ROWS: usize = 800;

/// A node of a shown plan.
#[derive(Debug)]
struct Node {
    /// 0 is the scheduler's own part.
    stage: usize,
    name: String,
    text: String,
    figures: BTreeMap<String, String>,
}

impl Node {
    fn rows(&self) -> anyhow::Result<usize> {
        let rows = self.figures.get("output_rows").with_context(|| format!("no rows: {}", self.text))?;
        rows.parse().with_context(|| format!("rows of {}", self.text))
    }
}

#[derive(Debug, Default)]
struct Plan {
    nodes: Vec<Node>,
    /// Stages of which a task ran, and 0.
    ran: BTreeSet<usize>,
    text: String,
}

impl Plan {
    fn parse(text: &str) -> anyhow::Result<Self> {
        let mut plan = Self { text: text.to_owned(), ran: BTreeSet::from([0]), ..Self::default() };
        let mut stage = 0;
        // A plan that runs on the scheduler alone has no frames.
        let framed = text.starts_with('┌');
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            if !framed {
                plan.nodes.push(parsed(stage, line)?);
            } else if let Some(header) = line.strip_prefix("┌───── Stage ") {
                stage = header.split(' ').next().context("no stage")?.parse()?;
                if header.contains("plan_executed_at=") {
                    plan.ran.insert(stage);
                }
            } else if let Some(node) = line.strip_prefix('│').map(str::trim) {
                // What the executors read is listed below a leaf.
                if !node.starts_with("t0: ") && !node.starts_with("t1: ") {
                    plan.nodes.push(parsed(stage, node)?);
                }
            } else {
                ensure!(line.starts_with('┌') || line.starts_with('└'), "{line:?} in {text}");
            }
        }
        Ok(plan)
    }

    fn rows_of(&self, part: &str) -> anyhow::Result<Vec<usize>> {
        let mut rows =
            self.nodes.iter().filter(|node| node.text.contains(part)).map(Node::rows).collect::<Result<Vec<_>, _>>()?;
        rows.sort_unstable();
        Ok(rows)
    }
}

fn parsed(stage: usize, line: &str) -> anyhow::Result<Node> {
    let (shown, metrics) = line.rsplit_once(", metrics=[").with_context(|| format!("{line:?} says nothing"))?;
    let metrics = metrics.strip_suffix(']').context("metrics without an end")?;
    let mut figures = BTreeMap::new();
    for (name, value) in metrics.split(", ").filter_map(|figure| figure.split_once('=')) {
        figures.insert(name.to_owned(), value.to_owned());
    }
    let name = shown.rsplit_once("=> ").map_or(shown, |(_, node)| node);
    let name = name.split([':', ',', ' ']).next().unwrap_or_default().to_owned();
    Ok(Node { stage, name, text: line.to_owned(), figures })
}

/// Which nodes alone have a figure; they all have it when they have given rows.
const OWN: &[(&str, &[&str])] = &[
    ("rows_total", &["DistributedLeafExec"]),
    ("bytes_read", &["DistributedLeafExec"]),
    ("fetch_time", &["RepartitionExec"]),
    ("repartition_time", &["RepartitionExec"]),
    ("aggregation_time", &[]),
    ("reduction_factor", &[]),
    ("input_time", &["PacedExec"]),
    ("bytes_transferred", &["NetworkShuffleExec", "NetworkCoalesceExec", "NetworkBroadcastExec"]),
    ("build_input_rows", &["HashJoinExec"]),
];

/// What holds for every plan.
fn check(plan: &Plan) -> anyhow::Result<()> {
    for node in &plan.nodes {
        if node.figures.is_empty() && !plan.ran.contains(&node.stage) {
            continue;
        }
        let rows = node.rows()?;
        // Neither these nodes nor what hands rows on within a process measure time.
        let untimed = ["CooperativeExec", "BroadcastExec", "PlaceholderRowExec", "EmptyExec"];
        let handed = untimed.contains(&node.name.as_str())
            || (node.name.starts_with("Network") && !node.figures.contains_key("bytes_transferred"));
        let timed = node.figures.contains_key("elapsed_compute") || node.figures.contains_key("input_time");
        ensure!(timed || handed, "no time: {}", node.text);
        ensure!(node.figures.contains_key("output_bytes"), "no bytes: {}", node.text);
        for (figure, owners) in OWN {
            let owns = owners.contains(&node.name.as_str());
            let aggregate = owners.is_empty() && node.name == "AggregateExec";
            let has = node.figures.contains_key(*figure);
            ensure!(!has || owns || aggregate, "{figure} is not of {}", node.text);
            ensure!(has || !owns || handed || rows == 0, "{figure} is not in {}", node.text);
        }
        // What a shuffle has taken is what the stage that it reads has dealt out.
        if let Some(input) = node.text.strip_prefix("[Stage ").filter(|_| node.name == "NetworkShuffleExec") {
            let input: usize = input.split(']').next().context("no stage")?.parse()?;
            let head = plan.nodes.iter().find(|node| node.stage == input).context("a stage without nodes")?;
            ensure!(head.name == "RepartitionExec", "{head:?} does not deal rows out");
            // A join or a limit may have had enough.
            let all = !plan.text.contains("JoinExec") && !plan.text.contains("fetch=");
            if plan.ran.contains(&input) {
                let dealt = head.rows()?;
                ensure!(dealt == rows || (dealt > rows && !all), "{rows} rows of {head:?}");
            }
        }
    }
    Ok(())
}

async fn analyzed(client: &Client, sql: &str, rows: usize) -> anyhow::Result<Plan> {
    let shown = texts(&client.query(&format!("EXPLAIN ANALYZE {sql}")).await?)?;
    let [plan, summary] = shown.as_slice() else { bail!("{shown:?}") };
    ensure!(summary.starts_with(&format!("summary rows={rows},")), "{sql}: {summary}");
    let text = plan.strip_prefix("distributed_plan_with_metrics ").context("no plan")?;
    let plan = Plan::parse(text).with_context(|| format!("{sql}\n{text}"))?;
    check(&plan).with_context(|| format!("{sql}\n{text}"))?;
    Ok(plan)
}

/// A query, its rows, and those of nodes whose text has a part, over all tasks.
type Case = (&'static str, usize, &'static [(&'static str, &'static [usize])]);

const LEAF: &str = "DistributedLeafExec";

const CASES: &[Case] = &[
    ("SELECT k, name FROM u", ROWS, &[(LEAF, &[ROWS])]),
    ("SELECT name, count(*) FROM u GROUP BY name", 20, &[(LEAF, &[ROWS]), ("mode=FinalPartitioned", &[20])]),
    ("SELECT count(*), sum(fk) FROM u WHERE k > 1", 1, &[(LEAF, &[ROWS - 1]), ("mode=Final,", &[1])]),
    ("SELECT a.name, b.k FROM u a JOIN u b ON a.k = b.k WHERE a.fk = 3", 8, &[("HashJoinExec", &[8])]),
    ("SELECT a.k FROM u a JOIN u b ON a.k = b.fk WHERE b.k <= 50", 50, &[("HashJoinExec", &[50])]),
    ("SELECT k FROM u WHERE k <= 100 UNION ALL SELECT fk + 1 FROM u WHERE k > 700", 200, &[(LEAF, &[100, 100])]),
    (
        "SELECT k, row_number() OVER (PARTITION BY name ORDER BY k) FROM u",
        ROWS,
        &[(LEAF, &[ROWS]), ("WindowAggExec", &[ROWS])],
    ),
    ("SELECT k FROM u LIMIT 5", 5, &[]),
    ("SELECT k, name FROM u ORDER BY name, k LIMIT 7", 7, &[]),
    ("SELECT name, count(DISTINCT fk) FROM u GROUP BY name ORDER BY 2, 1", 20, &[(LEAF, &[ROWS])]),
    ("SELECT name, count(*) FROM e GROUP BY name", 0, &[("mode=FinalPartitioned", &[0])]),
    ("SELECT u.k FROM u JOIN e ON u.fk = e.fk", 0, &[]),
    ("SELECT u.k FROM u LEFT JOIN e ON u.k = e.k", ROWS, &[]),
    ("SELECT k FROM u WHERE k NOT IN (SELECT k FROM e)", ROWS, &[]),
    ("SELECT count(*) FROM generate_series(1, 90) AS g(value)", 1, &[]),
    ("SELECT 1", 1, &[]),
];

async fn every_case(executors: usize) -> anyhow::Result<BTreeSet<String>> {
    let cluster = ClusterBuilder::default().executors(executors).start().await?;
    let client = cluster.client()?;
    for table in ["u", "e"] {
        let columns = "k BIGINT, name VARCHAR, fk BIGINT";
        client.update(&format!("CREATE TABLE {table} ({columns}) PARTITION BY (bucket(8, k))")).await?;
    }
    let rows = "SELECT value, 'n' || CAST(value % 20 AS VARCHAR), value % 100 FROM generate_series";
    client.update(&format!("INSERT INTO u {rows}(1, {ROWS}) AS g(value)")).await?;
    let (mut seen, mut wrong) = (BTreeSet::new(), Vec::new());
    for (sql, rows, expected) in CASES {
        let plan = match analyzed(&client, sql, *rows).await {
            Ok(plan) => plan,
            Err(error) => {
                wrong.push(format!("{error:#}"));
                continue;
            }
        };
        seen.extend(plan.nodes.iter().map(|node| node.name.clone()));
        for (part, rows) in *expected {
            let found = plan.rows_of(part)?;
            if found != *rows {
                wrong.push(format!("{sql}: {part} has {found:?} rows, not {rows:?}\n{}", plan.text));
            }
        }
    }
    let shown = texts(&client.query("EXPLAIN ANALYZE VERBOSE SELECT name, count(*) FROM u GROUP BY name").await?)?;
    let read: Vec<&str> = shown[0].lines().filter(|line| line.contains("CayenneScanExec")).collect();
    let of_task = |line: &&str| line.split("output_rows={").nth(1)?.split([':', '}']).nth(1)?.parse::<usize>().ok();
    let total = read.iter().map(of_task).sum::<Option<usize>>();
    ensure!(total == Some(ROWS), "{}", shown[0]);
    ensure!(wrong.is_empty(), "with {executors} executors:\n{}", wrong.join("\n\n"));
    cluster.stop().await?;
    Ok(seen)
}

#[test]
fn each_node_of_an_analyzed_plan_shows_its_own_figures() {
    run(async {
        let _turn = turns::shared().await?;
        let mut seen = every_case(2).await?;
        seen.extend(every_case(1).await?);
        // Without these the cases would not be what they are meant to be.
        for name in ["NetworkShuffleExec", "NetworkBroadcastExec", "NetworkCoalesceExec", "HashJoinExec", "UnionExec"] {
            ensure!(seen.contains(name), "no {name} in {seen:?}");
        }
        Ok(())
    });
}
