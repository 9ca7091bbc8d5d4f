//! Announced schema and streamed schema over all types, and views at the edge (cases F11, F14).
use std::{collections::HashMap, sync::Arc};

use arrow::{
    array::{
        Array, ArrayRef, AsArray, BinaryViewArray, BooleanArray, Date32Array, Decimal64Array, Decimal128Array,
        DictionaryArray, FixedSizeListArray, Int32Array, Int64Array, Int64RunArray, LargeListArray, LargeStringArray,
        ListArray, ListViewArray, MapBuilder, NullArray, RecordBatch, StringArray, StringBuilder, StringViewArray,
        StringViewBuilder, StructArray, TimestampNanosecondArray, UnionArray,
    },
    buffer::{OffsetBuffer, ScalarBuffer},
    compute::concat_batches,
    datatypes::{DataType, Field, Int8Type, Int32Type, Schema, UnionFields},
};
use arrow_flight::{
    FlightDescriptor, IpcMessage,
    sql::{CommandStatementQuery, ProstMessageExt},
};
use futures::TryStreamExt;
use prost::Message;
use tonic::Code;

use super::{Setup, double::Double, rows, status, texts};
use crate::frontend::edge::{announced_schema, edge_batch, edge_schema, edge_type};

const LONG: &str = "a text that is too long to be inlined in a view";

fn views() -> ArrayRef {
    Arc::new(StringViewArray::from(vec![Some("one"), None, Some(LONG)]))
}

fn list_of(values: ArrayRef) -> ArrayRef {
    let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
    let offsets = OffsetBuffer::from_lengths([2, 0, values.len() - 2]);
    Arc::new(ListArray::new(field, offsets, values, Some(vec![true, false, true].into())))
}

fn struct_of(values: ArrayRef) -> ArrayRef {
    let field = Arc::new(Field::new("s", values.data_type().clone(), true));
    Arc::new(StructArray::new(vec![field].into(), vec![values], Some(vec![true, true, false].into())))
}

fn map_of_views() -> ArrayRef {
    let mut map = MapBuilder::new(None, StringBuilder::new(), StringViewBuilder::new());
    map.keys().append_value("k");
    map.values().append_value(LONG);
    map.append(true).unwrap();
    map.append(false).unwrap();
    map.append(true).unwrap();
    Arc::new(map.finish())
}

fn union_of_views() -> ArrayRef {
    let fields =
        UnionFields::from_fields([Field::new("i", DataType::Int32, true), Field::new("s", DataType::Utf8View, true)]);
    let (ids, offsets) = (ScalarBuffer::from(vec![0_i8, 1, 1]), ScalarBuffer::from(vec![0, 0, 2]));
    Arc::new(
        UnionArray::try_new(fields, ids, Some(offsets), vec![Arc::new(Int32Array::from(vec![5])), views()]).unwrap(),
    )
}

/// One column of three rows per type, and its values as text once at the edge.
fn columns() -> Vec<(&'static str, ArrayRef)> {
    let dictionary: DictionaryArray<Int8Type> = vec![Some("x"), None, Some("x")].into_iter().collect();
    let dictionary_of_views =
        DictionaryArray::<Int32Type>::new(Int32Array::from(vec![Some(2), Some(0), None]), views());
    let list_view = ListViewArray::new(
        Arc::new(Field::new_list_field(DataType::Utf8View, true)),
        ScalarBuffer::from(vec![1, 0, 0]),
        ScalarBuffer::from(vec![2, 0, 1]),
        views(),
        None,
    );
    let large_list = LargeListArray::new(
        Arc::new(Field::new_list_field(DataType::Utf8View, true)),
        OffsetBuffer::from_lengths([0, 1, 2]),
        views(),
        None,
    );
    let fixed = FixedSizeListArray::new(Arc::new(Field::new_list_field(DataType::Utf8View, true)), 1, views(), None);
    let runs =
        Int64RunArray::try_new(&Int64Array::from(vec![2, 3]), &StringArray::from(vec![Some("r"), None])).unwrap();
    vec![
        ("null", Arc::new(NullArray::new(3))),
        ("bool", Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)]))),
        ("bigint", Arc::new(Int64Array::from(vec![1, 2, 3]))),
        ("date", Arc::new(Date32Array::from(vec![0, 1, 2]))),
        ("stamp", Arc::new(TimestampNanosecondArray::from(vec![1, 2, 3]).with_timezone("+00:00"))),
        ("decimal", Arc::new(Decimal128Array::from(vec![1, 2, 3]).with_precision_and_scale(10, 2).unwrap())),
        (
            "decimal64",
            Arc::new(Decimal64Array::from(vec![Some(1), None, Some(3)]).with_precision_and_scale(10, 2).unwrap()),
        ),
        ("large_text", Arc::new(LargeStringArray::from(vec!["a", "b", "c"]))),
        ("view", views()),
        ("binary_view", Arc::new(BinaryViewArray::from(vec![Some(&b"\x01"[..]), None, Some(LONG.as_bytes())]))),
        ("dictionary", Arc::new(dictionary)),
        ("dictionary_of_views", Arc::new(dictionary_of_views)),
        ("list", list_of(views())),
        ("list_of_structs", list_of(struct_of(views()))),
        ("list_view", Arc::new(list_view)),
        ("large_list", Arc::new(large_list)),
        ("fixed_list", Arc::new(fixed)),
        ("struct", struct_of(views())),
        ("struct_of_lists", struct_of(list_of(views()))),
        ("map", map_of_views()),
        ("union", union_of_views()),
        ("runs", Arc::new(runs)),
    ]
}

fn table() -> RecordBatch {
    let columns = columns();
    let fields: Vec<Field> = columns
        .iter()
        .map(|(name, column)| {
            let nullable = !matches!(*name, "bigint" | "large_text");
            let metadata = HashMap::from([("of".to_string(), (*name).to_string()), ("b".to_string(), "c".to_string())]);
            Field::new(*name, column.data_type().clone(), nullable).with_metadata(metadata)
        })
        .collect();
    let metadata = HashMap::from([("k".to_string(), "v".to_string())]);
    let schema = Schema::new_with_metadata(fields, metadata);
    RecordBatch::try_new(Arc::new(schema), columns.into_iter().map(|(_, column)| column).collect()).unwrap()
}

#[test]
fn values_survive_the_edge_whole_and_in_slices() {
    let batch = table();
    let schema = edge_schema(&batch.schema());
    assert_eq!(edge_schema(&schema), schema);
    let whole = edge_batch(&batch, &schema).unwrap();
    let slices: Vec<_> = (0..3).map(|row| edge_batch(&batch.slice(row, 1), &schema).unwrap()).collect();
    let joined = concat_batches(&schema, &slices).unwrap();
    for (index, field) in schema.fields().iter().enumerate() {
        let inside = texts(&batch, index);
        assert_eq!(texts(&whole, index), inside, "{field}");
        assert_eq!(texts(&joined, index), inside, "{field}");
        let announced = field.data_type().to_string();
        assert!(!announced.contains("View") && !announced.contains("Dictionary"), "{announced}");
    }
}

#[tokio::test]
async fn announced_and_streamed_schemas_are_equal_to_the_byte() {
    let batch = table();
    let empty = RecordBatch::new_empty(batch.schema());
    let double =
        Double::new().await.with_result("rows", vec![batch.clone(), batch.clone()]).with_result("none", vec![empty]);
    let mut setup = Setup::over(double).await;
    for (name, expected) in [("rows", 6), ("none", 0)] {
        let sql = format!("CANNED {name}");
        let info = setup.client.execute(sql.clone(), None).await.unwrap();
        let prepared = setup.client.prepare(sql.clone(), None).await.unwrap();
        let command = CommandStatementQuery { query: sql, transaction_id: None };
        let descriptor = FlightDescriptor::new_cmd(command.as_any().encode_to_vec());
        let asked = setup.client.inner_mut().get_schema(descriptor).await.unwrap().into_inner().schema;
        assert_eq!(info.schema, asked);
        assert_eq!(&Schema::try_from(IpcMessage(asked)).unwrap(), prepared.dataset_schema().unwrap());

        let ticket = info.endpoint[0].ticket.clone().unwrap();
        let raw: Vec<_> =
            setup.client.inner_mut().do_get(ticket).await.unwrap().into_inner().try_collect().await.unwrap();
        // FlightInfo frames the message with a marker and a length and pads it to eight bytes.
        let header = &raw[0].data_header;
        assert_eq!(info.schema[8..8 + header.len()], header[..]);
        let (schema, received) = rows(&mut setup.client, info).await.unwrap();
        assert_eq!(received.num_rows(), expected);
        assert_eq!(schema, edge_schema(&batch.schema()));
        assert_eq!(
            schema.field_with_name("large_list").unwrap().data_type().to_string().split('(').next(),
            Some("LargeList")
        );
        assert_eq!(schema.field_with_name("dictionary").unwrap().metadata()["of"], "dictionary");
        for (index, _) in schema.fields().iter().enumerate().take(if expected == 0 { 0 } else { usize::MAX }) {
            assert_eq!(texts(&received, index)[3..], texts(&batch, index));
        }
    }
}

#[tokio::test]
async fn views_of_the_planner_arrive_as_text() {
    let mut setup = Setup::new().await;
    let (schema, batch) = setup
        .query("SELECT 7::TEXT AS a, left(name, 2) AS b, count(*) AS c FROM t GROUP BY name ORDER BY b")
        .await
        .unwrap();
    assert_eq!(schema.field(0).data_type(), &DataType::Utf8);
    assert_eq!(schema.field(1).data_type(), &DataType::Utf8);
    assert_eq!(texts(&batch, 1), ["on", "th", "tw"]);
    let (schema, batch) = setup.query("SELECT * FROM information_schema.tables").await.unwrap();
    assert!(batch.num_rows() > 0);
    assert!(schema.fields().iter().all(|f| *f.data_type() == DataType::Utf8), "{schema}");
    let (schema, batch) = setup.query("SELECT name FROM t WHERE false").await.unwrap();
    assert_eq!((schema.field(0).data_type(), batch.num_rows()), (&DataType::Utf8, 0));
}

#[tokio::test]
async fn a_null_against_the_announcement_is_an_error_that_names_the_column() {
    let batch =
        RecordBatch::try_from_iter(vec![("amount", Arc::new(Int32Array::from(vec![Some(1), None])) as ArrayRef)])
            .unwrap();
    let strict = Arc::new(Schema::new(vec![Field::new("amount", DataType::Int32, false)]));
    let mut setup = Setup::over(Double::new().await.with_schema_and_result("x", strict, vec![batch])).await;
    let error = status(setup.query("CANNED x").await.unwrap_err());
    assert_eq!(error.code(), Code::Internal);
    assert!(error.message().contains("result column amount"), "{}", error.message());
}

#[test]
fn what_does_not_convert_is_an_error() {
    let batch = RecordBatch::try_from_iter(vec![("x", Arc::new(Int32Array::from(vec![1])) as ArrayRef)]).unwrap();
    let other = Arc::new(Schema::new(vec![Field::new("x", DataType::Int64, false)]));
    assert!(edge_batch(&batch, &other).is_err());
    assert!(edge_batch(&batch, &Arc::new(Schema::empty())).is_err());
    let dictionary = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8View));
    assert_eq!(edge_type(&dictionary), DataType::Utf8);
    assert!(announced_schema(&other, true).field(0).is_nullable());
    assert!(views().as_string_view().is_null(1));
}
