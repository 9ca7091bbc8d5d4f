//! Prepared statements and bindings (cases F01, F02, F04, F05).
use std::sync::{Arc, atomic::Ordering};

use arrow::{
    array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray},
    datatypes::{DataType, Field, Schema},
};
use arrow_flight::{
    FlightData, FlightDescriptor,
    encode::FlightDataEncoderBuilder,
    flight_service_client::FlightServiceClient,
    sql::{
        ActionClosePreparedStatementRequest, CommandPreparedStatementQuery, CommandPreparedStatementUpdate,
        DoPutPreparedStatementResult, DoPutUpdateResult, ProstMessageExt,
    },
};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use prost::Message;
use tonic::{Code, transport::Channel};

use super::{Client, Setup, client, rows, status, texts};
use crate::frontend::flight::MESSAGE_BYTES_HEADER;

fn binding(columns: Vec<ArrayRef>) -> RecordBatch {
    let fields: Vec<Field> = columns.iter().map(|c| Field::new("p", c.data_type().clone(), true)).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

fn ids(ids: &[i64]) -> RecordBatch {
    binding(vec![Arc::new(Int64Array::from(ids.to_vec()))])
}

#[tokio::test]
async fn two_clients_do_not_share_bindings_nor_need_the_same_scheduler() {
    let mut setup = Setup::new().await;
    let other = Setup::new().await;
    let sql = "SELECT name FROM t WHERE id = ?";
    let mut a = setup.client.prepare(sql.to_string(), None).await.unwrap();
    let mut b = client(setup.handle.flight_addr).await.prepare(sql.to_string(), None).await.unwrap();
    assert_eq!(a.parameter_schema().unwrap().field(0).data_type(), &DataType::Int64);
    a.set_parameters(ids(&[1])).unwrap();
    b.set_parameters(ids(&[2])).unwrap();
    let (of_a, of_b) = (a.execute().await.unwrap(), b.execute().await.unwrap());
    // Another scheduler with the same tables runs the ticket that the first one made.
    let mut elsewhere = client(other.handle.flight_addr).await;
    assert_eq!(texts(&rows(&mut setup.client, of_a.clone()).await.unwrap().1, 0), ["one"]);
    assert_eq!(texts(&rows(&mut elsewhere, of_a).await.unwrap().1, 0), ["one"]);
    assert_eq!(texts(&rows(&mut setup.client, of_b).await.unwrap().1, 0), ["two"]);
}

#[tokio::test]
async fn a_handle_runs_a_hundred_times() {
    let mut setup = Setup::new().await;
    let mut statement = setup.client.prepare("SELECT id, ? FROM t WHERE id = ?".to_string(), None).await.unwrap();
    let prepared = Arc::new(statement.dataset_schema().unwrap().clone());
    for round in 0..100 {
        let id = round % 3 + 1;
        let text: ArrayRef = Arc::new(StringArray::from(vec![format!("round {round}")]));
        statement.set_parameters(binding(vec![text, Arc::new(Int64Array::from(vec![id]))])).unwrap();
        let info = statement.execute().await.unwrap();
        let (schema, batch) = rows(&mut setup.client, info).await.unwrap();
        assert_eq!(schema.field(0), prepared.field(0));
        assert_eq!(schema.field(1).data_type(), &DataType::Utf8);
        assert_eq!((texts(&batch, 0), texts(&batch, 1)), (vec![id.to_string()], vec![format!("round {round}")]));
    }
    statement.close().await.unwrap();
}

#[tokio::test]
async fn closing_any_form_of_a_handle_is_fine() {
    let mut setup = Setup::new().await;
    let mut statement = setup.client.prepare("SELECT $1".to_string(), None).await.unwrap();
    let before = statement.clone();
    statement.set_parameters(ids(&[1])).unwrap();
    statement.execute().await.unwrap();
    before.close().await.unwrap();
    statement.clone().close().await.unwrap();
    statement.close().await.unwrap();
    let request = ActionClosePreparedStatementRequest { prepared_statement_handle: Bytes::from_static(b"garbage") };
    let action = arrow_flight::Action::new("ClosePreparedStatement", request.as_any().encode_to_vec());
    setup.client.do_action(action).await.unwrap();
    let command = CommandPreparedStatementQuery { prepared_statement_handle: Bytes::from_static(b"garbage") };
    let descriptor = FlightDescriptor::new_cmd(command.as_any().encode_to_vec());
    assert_eq!(setup.client.inner_mut().get_flight_info(descriptor).await.unwrap_err().code(), Code::NotFound);
}

#[tokio::test]
async fn bindings_of_no_one_and_many_rows() {
    let mut setup = Setup::new().await;
    let mut select =
        setup.client.prepare("SELECT id + $1, name FROM t WHERE id >= $1 ORDER BY id".into(), None).await.unwrap();
    let mut schemas = Vec::new();
    for (bound, expected) in [(&[][..], &[][..]), (&[3], &["6"]), (&[3, 9, 2], &["6", "4", "5"])] {
        select.set_parameters(ids(bound)).unwrap();
        let info = select.execute().await.unwrap();
        let (schema, batch) = rows(&mut setup.client, info).await.unwrap();
        assert_eq!(texts(&batch, 0), expected);
        schemas.push(schema);
    }
    assert!(schemas.windows(2).all(|pair| pair[0] == pair[1]), "{schemas:?}");
    assert_eq!(schemas[0].as_ref(), select.dataset_schema().unwrap());

    let mut insert = setup.client.prepare("INSERT INTO t VALUES ($1, $2)".to_string(), None).await.unwrap();
    assert!(insert.dataset_schema().unwrap().fields().is_empty(), "JDBC tells updates by it");
    assert_eq!(setup.double.updates.load(Ordering::SeqCst), 0);
    for rows in [0_i64, 1, 3] {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(10..10 + rows));
        let names: ArrayRef = Arc::new(StringArray::from_iter_values((0..rows).map(|i| format!("n{i}"))));
        insert.set_parameters(binding(vec![numbers, names])).unwrap();
        assert_eq!(insert.execute_update().await.unwrap(), rows);
    }
    let (_, batch) = setup.query("SELECT count(*) FROM t").await.unwrap();
    assert_eq!(texts(&batch, 0), ["7"]);
}

#[tokio::test]
async fn values_take_the_type_of_the_column_they_meet() {
    let mut setup = Setup::new().await;
    setup.client.execute_update("CREATE TABLE z (a INT, b TEXT, c DECIMAL(10,2))".to_string(), None).await.unwrap();
    let mut insert = setup.client.prepare("INSERT INTO z VALUES (?, ?, ?)".to_string(), None).await.unwrap();
    let row = |a: i64| {
        let (text, number) = (StringArray::from(vec!["2.50"]), Int64Array::from(vec![7]));
        binding(vec![Arc::new(Int64Array::from(vec![a])), Arc::new(text), Arc::new(number)])
    };
    insert.set_parameters(row(1)).unwrap();
    // Run as a query, the way Python does it: applied at once, the count is told once it is fetched.
    let info = insert.execute().await.unwrap();
    assert_eq!(texts(&rows(&mut setup.client, info).await.unwrap().1, 0), ["1"]);
    insert.set_parameters(row(1 << 40)).unwrap();
    assert_eq!(status(insert.execute_update().await.unwrap_err()).code(), Code::InvalidArgument);
    let mut select = setup.client.prepare("SELECT c FROM z WHERE a = ? AND b = ?".to_string(), None).await.unwrap();
    for (a, expected) in [(1_i64, &["7.00"][..]), (1 << 40, &[][..])] {
        let text: ArrayRef = Arc::new(StringArray::from(vec!["2.50"]));
        select.set_parameters(binding(vec![Arc::new(Int64Array::from(vec![a])), text])).unwrap();
        let info = select.execute().await.unwrap();
        assert_eq!(texts(&rows(&mut setup.client, info).await.unwrap().1, 0), expected);
    }
}

#[tokio::test]
async fn values_that_change_nullability_fit_the_announced_schema() {
    let mut setup = Setup::new().await;
    let mut select = setup.client.prepare("SELECT CAST($1 AS INT) AS x".to_string(), None).await.unwrap();
    select.set_parameters(binding(vec![Arc::new(Int32Array::from(vec![Some(1), None]))])).unwrap();
    let info = select.execute().await.unwrap();
    assert_eq!(texts(&rows(&mut setup.client, info).await.unwrap().1, 0), ["1", "NULL"]);
}

#[tokio::test]
async fn a_binding_of_the_wrong_width_is_refused() {
    let mut setup = Setup::new().await;
    let mut select = setup.client.prepare("SELECT $1, $2".to_string(), None).await.unwrap();
    select.set_parameters(ids(&[1])).unwrap();
    let error = status(select.execute().await.unwrap_err());
    assert_eq!(error.code(), Code::InvalidArgument);
    assert!(error.message().contains("2 parameters, 1 were bound"));

    let mut large = setup.client.prepare("SELECT $1".to_string(), None).await.unwrap();
    large.set_parameters(ids(&vec![1; 500_000])).unwrap();
    assert_eq!(status(large.execute().await.unwrap_err()).code(), Code::ResourceExhausted);
}

/// Rows sent along with the update, as JDBC and Go drivers do.
async fn update_with(client: &mut Client, handle: Bytes, rows: Option<RecordBatch>) -> i64 {
    let command = CommandPreparedStatementUpdate { prepared_statement_handle: handle };
    let descriptor = FlightDescriptor::new_cmd(command.as_any().encode_to_vec());
    let messages: Vec<FlightData> = match rows {
        None => vec![FlightData { flight_descriptor: Some(descriptor), ..Default::default() }],
        Some(batch) => FlightDataEncoderBuilder::new()
            .with_flight_descriptor(Some(descriptor))
            .with_schema(batch.schema())
            .build(stream::iter([Ok(batch)]).boxed())
            .try_collect()
            .await
            .unwrap(),
    };
    let mut answers = client.do_put(stream::iter(messages)).await.unwrap();
    let answer = answers.message().await.unwrap().unwrap();
    DoPutUpdateResult::decode(answer.app_metadata).unwrap().record_count
}

/// The handle inside a prepared statement is private to the client library, so it is made here.
async fn handle(client: &mut Client, sql: &str) -> Bytes {
    let request =
        arrow_flight::sql::ActionCreatePreparedStatementRequest { query: sql.to_string(), transaction_id: None };
    let action = arrow_flight::Action::new("CreatePreparedStatement", request.as_any().encode_to_vec());
    let answer = client.do_action(action).await.unwrap().message().await.unwrap().unwrap();
    let any = arrow_flight::sql::Any::decode(answer.body).unwrap();
    let result: arrow_flight::sql::ActionCreatePreparedStatementResult = any.unpack().unwrap().unwrap();
    result.prepared_statement_handle
}

#[tokio::test]
async fn rows_may_come_along_with_the_update() {
    let mut setup = Setup::new().await;
    let insert = handle(&mut setup.client, "INSERT INTO t VALUES (?, 'x')").await;
    assert_eq!(update_with(&mut setup.client, insert.clone(), Some(ids(&[7, 8]))).await, 2);
    assert_eq!(update_with(&mut setup.client, insert, Some(ids(&[]))).await, 0);
    // Go sends an empty batch without columns for a statement without parameters: it runs once.
    let plain = handle(&mut setup.client, "INSERT INTO t VALUES (9, 'y')").await;
    let nothing = RecordBatch::new_empty(Arc::new(Schema::empty()));
    assert_eq!(update_with(&mut setup.client, plain.clone(), Some(nothing)).await, 1);
    assert_eq!(update_with(&mut setup.client, plain, None).await, 1);
    let (_, batch) = setup.query("SELECT count(*) FROM t").await.unwrap();
    assert_eq!(texts(&batch, 0), ["7"]);
}

#[tokio::test]
async fn binding_answers_with_a_new_handle() {
    let mut setup = Setup::new().await;
    let select = handle(&mut setup.client, "SELECT name FROM t WHERE id = ?").await;
    let command = CommandPreparedStatementQuery { prepared_statement_handle: select.clone() };
    let descriptor = FlightDescriptor::new_cmd(command.as_any().encode_to_vec());
    let messages: Vec<FlightData> = FlightDataEncoderBuilder::new()
        .with_flight_descriptor(Some(descriptor))
        .build(stream::iter([Ok(ids(&[3]))]).boxed())
        .try_collect()
        .await
        .unwrap();
    let answer = setup.client.do_put(stream::iter(messages)).await.unwrap().message().await.unwrap().unwrap();
    let bound = DoPutPreparedStatementResult::decode(answer.app_metadata).unwrap().prepared_statement_handle.unwrap();
    assert_ne!(bound, select);
}

#[tokio::test]
async fn long_values_are_bound_as_far_as_the_client_takes_messages() {
    let mut setup = Setup::new().await;
    let sql = "SELECT id, ? FROM t WHERE id = ?";
    let parameters = |bytes: usize| {
        let text: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(bytes)]));
        binding(vec![text, Arc::new(Int64Array::from(vec![1]))])
    };
    // More than half of a message: the info cannot carry it in its descriptor and in its ticket.
    let mut statement = setup.client.prepare(sql.to_string(), None).await.unwrap();
    statement.set_parameters(parameters(3 << 20)).unwrap();
    let info = statement.execute().await.unwrap();
    assert!(info.flight_descriptor.is_none());
    assert_eq!(texts(&rows(&mut setup.client, info).await.unwrap().1, 1)[0].len(), 3 << 20);

    statement.set_parameters(parameters(5 << 20)).unwrap();
    let refused = status(statement.execute().await.unwrap_err());
    assert_eq!(refused.code(), Code::ResourceExhausted);
    for way in [MESSAGE_BYTES_HEADER, "executemany", "COPY"] {
        assert!(refused.message().contains(way), "{way}: {}", refused.message());
    }
    let channel =
        Channel::from_shared(format!("http://{}", setup.handle.flight_addr)).unwrap().connect().await.unwrap();
    let mut large = Client::new_from_inner(FlightServiceClient::new(channel).max_decoding_message_size(64 << 20));
    large.set_header(MESSAGE_BYTES_HEADER, (64 << 20).to_string());
    let mut statement = large.prepare(sql.to_string(), None).await.unwrap();
    statement.set_parameters(parameters(5 << 20)).unwrap();
    let info = statement.execute().await.unwrap();
    assert_eq!(texts(&rows(&mut large, info).await.unwrap().1, 1)[0].len(), 5 << 20);

    // Sent with the update, it needs no handle.
    let insert = handle(&mut setup.client, "INSERT INTO t VALUES (?, ?)").await;
    let text: ArrayRef = Arc::new(StringArray::from(vec!["y".repeat(5 << 20)]));
    let row = binding(vec![Arc::new(Int64Array::from(vec![77])), text]);
    assert_eq!(update_with(&mut setup.client, insert, Some(row)).await, 1);
    let (_, batch) = setup.query("SELECT length(name) FROM t WHERE id = 77").await.unwrap();
    assert_eq!(texts(&batch, 0), [(5 << 20).to_string()]);
}
