//! Statements about snapshots: `CREATE SNAPSHOT OF t`, `PIN SNAPSHOT 'id' OF t`, `UNPIN SNAPSHOT OF t`,
//! `RESTORE TABLE t FROM SNAPSHOT 'id'`. The parser of the query engine knows none of them.
use std::sync::Arc;

use ancho_common::{
    alter,
    error::{Error, Result},
};
use datafusion::{
    common::{Column, ScalarValue},
    datasource::provider_as_source,
    logical_expr::{
        Expr, LogicalPlan, LogicalPlanBuilder, cast, lit,
        sqlparser::{ast::ObjectName, dialect::GenericDialect, parser::Parser, tokenizer::Token},
    },
};
use uuid::Uuid;

use super::{
    ddl,
    engine::{QueryEngine, existing},
    statement::after_word,
    write::WriteKind,
};
use crate::{
    frontend::caller::Caller,
    snapshots::contents::Contents,
    state::{Table, TableName, read_only},
};

/// A statement about snapshots of a table.
#[derive(Debug, Clone)]
pub struct SnapshotStatement {
    /// Table, as written.
    table: ObjectName,
    ask: Ask,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ask {
    /// Publish one.
    Create,
    /// Give readers this one from now on.
    Pin(Uuid),
    /// Give them the newest again.
    Unpin,
    /// Put its rows in the place of those that the table has.
    Restore(Uuid),
}

impl Ask {
    fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE SNAPSHOT",
            Self::Pin(_) => "PIN SNAPSHOT",
            Self::Unpin => "UNPIN SNAPSHOT",
            Self::Restore(_) => "RESTORE TABLE",
        }
    }

    fn form(self) -> &'static str {
        match self {
            Self::Create => "CREATE SNAPSHOT OF table",
            Self::Pin(_) => "PIN SNAPSHOT 'id' OF table",
            Self::Unpin => "UNPIN SNAPSHOT OF table",
            Self::Restore(_) => "RESTORE TABLE table FROM SNAPSHOT 'id'",
        }
    }
}

impl SnapshotStatement {
    /// Parses one; `None` for any other statement.
    pub fn parse(sql: &str) -> Option<Result<Self>> {
        let first = |word, next| after_word(sql, word).and_then(|rest| after_word(rest, next));
        let none = Uuid::nil();
        let (ask, rest) = if let Some(rest) = first("CREATE", "SNAPSHOT") {
            (Ask::Create, rest)
        } else if let Some(rest) = first("PIN", "SNAPSHOT") {
            (Ask::Pin(none), rest)
        } else if let Some(rest) = first("UNPIN", "SNAPSHOT") {
            (Ask::Unpin, rest)
        } else {
            (Ask::Restore(none), first("RESTORE", "TABLE")?)
        };
        Some(Self::rest(ask, rest).map_err(|why| Error::invalid(format!("write {}: {why}", ask.form()))))
    }

    fn rest(ask: Ask, rest: &str) -> Result<Self, String> {
        let mut parser = Parser::new(&GenericDialect {}).try_with_sql(rest).map_err(|e| e.to_string())?;
        let table = |parser: &mut Parser<'_>| parser.parse_object_name(false).map_err(|e| e.to_string());
        let (ask, table) = match ask {
            Ask::Create | Ask::Unpin => {
                word(&mut parser, "OF")?;
                (ask, table(&mut parser)?)
            }
            Ask::Pin(_) => {
                let id = id(&mut parser)?;
                word(&mut parser, "OF")?;
                (Ask::Pin(id), table(&mut parser)?)
            }
            Ask::Restore(_) => {
                let table = table(&mut parser)?;
                word(&mut parser, "FROM")?;
                word(&mut parser, "SNAPSHOT")?;
                (Ask::Restore(id(&mut parser)?), table)
            }
        };
        while parser.consume_token(&Token::SemiColon) {}
        match parser.peek_token().token {
            Token::EOF => Ok(Self { table, ask }),
            other => Err(format!("{other} is too much")),
        }
    }

    /// How it begins.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.ask.name()
    }

    /// Does it, and answers how many rows the snapshot has that it is about.
    ///
    /// # Errors
    /// As the methods of [`Publisher`](crate::snapshots::Publisher), and those of a write.
    pub(super) async fn run(&self, engine: &QueryEngine, caller: &Caller) -> Result<u64> {
        let name = &ddl::object_name(&self.table)?;
        let publisher = engine.publisher();
        match self.ask {
            Ask::Create => publisher.snapshot(name).await.map(|made| made.snapshot.rows),
            Ask::Pin(id) => publisher.pin(name, id).await.map(|head| head.entry(id).map_or(0, |entry| entry.rows)),
            Ask::Unpin => publisher.unpin(name).await.map(|head| head.newest().map_or(0, |entry| entry.rows)),
            Ask::Restore(id) => Box::pin(restore(engine, name, id, caller)).await,
        }
    }
}

fn word(parser: &mut Parser<'_>, wanted: &str) -> Result<(), String> {
    match parser.next_token().token {
        Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted) => Ok(()),
        Token::EOF => Err(format!("{wanted} is missing")),
        other => Err(format!("{wanted} is missing before {other}")),
    }
}

fn id(parser: &mut Parser<'_>) -> Result<Uuid, String> {
    match parser.next_token().token {
        Token::SingleQuotedString(text) => snapshot_id(&text).map_err(|error| error.message),
        other => Err(format!("the id of a snapshot in quotes is needed, not {other}")),
    }
}

/// The id of a snapshot.
///
/// # Errors
/// `Invalid` for what is none.
pub(super) fn snapshot_id(text: &str) -> Result<Uuid> {
    Uuid::parse_str(text)
        .map_err(|_| Error::invalid(format!("{text:?} is no id of a snapshot; system.snapshots lists those that are")))
}

/// Puts the rows of a listed snapshot in the place of those that a table has, by one commit. Answers how many they are.
///
/// # Errors
/// `NotFound`; `Conflict` where the table has other columns; as [`Contents::open`], and those of a write.
pub(super) async fn restore(engine: &QueryEngine, name: &TableName, id: Uuid, caller: &Caller) -> Result<u64> {
    let restored = engine.write_attempts(|state, attempt| async move {
        let table = existing(&state, name)?;
        if table.is_published_elsewhere() {
            return Err(read_only(&table).into());
        }
        let contents = engine.publisher().contents(&state, &table, id).await?;
        let plan = fitted(&contents, &table)?;
        Ok(engine.writer().write(&attempt, &state, &table, plan, WriteKind::Overwrite, caller).await?)
    });
    restored.await.map_err(|e| e.context(&format!("restoring table {name} from snapshot {id}")))
}

/// The rows of a snapshot with the columns of a table. Columns that were added since are NULL; those that were dropped or
/// renamed since would be lost without a word, so they are an error.
fn fitted(contents: &Contents, table: &Table) -> Result<LogicalPlan> {
    let columns = &table.schema.0;
    let odd = |what: String| Error::conflict(format!("{what}; nothing was changed"));
    if let Some(gone) = contents.schema.fields().iter().find(|field| columns.index_of(field.name()).is_err()) {
        return Err(odd(format!(
            "the snapshot has a column {} that table {} does not have any more; add one of type {} first",
            gone.name(),
            table.name,
            gone.data_type()
        )));
    }
    let wanted = columns.fields().iter().map(|field| {
        let stored = contents.schema.field_with_name(field.name());
        let value = match stored {
            Ok(stored) if stored.data_type() == field.data_type() => column(field.name()),
            Ok(stored) if alter::widens(stored.data_type(), field.data_type()) => {
                cast(column(field.name()), field.data_type().clone())
            }
            Ok(stored) => {
                return Err(odd(format!(
                    "column {} is {} in the snapshot and {} in table {}",
                    field.name(),
                    stored.data_type(),
                    field.data_type(),
                    table.name
                )));
            }
            Err(_) if field.is_nullable() => lit(ScalarValue::try_new_null(field.data_type())?),
            Err(_) => {
                return Err(odd(format!("the snapshot has no column {}, which takes no NULL", field.name())));
            }
        };
        Ok(value.alias(field.name()))
    });
    let wanted = wanted.collect::<Result<Vec<_>>>()?;
    let rows = provider_as_source(Arc::clone(&contents.rows) as _);
    Ok(LogicalPlanBuilder::scan(SOURCE, rows, None)?.project(wanted)?.build()?)
}

/// What the snapshot is called in a plan.
const SOURCE: &str = "snapshot";

fn column(name: &str) -> Expr {
    Expr::Column(Column::new(Some(SOURCE), name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_say_what_and_of_which_table() {
        let id = "018f0000-0000-7000-8000-000000000001";
        let uuid = Uuid::parse_str(id).unwrap();
        for (sql, ask, table) in [
            ("create snapshot of t".to_owned(), Ask::Create, "t"),
            (format!("PIN  SNAPSHOT '{id}'\n OF \"A\".t ;"), Ask::Pin(uuid), "\"A\".t"),
            (" unpin snapshot of public.t".to_owned(), Ask::Unpin, "public.t"),
            (format!("Restore Table t From Snapshot '{id}';"), Ask::Restore(uuid), "t"),
        ] {
            let parsed = SnapshotStatement::parse(&sql).unwrap().unwrap();
            assert_eq!((parsed.ask, parsed.table.to_string().as_str()), (ask, table), "{sql}");
        }
        for (sql, what) in [
            ("CREATE SNAPSHOT t", "OF is missing before t"),
            ("CREATE SNAPSHOT OF t, u", "is too much"),
            ("PIN SNAPSHOT 7 OF t", "in quotes"),
            ("PIN SNAPSHOT 'seven' OF t", "is no id of a snapshot"),
            ("UNPIN SNAPSHOT 'x' OF t", "OF is missing"),
            ("RESTORE TABLE t", "FROM is missing"),
            ("RESTORE TABLE t FROM 'x'", "SNAPSHOT is missing"),
        ] {
            let error = SnapshotStatement::parse(sql).unwrap().unwrap_err();
            assert!(error.message.starts_with("write ") && error.message.contains(what), "{sql}: {error}");
        }
        assert!(SnapshotStatement::parse("CREATE TABLE snapshot (a INT)").is_none());
    }
}
