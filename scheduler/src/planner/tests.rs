//! Plans of a cluster of two executors: where rows are shuffled, where they need not be, and what the guard refuses.
use std::{collections::BTreeMap, sync::Arc};

use ancho_common::{
    error::Result,
    ids::{ExecutorId, RequestId, TableId, WriteId},
    partition::PartitionKey,
    plan::{
        channels::Channels,
        router::{PartitionAssigner, Route},
        session::{WorkerParts, plan_key, worker},
    },
};
use arrow::datatypes::{DataType, Field, Schema as ArrowSchema};
use async_trait::async_trait;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion_distributed::display_plan_ascii;
use url::Url;

use super::session::{PlanOptions, Sessions};
use crate::{
    placement,
    query::{attempt::Attempt, ddl::new_table, statement::Statement},
    state::{ClusterState, ColumnSummary, Command, Outcome, Request, StagedPart, TableName},
};

#[derive(Debug)]
struct NoWrites;

#[async_trait]
impl PartitionAssigner for NoWrites {
    async fn ensure(&self, _: TableId, _: &[PartitionKey]) -> Result<Vec<Route>> {
        Err(ancho_common::error::Error::internal("these tests write nothing"))
    }
}

fn apply(state: &mut ClusterState, command: Command) -> Outcome {
    let mut request = Request { id: RequestId::new(), now_ms: 1, command };
    placement::stamp(state, &mut request);
    state.apply(request).outcome.unwrap()
}

/// Two executors; table `name(k bigint, v bigint)` holds rows in every partition.
fn with_table(state: &mut ClusterState, name: &str, partition_by: &[&str]) {
    let schema = Arc::new(ArrowSchema::new(vec![
        Field::new("k", DataType::Int64, true),
        Field::new("v", DataType::Int64, true),
    ]));
    let spec = partition_by.iter().map(ToString::to_string).collect();
    let table = new_table(TableName::public(name), schema, spec, vec![], BTreeMap::new()).unwrap();
    apply(state, Command::CreateTable(Box::new(table)));
    let table = Arc::clone(state.table(&TableName::public(name)).unwrap());
    let unknown = ColumnSummary::default();
    let parts = table
        .partitions
        .values()
        .map(|p| StagedPart {
            partition: p.id,
            epoch: p.epoch,
            executor: p.owners[0].clone(),
            incarnation: "1".into(),
            rows: 10_000_000,
            bytes: 1,
            columns: vec![unknown.clone(), unknown.clone()],
        })
        .collect();
    let write = Command::CommitWrite {
        table: table.id,
        write_id: WriteId::new(),
        overwrite: false,
        parts,
        refreshed: None,
        based_on: None,
    };
    apply(state, write);
}

fn cluster() -> Arc<ClusterState> {
    let mut state = ClusterState::default();
    for n in [1, 2] {
        let command = Command::RegisterExecutor {
            executor: ExecutorId(format!("e{n}")),
            incarnation: "1".into(),
            url: format!("http://127.0.0.{n}:1"),
            version: "0.1.0".into(),
            plan_key: plan_key(),
            streams: 4,
        };
        apply(&mut state, command);
    }
    with_table(&mut state, "a", &["bucket(8, k)"]);
    with_table(&mut state, "b", &["bucket(8, k)"]);
    with_table(&mut state, "other_count", &["bucket(4, k)"]);
    with_table(&mut state, "other_column", &["bucket(8, v)"]);
    with_table(&mut state, "whole", &[]);
    for n in [1, 2] {
        let executor = ExecutorId(format!("e{n}"));
        let held = state.tables.values().flat_map(|t| t.partitions.values());
        let loaded = held.filter(|p| p.owners.contains(&executor)).map(|p| (p.id, p.epoch)).collect();
        let report = Command::ReportLoaded { executor, incarnation: "1".into(), loaded, hindered: BTreeMap::new() };
        apply(&mut state, report);
    }
    Arc::new(state)
}

async fn plan(state: &Arc<ClusterState>, sql: &str, options: PlanOptions) -> Result<String> {
    let parts = WorkerParts {
        host: None,
        assigner: Arc::new(NoWrites),
        channels: Channels::default(),
        runtime: Arc::new(RuntimeEnv::default()),
    };
    let here = worker(parts.clone());
    let url = Url::parse("http://127.0.0.9:1").unwrap();
    let sessions = Sessions::try_new(&parts, || here.to_local_worker_context(url.clone()), Some(4))?;
    let attempt = Attempt::new(sessions.open(state, options)?);
    let Statement::Query(statement) = Statement::parse(sql)? else { panic!("{sql} is no query") };
    let logical = attempt.logical(statement, None).await?;
    Ok(display_plan_ascii(attempt.physical(logical).await?.as_ref(), false))
}

#[tokio::test]
async fn equal_buckets_meet_without_a_shuffle() {
    let state = cluster();
    for sql in [
        "select a.v, b.v from a join b on a.k = b.k",
        "select a.v, b.v from a left join b on a.k = b.k",
        "select a.v, b.v from a full join b on a.k = b.k",
        "select count(*) from a where exists (select 1 from b where b.k = a.k)",
        "select k, sum(v) from a group by k",
        "select k, v, count(*) from a group by k, v",
        "select a.v, b.v from a join b on a.k = b.k and a.v = b.v",
        "select x.k, b.v from (select k, sum(v) s from a group by k) x join b on x.k = b.k where x.s > 5",
        "select a.v, b.v, c.v from a join b on a.k = b.k join a c on c.k = b.k",
    ] {
        let text = plan(&state, sql, PlanOptions::default()).await.unwrap();
        assert!(!text.contains("NetworkShuffleExec"), "{sql}\n{text}");
        assert!(text.contains("by_bucket"), "{sql}\n{text}");
        // The same without the rule needs one: the rule is what makes the difference.
        let shuffled = PlanOptions { colocate: false, ..PlanOptions::default() };
        let text = plan(&state, sql, shuffled).await.unwrap();
        assert!(text.contains("NetworkShuffleExec") && !text.contains("by_bucket"), "{sql}\n{text}");
    }
}

#[tokio::test]
async fn anything_else_keeps_its_shuffle() {
    let state = cluster();
    for sql in [
        "select a.v, b.v from a join b on a.v = b.v",
        "select a.v, b.v from a join b on a.k = b.v",
        "select a.v, o.v from a join other_count o on a.k = o.k",
        "select a.v, o.v from a join other_column o on a.k = o.k",
        "select a.v, b.v from a join b on a.k + 1 = b.k",
        "select v, count(*) from a group by v",
        "select k, v, count(*) from a group by grouping sets ((k), (v))",
        "select k, v, count(*) from a group by rollup (k, v)",
        "select a.v, w.v from a join whole w on a.k = w.k",
    ] {
        let text = plan(&state, sql, PlanOptions::default()).await.unwrap();
        assert!(text.contains("NetworkShuffleExec"), "{sql}\n{text}");
        assert!(!text.contains("by_bucket"), "{sql}\n{text}");
    }
}

/// A stage that mixes the stored hash with the engine's own would join rows that never meet.
#[tokio::test]
async fn a_join_above_a_colocated_one_shuffles_both_its_sides() {
    let state = cluster();
    let sql = "select a.v, b.v, o.v from a join b on a.k = b.k join other_count o on o.k = a.k";
    let text = plan(&state, sql, PlanOptions::default()).await.unwrap();
    if text.contains("by_bucket") {
        assert!(text.matches("NetworkShuffleExec").count() >= 2, "{text}");
    }
}

#[tokio::test]
async fn pruned_partitions_are_not_read() {
    let state = cluster();
    let text = plan(&state, "select * from a where k = 7", PlanOptions::default()).await.unwrap();
    assert_eq!(text.matches("partitions=1,").count(), 1, "{text}");
    assert!(text.contains("partitions=0"), "the padding slot reads nothing\n{text}");
}

#[tokio::test]
async fn one_piece_gathers_right_above_the_scans() {
    let state = cluster();
    let options = PlanOptions { gather: true, ..PlanOptions::default() };
    let text = plan(&state, "select v, count(*) from a join b using (k, v) group by v", options).await.unwrap();
    assert!(!text.contains("NetworkShuffleExec") && text.contains("GatherExec"), "{text}");
    let lagging = "select first_value(v) ignore nulls over (partition by k order by v) from a";
    let error = plan(&state, lagging, PlanOptions::default()).await.unwrap_err();
    assert!(error.message.contains(super::gather::NEEDS_ONE_PIECE), "{error}");
    plan(&state, lagging, options).await.unwrap();
}

#[tokio::test]
async fn a_partition_without_owner_is_an_error_that_names_it() {
    let mut state = cluster().as_ref().clone();
    apply(&mut state, Command::ExecutorDown { executor: ExecutorId("e1".into()), incarnation: "1".into() });
    let error = plan(&Arc::new(state), "select count(*) from a", PlanOptions::default()).await.unwrap_err();
    assert_eq!(error.kind, ancho_common::error::ErrorKind::Unavailable);
    assert!(error.message.contains("table a: partition") && error.message.contains("127.0.0.1"), "{error}");
}
