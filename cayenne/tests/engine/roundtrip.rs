//! What goes in comes out, with the same types.

use std::collections::HashMap;
use std::str::FromStr;
use std::sync::Arc;

use arrow::array::*;
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::*;
use cayenne::{
    Compression, Error, Partition, PartitionOptions, ScanRequest, WriteMode, WriteOptions, check_schema, scan,
};
use datafusion::common::ScalarValue;
use tempfile::TempDir;

use crate::harness::*;

#[expect(non_camel_case_types, reason = "written like the other primitive types")]
type f16 = <Float16Type as ArrowPrimitiveType>::Native;

const ROWS: usize = 3_000;

/// Some values are NULL, neighbours repeat, and the extremes are there.
fn nullable<T: Clone>(values: &[T]) -> Vec<Option<T>> {
    (0..ROWS).map(|row| (row % 5 != 3).then(|| values[(row / 3) % values.len()].clone())).collect()
}

fn integers<T: ArrowPrimitiveType>(values: &[T::Native]) -> PrimitiveArray<T>
where
    PrimitiveArray<T>: From<Vec<Option<T::Native>>>,
{
    PrimitiveArray::<T>::from(nullable(values))
}

fn texts() -> Vec<Option<String>> {
    let long = "a long text with ünïcode and 'quotes' ".repeat(12);
    nullable(&["".to_owned(), "a".to_owned(), "a/b=%".to_owned(), "日本語のテキスト".to_owned(), long])
}

fn micros(zone: Option<&str>) -> ArrayRef {
    let values = integers::<TimestampMicrosecondType>(&[
        -62_135_596_800_000_000,
        -1,
        0,
        1_700_000_000_123_456,
        253_402_207_199_999_999,
    ]);
    Arc::new(match zone {
        Some(zone) => values.with_timezone(zone),
        None => values,
    })
}

fn columns() -> Vec<(&'static str, ArrayRef)> {
    let strings = StringArray::from(texts());
    let text = |data_type: &DataType| cast(&strings, data_type).unwrap();
    let decimals = integers::<Decimal128Type>(&[0, 1, -1, 99_999_999_999_999_999_999]);
    let lists = {
        let items = Int32Array::from_iter((0..ROWS as i32 * 2).map(|i| (i % 4 != 1).then_some(i)));
        let lengths = (0..ROWS).map(|row| if row % 5 == 3 { 0 } else { row % 4 }).collect::<Vec<_>>();
        let offsets = OffsetBuffer::<i32>::from_lengths(lengths);
        let nulls = NullBuffer::from_iter((0..ROWS).map(|row| row % 5 != 3));
        let item = Arc::new(Field::new_list_field(DataType::Int32, true));
        ListArray::new(item, offsets, Arc::new(items), Some(nulls))
    };
    let nested = {
        let fields = Fields::from(vec![
            Field::new("x", DataType::Int64, true),
            Field::new("s", DataType::Utf8View, true),
            Field::new("inner", DataType::Struct(Fields::from(vec![Field::new("y", DataType::Float64, false)])), true),
        ]);
        let inner = StructArray::new(
            Fields::from(vec![Field::new("y", DataType::Float64, false)]),
            vec![Arc::new(Float64Array::from_iter_values((0..ROWS).map(|row| row as f64 / 8.0)))],
            Some(NullBuffer::from_iter((0..ROWS).map(|row| row % 3 != 0))),
        );
        StructArray::new(
            fields,
            vec![Arc::new(integers::<Int64Type>(&[1, 2, 3])), text(&DataType::Utf8View), Arc::new(inner)],
            Some(NullBuffer::from_iter((0..ROWS).map(|row| row % 5 != 4))),
        )
    };
    let triples = {
        let item = Arc::new(Field::new("element", DataType::Float32, true));
        let items = Float32Array::from_iter((0..ROWS * 3).map(|i| (i % 11 != 0).then_some(i as f32)));
        FixedSizeListArray::new(item, 3, Arc::new(items), None)
    };
    let structs_in_list = {
        let fields = Fields::from(vec![Field::new("a", DataType::Utf8, true)]);
        let entries = StructArray::new(fields.clone(), vec![Arc::new(strings.clone())], None);
        let item = Arc::new(Field::new_list_field(DataType::Struct(fields), true));
        let offsets = OffsetBuffer::<i64>::from_lengths((0..ROWS).map(|_| 1));
        LargeListArray::new(item, offsets, Arc::new(entries), None)
    };
    vec![
        ("bool", Arc::new(BooleanArray::from(nullable(&[true, false, false])))),
        ("i8", Arc::new(integers::<Int8Type>(&[i8::MIN, 0, i8::MAX]))),
        ("i16", Arc::new(integers::<Int16Type>(&[i16::MIN, 0, i16::MAX]))),
        ("i32", Arc::new(integers::<Int32Type>(&[i32::MIN, 0, 7, i32::MAX]))),
        ("i64", Arc::new(integers::<Int64Type>(&[i64::MIN, 0, 7, i64::MAX]))),
        ("u8", Arc::new(integers::<UInt8Type>(&[0, u8::MAX]))),
        ("u16", Arc::new(integers::<UInt16Type>(&[0, u16::MAX]))),
        ("u32", Arc::new(integers::<UInt32Type>(&[0, u32::MAX]))),
        ("u64", Arc::new(integers::<UInt64Type>(&[0, u64::MAX]))),
        ("f16", Arc::new(integers::<Float16Type>(&[f16::MIN, f16::from_f32(-0.0), f16::from_f32(1.5), f16::MAX]))),
        ("f32", Arc::new(integers::<Float32Type>(&[f32::MIN, -0.0, 0.0, 0.1, f32::INFINITY]))),
        ("f64", Arc::new(integers::<Float64Type>(&[f64::MIN, -0.0, 0.0, 0.1, f64::NEG_INFINITY, 5e-324]))),
        ("d32", Arc::new(integers::<Decimal32Type>(&[0, 1, -999_999_999]).with_precision_and_scale(9, 2).unwrap())),
        (
            "d64",
            Arc::new(integers::<Decimal64Type>(&[0, 1, -999_999_999_999]).with_precision_and_scale(18, 4).unwrap()),
        ),
        ("d128", Arc::new(decimals.clone().with_precision_and_scale(38, 10).unwrap())),
        ("d128_short", Arc::new(integers::<Decimal128Type>(&[0, 1, -99_999]).with_precision_and_scale(15, 2).unwrap())),
        (
            "d256",
            Arc::new(
                integers::<Decimal256Type>(&[
                    i256::ZERO,
                    i256::from_str("-98765432109876543210987654321098765432109876543210").unwrap(),
                ])
                .with_precision_and_scale(76, 5)
                .unwrap(),
            ),
        ),
        ("utf8", Arc::new(strings.clone())),
        ("large_utf8", text(&DataType::LargeUtf8)),
        ("view", text(&DataType::Utf8View)),
        ("binary", text(&DataType::Binary)),
        ("large_binary", text(&DataType::LargeBinary)),
        ("binary_view", text(&DataType::BinaryView)),
        ("date32", Arc::new(integers::<Date32Type>(&[i32::MIN, 0, 20_000]))),
        ("date64", Arc::new(integers::<Date64Type>(&[-86_400_000, 0, 1_700_006_400_000]))),
        ("time_s", Arc::new(integers::<Time32SecondType>(&[0, 86_399]))),
        ("time_ms", Arc::new(integers::<Time32MillisecondType>(&[0, 86_399_999]))),
        ("time_us", Arc::new(integers::<Time64MicrosecondType>(&[0, 86_399_999_999]))),
        ("time_ns", Arc::new(integers::<Time64NanosecondType>(&[0, 86_399_999_999_999]))),
        ("ts_s", Arc::new(integers::<TimestampSecondType>(&[-1, 0, 9_999_999_999]))),
        ("ts_ms", Arc::new(integers::<TimestampMillisecondType>(&[-1, 0, 9_999_999_999]))),
        ("ts_us", micros(None)),
        ("ts_ns", Arc::new(integers::<TimestampNanosecondType>(&[i64::MIN + 1, 0, i64::MAX]))),
        ("ts_zero", micros(Some("+00:00"))),
        ("ts_short", micros(Some("-0330"))),
        ("ts_utc", micros(Some("Etc/UTC"))),
        ("ts_madrid", micros(Some("Europe/Madrid"))),
        ("dict", text(&DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)))),
        ("dict_u32", text(&DataType::Dictionary(Box::new(DataType::UInt32), Box::new(DataType::LargeUtf8)))),
        (
            "dict_int",
            cast(
                &integers::<Int64Type>(&[5, -7, 9]),
                &DataType::Dictionary(Box::new(DataType::Int64), Box::new(DataType::Int64)),
            )
            .unwrap(),
        ),
        ("list", Arc::new(lists)),
        ("triple", Arc::new(triples)),
        ("structs", Arc::new(structs_in_list)),
        ("nested", Arc::new(nested)),
    ]
}

fn schema_of(columns: &[(&'static str, ArrayRef)]) -> SchemaRef {
    let mut fields = vec![Field::new("row", DataType::Int64, false)];
    fields.extend(columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true)));
    Arc::new(Schema::new(fields))
}

fn batch_of(columns: &[(&'static str, ArrayRef)]) -> RecordBatch {
    let mut arrays: Vec<ArrayRef> = vec![Arc::new(Int64Array::from_iter_values(0..ROWS as i64))];
    arrays.extend(columns.iter().map(|(_, array)| Arc::clone(array)));
    RecordBatch::try_new(schema_of(columns), arrays).unwrap()
}

/// Back in the order of the first column.
fn in_order(schema: &SchemaRef, batches: &[RecordBatch]) -> RecordBatch {
    let all = concat_batches(schema, batches).unwrap();
    let order = arrow::compute::sort_to_indices(all.column(0), None, None).unwrap();
    arrow::compute::take_record_batch(&all, &order).unwrap()
}

/// Dictionaries may come back with other keys; everything else must be equal as it is.
fn assert_same(expected: &RecordBatch, found: &RecordBatch) {
    assert_eq!(expected.schema(), found.schema());
    assert_eq!(expected.num_rows(), found.num_rows());
    for (index, field) in expected.schema().fields().iter().enumerate() {
        let plain = |array: &ArrayRef| match array.data_type() {
            DataType::Dictionary(_, value) => cast(array, value).unwrap(),
            _ => Arc::clone(array),
        };
        let (expected, found) = (plain(expected.column(index)), plain(found.column(index)));
        assert_eq!(&expected, &found, "column '{}'", field.name());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_type_comes_back_as_it_was() {
    let columns = columns();
    let batch = batch_of(&columns);
    let dir = TempDir::new().unwrap();
    let partition = create(dir.path(), batch.schema());
    // In pieces that do not fit the blocks of the file, so slices and joins of arrays are met.
    let pieces: Vec<RecordBatch> = (0..ROWS).step_by(700).map(|at| batch.slice(at, 700.min(ROWS - at))).collect();
    put(&partition, WriteMode::Append, &pieces).await;
    let found = in_order(&batch.schema(), &read_version(&partition, None).await);
    assert_same(&batch, &found);

    // And after opening again, column by column.
    drop(partition);
    let partition = Partition::open(dir.path(), PartitionOptions::default()).unwrap();
    assert_eq!(partition.schema(), batch.schema());
    let pin = partition.pin(None).unwrap();
    for index in 1..batch.num_columns() {
        let request = ScanRequest { projection: Some(vec![0, index]), ..ScanRequest::default() };
        let plan = scan(std::slice::from_ref(&pin), &request).unwrap();
        let expected = batch.project(&[0, index]).unwrap();
        let found = in_order(&expected.schema(), &run(plan).await);
        assert_same(&expected, &found);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn zstd_files_hold_the_same_and_a_write_can_end_its_file_early() {
    let columns = columns();
    let batch = batch_of(&columns);
    let mut bytes = Vec::new();
    for compression in [Compression::Btrblocks, Compression::Zstd] {
        let dir = TempDir::new().unwrap();
        let partition = create(dir.path(), batch.schema());
        let id = uuid::Uuid::new_v4();
        let options = WriteOptions { compression, ..WriteOptions::default() };
        let mut writer = partition.begin_write_with(id, WriteMode::Append, options).await.unwrap();
        assert!(!writer.has_open_file());
        writer.check(&batch).unwrap();
        writer.write(batch.slice(0, 1000)).await.unwrap();
        assert!(writer.has_open_file());
        writer.end_file().await.unwrap();
        writer.end_file().await.unwrap();
        assert!(!writer.has_open_file());
        writer.write(batch.slice(1000, ROWS - 1000)).await.unwrap();
        assert_eq!(writer.finish().await.unwrap().data.files, 2);
        partition.publish(id, 1).await.unwrap();
        drop(partition);
        let partition = Partition::open(dir.path(), PartitionOptions::default()).unwrap();
        assert_same(&batch, &in_order(&batch.schema(), &read_version(&partition, None).await));
        assert_eq!(data_files(dir.path()).len(), 2);
        bytes.push(partition.summary().bytes);
    }
    assert!(bytes[1] != bytes[0], "the choice has an effect: {bytes:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_end_at_the_size_that_the_write_asks_for() {
    let dir = TempDir::new().unwrap();
    let partition = create(dir.path(), numbers_schema());
    let options = WriteOptions { target_file_bytes: Some(64 << 10), ..WriteOptions::default() };
    let id = uuid::Uuid::new_v4();
    let mut writer = partition.begin_write_with(id, WriteMode::Append, options).await.unwrap();
    for from in (0..600_000).step_by(60_000) {
        writer.write(numbers(from, from + 60_000)).await.unwrap();
    }
    let summary = writer.finish().await.unwrap().data;
    assert!(summary.files > 1 && summary.rows == 600_000, "{} files", summary.files);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn empty_and_all_null_columns_come_back() {
    let columns = columns();
    let schema = schema_of(&columns);
    let dir = TempDir::new().unwrap();
    let partition = create(dir.path(), Arc::clone(&schema));
    let nothing = RecordBatch::new_empty(Arc::clone(&schema));
    let version = put(&partition, WriteMode::Append, &[nothing]).await;
    assert_eq!(version, 1);
    assert_eq!(partition.summary().rows, 0);
    assert!(data_files(dir.path()).is_empty());
    let plan = scan(&[partition.pin(None).unwrap()], &ScanRequest::default()).unwrap();
    assert_eq!(plan.schema(), schema);
    assert_eq!(run(plan).await.iter().map(RecordBatch::num_rows).sum::<usize>(), 0);

    let nulls: Vec<(&'static str, ArrayRef)> =
        columns.iter().map(|(name, array)| (*name, new_null_array(array.data_type(), ROWS))).collect();
    let batch = batch_of(&nulls);
    put(&partition, WriteMode::Append, std::slice::from_ref(&batch)).await;
    let summary = partition.summary();
    assert_eq!(summary.rows, ROWS as u64);
    assert!(summary.columns[1..].iter().all(|column| column.null_count == ROWS as u64 && column.min.is_none()));
    let found = in_order(&schema, &read_version(&partition, None).await);
    assert_same(&batch, &found);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_of_one_struct_takes_no_rows_and_some_rows() {
    let fields = Fields::from(vec![Field::new("a", DataType::Int32, true)]);
    let schema = Arc::new(Schema::new(vec![Field::new("s", DataType::Struct(fields.clone()), true)]));
    let dir = TempDir::new().unwrap();
    let partition = create(dir.path(), Arc::clone(&schema));
    put(&partition, WriteMode::Append, &[]).await;
    assert!(read_version(&partition, None).await.iter().all(|batch| batch.num_rows() == 0));
    let column = StructArray::new(fields, vec![Arc::new(Int32Array::from(vec![Some(1), None]))], None);
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(column)]).unwrap();
    put(&partition, WriteMode::Append, std::slice::from_ref(&batch)).await;
    assert_eq!(concat_batches(&schema, &read_version(&partition, None).await).unwrap(), batch);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t17_very_repetitive_rows_are_split_and_counted() {
    const MANY: usize = 10_000_000;
    let schema = Arc::new(Schema::new(vec![
        Field::new("one", DataType::Int64, false),
        Field::new("none", DataType::Utf8View, true),
        Field::new("yes", DataType::Boolean, false),
    ]));
    let dir = TempDir::new().unwrap();
    let partition = create(dir.path(), Arc::clone(&schema));
    let batch = RecordBatch::try_new(
        Arc::clone(&schema),
        vec![
            Arc::new(Int64Array::from(vec![42; MANY])),
            new_null_array(&DataType::Utf8View, MANY),
            Arc::new(BooleanArray::from(vec![true; MANY])),
        ],
    )
    .unwrap();
    put(&partition, WriteMode::Append, &[batch]).await;
    assert!(partition.summary().bytes < MANY as u64 / 8, "less than a bit per row");
    for streams in [1, 3, 16, 40] {
        let request = ScanRequest { streams, ..ScanRequest::default() };
        let plan = scan(&[partition.pin(None).unwrap()], &request).unwrap();
        assert_eq!(plan.properties().output_partitioning().partition_count(), streams);
        let rows: usize = run(plan).await.iter().map(RecordBatch::num_rows).sum();
        assert_eq!(rows, MANY, "{streams} streams");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dictionaries_of_many_values_survive() {
    let data_type = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let schema = Arc::new(Schema::new(vec![
        Field::new("row", DataType::Int64, false),
        Field::new("d", data_type.clone(), true),
    ]));
    let dir = TempDir::new().unwrap();
    let partition = create(dir.path(), Arc::clone(&schema));
    let batches: Vec<RecordBatch> = (0..40i64)
        .map(|part| {
            let rows = part * 500..(part + 1) * 500;
            let values: StringArray =
                rows.clone().map(|row| (row % 9 != 0).then(|| format!("value {}", row / 2))).collect();
            let values = cast(&values, &data_type).unwrap();
            RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(Int64Array::from_iter_values(rows)), values])
                .unwrap()
        })
        .collect();
    put(&partition, WriteMode::Append, &batches).await;
    let expected = concat_batches(&schema, &batches).unwrap();
    let found = in_order(&schema, &read_version(&partition, None).await);
    assert_same(&expected, &found);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_that_do_not_fit_are_refused_by_column() {
    let dir = TempDir::new().unwrap();
    let partition = create(dir.path(), numbers_schema());
    let mut writer = partition.begin_write(uuid::Uuid::new_v4(), WriteMode::Append).await.unwrap();
    let utf8 = RecordBatch::try_from_iter([
        ("id", Arc::new(Int64Array::from(vec![1])) as ArrayRef),
        ("name", Arc::new(StringArray::from(vec!["x"]))),
    ])
    .unwrap();
    let error = writer.write(utf8).await.unwrap_err();
    assert!(matches!(&error, Error::SchemaMismatch { column, .. } if column == "name"), "{error}");
    let null = RecordBatch::try_from_iter([
        ("id", Arc::new(Int64Array::from(vec![Some(1), None])) as ArrayRef),
        ("name", Arc::new(StringViewArray::from(vec!["x", "y"]))),
    ])
    .unwrap();
    let error = writer.write(null).await.unwrap_err();
    assert!(matches!(&error, Error::NullInColumn { column, nulls: 1, .. } if column == "id"), "{error}");
    assert!(writer.write(numbers(0, 3).project(&[0]).unwrap()).await.is_err());
    // The writer is still good for rows that fit.
    writer.write(numbers(0, 3)).await.unwrap();
    assert_eq!(writer.finish().await.unwrap().data.rows, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn instants_beyond_the_calendar_are_refused_by_column() {
    let data_type = DataType::Timestamp(TimeUnit::Microsecond, None);
    let schema = Arc::new(Schema::new(vec![Field::new("at", data_type, true)]));
    let dir = TempDir::new().unwrap();
    let partition = create(dir.path(), Arc::clone(&schema));
    let mut writer = partition.begin_write(uuid::Uuid::new_v4(), WriteMode::Append).await.unwrap();
    let column = TimestampMicrosecondArray::from(vec![0, i64::MAX]);
    let batch = RecordBatch::try_new(schema, vec![Arc::new(column)]).unwrap();
    let error = writer.write(batch).await.unwrap_err();
    assert!(matches!(&error, Error::ValueOutOfRange { column, .. } if column == "at"), "{error}");
}

#[test]
fn metadata_of_fields_is_kept_and_unsupported_types_never_get_in() {
    let field = Field::new("a", DataType::Int64, true).with_metadata(HashMap::from([("k".to_owned(), "v".to_owned())]));
    let schema = Arc::new(Schema::new(vec![field]));
    let dir = TempDir::new().unwrap();
    drop(create(dir.path(), Arc::clone(&schema)));
    let partition = Partition::open(dir.path(), PartitionOptions::default()).unwrap();
    assert_eq!(partition.schema(), schema);

    let bad = Schema::new(vec![Field::new("gone", DataType::Interval(IntervalUnit::DayTime), true)]);
    assert!(check_schema(&bad).unwrap_err().to_string().contains("'gone'"));
    let other = TempDir::new().unwrap();
    let refused = Partition::create(other.path(), identity(), Arc::new(bad), PartitionOptions::default());
    assert!(matches!(refused, Err(Error::UnsupportedType { .. })));
    assert!(std::fs::read_dir(other.path()).unwrap().next().is_none(), "nothing was created");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bounds_are_those_of_the_rows() {
    let columns = columns();
    let batch = batch_of(&columns);
    let dir = TempDir::new().unwrap();
    let partition = create(dir.path(), batch.schema());
    put(&partition, WriteMode::Append, std::slice::from_ref(&batch)).await;
    let summary = partition.summary();
    let column = |name: &str| &summary.columns[batch.schema().index_of(name).unwrap()];
    assert_eq!(column("i64").min, Some(ScalarValue::Int64(Some(i64::MIN))));
    assert_eq!(column("u64").max, Some(ScalarValue::UInt64(Some(u64::MAX))));
    assert_eq!(column("utf8").min, Some(ScalarValue::Utf8(Some(String::new()))));
    assert_eq!(column("view").max, Some(ScalarValue::Utf8View(Some("日本語のテキスト".to_owned()))));
    assert_eq!(column("d128_short").min, Some(ScalarValue::Decimal128(Some(-99_999), 15, 2)));
    assert_eq!(column("bool").null_count, 600);
    assert_eq!(column("dict").min, None);
    assert_eq!(column("nested").null_count, 600);
}

/// Whatever stands in the place of a NULL: the start value of an aggregate, here.
#[tokio::test]
async fn decimals_may_hold_anything_under_a_null() {
    use arrow::array::{Decimal128Array, Decimal256Array};
    use arrow::buffer::{NullBuffer, ScalarBuffer};
    let nulls = || Some(NullBuffer::from(vec![false, true, false]));
    let small = Decimal128Array::new(ScalarBuffer::from(vec![i128::MIN, 150, i128::MAX]), nulls());
    let extremes = vec![arrow::datatypes::i256::MIN, arrow::datatypes::i256::from(7), arrow::datatypes::i256::MAX];
    let large = Decimal256Array::new(ScalarBuffer::from(extremes), nulls());
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from(vec![1, 2, 3]))),
        ("small", Arc::new(small.with_precision_and_scale(12, 2).unwrap())),
        ("large", Arc::new(large.with_precision_and_scale(40, 2).unwrap())),
    ];
    let batch = RecordBatch::try_from_iter_with_nullable(
        columns.iter().enumerate().map(|(index, (name, array))| (*name, Arc::clone(array), index > 0)),
    )
    .unwrap();
    let dir = TempDir::new().unwrap();
    let partition = create(dir.path(), batch.schema());
    put(&partition, WriteMode::Append, std::slice::from_ref(&batch)).await;
    assert_same(&batch, &in_order(&batch.schema(), &read_version(&partition, None).await));
}
