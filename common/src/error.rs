//! The error that crosses every boundary of Ancho: a coarse kind that says what the caller should do, and a text.
//!
//! One table maps a kind to its code, gRPC status, HTTP status, SQLSTATE and whether a retry can help. Errors travel
//! through libraries that keep only their text, so the text carries the kind as `ancho[code]: …`, or with a finer
//! [`Condition`] as `ancho[code/sqlstate]: …`, and [`Error::from_text`] finds it again.
mod condition;
mod engine;
mod panics;
mod texts;

use std::fmt;

pub use condition::Condition;
use datafusion::error::DataFusionError;
pub use panics::panic_text;
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

    /// The SQLSTATE of the kind, where no condition says it better.
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
    /// What happened, for programs, where the kind is coarser than SQL is.
    pub condition: Option<Condition>,
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
        Self { kind, message: message.into(), condition: None }
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
                && let (code, state) = code.split_once('/').unwrap_or((code, ""))
                && let Some(kind) = ErrorKind::from_code(code)
            {
                return Self { condition: Condition::from_sqlstate(state), ..Self::new(kind, message) };
            }
        }
        Self::new(fallback, text)
    }

    /// The same error with its condition.
    #[must_use]
    pub fn with(self, condition: Condition) -> Self {
        Self { condition: Some(condition), ..self }
    }

    /// The SQLSTATE that clients see.
    #[must_use]
    pub fn sqlstate(&self) -> &'static str {
        self.condition.map_or_else(|| self.kind.sqlstate(), Condition::sqlstate)
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
        match self.condition {
            None => write!(f, "ancho[{}]: {}", self.kind.code(), self.message),
            Some(condition) => write!(f, "ancho[{}/{}]: {}", self.kind.code(), condition.sqlstate(), self.message),
        }
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
            ("x-ancho-sqlstate", error.sqlstate()),
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
            let plain = Error::new(row.kind, "table orders: partition 3 has no owner");
            for error in Condition::ALL.iter().map(|c| plain.clone().with(*c)).chain([plain.clone()]) {
                assert_eq!(Error::from_text(&format!("External error: {error}"), ErrorKind::Internal), error);
                let status = tonic::Status::from(error.clone());
                assert_eq!(
                    status.metadata().get("x-ancho-sqlstate").map(|s| s.as_bytes()),
                    Some(error.sqlstate().as_bytes())
                );
                assert_eq!(Error::from(status), error);
                assert_eq!(Error::from(DataFusionError::from(error.clone())), error);
            }
        }
    }

    #[test]
    fn a_long_text_is_cut_and_keeps_its_kind() {
        let status = tonic::Status::from(Error::conflict("ä".repeat(1 << 20)));
        assert!(status.message().len() < 4096);
        assert_eq!(Error::from(status).kind, ErrorKind::Conflict);
    }
}
