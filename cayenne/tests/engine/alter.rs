//! Columns change, rows stay.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arrow::array::*;
use arrow::datatypes::*;
use cayenne::*;
use datafusion::common::ScalarValue;
use datafusion::datasource::MemTable;
use datafusion::prelude::{SessionConfig, SessionContext};
use tempfile::TempDir;
use uuid::Uuid;

use crate::harness::*;

fn add(name: &str, data_type: DataType, default: Option<ScalarValue>) -> SchemaChange {
    let field = Field::new(name, data_type, default.is_none());
    SchemaChange::Add { parent: Vec::new(), field, default }
}

fn path(path: &str) -> Vec<String> {
    path.split('.').map(str::to_owned).collect()
}

fn drop_column(at: &str) -> SchemaChange {
    SchemaChange::Drop { path: path(at) }
}

fn rename(at: &str, to: &str) -> SchemaChange {
    SchemaChange::Rename { path: path(at), to: to.to_owned() }
}

fn widen(at: &str, to: DataType) -> SchemaChange {
    SchemaChange::Widen { path: path(at), to }
}

async fn alter(partition: &Partition, change: SchemaChange) {
    let id = Uuid::new_v4();
    partition.alter(id, change).await.unwrap();
    partition.publish(id, partition.version() + 1).await.unwrap();
}

fn batch(schema: &SchemaRef, columns: Vec<ArrayRef>) -> RecordBatch {
    RecordBatch::try_new(Arc::clone(schema), columns).unwrap()
}

/// Compares queries over the partition with the same ones over rows in memory, also after a restart and a compaction.
async fn check(home: &TempDir, partition: Partition, expected: Vec<RecordBatch>, queries: &[&str]) -> Partition {
    let schema = partition.schema();
    for batch in &expected {
        assert_eq!(batch.schema(), schema);
    }
    let memory = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2));
    memory.register_table("t", Arc::new(MemTable::try_new(schema, vec![expected]).unwrap())).unwrap();
    let all = ["SELECT * FROM t", "SELECT count(*) FROM t"];
    let mut partition = partition;
    for state in ["as altered", "opened again", "compacted"] {
        let ours = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2));
        ours.register_table("t", Arc::new(CayenneTable::try_new(vec![partition.clone()]).unwrap())).unwrap();
        for sql in all.iter().chain(queries) {
            let right = answer(&memory, sql).await.unwrap_or_else(|error| panic!("{sql} in memory: {error}"));
            let found = answer(&ours, sql).await.unwrap_or_else(|error| panic!("{sql}, {state}: {error}"));
            assert_eq!(found, right, "{sql}, {state}");
        }
        std::mem::drop(ours);
        match state {
            "as altered" => {
                std::mem::drop(partition);
                partition = Partition::open(&home.path().join("p"), PartitionOptions::default()).unwrap();
            }
            "opened again" => {
                partition.compact_all(&CompactionResources::new(32 << 20, None).unwrap()).await.unwrap();
                assert!(partition.summary().files <= 1);
            }
            _ => {}
        }
    }
    assert!(partition.verify().await.unwrap().damaged.is_empty());
    partition
}

fn home() -> (TempDir, Partition) {
    let home = TempDir::new().unwrap();
    let partition = create(&home.path().join("p"), numbers_schema());
    (home, partition)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_come_go_and_change_names_and_old_files_read_right() {
    let (home, partition) = home();
    put(&partition, WriteMode::Append, &[numbers(0, 100)]).await;
    let before = partition.pin(None).unwrap();
    alter(&partition, add("grade", DataType::Int32, Some(ScalarValue::Int32(Some(7))))).await;
    alter(&partition, add("note", DataType::Utf8View, None)).await;
    alter(&partition, rename("name", "title")).await;
    // The same names again, for other columns.
    alter(&partition, add("name", DataType::Date32, None)).await;
    alter(&partition, drop_column("note")).await;
    alter(&partition, add("note", DataType::Boolean, None)).await;
    assert_eq!(partition.version(), 7, "a change is a version");
    let schema = partition.schema();
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(names, ["id", "title", "grade", "name", "note"]);
    assert!(!schema.field(2).is_nullable());

    let new = batch(
        &schema,
        vec![
            Arc::new(Int64Array::from(vec![100, 101])),
            Arc::new(StringViewArray::from(vec![Some("new"), None])),
            Arc::new(Int32Array::from(vec![1, 8])),
            Arc::new(Date32Array::from(vec![Some(10), None])),
            Arc::new(BooleanArray::from(vec![Some(true), None])),
        ],
    );
    put(&partition, WriteMode::Append, std::slice::from_ref(&new)).await;
    let old = numbers(0, 100);
    let old = batch(
        &schema,
        vec![
            Arc::clone(old.column(0)),
            Arc::clone(old.column(1)),
            Arc::new(Int32Array::from(vec![7; 100])),
            new_null_array(&DataType::Date32, 100),
            new_null_array(&DataType::Boolean, 100),
        ],
    );
    let queries = [
        "SELECT id, title FROM t WHERE title LIKE 'n%' AND id > 95",
        "SELECT id FROM t WHERE grade = 7 AND id < 3",
        "SELECT id FROM t WHERE grade <> 7",
        "SELECT grade, count(*), min(id) FROM t GROUP BY grade",
        "SELECT id FROM t WHERE name IS NULL AND id % 50 = 1",
        "SELECT id FROM t WHERE name = DATE '1970-01-11'",
        "SELECT id FROM t WHERE note",
        "SELECT count(note), min(grade), max(grade), min(name), max(title) FROM t",
        "SELECT title, id + grade FROM t ORDER BY id DESC LIMIT 5",
        "SELECT sum(grade) FROM t WHERE coalesce(name, DATE '2020-01-01') > DATE '2000-01-01'",
    ];
    // The version from before has its columns still.
    assert_eq!(before.schema(), numbers_schema());
    let rows = run(scan(&[before], &ScanRequest::default()).unwrap()).await;
    assert_eq!(arrow::compute::concat_batches(&numbers_schema(), &rows).unwrap(), numbers(0, 100));
    check(&home, partition, vec![old, new], &queries).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wider_types_hold_old_and_new_values() {
    let schema = Arc::new(Schema::new(vec![
        Field::new("i", DataType::Int32, false),
        Field::new("u", DataType::UInt8, true),
        Field::new("f", DataType::Float32, true),
        Field::new("d", DataType::Decimal128(9, 2), true),
        Field::new("t", DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())), true),
        Field::new("s", DataType::Utf8, true),
    ]));
    let home = TempDir::new().unwrap();
    let partition = create(&home.path().join("p"), Arc::clone(&schema));
    let old = batch(
        &schema,
        vec![
            Arc::new(Int32Array::from(vec![i32::MIN, 0, i32::MAX])),
            Arc::new(UInt8Array::from(vec![Some(255), None, Some(0)])),
            Arc::new(Float32Array::from(vec![Some(1.5), Some(f32::NAN), None])),
            Arc::new(
                Decimal128Array::from(vec![Some(-999_999_999), None, Some(1)]).with_precision_and_scale(9, 2).unwrap(),
            ),
            Arc::new(
                TimestampMicrosecondArray::from(vec![Some(1_700_000_000_123_456), Some(0), None])
                    .with_timezone("+00:00"),
            ),
            Arc::new(StringArray::from(vec![Some("a"), None, Some("z")])),
        ],
    );
    put(&partition, WriteMode::Append, std::slice::from_ref(&old)).await;
    for (column, to) in [
        ("i", DataType::Int64),
        ("u", DataType::Int16),
        ("u", DataType::Int32),
        ("f", DataType::Float64),
        ("d", DataType::Decimal128(20, 4)),
        ("t", DataType::Timestamp(TimeUnit::Nanosecond, Some("+00:00".into()))),
        ("s", DataType::Utf8View),
    ] {
        alter(&partition, widen(column, to)).await;
    }
    let schema = partition.schema();
    let new = batch(
        &schema,
        vec![
            Arc::new(Int64Array::from(vec![i64::MAX])),
            Arc::new(Int32Array::from(vec![-70_000])),
            Arc::new(Float64Array::from(vec![1e300])),
            Arc::new(Decimal128Array::from(vec![99_999_999_999_999_999_999]).with_precision_and_scale(20, 4).unwrap()),
            Arc::new(TimestampNanosecondArray::from(vec![1_700_000_000_123_456_789]).with_timezone("+00:00")),
            Arc::new(StringViewArray::from(vec!["b"])),
        ],
    );
    put(&partition, WriteMode::Append, std::slice::from_ref(&new)).await;
    let columns = old.columns().iter().zip(schema.fields());
    let old = columns.map(|(column, field)| arrow::compute::cast(column, field.data_type()).unwrap()).collect();
    let old = batch(&schema, old);
    let queries = [
        "SELECT i FROM t WHERE i > 2147483646",
        "SELECT i FROM t WHERE i = -2147483648",
        "SELECT u FROM t WHERE u < 0 OR u = 255",
        "SELECT f FROM t WHERE f > 1",
        "SELECT f FROM t WHERE isnan(f)",
        "SELECT d FROM t WHERE d < -9999999.985",
        "SELECT d FROM t WHERE d IN (0.01, 7)",
        "SELECT t FROM t WHERE t = TIMESTAMP '2023-11-14T22:13:20.123456Z'",
        "SELECT t FROM t WHERE t > TIMESTAMP '2023-11-14T22:13:20.123456Z'",
        "SELECT s FROM t WHERE s >= 'b'",
        "SELECT min(i), max(i), min(u), max(u), min(d), max(d), min(t), max(t), min(s), max(s) FROM t",
    ];
    check(&home, partition, vec![old, new], &queries).await;
}

/// T23, and renaming, dropping and widening below it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fields_inside_lists_of_structs_change_like_columns() {
    let event = Fields::from(vec![Field::new("a", DataType::Int32, true), Field::new("x", DataType::Utf8View, true)]);
    let events = |fields: &Fields| DataType::new_list(DataType::Struct(fields.clone()), true);
    let schema = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("events", events(&event), true),
    ]));
    let home = TempDir::new().unwrap();
    let partition = create(&home.path().join("p"), Arc::clone(&schema));
    let list = |fields: &Fields, columns: Vec<ArrayRef>| -> ArrayRef {
        let items = StructArray::new(fields.clone(), columns, Some(vec![true, false, true].into()));
        let offsets = arrow::buffer::OffsetBuffer::from_lengths([2, 0, 0, 1]);
        let nulls = Some(vec![true, true, false, true].into());
        Arc::new(ListArray::new(
            Arc::new(Field::new_list_field(DataType::Struct(fields.clone()), true)),
            offsets,
            Arc::new(items),
            nulls,
        ))
    };
    let a: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None, Some(3)]));
    let x: ArrayRef = Arc::new(StringViewArray::from(vec!["p", "q", "r"]));
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![0, 1, 2, 3]));
    let old = batch(&schema, vec![Arc::clone(&ids), list(&event, vec![Arc::clone(&a), x])]);
    put(&partition, WriteMode::Append, &[old]).await;
    let b = SchemaChange::Add { parent: path("events"), field: Field::new("b", DataType::Int64, true), default: None };
    alter(&partition, b).await;
    alter(&partition, drop_column("events.x")).await;
    alter(&partition, widen("events.a", DataType::Int64)).await;
    alter(&partition, rename("events.a", "x")).await;

    let schema = partition.schema();
    let now = Fields::from(vec![Field::new("x", DataType::Int64, true), Field::new("b", DataType::Int64, true)]);
    assert_eq!(schema.field(1).data_type(), &events(&now));
    let x = arrow::compute::cast(&a, &DataType::Int64).unwrap();
    let old = batch(&schema, vec![Arc::clone(&ids), list(&now, vec![x, new_null_array(&DataType::Int64, 3)])]);
    let wide: ArrayRef = Arc::new(Int64Array::from(vec![i64::MAX, 0, 7]));
    let new =
        batch(&schema, vec![Arc::new(Int64Array::from(vec![4, 5, 6, 7])), list(&now, vec![Arc::clone(&wide), wide])]);
    put(&partition, WriteMode::Append, std::slice::from_ref(&new)).await;
    let queries = [
        "SELECT id, events FROM t WHERE id >= 3",
        "SELECT id, unnest(events) AS e FROM t",
        "SELECT id, e['x'], e['b'] FROM (SELECT id, unnest(events) AS e FROM t) WHERE e['b'] IS NULL",
        "SELECT id FROM t WHERE events[1]['x'] = 1 OR events[1]['b'] = 7",
        "SELECT count(events) FROM t WHERE events IS NOT NULL",
    ];
    check(&home, partition, vec![old, new], &queries).await;
}

/// T22, the part of one partition: a value that needs the new width is refused until there is one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_and_changes_on_their_way_do_not_hurt_each_other() {
    let micros = DataType::Timestamp(TimeUnit::Microsecond, None);
    let nanos = DataType::Timestamp(TimeUnit::Nanosecond, None);
    let schema = Arc::new(Schema::new(vec![Field::new("t", micros, true)]));
    let home = TempDir::new().unwrap();
    let partition = create(&home.path().join("p"), Arc::clone(&schema));
    let at = |micros: i64| batch(&schema, vec![Arc::new(TimestampMicrosecondArray::from(vec![Some(micros), None]))]);
    // 3000-01-01 has no place in nanoseconds of 64 bits.
    let far = 32_503_680_000_000_000;
    put(&partition, WriteMode::Append, &[at(1)]).await;
    let refused = partition.alter(Uuid::new_v4(), widen("t", DataType::Int64)).await.unwrap_err();
    assert!(matches!(refused, Error::SchemaChangeRefused { .. }), "{refused}");
    let staged = stage(&partition, WriteMode::Append, &[at(far)]).await.unwrap();
    let refused = partition.alter(Uuid::new_v4(), widen("t", nanos.clone())).await.unwrap_err();
    assert!(refused.to_string().contains("does not fit"), "{refused}");
    partition.discard(staged).await.unwrap();

    let before = stage(&partition, WriteMode::Append, &[at(2)]).await.unwrap();
    let change = Uuid::new_v4();
    partition.alter(change, widen("t", nanos.clone())).await.unwrap();
    partition.alter(change, widen("t", nanos.clone())).await.unwrap();
    let other = partition.alter(Uuid::new_v4(), drop_column("t")).await.unwrap_err();
    assert!(matches!(other, Error::WriteConflict { .. }) && other.is_retryable(), "{other}");
    let narrow = stage(&partition, WriteMode::Append, &[at(far)]).await.unwrap_err();
    assert!(matches!(narrow, Error::WriteConflict { .. }), "{narrow}");
    let after = stage(&partition, WriteMode::Append, &[at(3)]).await.unwrap();
    let mut late = partition.begin_write(Uuid::new_v4(), WriteMode::Append).await.unwrap();
    late.write(at(4)).await.unwrap();
    std::mem::drop(partition);
    late.end_file().await.unwrap();
    std::mem::drop(late);

    // A staged change survives a restart.
    let partition = Partition::open(&home.path().join("p"), PartitionOptions::default()).unwrap();
    assert_eq!(partition.staged().len(), 3);
    let mut late = partition.begin_write(Uuid::new_v4(), WriteMode::Append).await.unwrap();
    late.write(at(4)).await.unwrap();
    partition.publish(before, 2).await.unwrap();
    partition.publish(change, 3).await.unwrap();
    partition.publish(change, 3).await.unwrap();
    partition.publish(after, 4).await.unwrap();
    assert!(matches!(late.finish().await, Err(Error::WriteConflict { .. })), "its rows have the old type");
    let schema = partition.schema();
    assert_eq!(schema.field(0).data_type(), &nanos);
    let rows = |nanos: i64| batch(&schema, vec![Arc::new(TimestampNanosecondArray::from(vec![Some(nanos), None]))]);
    put(&partition, WriteMode::Append, &[rows(4_001)]).await;
    let expected = [1_000, 2_000, 3_000, 4_001].map(rows).to_vec();
    let queries =
        ["SELECT max(t), min(t), count(t) FROM t", "SELECT t FROM t WHERE t > TIMESTAMP '1970-01-01T00:00:00.000003'"];
    let partition = check(&home, partition, expected, &queries).await;
    let old = partition.pin(Some(2)).unwrap();
    assert_eq!(old.schema().field(0).data_type(), &DataType::Timestamp(TimeUnit::Microsecond, None));
    assert_eq!(
        run(scan(&[old], &ScanRequest::default()).unwrap()).await.iter().map(RecordBatch::num_rows).sum::<usize>(),
        4
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_discarded_change_leaves_no_trace_and_its_names_are_free() {
    let (home, partition) = home();
    put(&partition, WriteMode::Append, &[numbers(0, 10)]).await;
    for data_type in [DataType::Date32, DataType::Utf8View] {
        let id = Uuid::new_v4();
        partition.alter(id, add("x", data_type, None)).await.unwrap();
        partition.discard(id).await.unwrap();
    }
    assert_eq!(partition.schema(), numbers_schema());
    assert_eq!(partition.check_alter(&drop_column("name")).unwrap().fields().len(), 1);
    assert!(partition.check_alter(&drop_column("nothing")).is_err());
    alter(&partition, add("x", DataType::Int8, None)).await;
    partition.collect_garbage(SystemTime::now() + Duration::from_secs(3_600)).await.unwrap();
    let rows = numbers(0, 10);
    let expected = vec![Arc::clone(rows.column(0)), Arc::clone(rows.column(1)), new_null_array(&DataType::Int8, 10)];
    let expected = batch(&partition.schema(), expected);
    check(&home, partition, vec![expected], &["SELECT id FROM t WHERE x IS NULL"]).await;
}

/// Partitions of one table need not store a column under the same name: some are older than its renaming.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitions_from_before_and_after_a_renaming_are_read_together() {
    let (_home, old) = home();
    let table = CayenneTable::try_new(vec![old.clone()]).unwrap();
    put(&old, WriteMode::Append, &[numbers(0, 100)]).await;
    alter(&old, rename("name", "title")).await;
    let stale = SessionContext::new();
    stale.register_table("t", Arc::new(table)).unwrap();
    assert!(answer(&stale, "SELECT * FROM t").await.unwrap_err().contains("have changed"));

    let (rows, schema) = (numbers(100, 300), old.schema());
    let new = batch(&schema, rows.columns().to_vec());
    let dirs: Vec<TempDir> = (0..2).map(|_| TempDir::new().unwrap()).collect();
    let mut partitions = vec![old];
    for dir in &dirs {
        let partition = create(dir.path(), Arc::clone(&schema));
        alter(&partition, add("x", DataType::Int8, Some(ScalarValue::Int8(Some(3))))).await;
        alter(&partition, drop_column("x")).await;
        put(&partition, WriteMode::Append, std::slice::from_ref(&new)).await;
        partitions.push(partition);
    }
    // And now each stores this one under another name.
    for partition in &partitions {
        alter(partition, add("x", DataType::Int16, Some(ScalarValue::Int16(Some(9))))).await;
    }
    let schema = partitions[0].schema();
    let with_x = |rows: &RecordBatch| {
        let mut columns = rows.columns().to_vec();
        columns.push(Arc::new(Int16Array::from(vec![9; rows.num_rows()])));
        batch(&schema, columns)
    };
    let expected = vec![with_x(&numbers(0, 100)), with_x(&new), with_x(&new)];
    for streams in [1, 2, 3, 7] {
        let pins: Vec<PinnedVersion> = partitions.iter().map(|partition| partition.pin(None).unwrap()).collect();
        let plan = scan(&pins, &ScanRequest { streams, ..ScanRequest::default() }).unwrap();
        assert_eq!(plan.properties().output_partitioning().partition_count(), streams);
        let (ours, memory) = sessions(partitions.clone(), expected.clone(), streams);
        for sql in [
            "SELECT * FROM t",
            "SELECT count(*), min(title), max(id), sum(x) FROM t",
            "SELECT id FROM t WHERE title LIKE '%7' AND x = 9 AND id < 250",
            "SELECT id, x FROM t WHERE id IN (3, 150)",
        ] {
            same(&ours, &memory, sql).await;
        }
    }
}
