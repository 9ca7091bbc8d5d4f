//! Sizes of messages, slow readers and readers that go away (case F13).
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use arrow::{
    array::{ArrayRef, DictionaryArray, Int32Array, LargeStringArray, RecordBatch, StringArray, StringViewArray},
    datatypes::Int32Type,
};
use arrow_flight::{FlightInfo, flight_service_client::FlightServiceClient, sql::client::FlightSqlServiceClient};
use futures::TryStreamExt;
use prost::Message;
use tonic::{Code, transport::Channel};

use super::{Setup, double::Double, rows, status};
use crate::frontend::flight::{DEFAULT_MESSAGE_BYTES, MESSAGE_BYTES_HEADER};

fn one_column(column: ArrayRef) -> RecordBatch {
    RecordBatch::try_from_iter(vec![("x", column)]).unwrap()
}

/// Sizes of the messages that carry rows.
async fn message_sizes(setup: &mut Setup, info: FlightInfo) -> Vec<usize> {
    let ticket = info.endpoint[0].ticket.clone().unwrap();
    let messages: Vec<_> =
        setup.client.inner_mut().do_get(ticket).await.unwrap().into_inner().try_collect().await.unwrap();
    messages[1..].iter().map(Message::encoded_len).collect()
}

#[tokio::test]
async fn many_rows_fit_the_limit_clients_have_by_default() {
    let text = "x".repeat(1024);
    let all =
        one_column(Arc::new(StringArray::from_iter_values((0..100_000).map(|i| format!("{i:07}{}", &text[7..])))));
    let views =
        one_column(Arc::new(StringViewArray::from_iter_values((0..10_000).map(|i| format!("{i:07}{}", &text[7..])))));
    let double = Double::new().await.with_result("all", vec![all]).with_result("views", vec![views]);
    let mut setup = Setup::over(double).await;
    for (name, expected) in [("all", 100_000), ("views", 10_000)] {
        let info = setup.client.execute(format!("CANNED {name}"), None).await.unwrap();
        let (_, batch) = rows(&mut setup.client, info.clone()).await.unwrap();
        assert_eq!(batch.num_rows(), expected);
        let sizes = message_sizes(&mut setup, info).await;
        assert!(sizes.iter().all(|size| *size < 3 * 1024 * 1024), "{sizes:?}");
        assert!(sizes.len() < expected / 1000, "messages are not needlessly small: {}", sizes.len());
    }
}

#[tokio::test]
async fn slices_send_their_own_rows_only() {
    let whole = StringArray::from_iter_values((0..100_000).map(|i| format!("row {i} {}", "y".repeat(100))));
    let slice = one_column(Arc::new(whole.slice(50_000, 10)));
    let values: ArrayRef = Arc::new(StringArray::from(vec!["z".repeat(20 << 20), "small".to_string()]));
    let unused = one_column(Arc::new(DictionaryArray::<Int32Type>::new(Int32Array::from(vec![1, 1, 1]), values)));
    let double = Double::new().await.with_result("slice", vec![slice]).with_result("unused", vec![unused]);
    let mut setup = Setup::over(double).await;
    for name in ["slice", "unused"] {
        let info = setup.client.execute(format!("CANNED {name}"), None).await.unwrap();
        let sizes = message_sizes(&mut setup, info).await;
        assert!(sizes.len() == 1 && sizes[0] < 4096, "{name}: {sizes:?}");
    }
}

#[tokio::test]
async fn a_long_dictionary_value_is_not_multiplied_in_memory() {
    // 8192 rows of one 1 MB value: 8 GB if it were expanded at once.
    let values: ArrayRef = Arc::new(LargeStringArray::from(vec!["z".repeat(1 << 20)]));
    let column = DictionaryArray::<Int32Type>::new(Int32Array::from(vec![0; 8192]), values);
    let mut setup = Setup::over(Double::new().await.with_result("long", vec![one_column(Arc::new(column))])).await;
    let info = setup.client.execute("CANNED long".into(), None).await.unwrap();
    let mut stream = setup.client.do_get(info.endpoint[0].ticket.clone().unwrap()).await.unwrap();
    let first = stream.try_next().await.unwrap().unwrap();
    assert!((1..=3).contains(&first.num_rows()), "{}", first.num_rows());
}

#[tokio::test]
async fn a_row_over_the_limit_names_its_size_and_passes_once_the_client_takes_it() {
    let row = one_column(Arc::new(StringArray::from(vec!["a".repeat(10), "b".repeat(5 << 20), "c".repeat(10)])));
    let mut setup = Setup::over(Double::new().await.with_result("row", vec![row])).await;
    let info = setup.client.execute("CANNED row".into(), None).await.unwrap();
    let error = status(rows(&mut setup.client, info.clone()).await.unwrap_err());
    assert_eq!(error.code(), Code::ResourceExhausted);
    assert!(
        error.message().contains("takes 5243") && error.message().contains(MESSAGE_BYTES_HEADER),
        "{}",
        error.message()
    );
    assert!(error.message().contains(&DEFAULT_MESSAGE_BYTES.to_string()));

    let channel =
        Channel::from_shared(format!("http://{}", setup.handle.flight_addr)).unwrap().connect().await.unwrap();
    let inner = FlightServiceClient::new(channel).max_decoding_message_size(64 << 20);
    let mut large = FlightSqlServiceClient::new_from_inner(inner);
    large.set_header(MESSAGE_BYTES_HEADER, (64 << 20).to_string());
    let (_, batch) = rows(&mut large, info.clone()).await.unwrap();
    assert_eq!(batch.num_rows(), 3);
    large.set_header(MESSAGE_BYTES_HEADER, "much");
    assert_eq!(status(rows(&mut large, info).await.unwrap_err()).code(), Code::InvalidArgument);
}

#[tokio::test]
async fn a_slow_reader_holds_little_and_one_that_goes_ends_the_query() {
    let mut setup = Setup::new().await;
    let info = setup.client.execute("ENDLESS".into(), None).await.unwrap();
    let mut stream = setup.client.do_get(info.endpoint[0].ticket.clone().unwrap()).await.unwrap();
    stream.try_next().await.unwrap().unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let made = setup.double.made.load(Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(setup.double.made.load(Ordering::SeqCst), made, "nothing is made while nobody reads");
    // 64 KiB a batch: what windows and buffers on the way take, no more.
    assert!(made < 200, "{made} batches were made ahead");
    assert!(!setup.double.dropped.load(Ordering::SeqCst));
    drop(stream);
    for _ in 0..200 {
        if setup.double.dropped.load(Ordering::SeqCst) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the query outlives its reader by two seconds");
}
