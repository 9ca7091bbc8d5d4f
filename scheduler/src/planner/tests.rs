//! Plans of a cluster of two executors: where rows are shuffled, where they need not be, and what the guard refuses.
use std::{collections::BTreeMap, sync::Arc};

use ancho_common::{
    ids::{ExecutorId, RequestId, TableId, WriteId},
    partition::PartitionKey,
    plan::{
        channels::Channels,
        router::{PartitionAssigner, Route},
        running::RunningQueries,
        session::{WorkerParts, plan_key, worker},
    },
};
use arrow::datatypes::{DataType, Field, Schema as ArrowSchema};
use async_trait::async_trait;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion_distributed::display_plan_ascii;
use url::Url;

use super::{
    refusal::{PlanResult, Replan},
    session::{PlanOptions, Sessions},
};
use crate::{
    placement,
    query::{attempt::Attempt, ddl::new_table, statement::Statement},
    state::{ClusterState, ColumnSummary, Command, Outcome, Request, StagedPart, TableName},
};

#[derive(Debug)]
struct NoWrites;

#[async_trait]
impl PartitionAssigner for NoWrites {
    async fn ensure(&self, _: TableId, _: &[PartitionKey]) -> ancho_common::error::Result<Vec<Route>> {
        Err(ancho_common::error::Error::internal("these tests write nothing"))
    }
}

fn apply(state: &mut ClusterState, command: Command) -> Outcome {
    let mut request = Request { id: RequestId::new(), now_ms: 1, command };
    placement::stamp(state, &mut request);
    state.apply(request).outcome.unwrap()
}

/// Two executors; table `name(k bigint, v bigint)` holds so many rows in every partition.
fn with_table(state: &mut ClusterState, name: &str, partition_by: &[&str], rows: u64) {
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
            rows,
            bytes: 1,
            columns: vec![unknown.clone(), unknown.clone()],
            deleted: 0,
            base: None,
        })
        .collect();
    let write = Command::CommitWrite {
        table: table.id,
        write_id: WriteId::new(),
        overwrite: false,
        parts,
        refreshed: None,
        based_on: None,
        request: None,
        schema_version: 0,
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
    for (name, partition_by, rows) in [
        ("a", &["bucket(8, k)"][..], 10_000_000),
        ("b", &["bucket(8, k)"], 10_000_000),
        ("other_count", &["bucket(4, k)"], 10_000_000),
        ("other_column", &["bucket(8, v)"], 10_000_000),
        ("whole", &[], 10_000_000),
        ("some", &[], 200_000),
        ("some_bucketed", &["bucket(8, k)"], 25_000),
        ("few", &[], 1_000),
    ] {
        with_table(&mut state, name, partition_by, rows);
    }
    for n in [1, 2] {
        let executor = ExecutorId(format!("e{n}"));
        let held = state.tables.values().flat_map(|t| t.partitions.values());
        let loaded = held.filter(|p| p.owners.contains(&executor)).map(|p| (p.id, p.epoch)).collect();
        let report = Command::ReportLoaded { executor, incarnation: "1".into(), loaded, hindered: BTreeMap::new() };
        apply(&mut state, report);
    }
    Arc::new(state)
}

async fn plan(state: &Arc<ClusterState>, sql: &str, options: PlanOptions) -> PlanResult<String> {
    plan_for(state, sql, options, 4).await
}

/// The plan for executors that run tasks on so many streams.
async fn plan_for(state: &Arc<ClusterState>, sql: &str, options: PlanOptions, streams: usize) -> PlanResult<String> {
    let parts = WorkerParts {
        host: None,
        assigner: Arc::new(NoWrites),
        channels: Channels::default(),
        runtime: Arc::new(RuntimeEnv::default()),
        running: RunningQueries::default(),
    };
    let here = worker(parts.clone());
    let url = Url::parse("http://127.0.0.9:1").unwrap();
    let sessions = Sessions::try_new(&parts, || here.to_local_worker_context(url.clone()), Some(streams))?;
    let (session, running) = sessions.open(state, options)?;
    let attempt = Attempt::new(session, running);
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

/// Executors with one stream each are several streams together.
#[tokio::test]
async fn executors_of_one_stream_share_joins_and_aggregates() {
    let state = cluster();
    for sql in ["select a.v, o.v from a join other_count o on a.v = o.v", "select v, count(*) from a group by v"] {
        let text = plan_for(&state, sql, PlanOptions::default(), 1).await.unwrap();
        assert!(text.contains("NetworkShuffleExec") && !text.contains("CollectLeft"), "{sql}\n{text}");
    }
    let text = plan_for(&state, "select a.v, b.v from a join b on a.k = b.k", PlanOptions::default(), 1).await.unwrap();
    assert!(text.contains("by_bucket") && !text.contains("NetworkShuffleExec"), "{text}");
}

/// Rows of the build side come out of these joins, so it cannot be sent to all executors; buckets that meet need no
/// exchange however small a side is.
#[tokio::test]
async fn joins_that_emit_their_build_side_meet_in_place_too() {
    let state = cluster();
    for sql in [
        "select * from a where v = 1 and exists (select 1 from b where b.k = a.k and b.v > a.v)",
        "select * from a where v = 1 and not exists (select 1 from b where b.k = a.k)",
        "select * from a left join b on a.k = b.k where a.v = 1 and a.k > 3",
        "select a.v, max(b.v) from a join b on a.k = b.k group by a.k, a.v",
    ] {
        let text = plan(&state, sql, PlanOptions::default()).await.unwrap();
        assert!(text.contains("by_bucket") && !text.contains("NetworkShuffleExec"), "{sql}\n{text}");
        assert!(!text.contains("NetworkBroadcastExec") && !text.contains("mode=Partial"), "{sql}\n{text}");
    }
}

/// A broadcast is built once per executor, which pays if the other side is much larger, or the build side tiny.
#[tokio::test]
async fn a_broadcast_is_small_beside_the_other_side() {
    let state = cluster();
    for (sql, broadcast, shuffle) in [
        ("select * from few x join few y on x.v = y.v", true, false),
        ("select * from few x join some y on x.v = y.v", true, false),
        ("select * from a join some s on a.v = s.v", true, false),
        ("select * from some x join some y on x.v = y.v", false, true),
        ("select * from some x left join some y on x.v = y.v", false, true),
        // They meet in place.
        ("select * from a join some_bucketed s on a.k = s.k", false, false),
        ("select * from a join some_bucketed s on a.v = s.k", true, false),
    ] {
        let text = plan(&state, sql, PlanOptions::default()).await.unwrap();
        assert_eq!(text.contains("NetworkBroadcastExec"), broadcast, "{sql}\n{text}");
        assert_eq!(text.contains("NetworkShuffleExec"), shuffle, "{sql}\n{text}");
    }
}

#[tokio::test]
async fn filters_reach_the_scan_that_has_their_column() {
    let state = cluster();
    for options in [PlanOptions::default(), PlanOptions { gather: true, ..PlanOptions::default() }] {
        for (sql, wanted) in [
            ("select * from a x join a y on x.k = y.v where x.v < 5 and y.k > 7", ["v@1 < 5", "k@0 > 7"]),
            ("select * from a x left join b y on x.k = y.v where x.v < 5 and x.k > 7", ["v@1 < 5", "k@0 > 7"]),
            ("select v from (select k as v, v as k from a) where v < 5 and k > 7", ["k@0 < 5", "v@1 > 7"]),
            ("select k, max(v) from a where v < 5 group by k having k > 7", ["v@1 < 5", "k@0 > 7"]),
        ] {
            let text = plan(&state, sql, options).await.unwrap();
            let scans: Vec<&str> = text.lines().filter(|line| line.contains("CayenneScanExec")).collect();
            assert!(wanted.iter().all(|w| scans.iter().any(|scan| scan.contains(w))), "{sql}\n{text}");
            assert!(!text.contains("FilterExec"), "{sql}\n{text}");
        }
    }
}

/// What a node above may rely on is not moved: a limit's rows, a NULL that an outer join made, a group that is empty.
#[tokio::test]
async fn filters_stay_above_what_they_would_change() {
    let state = cluster();
    for sql in [
        "select * from (select * from a limit 10) where v < 5",
        "select * from a left join b on a.k = b.k where b.v is null",
        "select * from (select v, row_number() over (order by k) n from a) where n < 5",
        "select * from (select count(*) c from a) where c < 5",
        "select * from (select k, random() r from a) where r < 0.5",
    ] {
        let text = plan(&state, sql, PlanOptions::default()).await.unwrap();
        // What a join finds out while it runs is only a hint.
        assert!(!text.replace("predicate=DynamicFilter [ empty ]", "").contains("predicate="), "{sql}\n{text}");
        assert!(text.contains("FilterExec"), "{sql}\n{text}");
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
    assert_eq!(error.replan, Some(Replan::InOnePiece), "{error}");
    plan(&state, lagging, options).await.unwrap();
}

#[tokio::test]
async fn a_partition_without_owner_is_an_error_that_names_it() {
    let mut state = cluster().as_ref().clone();
    apply(&mut state, Command::ExecutorDown { executor: ExecutorId("e1".into()), incarnation: "1".into() });
    let error = plan(&Arc::new(state), "select count(*) from a", PlanOptions::default()).await.unwrap_err();
    let error = error.error;
    assert_eq!(error.kind, ancho_common::error::ErrorKind::Unavailable);
    assert!(error.message.contains("table a: partition") && error.message.contains("127.0.0.1"), "{error}");
}
