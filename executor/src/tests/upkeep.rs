//! Compaction, parameters that change, and changes of columns, as assignments bring them.
use std::collections::BTreeSet;

use ancho_common::{alter::ColumnChange, error::ErrorKind, storable};
use arrow::datatypes::{DataType, Field, IntervalUnit, TimeUnit};

use super::*;
use crate::host::columns::schema_change;

/// Writes rows and publishes them as a version.
async fn put(node: &Node, version: u64, keys: std::ops::Range<i64>) -> WriteId {
    let write = WriteId::new();
    let count = u64::try_from(keys.end - keys.start).unwrap();
    node.stage(write, "a", false, &[(1, 1, rows(keys))]).await.unwrap();
    node.seal(write, false, &[(1, 1, count)]).await.unwrap();
    node.publish(write, &[(1, 1, version)]).await.unwrap();
    write
}

fn with_params(params: &str) -> proto::Assignment {
    proto::Assignment { params: params.into(), ..assignment(1, 1, 0, &[]) }
}

#[tokio::test(flavor = "multi_thread")]
async fn small_writes_are_compacted_soon_and_versions_stay() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path()).await;
    // No look at intervals: what starts a pass is that something was written.
    let params = r#"{"cayenne_compaction_trigger_files":"3","cayenne_compaction_background_interval_ms":"0"}"#;
    node.assign(1, vec![with_params(params)]).await;
    for version in 1..=6 {
        let first = i64::try_from(version).unwrap() * 10;
        put(&node, version, first..first + 10).await;
    }
    for _ in 0..1000 {
        if node.host.compaction_stats().done.passes > 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let stats = node.host.compaction_stats();
    assert!(stats.done.passes > 0 && stats.failures == 0, "{stats:?}");
    let info = &node.host.partitions()[0];
    assert_eq!((info.version, info.committed, info.rows), (Some(6), 6, 60));
    assert_eq!(node.keys(&[(1, 1, 6, None)]).await.unwrap(), (10..70).collect::<Vec<i64>>());

    put(&node, 7, 70..80).await;
    let part = proto::CompactPartition { partition_id: 1, epoch: 1 };
    let request = proto::CompactRequest { partitions: vec![part] };
    let reply = node.client.clone().compact(request).await.unwrap().into_inner();
    assert!(reply.files_in >= 2 && (reply.files_out, reply.rows) == (1, 70), "{reply:?}");
    assert_eq!(node.host.partitions()[0].version, Some(7));
    let other_epoch = proto::CompactPartition { partition_id: 1, epoch: 2 };
    let refused = node.client.clone().compact(proto::CompactRequest { partitions: vec![other_epoch] }).await;
    assert_eq!(Error::from(refused.unwrap_err()).kind, ErrorKind::StaleRoute);
    assert_eq!(node.keys(&[(1, 1, 7, None)]).await.unwrap(), (10..80).collect::<Vec<i64>>());
}

/// As the schedulers tell of a change of columns.
fn altered(assignment: proto::Assignment, version: u64, change: &ColumnChange, schema: &Schema) -> proto::Assignment {
    let commit = proto::Commit {
        version,
        write_id: WriteId::new().to_string(),
        column_change: serde_json::to_string(change).unwrap(),
    };
    let commits = assignment.commits.iter().cloned().chain([commit]).collect();
    let schema_version = assignment.schema_version + 1;
    proto::Assignment {
        version,
        commits,
        schema: ancho_common::schema::to_ipc(schema).into(),
        schema_version,
        ..assignment
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_change_in_their_place_between_two_writes() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path()).await;
    node.assign(1, vec![assignment(1, 1, 0, &[]), assignment(2, 1, 0, &[])]).await;
    let first = put(&node, 1, 0..10).await;
    let change = ColumnChange::Add { column: Field::new("more", DataType::Int64, true) };
    let schema = change.apply(&table_schema()).unwrap();
    let told = altered(assignment(1, 1, 1, &[(1, first)]), 2, &change, &schema);
    let empty = proto::Assignment { schema: told.schema.clone(), ..assignment(2, 1, 0, &[]) };
    node.assign(2, vec![told.clone(), empty.clone()]).await;
    let infos = node.host.partitions();
    assert_eq!((infos[0].version, infos[0].committed, infos[0].rows), (Some(2), 2, 10));
    assert!(infos.iter().all(|info| info.hindrance.is_none()), "{infos:?}");
    // The former version is read as it was, by plans that were made for it.
    assert_eq!(node.keys(&[(1, 1, 1, None)]).await.unwrap(), (0..10).collect::<Vec<i64>>());
    // Rows with the former columns come from a sender that is to look again.
    let write = WriteId::new();
    // The writer may meet it only after the sender handed them over.
    let stale = match node.stage(write, "a", false, &[(1, 1, rows(10..11))]).await {
        Err(error) => error,
        Ok(_) => node.seal(write, false, &[(1, 1, 1)]).await.unwrap_err(),
    };
    assert_eq!(stale.kind, ErrorKind::StaleRoute, "{stale}");
    // An owner that hears late is told the last parameters only: those that went meanwhile are not in the way.
    let sorted = proto::Assignment { params: r#"{"sort_columns":"more"}"#.into(), ..told.clone() };
    node.assign(3, vec![sorted, empty.clone()]).await;
    let drop = ColumnChange::Drop { name: "more".into() };
    let schema = drop.apply(&schema).unwrap();
    let told = altered(told, 3, &drop, &schema);
    let rename = ColumnChange::Rename { name: "s".into(), to: "text".into() };
    let schema = rename.apply(&schema).unwrap();
    let told = altered(told, 4, &rename, &schema);
    let told = proto::Assignment { params: r#"{"sort_columns":"text"}"#.into(), ..told };
    let empty = proto::Assignment { schema: told.schema.clone(), ..empty };
    node.assign(4, vec![told.clone(), empty.clone()]).await;
    let infos = node.host.partitions();
    assert!(infos.iter().all(|info| info.hindrance.is_none()), "{infos:?}");
    // Told again, also after a restart, nothing more happens.
    node.assign(5, vec![told.clone(), empty.clone()]).await;
    let node = node.restart(dir.path()).await;
    node.assign(6, vec![told, empty]).await;
    let infos = node.host.partitions();
    assert_eq!((infos[0].version, infos[0].rows, infos[1].version), (Some(4), 10, Some(0)));
    assert!(infos.iter().all(|info| info.hindrance.is_none()), "{infos:?}");
}

/// A column that was dropped and added again has the name and type it had; rows must be taken in as the new column's, by
/// owners that know of it. One that is told late makes the sender wait, or come again.
#[tokio::test(flavor = "multi_thread")]
async fn rows_wait_for_the_changes_of_columns_that_they_know_of() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path()).await;
    let (schema, told) = (table_schema(), assignment(1, 1, 0, &[]));
    node.assign(1, vec![told.clone()]).await;
    let first = put(&node, 1, 0..10).await;
    let column = schema.field_with_name("s").unwrap().clone().with_nullable(true);
    let (drop, add) = (ColumnChange::Drop { name: "s".into() }, ColumnChange::Add { column });
    let told = altered(assignment(1, 1, 1, &[(1, first)]), 2, &drop, &drop.apply(&schema).unwrap());
    let changed = add.apply(&drop.apply(&schema).unwrap()).unwrap();
    let told = altered(told, 3, &add, &changed);

    let write = WriteId::new();
    for empty in [true, false] {
        let error = if empty {
            node.seal_knowing(2, WriteId::new(), true, &[(1, 1, 0)]).await.unwrap_err()
        } else {
            node.stage_knowing(2, WriteId::new(), "a", false, &[(1, 1, rows(10..20))]).await.unwrap_err()
        };
        assert_eq!(error.kind, ErrorKind::StaleRoute, "{error}");
    }
    let late = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        node.assign(2, vec![told]).await;
    };
    let parts = [(1, 1, rows(10..20))];
    let (staged, ()) = tokio::join!(node.stage_knowing(2, write, "a", false, &parts), late);
    assert_eq!(staged.unwrap(), BTreeMap::from([(1, 10)]));
    let stale = node.stage(WriteId::new(), "a", false, &[(1, 1, rows(20..21))]).await.unwrap_err();
    assert_eq!(stale.kind, ErrorKind::StaleRoute, "{stale}");
    node.seal_knowing(2, write, false, &[(1, 1, 10)]).await.unwrap();
    node.publish(write, &[(1, 1, 4)]).await.unwrap();
    let info = &node.host.partitions()[0];
    assert_eq!((info.version, info.rows, &info.hindrance), (Some(4), 20, &None));
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_on_their_way_to_a_partition_that_is_made_anew_are_to_be_sent_again() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path()).await;
    node.assign(1, vec![assignment(1, 1, 0, &[])]).await;
    let (open, sealed) = (WriteId::new(), WriteId::new());
    for write in [open, sealed] {
        node.stage(write, "a", false, &[(1, 1, rows(0..10))]).await.unwrap();
    }
    node.seal(sealed, false, &[(1, 1, 10)]).await.unwrap();
    let change = ColumnChange::Add { column: Field::new("more", DataType::Int64, true) };
    let schema = change.apply(&table_schema()).unwrap();
    let empty = proto::Assignment { schema: ancho_common::schema::to_ipc(&schema).into(), ..assignment(1, 1, 0, &[]) };
    node.assign(2, vec![empty]).await;
    let error = node.seal(open, false, &[(1, 1, 10)]).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::StaleRoute, "{error}");
    let info = &node.host.partitions()[0];
    assert_eq!((info.version, info.staged, &info.hindrance), (Some(0), 0, &None));
    node.discard(sealed).await.unwrap();
}

/// Structs of one field and of one more.
fn single() -> DataType {
    DataType::Struct(vec![Field::new("a", DataType::Int8, true)].into())
}

fn pair() -> DataType {
    DataType::Struct(vec![Field::new("a", DataType::Int8, true), Field::new("b", DataType::Utf8, true)].into())
}

/// What schedulers agree on is what the engine can do.
#[test]
fn both_sides_allow_the_same_changes_and_layouts() {
    let mut types = vec![
        DataType::Boolean,
        DataType::Utf8,
        DataType::LargeUtf8,
        DataType::Utf8View,
        DataType::Binary,
        DataType::LargeBinary,
        DataType::BinaryView,
        DataType::Date32,
        DataType::Date64,
        DataType::Float16,
        DataType::Float32,
        DataType::Float64,
        DataType::Time32(TimeUnit::Second),
        DataType::Time32(TimeUnit::Millisecond),
        DataType::Time64(TimeUnit::Microsecond),
        DataType::Time64(TimeUnit::Nanosecond),
        DataType::Decimal32(9, 2),
        DataType::Decimal64(18, 2),
        DataType::Decimal128(20, 2),
        DataType::Decimal128(38, 4),
        DataType::Decimal256(76, 40),
        DataType::Interval(IntervalUnit::DayTime),
        DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
        DataType::new_list(DataType::Int8, true),
        DataType::new_list(pair(), true),
        DataType::new_list(single(), true),
        single(),
        pair(),
    ];
    types.extend([DataType::Int8, DataType::Int16, DataType::Int32, DataType::Int64]);
    types.extend([DataType::UInt8, DataType::UInt16, DataType::UInt32, DataType::UInt64]);
    for unit in [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond] {
        types.extend([DataType::Timestamp(unit, None), DataType::Timestamp(unit, Some("UTC".into()))]);
    }
    let dir = tempfile::tempdir().unwrap();
    let mut allowed = BTreeSet::new();
    for (number, from) in types.iter().enumerate() {
        let schema =
            Arc::new(Schema::new(vec![Field::new("k", DataType::Int64, false), Field::new("c", from.clone(), true)]));
        let sorted = cayenne::RowOrder::Sorted(vec!["c".into()]).check(&schema).is_ok();
        assert_eq!(storable::is_sort_type(from), sorted, "sorting by {from}");
        let clustered = cayenne::RowOrder::Clustered(vec!["c".into()]).check(&schema).is_ok();
        assert_eq!(storable::is_cluster_type(from), clustered, "clustering by {from}");
        let timed = cayenne::TableSettings {
            primary_key: vec!["k".into()],
            time_column: Some("c".into()),
            ..cayenne::TableSettings::default()
        };
        assert_eq!(storable::is_time_type(from), timed.check(&schema).is_ok(), "{from} as a time");
        if storable::check(&schema).is_err() {
            continue;
        }
        let identity = cayenne::PartitionIdentity { table: "t".into(), partition: String::new(), partition_id: 1 };
        let options = cayenne::PartitionOptions::default();
        let partition =
            cayenne::Partition::create(&dir.path().join(number.to_string()), identity, Arc::clone(&schema), options)
                .unwrap();
        let indexes = vec![vec!["c".to_owned()]];
        let indexed = partition.tune(cayenne::Tuning { indexes, ..partition.tuning().as_ref().clone() }).is_ok();
        assert_eq!(storable::is_index_type(from), indexed, "an index over {from}");
        for to in &types {
            let change = ColumnChange::Widen { column: Field::new("c", to.clone(), true) };
            let engine = partition.check_alter(&schema_change(&schema, &change)).is_ok();
            let agreed = change.apply(&schema).is_ok();
            // Of timestamps the rows decide, which the schedulers do not know.
            let by_rows = matches!((from, to), (DataType::Timestamp(..), DataType::Timestamp(..)));
            assert!(agreed == engine || (by_rows && !agreed), "{from} to {to}: {agreed} here, {engine} there");
            if agreed {
                allowed.insert(format!("{from} to {to}"));
            }
        }
    }
    assert!(allowed.len() > 25, "{allowed:?}");
    let many = (0..=storable::MAX_CLUSTER_COLUMNS).map(|i| Field::new(format!("c{i}"), DataType::Int8, true));
    let schema = Schema::new(many.collect::<Vec<_>>());
    let by = |n: usize| cayenne::RowOrder::Clustered((0..n).map(|i| format!("c{i}")).collect()).check(&schema);
    assert!(by(storable::MAX_CLUSTER_COLUMNS).is_ok() && by(storable::MAX_CLUSTER_COLUMNS + 1).is_err());
}
