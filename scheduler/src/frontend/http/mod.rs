//! HTTP: health, readiness, the state of the cluster, and SQL for scripts.
//!
//! * `GET /health` – 200 `ok` while the process serves.
//! * `GET /v1/ready` – 200 or 503 with `{"ready", "reasons"}`.
//! * `GET /v1/cluster` – the state of the cluster as JSON.
//! * `POST /v1/cluster/drain`, `undrain`, `remove` with `{"executor": id or url}`, `POST /v1/cluster/rebalance` with
//!   `{"dry_run": true}` or nothing, `POST /v1/partitions/recover` with `{"partition": id, "accept_loss": true}` – what
//!   the commands of the same names do.
//! * `GET /v1/datasets/NAME/acceleration/snapshots` – the snapshots of a table as JSON; `POST` makes one. Below it, with
//!   `{"snapshot_id": id}`: `PUT …/pin` and `POST …/current` choose the one that readers are given, `DELETE …/pin` gives them the
//!   newest again, `POST …/restore` puts the rows of one in the place of the table's.
//! * `POST /v1/sql` – the body is a statement as text, or `{"sql": …, "parameters": […]}` with content type
//!   `application/json`. The answer to a query follows `Accept`: JSON rows (the default), `text/csv` or
//!   `application/vnd.apache.arrow.stream`; see [`render`] for the types. The answer to an update is
//!   `{"rows_affected": n}`. A body from `BEGIN` to `COMMIT` is one transaction, and the answer is that to its last
//!   statement.
//!
//! Errors are `{"code", "sqlstate", "message", "retryable"}` with the status of their kind. An error after the first
//! rows went out breaks the connection off, so that a short answer is never taken for a whole one.
mod cell;
pub mod parameters;
pub mod render;

use std::sync::Arc;

use ancho_common::error::{Error, Result};
use axum::{
    Json, Router,
    body::{Body, Bytes},
    extract::{DefaultBodyLimit, FromRequest, Path, Request, State},
    response::{IntoResponse, Response},
    routing::{MethodRouter, get, post, put},
};
use futures::{StreamExt, stream};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use serde::Deserialize;
use serde_json::{Value, json};

use self::render::{Format, Renderer};
use super::{
    caller::{REQUEST_ID_HEADER, RequestId},
    metrics::{Measured, StatementMeter},
    script::Script,
    service::{SharedService, StatementKind},
    statements::{EdgeRows, Prepared, ScriptResult, Statements},
};

/// Largest request body: statements with long lists of values.
const MAX_BODY_BYTES: usize = 16 * 1024 * 1024;

/// Size that parts of an answer aim for.
const SLICE_BYTES: usize = 256 * 1024;

/// Name of this front end in metrics.
const FRONTEND: &str = "http";

/// The routes over a service.
pub fn router(service: SharedService) -> Router {
    Router::new()
        .route("/health", get(async || "ok"))
        .route("/v1/ready", get(ready))
        .route("/v1/cluster", get(cluster))
        .route("/v1/cluster/drain", act("ancho.drain"))
        .route("/v1/cluster/undrain", act("ancho.undrain"))
        .route("/v1/cluster/remove", act("ancho.remove_executor"))
        .route("/v1/cluster/rebalance", act("ancho.rebalance"))
        .route("/v1/partitions/recover", act("ancho.recover"))
        .route("/v1/sql", post(sql))
        .route("/v1/datasets/{name}/acceleration/snapshots", get(list_snapshots).post(create_snapshot))
        .route("/v1/datasets/{name}/acceleration/snapshots/pin", put(pin_snapshot).delete(unpin_snapshot))
        .route("/v1/datasets/{name}/acceleration/snapshots/current", post(pin_snapshot))
        .route("/v1/datasets/{name}/acceleration/snapshots/restore", post(restore_snapshot))
        .fallback(no_such_path)
        .method_not_allowed_fallback(no_such_method)
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .with_state(Arc::new(Statements::new(service, SLICE_BYTES)))
}

/// An error as an HTTP answer.
struct HttpError(Error);

impl From<Error> for HttpError {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

impl IntoResponse for HttpError {
    fn into_response(self) -> Response {
        let sqlstate = self.0.sqlstate();
        let Error { kind, message, .. } = self.0;
        let status = StatusCode::from_u16(kind.http()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = json!({
            "code": kind.code(), "sqlstate": sqlstate, "message": message, "retryable": kind.retryable(),
        });
        (status, Json(body)).into_response()
    }
}

/// An error that has a status of its own, finer than that of its kind.
fn told(status: StatusCode, error: Error) -> Response {
    let mut response = HttpError(error).into_response();
    *response.status_mut() = status;
    response
}

async fn no_such_path(method: Method, uri: Uri) -> HttpError {
    let path = uri.path();
    HttpError(Error::not_found(format!(
        "{method} {path}: there is no such path; statements go to POST /v1/sql, and GET tells /health, /v1/ready and /v1/cluster"
    )))
}

async fn no_such_method(method: Method, uri: Uri) -> Response {
    let path = uri.path();
    let error = Error::unsupported(format!(
        "{path} does not take {method}: what changes or asks something is sent by POST, statements to /v1/sql; what is only looked \
         at is fetched by GET"
    ));
    told(StatusCode::METHOD_NOT_ALLOWED, error)
}

/// The body of a request.
struct WholeBody(Bytes);

impl<S: Send + Sync> FromRequest<S> for WholeBody {
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Self, Response> {
        Bytes::from_request(request, state).await.map(Self).map_err(|rejection| {
            let error = match rejection.status() {
                StatusCode::PAYLOAD_TOO_LARGE => format!(
                    "the body has more than the {} MiB that are taken; send fewer values per statement, or many rows by COPY or by \
                     bulk ingestion over Flight SQL",
                    MAX_BODY_BYTES >> 20
                ),
                _ => format!("the body cannot be read: {}", rejection.body_text()),
            };
            told(rejection.status(), Error::invalid(error))
        })
    }
}

async fn ready(State(statements): State<Arc<Statements>>) -> Response {
    let readiness = statements.service().ready();
    let status = if readiness.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(readiness)).into_response()
}

/// A route that hands its body to a management action.
fn act(action: &'static str) -> MethodRouter<Arc<Statements>> {
    post(async move |State(statements): State<Arc<Statements>>, WholeBody(body): WholeBody| {
        let answer = statements.service().action(action, body).await?;
        Ok::<_, HttpError>(([(header::CONTENT_TYPE, "application/json")], answer).into_response())
    })
}

async fn cluster(State(statements): State<Arc<Statements>>) -> Result<Response, HttpError> {
    let status = statements.service().action("ancho.cluster_status", Bytes::new()).await?;
    Ok(([(header::CONTENT_TYPE, "application/json")], status).into_response())
}

async fn list_snapshots(
    State(statements): State<Arc<Statements>>,
    Path(name): Path<String>,
) -> Result<Response, HttpError> {
    snapshots(&statements, &json!({ "table": name })).await
}

async fn create_snapshot(
    State(statements): State<Arc<Statements>>,
    Path(name): Path<String>,
) -> Result<Response, HttpError> {
    snapshots(&statements, &json!({ "table": name, "create": true })).await
}

/// Names a snapshot.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChosenSnapshot {
    snapshot_id: String,
}

impl ChosenSnapshot {
    fn of(body: &[u8]) -> Result<Self> {
        serde_json::from_slice(body)
            .map_err(|e| Error::invalid(format!("send {{\"snapshot_id\": the id of a listed snapshot}}: {e}")))
    }
}

async fn pin_snapshot(
    State(statements): State<Arc<Statements>>,
    Path(name): Path<String>,
    WholeBody(body): WholeBody,
) -> Result<Response, HttpError> {
    let ChosenSnapshot { snapshot_id } = ChosenSnapshot::of(&body)?;
    snapshots(&statements, &json!({ "table": name, "pin": snapshot_id })).await
}

async fn unpin_snapshot(
    State(statements): State<Arc<Statements>>,
    Path(name): Path<String>,
) -> Result<Response, HttpError> {
    snapshots(&statements, &json!({ "table": name, "unpin": true })).await
}

async fn restore_snapshot(
    State(statements): State<Arc<Statements>>,
    Path(name): Path<String>,
    WholeBody(body): WholeBody,
) -> Result<Response, HttpError> {
    let ChosenSnapshot { snapshot_id } = ChosenSnapshot::of(&body)?;
    snapshots(&statements, &json!({ "table": name, "restore": snapshot_id })).await
}

async fn snapshots(statements: &Statements, wanted: &Value) -> Result<Response, HttpError> {
    let answer = statements.service().action("ancho.snapshots", Bytes::from(wanted.to_string())).await?;
    Ok(([(header::CONTENT_TYPE, "application/json")], answer).into_response())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SqlRequest {
    sql: String,
    #[serde(default)]
    parameters: Vec<Value>,
}

async fn sql(
    State(statements): State<Arc<Statements>>,
    headers: HeaderMap,
    WholeBody(body): WholeBody,
) -> Result<Response, HttpError> {
    let mut meter = StatementMeter::start(FRONTEND, Measured::Query);
    let answer = async {
        let Some(format) = Format::accepted(&headers) else { return Ok(Err(not_acceptable())) };
        let request = request(&headers, &body)?;
        let id = RequestId::chosen(headers.get(REQUEST_ID_HEADER).map(HeaderValue::as_bytes))?;
        if let Some(script) = Script::of(&request.sql)? {
            if !request.parameters.is_empty() {
                return Err(Error::invalid("statements of a transaction in one request cannot have parameters"));
            }
            return Ok(Ok(match statements.run_script(&script, id).await? {
                ScriptResult::Changed(changed) => Answer::Update(changed),
                ScriptResult::Rows(rows) => Answer::Query(None, rows, format),
            }));
        }
        let prepared = prepared(&statements, request).await?;
        if prepared.handle.kind == StatementKind::Update {
            return Ok(Ok(Answer::Update(statements.update(prepared.handle, id).await?)));
        }
        let mut rows = statements.run(prepared.handle).await?;
        // The first rows decide about the status: an error up to here is an error answer.
        let first = rows.rows.next().await.transpose()?;
        Ok::<_, Error>(Ok(Answer::Query(first, rows, format)))
    };
    match answer.await {
        Ok(Ok(Answer::Query(first, rows, format))) => {
            let rows = EdgeRows { schema: rows.schema, rows: stream::iter(first.map(Ok)).chain(rows.rows).boxed() };
            Ok(streamed(rows, format, meter)?)
        }
        Ok(Ok(Answer::Update(changed))) => {
            meter.measure(Measured::Update);
            meter.add_rows(usize::try_from(changed).unwrap_or(0));
            meter.succeed();
            Ok(Json(json!({ "rows_affected": changed })).into_response())
        }
        Ok(Err(response)) => {
            meter.fail(ancho_common::error::ErrorKind::Invalid);
            Ok(response)
        }
        Err(error) => {
            meter.fail(error.kind);
            Err(error.into())
        }
    }
}

enum Answer {
    Update(i64),
    Query(Option<arrow::array::RecordBatch>, EdgeRows, Format),
}

fn not_acceptable() -> Response {
    let error = Error::invalid(
        "no format of the Accept header is offered; ask for application/json, text/csv or application/vnd.apache.arrow.stream",
    );
    told(StatusCode::NOT_ACCEPTABLE, error)
}

/// What a request asks for.
fn request(headers: &HeaderMap, body: &[u8]) -> Result<SqlRequest> {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if content_type.starts_with("application/json") {
        return serde_json::from_slice(body).map_err(|e| Error::invalid(format!("the body is no SQL request: {e}")));
    }
    let sql = std::str::from_utf8(body).map_err(|_| Error::invalid("the statement is not UTF-8 text"))?;
    Ok(SqlRequest { sql: sql.to_string(), parameters: Vec::new() })
}

/// The statement of a request, planned and bound.
async fn prepared(statements: &Statements, request: SqlRequest) -> Result<Prepared> {
    let mut prepared = statements.prepare(&request.sql, None).await?;
    if !request.parameters.is_empty() {
        let parameters = parameters::to_batch(&request.parameters, &prepared.parameters)?;
        prepared.handle = Statements::bind(prepared.handle, &parameters)?;
    }
    Ok(prepared)
}

/// The body is made part by part as the client reads it.
fn streamed(rows: EdgeRows, format: Format, meter: StatementMeter) -> Result<Response> {
    let renderer = Renderer::new(format, &rows.schema)?;
    let state = Some((rows.rows, renderer, meter));
    let parts = stream::unfold(state, |state| async move {
        let (mut rows, mut renderer, mut meter) = state?;
        let part = match rows.next().await {
            Some(Ok(batch)) => {
                meter.add_rows(batch.num_rows());
                renderer.rows(&batch)
            }
            Some(Err(error)) => Err(error),
            None => {
                let end = renderer.end();
                meter.succeed();
                return Some((end, None));
            }
        };
        match part {
            Ok(part) => Some((Ok(part), Some((rows, renderer, meter)))),
            Err(error) => {
                tracing::warn!(%error, "a query failed after its first rows were sent; the connection is broken off");
                meter.fail(error.kind);
                Some((Err(error), None))
            }
        }
    });
    Ok(([(header::CONTENT_TYPE, format.content_type())], Body::from_stream(parts)).into_response())
}
