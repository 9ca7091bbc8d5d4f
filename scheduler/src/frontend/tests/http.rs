//! HTTP routes, formats of answers, and metrics.
use std::sync::{Arc, atomic::Ordering};

use arrow::{
    array::{
        ArrayRef, BinaryArray, Decimal128Array, Float64Array, Int64Array, MapBuilder, RecordBatch, StringArray,
        StringBuilder, TimestampMillisecondArray,
    },
    datatypes::Int32Type,
    ipc::reader::StreamReader,
};
use axum::{Router, body::Body};
use http::{Request, StatusCode, header};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tower::ServiceExt;

use super::{Setup, double::Double};
use crate::frontend::http::router;

async fn call(router: &Router, request: Request<Body>) -> (StatusCode, String, Vec<u8>) {
    let response = router.clone().oneshot(request).await.unwrap();
    let kind =
        response.headers().get(header::CONTENT_TYPE).map(|v| v.to_str().unwrap().to_string()).unwrap_or_default();
    let status = response.status();
    let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
    (status, kind, body.to_vec())
}

async fn sql(router: &Router, sql: &str, accept: &str) -> (StatusCode, String, Vec<u8>) {
    let request = Request::post("/v1/sql").header(header::ACCEPT, accept).body(Body::from(sql.to_string())).unwrap();
    call(router, request).await
}

async fn json_of(router: &Router, text: &str) -> (StatusCode, Value) {
    let (status, kind, body) = sql(router, text, "*/*").await;
    assert_eq!(kind, "application/json");
    (status, serde_json::from_slice(&body).unwrap())
}

fn odd_values() -> RecordBatch {
    let mut map = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
    map.keys().append_value("k");
    map.values().append_value("v");
    map.append(true).unwrap();
    map.append(true).unwrap();
    let lists = arrow::array::ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1), None]), None]);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("i", Arc::new(Int64Array::from(vec![Some(i64::MAX), None]))),
        ("f", Arc::new(Float64Array::from(vec![1e300, f64::NAN]))),
        ("d", Arc::new(Decimal128Array::from(vec![-1, 123]).with_precision_and_scale(38, 2).unwrap())),
        ("s", Arc::new(StringArray::from(vec!["a,\"b\"\n", ""]))),
        ("b", Arc::new(BinaryArray::from(vec![Some(&b"\x01\xff"[..]), None]))),
        ("t", Arc::new(TimestampMillisecondArray::from(vec![1_500, -1]))),
        ("l", Arc::new(lists)),
        ("m", Arc::new(map.finish())),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true))).unwrap()
}

#[tokio::test]
async fn health_readiness_and_cluster() {
    let double = Arc::new(Double::new().await);
    let router = router(double.clone());
    let get = |path: &str| Request::get(path).body(Body::empty()).unwrap();
    let (status, _, body) = call(&router, get("/health")).await;
    assert_eq!((status, &body[..]), (StatusCode::OK, &b"ok"[..]));
    let (status, _, body) = call(&router, get("/v1/ready")).await;
    assert_eq!(
        (status, serde_json::from_slice::<Value>(&body).unwrap()),
        (StatusCode::OK, json!({"ready": true, "reasons": []}))
    );
    double.ready.store(false, Ordering::SeqCst);
    let (status, _, body) = call(&router, get("/v1/ready")).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(serde_json::from_slice::<Value>(&body).unwrap()["reasons"], json!(["no leader"]));
    let (status, kind, body) = call(&router, get("/v1/cluster")).await;
    assert_eq!((status, kind.as_str(), &body[..]), (StatusCode::OK, "application/json", &b"{\"schedulers\":[]}"[..]));
}

#[tokio::test]
async fn refused_requests_have_the_form_of_other_errors() {
    let router = router(Arc::new(Double::new().await));
    let large = "x".repeat(17 << 20);
    for (request, status, code, hint) in [
        (Request::get("/nothing"), StatusCode::NOT_FOUND, "not_found", "/v1/sql"),
        (Request::post("/"), StatusCode::NOT_FOUND, "not_found", "/v1/sql"),
        (Request::get("/v1/sql"), StatusCode::METHOD_NOT_ALLOWED, "unsupported", "POST"),
        (Request::put("/health"), StatusCode::METHOD_NOT_ALLOWED, "unsupported", "PUT"),
        (Request::post("/v1/sql"), StatusCode::PAYLOAD_TOO_LARGE, "invalid", "16 MiB"),
        (Request::post("/v1/cluster/drain"), StatusCode::PAYLOAD_TOO_LARGE, "invalid", "16 MiB"),
    ] {
        let (found, kind, body) = call(&router, request.body(Body::from(large.clone())).unwrap()).await;
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((found, kind.as_str(), &body["code"]), (status, "application/json", &json!(code)), "{body}");
        assert!(body["message"].as_str().unwrap().contains(hint), "{body}");
        assert_eq!(
            (body["retryable"].clone(), body["sqlstate"].as_str().map(str::len)),
            (json!(false), Some(5)),
            "{body}"
        );
    }
}

#[tokio::test]
async fn statements_as_text_and_as_json() {
    let double = Arc::new(Double::new().await);
    let router = router(double.clone());
    let (status, rows) = json_of(&router, "SELECT id, name FROM t WHERE id < 3 ORDER BY id").await;
    assert_eq!((status, rows), (StatusCode::OK, json!([{"id": 1, "name": "one"}, {"id": 2, "name": "two"}])));
    assert_eq!(json_of(&router, "SELECT id FROM t WHERE false").await.1, json!([]));
    let (_, rows) =
        json_of(&router, "SELECT a.id, b.id, 5 AS id_2 FROM t a JOIN t b ON a.id = b.id WHERE a.id = 1").await;
    assert_eq!(rows, json!([{"id": 1, "id_3": 1, "id_2": 5}]));
    let (_, changed) = json_of(&router, "INSERT INTO t VALUES (4, 'four')").await;
    assert_eq!(changed, json!({"rows_affected": 1}));
    assert_eq!(double.updates.load(Ordering::SeqCst), 1);

    let post = |body: Value| {
        let request = Request::post("/v1/sql").header(header::CONTENT_TYPE, "application/json");
        request.body(Body::from(body.to_string())).unwrap()
    };
    let body = json!({"sql": "SELECT name, ? AS x FROM t WHERE id = ?", "parameters": [1.5, "2"]});
    let (status, _, answer) = call(&router, post(body)).await;
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!((status, answer), (StatusCode::OK, json!([{"name": "two", "x": 1.5}])));
    for wrong in [
        json!({"sql": "SELECT ?", "parameters": [1, 2]}),
        json!({"sql": "SELECT name FROM t WHERE id = ?", "parameters": ["x"]}),
        json!({"sql": "SELECT 1", "unknown": 1}),
        json!({"parameters": []}),
    ] {
        let (status, _, answer) = call(&router, post(wrong)).await;
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        assert_eq!((status, &answer["code"]), (StatusCode::BAD_REQUEST, &json!("invalid")), "{answer}");
    }
}

#[tokio::test]
async fn values_keep_their_digits_in_every_format() {
    let router = router(Arc::new(Double::new().await.with_result("odd", vec![odd_values()])));
    let (_, _, body) = sql(&router, "CANNED odd", "application/json").await;
    let expected = concat!(
        r#"[{"i":9223372036854775807,"f":1e300,"d":"-0.01","s":"a,\"b\"\n","b":"01ff","t":"1970-01-01T00:00:01.500","#,
        r#""l":[1,null],"m":[{"key":"k","value":"v"}]},"#,
        "\n",
        r#"{"i":null,"f":"NaN","d":"1.23","s":"","b":null,"t":"1969-12-31T23:59:59.999","l":null,"m":[]}]"#,
        "\n"
    );
    assert_eq!(String::from_utf8(body).unwrap(), expected);

    let (_, kind, body) = sql(&router, "CANNED odd", "text/csv").await;
    assert!(kind.starts_with("text/csv"));
    let expected = concat!(
        "i,f,d,s,b,t,l,m\r\n",
        "9223372036854775807,1e300,-0.01,\"a,\"\"b\"\"\n\",01ff,1970-01-01T00:00:01.500,\"[1,null]\",",
        "\"[{\"\"key\"\":\"\"k\"\",\"\"value\"\":\"\"v\"\"}]\"\r\n",
        ",NaN,1.23,\"\",,1969-12-31T23:59:59.999,,[]\r\n"
    );
    assert_eq!(String::from_utf8(body).unwrap(), expected);
    let (_, _, body) = sql(&router, "SELECT id, name FROM t WHERE false", "text/html, text/csv;q=0.5").await;
    assert_eq!(body, b"id,name\r\n");

    let (_, _, body) = sql(&router, "CANNED odd", "application/vnd.apache.arrow.stream").await;
    let read: Vec<RecordBatch> = StreamReader::try_new(&body[..], None).unwrap().map(Result::unwrap).collect();
    assert_eq!(read, [odd_values()]);
    let (_, _, body) = sql(&router, "SELECT id FROM t WHERE false", "application/vnd.apache.arrow.stream").await;
    assert_eq!(StreamReader::try_new(&body[..], None).unwrap().schema().field(0).name(), "id");
    assert_eq!(sql(&router, "SELECT 1", "image/png").await.0, StatusCode::NOT_ACCEPTABLE);
}

#[tokio::test]
async fn errors_are_json_and_a_late_one_breaks_the_answer_off() {
    let double = Arc::new(Double::new().await);
    let router = router(double.clone());
    let (status, error) = json_of(&router, "SELECT nothing FROM t").await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert_eq!(
        (&error["code"], &error["sqlstate"], &error["retryable"]),
        (&json!("invalid"), &json!("42703"), &json!(false))
    );
    let request = Request::post("/v1/sql").body(Body::from("FAIL LATE")).unwrap();
    let response = router.clone().oneshot(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert!(axum::body::to_bytes(response.into_body(), usize::MAX).await.is_err());
}

/// A plain exchange over a socket.
async fn over_socket(addr: std::net::SocketAddr, request: &str) -> String {
    let mut socket = tokio::net::TcpStream::connect(addr).await.unwrap();
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn metrics_count_statements_of_all_nodes_of_the_process() {
    let mut setup = Setup::new().await;
    let second = Setup::new().await;
    setup.query("SELECT id FROM t").await.unwrap();
    setup.query("SELECT nothing FROM t").await.unwrap_err();
    let body = "INSERT INTO t VALUES (8, 'x')";
    let post = format!(
        "POST /v1/sql HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let answer = over_socket(setup.handle.http_addr.unwrap(), &post).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("{\"rows_affected\":1}"), "{answer}");

    let get = "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    for handle in [&setup.handle, &second.handle] {
        let text = over_socket(handle.metrics_addr.unwrap(), get).await;
        for line in [
            "ancho_query_total{frontend=\"flight\",kind=\"query\",code=\"ok\"}",
            "ancho_query_total{frontend=\"flight\",kind=\"prepare\",code=\"invalid\"}",
            "ancho_query_total{frontend=\"http\",kind=\"update\",code=\"ok\"}",
            "ancho_query_seconds_bucket{frontend=\"flight\",kind=\"query\",le=\"0.001\"}",
            "ancho_query_rows_total{frontend=\"flight\"}",
            "ancho_query_active{frontend=\"flight\"}",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
    }
    setup.handle.shutdown().await;
    second.handle.shutdown().await;
}

#[tokio::test]
async fn what_operators_do_is_handed_to_the_service() {
    let router = router(Arc::new(Double::new().await));
    let post = |path: &str, body: &str| Request::post(path).body(Body::from(body.to_owned())).unwrap();
    for path in ["/v1/cluster/drain", "/v1/cluster/rebalance"] {
        let (status, kind, body) = call(&router, post(path, r#"{"x":1}"#)).await;
        assert_eq!((status, kind.as_str()), (StatusCode::OK, "application/json"));
        assert_eq!(serde_json::from_slice::<Value>(&body).unwrap(), json!({"asked": {"x": 1}}));
    }
    // This service does not know it; the route is there.
    let (status, _, body) = call(&router, post("/v1/partitions/recover", "{}")).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert!(String::from_utf8_lossy(&body).contains("ancho.recover"));
}
