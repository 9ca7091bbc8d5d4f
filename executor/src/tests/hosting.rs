//! Partitions over restarts, damage, and what the schedulers say.
use ancho_common::error::ErrorKind;
use datafusion::{
    logical_expr::Operator,
    physical_expr::expressions::{BinaryExpr, Column, lit},
};

use super::*;

/// Stages and seals 10 rows in partition 1.
async fn sealed(node: &Node, keys: std::ops::Range<i64>) -> WriteId {
    let write = WriteId::new();
    let count = keys.clone().count() as u64;
    node.stage(write, "a", false, &[(1, 1, rows(keys))]).await.unwrap();
    node.seal(write, false, &[(1, 1, count)]).await.unwrap();
    write
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_committed_before_a_crash_is_published_after_it() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path()).await;
    node.assign(1, vec![assignment(1, 1, 0, &[])]).await;
    let (first, second) = (sealed(&node, 0..10).await, sealed(&node, 10..30).await);
    let node = node.restart(dir.path()).await;
    assert_eq!((node.partition(1).staged, node.loaded()), (2, vec![]));
    node.assign(5, vec![assignment(1, 1, 2, &[(1, second), (2, first)])]).await;
    assert_eq!(node.loaded(), [(1, 1, 2)]);
    assert_eq!(node.keys(&[(1, 1, 1, None)]).await.unwrap(), (10..30).collect::<Vec<i64>>());
    assert_eq!(node.keys(&[(1, 1, 2, None)]).await.unwrap(), (0..30).collect::<Vec<i64>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_uncommitted_write_of_an_earlier_start_goes_only_when_that_is_certain() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path()).await;
    node.assign(1, vec![assignment(1, 1, 0, &[])]).await;
    let (lost, kept) = (sealed(&node, 0..10).await, sealed(&node, 10..20).await);
    let node = node.restart(dir.path()).await;
    let current = sealed_before_assignment(&node).await;
    assert_eq!(current.kind, ErrorKind::StaleRoute, "nothing is taken in before the first assignments");
    node.host.sweep().await;
    assert_eq!(node.partition(1).staged, 2, "without assignments nothing is known");
    node.assign(5, vec![assignment(1, 1, 1, &[(1, kept)])]).await;
    assert_eq!(node.partition(1).staged, 0);
    let mine = sealed(&node, 20..30).await;
    node.assign(6, vec![assignment(1, 1, 1, &[(1, kept)])]).await;
    assert_eq!(node.partition(1).staged, 1, "a write of this start may still be committed");
    node.assign(4, vec![]).await;
    assert_eq!(node.partition(1).epoch, Some(1), "older assignments are ignored");
    node.assign(7, vec![assignment(1, 2, 1, &[(1, kept)])]).await;
    assert_eq!(node.partition(1).staged, 0, "under a new epoch it cannot");
    assert_eq!(node.publish(mine, &[(1, 2, 2)]).await.unwrap_err().kind, ErrorKind::StaleRoute);
    assert_eq!(node.publish(lost, &[(1, 2, 2)]).await.unwrap_err().kind, ErrorKind::StaleRoute);
    assert_eq!(node.keys(&[(1, 2, 1, None)]).await.unwrap(), (10..20).collect::<Vec<i64>>());
}

async fn sealed_before_assignment(node: &Node) -> Error {
    node.stage(WriteId::new(), "a", false, &[(1, 1, rows(0..1))]).await.unwrap_err()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_makes_the_version_it_asks_for() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path()).await;
    node.assign(1, vec![assignment(1, 1, 0, &[])]).await;
    let (first, second) = (sealed(&node, 0..10).await, sealed(&node, 10..20).await);
    assert_eq!(node.keys(&[(1, 1, 1, Some(first))]).await.unwrap().len(), 10);
    // Version 3 needs version 2, of which nothing is known yet.
    let third = sealed(&node, 20..30).await;
    let wanted = [(1, 1, 3, Some(third))];
    let reading = node.keys(&wanted);
    let telling = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(node.partition(1).version, Some(1));
        node.publish(second, &[(1, 1, 2)]).await.unwrap();
    };
    let (read, ()) = tokio::join!(reading, telling);
    assert_eq!(read.unwrap(), (0..30).collect::<Vec<i64>>());
    assert_eq!(node.loaded(), [(1, 1, 3)]);
    let gap = sealed(&node, 30..40).await;
    let error = node.keys(&[(1, 1, 5, Some(gap))]).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::StaleRoute, "{error}");
    assert_eq!(node.partition(1).version, Some(3), "a version is never skipped");
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_and_damaged_partitions_are_not_served_and_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path()).await;
    node.assign(1, vec![assignment(1, 1, 0, &[]), assignment(2, 1, 0, &[])]).await;
    let write = WriteId::new();
    node.stage(write, "a", false, &[(1, 1, rows(0..10)), (2, 1, rows(0..5))]).await.unwrap();
    node.seal(write, false, &[(1, 1, 10), (2, 1, 5)]).await.unwrap();
    node.publish(write, &[(1, 1, 1), (2, 1, 1)]).await.unwrap();
    let files = dir.path().join("partitions/1/files");
    let file = std::fs::read_dir(&files).unwrap().next().unwrap().unwrap().path();
    std::fs::write(&file, b"short").unwrap();
    let node = node.restart(dir.path()).await;
    let commits = [(1, write)];
    let set = vec![assignment(1, 1, 1, &commits), assignment(2, 1, 1, &commits), assignment(3, 1, 4, &[])];
    node.assign(2, set.clone()).await;
    assert_eq!(node.loaded(), [(2, 1, 1)]);
    assert_eq!(node.keys(&[(2, 1, 1, None)]).await.unwrap().len(), 5);
    let damaged = node.keys(&[(1, 1, 1, None)]).await.unwrap_err();
    assert!(
        damaged.kind == ErrorKind::Corrupt && damaged.message.contains("table orders, partition bucket 1"),
        "{damaged}"
    );
    // Damage that comes while the partition is open is told with its place, and as damage.
    let open = std::fs::read_dir(dir.path().join("partitions/2/files")).unwrap().next().unwrap().unwrap().path();
    let original = std::fs::read(&open).unwrap();
    std::fs::write(&open, vec![0xff; original.len()]).unwrap();
    let plan = node.host.scan(scan_of(&[(2, 1, 1, None)])).await.unwrap();
    let error = datafusion::physical_plan::collect(plan, Arc::new(TaskContext::default())).await.unwrap_err();
    let error = Error::from(node.host.failure("orders", error));
    let name = open.file_name().unwrap().to_str().unwrap();
    assert!(error.kind == ErrorKind::Corrupt && error.message.contains(name), "{error}");
    std::fs::write(&open, original).unwrap();
    let lost = node.keys(&[(3, 1, 4, None)]).await.unwrap_err();
    assert!(lost.kind == ErrorKind::Corrupt && lost.message.contains("bucket 3"), "{lost}");
    assert!(!dir.path().join("partitions/3").exists(), "no empty directory in place of committed rows");
    assert!(file.exists());
    // Another history: fewer commits than are on disk.
    let node = node.restart(dir.path()).await;
    node.assign(1, vec![assignment(2, 1, 0, &[])]).await;
    assert_eq!(node.loaded(), []);
    let ahead = node.keys(&[(2, 1, 0, None)]).await.unwrap_err();
    assert_eq!(ahead.kind, ErrorKind::Corrupt, "{ahead}");
}

/// Waits until sweeping has removed the directory of a partition.
async fn swept_away(node: &Node, place: &Path) {
    eventually(&format!("removal of {}", place.display()), || {
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(node.host.sweep()));
        !place.exists()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unassigned_partition_goes_when_nobody_reads_it() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path()).await;
    node.assign(1, vec![assignment(1, 1, 0, &[]), assignment(2, 1, 0, &[])]).await;
    let write = sealed(&node, 0..10).await;
    node.publish(write, &[(1, 1, 1)]).await.unwrap();
    let plan = node.host.scan(scan_of(&[(1, 1, 1, None)])).await.unwrap();
    let broken = proto::Assignment { schema: bytes::Bytes::from_static(b"?"), ..assignment(2, 1, 0, &[]) };
    node.assign(2, vec![broken]).await;
    assert_eq!(node.keys(&[(1, 1, 1, None)]).await.unwrap_err().kind, ErrorKind::StaleRoute);
    node.host.sweep().await;
    assert!(dir.path().join("partitions/1").exists(), "a reader has it pinned");
    assert_eq!(collect(plan).await.iter().map(RecordBatch::num_rows).sum::<usize>(), 10);
    swept_away(&node, &dir.path().join("partitions/1")).await;
    assert!(dir.path().join("partitions/2").exists(), "assigned, though with a message that cannot be used");
    assert_eq!(std::fs::read_dir(dir.path().join("aside")).unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_the_partitions_own_is_not_removed_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path()).await;
    node.assign(1, vec![assignment(1, 1, 0, &[]), assignment(2, 1, 0, &[])]).await;
    let write = sealed(&node, 0..10).await;
    node.publish(write, &[(1, 1, 1)]).await.unwrap();
    // Somebody keeps another partition in its directory.
    let (place, inside) = (dir.path().join("partitions/1"), dir.path().join("partitions/1/kept"));
    std::fs::create_dir(&inside).unwrap();
    std::fs::write(inside.join("partition.db"), b"rows of somebody").unwrap();
    node.assign(2, vec![]).await;
    swept_away(&node, &dir.path().join("partitions/2")).await;
    assert!(inside.join("partition.db").exists());
    // It is there as ever if it is assigned again.
    node.assign(3, vec![assignment(1, 2, 1, &[(1, write)])]).await;
    assert_eq!(node.keys(&[(1, 2, 1, None)]).await.unwrap(), (0..10).collect::<Vec<i64>>());
    node.assign(4, vec![]).await;
    std::fs::rename(&inside, dir.path().join("kept")).unwrap();
    swept_away(&node, &place).await;
    assert!(dir.path().join("kept/partition.db").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn scans_filter_by_columns_of_the_table_and_keep_streams_apart() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path()).await;
    let ids = [1, 2, 3];
    node.assign(1, ids.iter().map(|id| assignment(*id, 1, 0, &[])).collect()).await;
    let write = WriteId::new();
    let parts: Vec<_> = ids.iter().map(|id| (*id, 1, rows(*id as i64 * 100..*id as i64 * 100 + 50))).collect();
    node.stage(write, "a", false, &parts).await.unwrap();
    node.seal(write, false, &ids.map(|id| (id, 1, 50))).await.unwrap();

    let read: Vec<_> = ids.iter().map(|id| (*id, 1, 1, Some(write))).collect();
    let mut request = scan_of(&read);
    request.projection = Some(vec![1, 0]);
    let column = Arc::new(Column::new("k", 0));
    request.predicates = vec![Arc::new(BinaryExpr::new(column, Operator::GtEq, lit(240i64)))];
    request.streams = 4;
    request.stream_of = Some(vec![2, 0, 2]);
    let plan = node.host.scan(request.clone()).await.unwrap();
    assert_eq!(plan.schema().field(0).name(), "s");
    let mut found = vec![];
    for stream in 0..4 {
        found.push(collect_stream(&plan, stream).await.iter().flat_map(keys_of).collect::<Vec<i64>>());
    }
    assert_eq!(found, [(240..250).collect::<Vec<i64>>(), vec![], (300..350).collect(), vec![]]);

    request.stream_of = None;
    let free = node.host.scan(request.clone()).await.unwrap();
    assert_eq!(collect(free).await.iter().map(RecordBatch::num_rows).sum::<usize>(), 60);
    let narrow = LocalScan { projection: Some(vec![1]), ..request.clone() };
    let narrow = collect(node.host.scan(narrow).await.unwrap()).await;
    assert_eq!(
        narrow.iter().map(|b| (b.num_rows(), b.num_columns())).fold((0, 1), |a, b| (a.0 + b.0, a.1.max(b.1))),
        (60, 1)
    );
    request.partitions = vec![];
    let none = node.host.scan(request).await.unwrap();
    assert_eq!((none.schema(), collect(none).await.len()), (plan.schema(), 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn why_a_partition_is_not_served_is_told_upwards() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path()).await;
    let bad = proto::Assignment { schema: vec![1, 2, 3].into(), ..assignment(2, 4, 0, &[]) };
    let lost = assignment(3, 5, 1, &[(1, WriteId::new())]);
    node.assign(1, vec![assignment(1, 1, 0, &[]), bad, lost]).await;
    assert_eq!(node.loaded(), [(1, 1, 0)]);
    let hindered = node.host.hindered().borrow().clone();
    let told: Vec<_> = hindered.iter().map(|h| (h.partition.0, h.epoch)).collect();
    assert_eq!(told, [(2, 4), (3, 5)]);
    assert!(hindered[0].reason.contains("table orders, partition bucket 2 (id 2) cannot be used"), "{hindered:?}");
    assert!(hindered[1].reason.contains("its directory was lost") && hindered[1].reason.len() <= 300, "{hindered:?}");
    // Said no longer once it is put right, or is nobody's concern.
    node.assign(2, vec![assignment(1, 1, 0, &[]), assignment(2, 4, 0, &[])]).await;
    assert!(node.host.hindered().borrow().is_empty());
    assert_eq!(node.loaded(), [(1, 1, 0), (2, 4, 0)]);
}

/// `CREATE TABLE` asks one list, the storage engine has another.
#[test]
fn schedulers_and_storage_engine_take_the_same_types() {
    use arrow::datatypes::{IntervalUnit, TimeUnit, UnionMode};
    let item = |data_type| Arc::new(Field::new("item", data_type, true));
    let units = [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond];
    let mut plain = vec![
        DataType::Null,
        DataType::Boolean,
        DataType::Int8,
        DataType::Int64,
        DataType::UInt64,
        DataType::Float16,
        DataType::Float64,
        DataType::Utf8,
        DataType::LargeUtf8,
        DataType::Utf8View,
        DataType::Binary,
        DataType::LargeBinary,
        DataType::BinaryView,
        DataType::FixedSizeBinary(16),
        DataType::Date32,
        DataType::Date64,
        DataType::Decimal32(5, 2),
        DataType::Decimal64(12, -1),
        DataType::Decimal128(38, 10),
        DataType::Decimal256(60, 3),
        DataType::Decimal256(60, -3),
        DataType::Struct(Default::default()),
        DataType::Union(arrow::datatypes::UnionFields::empty(), UnionMode::Dense),
        DataType::RunEndEncoded(Arc::new(Field::new("run_ends", DataType::Int32, false)), item(DataType::Utf8)),
        DataType::ListView(item(DataType::Int64)),
        DataType::Map(
            Arc::new(Field::new_struct(
                "entries",
                vec![Field::new("keys", DataType::Utf8, false), Field::new("values", DataType::Int64, true)],
                false,
            )),
            false,
        ),
    ];
    plain.extend([IntervalUnit::YearMonth, IntervalUnit::DayTime, IntervalUnit::MonthDayNano].map(DataType::Interval));
    for unit in units {
        plain.extend([DataType::Time32(unit), DataType::Time64(unit), DataType::Duration(unit)]);
        for zone in [None, Some("+02:00"), Some("UTC"), Some("Europe/Madrid"), Some("No/Where"), Some("")] {
            plain.push(DataType::Timestamp(unit, zone.map(Into::into)));
        }
    }
    for key in [DataType::Int8, DataType::UInt16, DataType::Int32, DataType::UInt64] {
        for value in [DataType::Utf8, DataType::Utf8View, DataType::LargeBinary, DataType::Int16, DataType::Float64] {
            plain.push(DataType::Dictionary(Box::new(key.clone()), Box::new(value)));
        }
    }
    let nested = plain.iter().flat_map(|inner| {
        [
            DataType::List(item(inner.clone())),
            DataType::FixedSizeList(item(inner.clone()), 3),
            DataType::Struct(vec![Field::new("a", DataType::Int8, true), Field::new("b", inner.clone(), true)].into()),
        ]
    });
    for data_type in plain.iter().cloned().chain(nested) {
        let schema =
            Schema::new(vec![Field::new("k", DataType::Int64, false), Field::new("c", data_type.clone(), true)]);
        let asked = ancho_common::storable::check(&schema);
        assert_eq!(asked.is_ok(), cayenne::check_schema(&schema).is_ok(), "{data_type}: {asked:?}");
        let key = ancho_common::storable::is_key_type(&data_type);
        assert_eq!(key, cayenne::is_key_type(&data_type), "{data_type} as a primary key");
    }
}
