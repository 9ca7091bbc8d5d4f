//! What a text asks for.
use ancho_common::{
    error::{Error, Result},
    exact::literals::mark_doubles,
};
use datafusion::{
    common::format::{ExplainFormat, ExplainStatementOptions},
    logical_expr::sqlparser::ast::{self, CreateTable, Statement as Sql},
    sql::parser::{DFParser, DFParserBuilder, Statement as DfStatement},
};

use super::{
    alter::AlterTable,
    as_of,
    change::Change,
    copy::{self, Copy},
    names::mark_duplicates,
};
use crate::frontend::service::StatementKind;

/// A statement, sorted by what runs it.
#[derive(Debug, Clone)]
pub enum Statement {
    /// Yields rows.
    Query(DfStatement),
    /// `EXPLAIN [ANALYZE] [VERBOSE]` of a statement.
    Explain {
        /// What is explained.
        inner: Box<Statement>,
        /// Runs it, and shows what it took.
        analyze: bool,
        /// More detail.
        verbose: bool,
        /// As boxes rather than as indented lines.
        tree: bool,
    },
    /// `CREATE TABLE`, with or without a query.
    CreateTable(Box<CreateTable>),
    /// `INSERT`.
    Insert(DfStatement),
    /// `DELETE`, `UPDATE`, `MERGE`, `TRUNCATE`.
    Change(Change),
    /// `COPY … FROM` and `COPY … TO`.
    Copy(Box<Copy>),
    /// `DROP TABLE`.
    DropTable {
        /// Tables, as written.
        names: Vec<ast::ObjectName>,
        /// A missing one is fine.
        if_exists: bool,
    },
    /// `OPTIMIZE [TABLE] …`.
    Optimize {
        /// Table, as written.
        name: ast::ObjectName,
    },
    /// `ALTER TABLE`.
    AlterTable(Box<AlterTable>),
}

impl Statement {
    /// Parses exactly one statement.
    ///
    /// # Errors
    /// `Invalid` for bad syntax, nothing, or several statements; `Unsupported` for statements that are not offered.
    pub fn parse(sql: &str) -> Result<Self> {
        let sql = as_of::rewritten(sql)?;
        if copy::is_copy(&sql) {
            return Ok(Self::Copy(Box::new(Copy::parse(&sql)?)));
        }
        let mut parsed = parser(&sql)?.parse_statements().map_err(|e| Error::invalid(text(&e)))?;
        let first = parsed.pop_front().ok_or_else(|| Error::invalid("the statement is empty"))?;
        if !parsed.is_empty() {
            return Err(Error::invalid(format!(
                "{} statements in one request; send them one by one",
                parsed.len() + 1
            )));
        }
        Self::classify(first)
    }

    fn classify(statement: DfStatement) -> Result<Self> {
        match statement {
            DfStatement::Explain(explain) => {
                let tree = is_tree(&explain.options)?;
                let ExplainStatementOptions { analyze, verbose, .. } = explain.options;
                Ok(Self::Explain { inner: Box::new(Self::classify(*explain.statement)?), analyze, verbose, tree })
            }
            DfStatement::CopyTo(_) => Err(not_offered("COPY")),
            DfStatement::CreateExternalTable(_) => {
                Err(Error::unsupported("CREATE EXTERNAL TABLE is not offered; declare a dataset and use `ancho apply`"))
            }
            DfStatement::Reset(_) => Err(not_offered("RESET")),
            DfStatement::Statement(sql) => Self::classify_sql(*sql),
        }
    }

    fn classify_sql(sql: Sql) -> Result<Self> {
        if let Some(change) = Change::of(&sql)? {
            return Ok(Self::Change(change));
        }
        match sql {
            Sql::CreateTable(mut create) => {
                if let Some(query) = &mut create.query {
                    mark_doubles(query);
                }
                Ok(Self::CreateTable(Box::new(create)))
            }
            Sql::Drop { object_type: ast::ObjectType::Table, if_exists, names, .. } => {
                Ok(Self::DropTable { names, if_exists })
            }
            Sql::Insert(mut insert) => {
                if let Some(query) = &mut insert.source {
                    mark_doubles(query);
                    mark_duplicates(query);
                }
                Ok(Self::Insert(DfStatement::Statement(Box::new(Sql::Insert(insert)))))
            }
            Sql::Query(query) => Ok(Self::Query(of_query(query))),
            query @ (Sql::ShowTables { .. }
            | Sql::ShowColumns { .. }
            | Sql::ShowVariable { .. }
            | Sql::ShowFunctions { .. }
            | Sql::ShowDatabases { .. }
            | Sql::ShowSchemas { .. }
            | Sql::ExplainTable { .. }) => Ok(Self::Query(DfStatement::Statement(Box::new(query)))),
            Sql::AlterTable(alter) => Ok(Self::AlterTable(Box::new(AlterTable::parse(alter)?))),
            Sql::OptimizeTable {
                name,
                on_cluster: None,
                partition: None,
                deduplicate: None,
                predicate: None,
                zorder: None,
                ..
            } => Ok(Self::Optimize { name }),
            Sql::OptimizeTable { .. } => Err(Error::unsupported(
                "of OPTIMIZE only OPTIMIZE TABLE … is offered: it rewrites all files of a table",
            )),
            Sql::Assert { condition, message } => assertion(condition, message),
            Sql::StartTransaction { .. } | Sql::Commit { .. } | Sql::Rollback { savepoint: None, .. } => {
                Err(Error::unsupported(
                    "a transaction begins and ends by the client's own call (Flight SQL: autocommit off), in `ancho sql` by \
                     BEGIN, COMMIT and ROLLBACK, or it is one HTTP request from BEGIN to COMMIT",
                ))
            }
            Sql::Savepoint { .. } | Sql::ReleaseSavepoint { .. } | Sql::Rollback { .. } => {
                Err(Error::unsupported("savepoints are not offered; roll the whole transaction back"))
            }
            other => {
                let words: Vec<String> = other.to_string().split_whitespace().take(2).map(str::to_owned).collect();
                Err(not_offered(&words.join(" ")))
            }
        }
    }

    /// Whether it yields rows.
    #[must_use]
    pub fn kind(&self) -> StatementKind {
        match self {
            Self::Query(_) | Self::Explain { .. } => StatementKind::Query,
            Self::CreateTable(_)
            | Self::Insert(_)
            | Self::Change(_)
            | Self::Copy(_)
            | Self::DropTable { .. }
            | Self::Optimize { .. }
            | Self::AlterTable(_) => StatementKind::Update,
        }
    }
}

/// `ASSERT condition [AS message]` and `assert(condition[, message])` as a query of the function.
fn assertion(condition: ast::Expr, message: Option<ast::Expr>) -> Result<Statement> {
    let mut arguments = match condition {
        ast::Expr::Tuple(arguments) => arguments,
        ast::Expr::Nested(condition) => vec![*condition],
        condition => vec![condition],
    };
    arguments.extend(message);
    let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
    let query = parse_query(&format!("SELECT assert({}) AS assert", arguments.join(", ")))?;
    Ok(Statement::Query(of_query(query)))
}

/// Whether `EXPLAIN` is to draw a tree.
fn is_tree(options: &ExplainStatementOptions) -> Result<bool> {
    if options.analyze_level.is_some() || options.analyze_categories.is_some() || options.show_statistics.is_some() {
        return Err(Error::unsupported("of the options of EXPLAIN, ANALYZE, VERBOSE and FORMAT are offered"));
    }
    match &options.format {
        None | Some(ExplainFormat::Indent) => Ok(false),
        Some(ExplainFormat::Tree) if options.analyze => {
            Err(Error::unsupported("EXPLAIN ANALYZE has the format INDENT only; leave FORMAT out"))
        }
        Some(ExplainFormat::Tree) => Ok(true),
        Some(other) => Err(Error::unsupported(format!("EXPLAIN FORMAT {other} is not offered; INDENT and TREE are"))),
    }
}

/// A query as the planner is to take it.
#[must_use]
pub fn of_query(mut query: Box<ast::Query>) -> DfStatement {
    mark_doubles(&mut query);
    mark_duplicates(&mut query);
    DfStatement::Statement(Box::new(Sql::Query(query)))
}

/// A query that a statement of another kind was turned into.
///
/// # Errors
/// `Internal` if it is not one.
pub fn parse_query(sql: &str) -> Result<Box<ast::Query>> {
    let wrong =
        |why: String| Error::internal(format!("a statement was turned into a query that cannot be read: {why}"));
    match parser(sql)?.parse_statement().map_err(|e| wrong(text(&e)))? {
        DfStatement::Statement(statement) => match *statement {
            Sql::Query(query) => Ok(query),
            other => Err(wrong(other.to_string())),
        },
        other => Err(wrong(other.to_string())),
    }
}

fn parser(sql: &str) -> Result<DFParser<'_>> {
    DFParserBuilder::new(sql).with_recursion_limit(RECURSION_LIMIT).build().map_err(|e| Error::invalid(text(&e)))
}

/// Depth of nested expressions that the parser follows.
const RECURSION_LIMIT: usize = 200;

fn text(error: &datafusion::error::DataFusionError) -> String {
    error.strip_backtrace()
}

fn not_offered(what: &str) -> Error {
    Error::unsupported(format!(
        "{what} is not offered; SELECT, INSERT, UPDATE, DELETE, MERGE, TRUNCATE, COPY, CREATE TABLE, ALTER TABLE, \
         DROP TABLE, OPTIMIZE TABLE, SHOW, DESCRIBE and EXPLAIN are"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_sorted_by_what_runs_them() {
        for (sql, kind) in [
            ("select 1", StatementKind::Query),
            ("with a as (select 1) select * from a", StatementKind::Query),
            ("values (1)", StatementKind::Query),
            ("show tables", StatementKind::Query),
            ("describe t", StatementKind::Query),
            ("explain select 1", StatementKind::Query),
            ("explain analyze verbose select 1", StatementKind::Query),
            ("insert into t values (1)", StatementKind::Update),
            ("create table t (a int) partition by (bucket(4, a), year(d))", StatementKind::Update),
            ("create table t as select 1", StatementKind::Update),
            ("drop table if exists t", StatementKind::Update),
            ("create or replace table t as select 1", StatementKind::Update),
            ("alter table if exists t rename to public.u", StatementKind::Update),
            ("assert (select count(*) from t) > 0 as 'no rows'", StatementKind::Query),
            ("assert(1 < 2, 'order')", StatementKind::Query),
            ("assert(1 < 2)", StatementKind::Query),
            ("explain format tree select 1", StatementKind::Query),
            ("explain format indent select 1", StatementKind::Query),
            ("explain analyze format indent select 1", StatementKind::Query),
            ("copy t from 'file:///x.csv'", StatementKind::Update),
            ("COPY (select 1) TO 's3://b/x.parquet'", StatementKind::Update),
            ("update t set a = 1", StatementKind::Update),
            ("optimize table t", StatementKind::Update),
            ("optimize public.t", StatementKind::Update),
            ("delete from t using u where t.a = u.a", StatementKind::Update),
            ("truncate table t", StatementKind::Update),
            ("merge into t using u on t.a = u.a when matched then delete", StatementKind::Update),
        ] {
            assert_eq!(Statement::parse(sql).unwrap().kind(), kind, "{sql}");
        }
    }

    #[test]
    fn anything_else_is_refused_with_a_reason() {
        for sql in [
            "",
            "select 1; select 2",
            "selec 1",
            "begin",
            "start transaction",
            "commit",
            "rollback",
            "savepoint a",
            "rollback to savepoint a",
            "update t set a = 1 returning a",
            "copy t to 'x'",
            "copy t from 'file:///x'",
            "set a = 1",
            "optimize table t partition id 'x'",
            "optimize t where a = 1",
            "alter table t add column a int, add column b int",
            "explain format graphviz select 1",
            "explain format nothing select 1",
            "explain analyze format tree select 1",
        ] {
            let error = Statement::parse(sql).unwrap_err();
            assert!(!error.message.is_empty(), "{sql}");
        }
    }
}
