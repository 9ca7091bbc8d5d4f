//! The error that crosses every boundary of Ancho: a coarse kind that says what the caller should do, and a text.
//!
//! One table maps a kind to its code, gRPC status, HTTP status, SQLSTATE and whether a retry can help. Errors travel
//! through libraries that keep only their text, so the text carries the kind as `ancho[code]: …` and
//! [`Error::from_text`] finds it again.
use std::fmt;

use arrow::error::ArrowError;
use datafusion::error::DataFusionError;
use serde::{Deserialize, Serialize};
use tonic::Code;

/// What went wrong, as far as the caller's next step depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The statement, value or setting is wrong; sending it again cannot help.
    Invalid,
    /// A value that does not fit its type came up; other rows may give an answer, these never will.
    OutOfRange,
    /// A named thing does not exist.
    NotFound,
    /// A named thing exists already.
    AlreadyExists,
    /// The request is understood but not offered.
    Unsupported,
    /// Another write came first; the statement changed nothing and can be sent again.
    Conflict,
    /// A partition or node cannot serve now; nothing was changed; send it again.
    Unavailable,
    /// The route used is out of date; schedulers re-plan on it, clients should never see it.
    StaleRoute,
    /// Memory, disk or a queue is full.
    Exhausted,
    /// The outcome of a write is not known; asking with the same request id resolves it.
    Unknown,
    /// Stored data is damaged or missing.
    Corrupt,
    /// The caller or an operator ended it.
    Cancelled,
    /// It did not end within its time.
    Deadline,
    /// A fault of Ancho's own.
    Internal,
}

struct Row {
    kind: ErrorKind,
    code: &'static str,
    grpc: Code,
    http: u16,
    sqlstate: &'static str,
    retryable: bool,
}

#[rustfmt::skip]
const TABLE: &[Row] = &[
    Row { kind: ErrorKind::Invalid,       code: "invalid",        grpc: Code::InvalidArgument,    http: 400, sqlstate: "42000", retryable: false },
    Row { kind: ErrorKind::OutOfRange,    code: "out_of_range",   grpc: Code::OutOfRange,         http: 400, sqlstate: "22003", retryable: false },
    Row { kind: ErrorKind::NotFound,      code: "not_found",      grpc: Code::NotFound,           http: 404, sqlstate: "42P01", retryable: false },
    Row { kind: ErrorKind::AlreadyExists, code: "already_exists", grpc: Code::AlreadyExists,      http: 409, sqlstate: "42P07", retryable: false },
    Row { kind: ErrorKind::Unsupported,   code: "unsupported",    grpc: Code::Unimplemented,      http: 501, sqlstate: "0A000", retryable: false },
    Row { kind: ErrorKind::Conflict,      code: "conflict",       grpc: Code::Aborted,            http: 409, sqlstate: "40001", retryable: true },
    Row { kind: ErrorKind::Unavailable,   code: "unavailable",    grpc: Code::Unavailable,        http: 503, sqlstate: "57P03", retryable: true },
    Row { kind: ErrorKind::StaleRoute,    code: "stale_route",    grpc: Code::Unavailable,        http: 503, sqlstate: "57P03", retryable: true },
    Row { kind: ErrorKind::Exhausted,     code: "exhausted",      grpc: Code::ResourceExhausted,  http: 429, sqlstate: "53000", retryable: true },
    Row { kind: ErrorKind::Unknown,       code: "unknown",        grpc: Code::Unknown,            http: 500, sqlstate: "08007", retryable: false },
    Row { kind: ErrorKind::Corrupt,       code: "corrupt",        grpc: Code::DataLoss,           http: 500, sqlstate: "XX001", retryable: false },
    Row { kind: ErrorKind::Cancelled,     code: "cancelled",      grpc: Code::Cancelled,          http: 499, sqlstate: "57014", retryable: false },
    Row { kind: ErrorKind::Deadline,      code: "deadline",       grpc: Code::DeadlineExceeded,   http: 504, sqlstate: "57014", retryable: true },
    Row { kind: ErrorKind::Internal,      code: "internal",       grpc: Code::Internal,           http: 500, sqlstate: "XX000", retryable: false },
];

impl ErrorKind {
    fn row(self) -> &'static Row {
        // Every kind has a row (tested), the first stands in for the compiler.
        TABLE.iter().find(|r| r.kind == self).unwrap_or(&TABLE[0])
    }

    /// Stable short name, as in `ancho[unavailable]`.
    #[must_use]
    pub fn code(self) -> &'static str {
        self.row().code
    }

    /// The gRPC status a client sees.
    #[must_use]
    pub fn grpc(self) -> Code {
        self.row().grpc
    }

    /// The HTTP status a client sees.
    #[must_use]
    pub fn http(self) -> u16 {
        self.row().http
    }

    /// The SQLSTATE of the kind.
    #[must_use]
    pub fn sqlstate(self) -> &'static str {
        self.row().sqlstate
    }

    /// Sending the same statement again can succeed, and cannot apply it twice.
    #[must_use]
    pub fn retryable(self) -> bool {
        self.row().retryable
    }

    fn from_code(code: &str) -> Option<Self> {
        TABLE.iter().find(|r| r.code == code).map(|r| r.kind)
    }
}

/// A kind and a text. The text is lower case and says what is wrong and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// What the caller should do.
    pub kind: ErrorKind,
    /// What happened, to read.
    pub message: String,
}

/// Result with Ancho's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

macro_rules! constructor {
    ($name:ident, $kind:ident) => {
        #[doc = concat!("An error of kind [`ErrorKind::", stringify!($kind), "`].")]
        pub fn $name(message: impl Into<String>) -> Self {
            Self::new(ErrorKind::$kind, message)
        }
    };
}

impl Error {
    /// Any kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    constructor!(invalid, Invalid);
    constructor!(out_of_range, OutOfRange);
    constructor!(not_found, NotFound);
    constructor!(already_exists, AlreadyExists);
    constructor!(unsupported, Unsupported);
    constructor!(conflict, Conflict);
    constructor!(unavailable, Unavailable);
    constructor!(stale_route, StaleRoute);
    constructor!(exhausted, Exhausted);
    constructor!(unknown, Unknown);
    constructor!(corrupt, Corrupt);
    constructor!(internal, Internal);

    /// Finds the kind inside a text that passed through a library; the kind is `fallback` if there is none.
    #[must_use]
    pub fn from_text(text: &str, fallback: ErrorKind) -> Self {
        // The innermost mark is the origin; what stands before it is only the path it took.
        if let Some(at) = text.rfind("ancho[") {
            let rest = &text[at + "ancho[".len()..];
            if let Some((code, message)) = rest.split_once("]: ")
                && let Some(kind) = ErrorKind::from_code(code)
            {
                return Self::new(kind, message);
            }
        }
        Self::new(fallback, text)
    }

    /// Prefixes the text with what was being done.
    #[must_use]
    pub fn context(mut self, doing: &str) -> Self {
        self.message = format!("{doing}: {}", self.message);
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ancho[{}]: {}", self.kind.code(), self.message)
    }
}

impl std::error::Error for Error {}

impl From<Error> for DataFusionError {
    fn from(error: Error) -> Self {
        match error.kind {
            ErrorKind::Exhausted => DataFusionError::ResourcesExhausted(error.to_string()),
            // `Execution` keeps its variant and text on every hop between processes; `External` does not.
            _ => DataFusionError::Execution(error.to_string()),
        }
    }
}

impl From<DataFusionError> for Error {
    fn from(error: DataFusionError) -> Self {
        let text = error.to_string();
        if text.contains("ancho[") {
            return Self::from_text(&text, ErrorKind::Internal);
        }
        if let Some(lost) = lost_peer(&error, &text) {
            return lost;
        }
        let kind = match error.find_root() {
            DataFusionError::ResourcesExhausted(_) => ErrorKind::Exhausted,
            DataFusionError::NotImplemented(_) => ErrorKind::Unsupported,
            DataFusionError::ArrowError(e, _) if is_out_of_range(e) => ErrorKind::OutOfRange,
            DataFusionError::Plan(text) if text.starts_with("table '") && text.ends_with("' not found") => {
                ErrorKind::NotFound
            }
            DataFusionError::External(e) if e.to_string().starts_with("regex parse error") => ErrorKind::Invalid,
            DataFusionError::ObjectStore(e) => object_store_kind(e),
            // A file that somebody else wrote; Ancho's own are not Parquet.
            DataFusionError::ParquetError(_)
            | DataFusionError::SQL(..)
            | DataFusionError::Plan(_)
            | DataFusionError::SchemaError(..)
            | DataFusionError::Configuration(_)
            | DataFusionError::ArrowError(..)
            // What a value did to a function (overflow, bad cast, division by zero) is the statement's fault.
            | DataFusionError::Execution(_) => ErrorKind::Invalid,
            _ => ErrorKind::Internal,
        };
        Self::new(kind, told(&error))
    }
}

/// The value is a number, and its type is too small for it.
fn is_out_of_range(error: &ArrowError) -> bool {
    match error {
        ArrowError::ArithmeticOverflow(_) => true,
        ArrowError::CastError(text) => text.starts_with("Can't cast value"),
        ArrowError::InvalidArgumentError(text) => text.contains("to store in a Decimal"),
        _ => false,
    }
}

/// The engine's text without the way that the error took through it, and without its advice to report a fault.
fn told(error: &DataFusionError) -> String {
    let root = error.find_root();
    let text = match root {
        DataFusionError::Plan(text) | DataFusionError::Execution(text) => text.clone(),
        DataFusionError::NotImplemented(text) if text.starts_with("Physical plan does not support logical expression") => {
            "a subquery in this place or form is not offered: IN stands in WHERE, and a correlated scalar subquery is tied to \
             the outer query by `=` and has no LIMIT; write it as a join"
                .to_owned()
        }
        DataFusionError::NotImplemented(text) => format!("not offered: {text}"),
        DataFusionError::SQL(e, _) => e.to_string(),
        DataFusionError::ArrowError(e, _) => e.to_string(),
        DataFusionError::SchemaError(e, _) => e.to_string(),
        DataFusionError::External(e) => e.to_string(),
        other => other.strip_backtrace(),
    };
    let text = text.split("\nThis issue was likely caused by a bug in DataFusion").next().unwrap_or_default();
    let text = text.strip_prefix("Internal error: ").unwrap_or(text);
    // All forms that a function has are listed; what was given says more.
    let text = match text.split_once("failed to match any signature, errors: ") {
        Some((function, forms)) => {
            let given = forms.split("but received ").nth(1).and_then(|rest| rest.split(".,").next());
            let given =
                given.map_or_else(|| "these arguments".to_owned(), |given| given.trim_end_matches('.').to_owned());
            format!("{}does not take {given}", function)
        }
        None => text.to_owned(),
    };
    text.trim_end().replace('\n', " ")
}

/// What a failure of a bucket or directory with source files means to who named it.
fn object_store_kind(error: &object_store::Error) -> ErrorKind {
    use object_store::Error as E;
    match error {
        E::NotFound { .. } => ErrorKind::NotFound,
        E::NotSupported { .. } | E::NotImplemented { .. } => ErrorKind::Unsupported,
        E::Generic { .. } => ErrorKind::Unavailable,
        _ => ErrorKind::Invalid,
    }
}

/// What the transport says when a process that takes part in a query goes away. Behind another process only the text of
/// such an error is left.
const LOST_PEER: &[&str] = &[
    "The service is currently unavailable",
    "transport error",
    "tcp connect error",
    "http2 error",
    "h2 protocol error",
    "error reading a body from connection",
    "connection reset",
    "Connection reset",
    "broken pipe",
    "Broken pipe",
    "operation was canceled",
    "channel closed",
];

/// What a task says whose plan never reached it.
const PLAN_NEVER_CAME: &str = "timed-out while waiting for the plan";

fn lost_peer(error: &DataFusionError, text: &str) -> Option<Error> {
    let status = match error.find_root() {
        DataFusionError::External(source) => source.downcast_ref::<tonic::Status>(),
        _ => None,
    };
    let lost = status.is_some_and(|s| matches!(s.code(), Code::Unavailable | Code::Unknown | Code::Cancelled))
        // Only in texts that come from outside the engine: a value of the user's may read like any of the marks.
        || (text.contains("External error") && LOST_PEER.iter().any(|mark| text.contains(mark)))
        || text.contains(PLAN_NEVER_CAME);
    // The text of a transport error runs to many lines of debug output; what it says is this.
    let detail = status.map_or_else(|| text.chars().take(160).collect(), |s| s.message().to_owned());
    lost.then(|| Error::unavailable(format!("an executor was lost while the statement ran ({detail}); try again")))
}

/// Longest text put into a status: HTTP/2 header blocks are limited, and a cut text beats a broken stream.
const MAX_STATUS_TEXT: usize = 3 * 1024;

impl From<Error> for tonic::Status {
    fn from(error: Error) -> Self {
        let mut text = error.to_string();
        if text.len() > MAX_STATUS_TEXT {
            let cut = (0..=MAX_STATUS_TEXT).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0);
            text.truncate(cut);
            text.push_str(" … (cut)");
        }
        let mut status = tonic::Status::new(error.kind.grpc(), text);
        let metadata = status.metadata_mut();
        for (key, value) in [
            ("x-ancho-code", error.kind.code()),
            ("x-ancho-sqlstate", error.kind.sqlstate()),
            ("x-ancho-retryable", if error.kind.retryable() { "true" } else { "false" }),
        ] {
            metadata.insert(key, tonic::metadata::MetadataValue::from_static(value));
        }
        status
    }
}

impl From<tonic::Status> for Error {
    fn from(status: tonic::Status) -> Self {
        let fallback = match status.code() {
            Code::InvalidArgument | Code::FailedPrecondition => ErrorKind::Invalid,
            Code::OutOfRange => ErrorKind::OutOfRange,
            Code::NotFound => ErrorKind::NotFound,
            Code::AlreadyExists => ErrorKind::AlreadyExists,
            Code::Unimplemented => ErrorKind::Unsupported,
            Code::Aborted => ErrorKind::Conflict,
            Code::Unavailable => ErrorKind::Unavailable,
            Code::ResourceExhausted => ErrorKind::Exhausted,
            Code::DataLoss => ErrorKind::Corrupt,
            Code::Cancelled => ErrorKind::Cancelled,
            Code::DeadlineExceeded => ErrorKind::Deadline,
            _ => ErrorKind::Internal,
        };
        // A transport fault of tonic (refused, reset, broken pipe) arrives as `Unknown` with a source.
        if status.code() == Code::Unknown && std::error::Error::source(&status).is_some() {
            return Self::unavailable(format!("connection lost: {}", status.message()));
        }
        Self::from_text(status.message(), fallback)
    }
}

impl From<tonic::transport::Error> for Error {
    fn from(error: tonic::transport::Error) -> Self {
        let mut text = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(inner) = source {
            text = format!("{text}: {inner}");
            source = inner.source();
        }
        Self::unavailable(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_survives_a_trip_as_text_and_as_status() {
        for row in TABLE {
            let error = Error::new(row.kind, "table orders: partition 3 has no owner");
            assert_eq!(Error::from_text(&format!("External error: {error}"), ErrorKind::Internal), error);
            assert_eq!(Error::from(tonic::Status::from(error.clone())), error);
            assert_eq!(Error::from(DataFusionError::from(error.clone())), error);
        }
    }

    #[test]
    fn errors_of_the_engine_are_told_without_their_way_through_it() {
        let cast = |text: &str| DataFusionError::ArrowError(Box::new(ArrowError::CastError(text.into())), None);
        let deep = DataFusionError::Context(
            "Optimizer rule 'x' failed".into(),
            Box::new(cast("Can't cast value 300 to type Int8")),
        );
        let signature = "Internal error: Function 'sum' failed to match any signature, errors: Function 'sum' requires \
                         Int64, but received String (DataType: Utf8).,Function 'sum' requires Decimal, but received String \
                         (DataType: Utf8).\nThis issue was likely caused by a bug in DataFusion's code. Please help";
        for (error, kind, text) in [
            (deep, ErrorKind::OutOfRange, "Cast error: Can't cast value 300 to type Int8"),
            (
                cast("Cannot cast string 'x' to value of Int32 type"),
                ErrorKind::Invalid,
                "Cast error: Cannot cast string 'x' to value of Int32 type",
            ),
            (
                DataFusionError::Plan("table 'ancho.public.t' not found".into()),
                ErrorKind::NotFound,
                "table 'ancho.public.t' not found",
            ),
            (
                DataFusionError::Plan(signature.into()),
                ErrorKind::Invalid,
                "Function 'sum' does not take String (DataType: Utf8)",
            ),
        ] {
            assert_eq!(Error::from(error), Error::new(kind, text));
        }
    }

    #[test]
    fn a_lost_peer_is_unavailable_wherever_it_was_noticed() {
        let near = DataFusionError::External(Box::new(tonic::Status::unavailable("tcp connect error")));
        let far = DataFusionError::Execution("External error: code: 'The service is currently unavailable'".into());
        for error in [near, far] {
            assert_eq!(Error::from(error).kind, ErrorKind::Unavailable);
        }
        for text in ["Divide by zero error", "Cannot cast string 'connection reset' to value of Int32 type"] {
            assert_eq!(Error::from(DataFusionError::Execution(text.into())).kind, ErrorKind::Invalid);
        }
    }

    #[test]
    fn a_long_text_is_cut_and_keeps_its_kind() {
        let status = tonic::Status::from(Error::conflict("ä".repeat(1 << 20)));
        assert!(status.message().len() < 4096);
        assert_eq!(Error::from(status).kind, ErrorKind::Conflict);
    }
}
