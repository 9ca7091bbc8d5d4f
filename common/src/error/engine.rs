//! What an error of the query engine means to whoever sent the statement: its kind, its condition, and one sentence.
use arrow::error::ArrowError;
use datafusion::{common::SchemaError, error::DataFusionError, logical_expr::sqlparser::parser::ParserError};
use tonic::Code;

use super::{Condition, Error, ErrorKind, texts};

impl From<DataFusionError> for Error {
    fn from(error: DataFusionError) -> Self {
        let text = error.to_string();
        if text.contains("ancho[") {
            return Self::from_text(&text, ErrorKind::Internal);
        }
        if let Some(lost) = lost_peer(&error, &text) {
            return lost;
        }
        of_root(error.find_root())
    }
}

impl From<ArrowError> for Error {
    fn from(error: ArrowError) -> Self {
        Self::from(DataFusionError::from(error))
    }
}

fn of_root(root: &DataFusionError) -> Error {
    let text = match root {
        // Of several mistakes the first one is told; the others are often its consequences.
        DataFusionError::Collection(errors) if !errors.is_empty() => return of_root(errors[0].find_root()),
        DataFusionError::SchemaError(error, _) => return of_names(error),
        DataFusionError::SQL(error, _) => return of_syntax(error),
        DataFusionError::ArrowError(error, _) => match error.as_ref() {
            // Its prefix tells a date that cannot be read from other texts.
            ArrowError::ExternalError(inner) => inner.to_string(),
            other => other.to_string(),
        },
        DataFusionError::Plan(text) | DataFusionError::Execution(text) | DataFusionError::Internal(text) => {
            text.clone()
        }
        DataFusionError::NotImplemented(text) => text.clone(),
        DataFusionError::External(error) => error.to_string(),
        other => other.strip_backtrace(),
    };
    let text = texts::without_advice(&text);
    if let Some(known) = texts::known(&text) {
        return known;
    }
    let kind = match root {
        DataFusionError::ResourcesExhausted(_) => ErrorKind::Exhausted,
        DataFusionError::NotImplemented(_) => {
            return Error::unsupported(format!("not offered: {}", texts::lower_case(&text)));
        }
        DataFusionError::ObjectStore(e) => object_store_kind(e),
        // A file that somebody else wrote; Ancho's own are not Parquet.
        DataFusionError::ParquetError(_)
        | DataFusionError::Plan(_)
        | DataFusionError::Configuration(_)
        | DataFusionError::ArrowError(..)
        // What a value did to a function is the statement's fault.
        | DataFusionError::Execution(_) => ErrorKind::Invalid,
        _ => ErrorKind::Internal,
    };
    Error::new(kind, texts::lower_case(&text))
}

/// How columns begin that statements do not name.
const HIDDEN: &str = "__ancho";

/// In names that the optimizer gives to subqueries which it makes joins of.
const DECORRELATED: &str = "__correlated_sq";

/// Starts the mark of a column whose name another one has, too.
const MARK: char = '\u{2063}';

/// Most columns named as those that there are.
const NAMED_COLUMNS: usize = 12;

fn of_names(error: &SchemaError) -> Error {
    match error {
        SchemaError::FieldNotFound { field, valid_fields }
            if field.flat_name().contains(DECORRELATED)
                || valid_fields.iter().any(|valid| valid.flat_name().contains(DECORRELATED)) =>
        {
            Error::unsupported(
                "a subquery in this place or form is not offered: what ties it to the outer query has to be a comparison by `=`; \
                 write it as a join",
            )
        }
        SchemaError::FieldNotFound { field, valid_fields } => {
            let name = field.quoted_flat_name();
            let hidden = |name: &str| name.starts_with(HIDDEN) || name.contains(MARK);
            let shown = valid_fields.iter().filter(|field| !hidden(&field.name));
            let mut names: Vec<String> = shown.map(|field| field.quoted_flat_name()).collect();
            names.dedup();
            let unquoted = field.name.to_lowercase();
            let same = valid_fields.iter().find(|valid| valid.name.to_lowercase() == unquoted);
            let advice = match same {
                Some(same) if same.name != field.name => {
                    format!("{} is there, whose name has to be written like this", same.quoted_flat_name())
                }
                _ if names.is_empty() => "there are no columns here".to_owned(),
                _ if names.len() > NAMED_COLUMNS => {
                    format!("there are {} and {} more", names[..NAMED_COLUMNS].join(", "), names.len() - NAMED_COLUMNS)
                }
                _ => format!("there are {}", names.join(", ")),
            };
            Error::invalid(format!("column {name} does not exist here; {advice}")).with(Condition::UnknownColumn)
        }
        SchemaError::AmbiguousReference { field } if field.relation.is_some() => {
            let name = field.quoted_flat_name();
            Error::invalid(format!(
                "column {name} is there twice where the statement refers to it; give one an alias, or its table another name"
            ))
            .with(Condition::AmbiguousColumn)
        }
        SchemaError::AmbiguousReference { field } => {
            let name = field.quoted_flat_name();
            Error::invalid(format!("column {name} is ambiguous: several tables or columns here have that name; write the table before it, or give one an alias"))
                .with(Condition::AmbiguousColumn)
        }
        SchemaError::DuplicateQualifiedField { qualifier, .. } => {
            let table = qualifier.to_quoted_string();
            Error::invalid(format!("two tables here are called {table}; give one an alias"))
                .with(Condition::DuplicateAlias)
        }
        SchemaError::DuplicateUnqualifiedField { name } => {
            Error::invalid(format!("two columns here are called {name:?}; give one an alias"))
                .with(Condition::DuplicateColumn)
        }
    }
}

fn of_syntax(error: &ParserError) -> Error {
    match error {
        ParserError::TokenizerError(text) | ParserError::ParserError(text) => {
            Error::invalid(format!("syntax error: {}", texts::lower_case(text.trim()))).with(Condition::Syntax)
        }
        ParserError::RecursionLimitExceeded => {
            Error::invalid("expressions are nested too deep; write the statement with fewer levels")
                .with(Condition::TooComplex)
        }
    }
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

#[cfg(test)]
mod tests {
    use datafusion::common::Column;

    use super::*;

    fn cast(text: &str) -> DataFusionError {
        DataFusionError::ArrowError(Box::new(ArrowError::CastError(text.into())), None)
    }

    #[test]
    fn errors_of_the_engine_are_told_without_their_way_through_it() {
        let deep = DataFusionError::Context(
            "Optimizer rule 'x' failed".into(),
            Box::new(cast("Can't cast value 300 to type Int8")),
        );
        let syntax = ParserError::ParserError("Expected: an expression, found: EOF".into());
        let missing = SchemaError::FieldNotFound {
            field: Box::new(Column::from_name("nam")),
            valid_fields: vec![Column::new(Some("t"), "id"), Column::new(Some("t"), "Name")],
        };
        let folded = SchemaError::FieldNotFound {
            field: Box::new(Column::from_name("name")),
            valid_fields: vec![Column::new(Some("t"), "id"), Column::new(Some("t"), "Name")],
        };
        for (error, state, text) in [
            (deep, "22003", "300 does not fit type Int8"),
            (
                DataFusionError::SQL(Box::new(syntax), None),
                "42601",
                "syntax error: expected: an expression, found: EOF",
            ),
            (
                DataFusionError::SchemaError(Box::new(missing), Box::new(None)),
                "42703",
                "column nam does not exist here; there are t.id, t.\"Name\"",
            ),
            (
                DataFusionError::SchemaError(Box::new(folded), Box::new(None)),
                "42703",
                "column name does not exist here; t.\"Name\" is there, whose name has to be written like this",
            ),
            (
                DataFusionError::Collection(vec![DataFusionError::Plan("table 'ancho.public.t' not found".into())]),
                "42P01",
                "table t does not exist",
            ),
            (DataFusionError::NotImplemented("Odd things".into()), "0A000", "not offered: odd things"),
            (DataFusionError::Internal("index out of bounds".into()), "XX000", "index out of bounds"),
        ] {
            let told = Error::from(error);
            assert_eq!((told.sqlstate(), told.message.as_str()), (state, text));
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
}
