//! What a text asks for.
use ancho_common::{
    error::{Error, Result},
    exact::literals::mark_doubles,
};
use datafusion::{
    common::format::{ExplainFormat, ExplainStatementOptions},
    logical_expr::sqlparser::ast::{self, CreateTable, Insert, SetExpr, Statement as Sql, With},
    sql::parser::{DFParser, DFParserBuilder, Statement as DfStatement},
};

use super::{
    alter::AlterTable,
    as_of, calls, casts,
    change::{Change, check_clauses},
    copy::{self, Copy},
    forms,
    names::mark_duplicates,
    positions, precedence, rows,
    snapshot_sql::SnapshotStatement,
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
    /// `CREATE`, `PIN` and `UNPIN SNAPSHOT`, `RESTORE TABLE`.
    Snapshot(SnapshotStatement),
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
        if let Some(statement) = SnapshotStatement::parse(&sql) {
            return statement.map(Self::Snapshot);
        }
        if let Some(rest) = after_word(&sql, "TABLE") {
            // `TABLE t` stands for this, but the parser does not know it.
            return Self::parse(&format!("SELECT * FROM {rest}"));
        }
        let mut parsed = parser(&sql)?.parse_statements()?;
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
            DfStatement::CopyTo(_) => Err(not_offered("this form of COPY", COPY)),
            DfStatement::CreateExternalTable(_) => {
                Err(Error::unsupported("CREATE EXTERNAL TABLE is not offered; declare a dataset and use `ancho apply`"))
            }
            DfStatement::Reset(_) => Err(not_offered("RESET", SETTINGS)),
            DfStatement::Statement(mut sql) => {
                precedence::restore(sql.as_mut());
                positions::resolve(sql.as_mut())?;
                Self::classify_sql(*sql, None)
            }
        }
    }

    /// `with`: tables that are defined before the statement itself.
    fn classify_sql(sql: Sql, with: Option<With>) -> Result<Self> {
        if let Some(change) = Change::of(&sql, with.clone())? {
            return Ok(Self::Change(change));
        }
        match sql {
            Sql::CreateTable(mut create) => {
                if let Some(query) = &mut create.query {
                    simplify(query)?;
                    name(query);
                }
                Ok(Self::CreateTable(Box::new(create)))
            }
            Sql::Drop { object_type: ast::ObjectType::Table, if_exists, names, .. } => {
                Ok(Self::DropTable { names, if_exists })
            }
            Sql::Insert(mut insert) => {
                check_insert(&insert)?;
                if let Some(mut query) = insert.source.take() {
                    if let Some(with) = with {
                        query = with_tables(with, query)?;
                    }
                    prepare(&mut query)?;
                    insert.source = Some(query);
                }
                Ok(Self::Insert(DfStatement::Statement(Box::new(Sql::Insert(insert)))))
            }
            Sql::Query(query) => Self::classify_query(query),
            query @ (Sql::ShowTables { .. }
            | Sql::ShowColumns { .. }
            | Sql::ShowVariable { .. }
            | Sql::ShowFunctions { .. }
            | Sql::ExplainTable { .. }) => Ok(Self::Query(DfStatement::Statement(Box::new(query)))),
            Sql::ShowSchemas { show_options, .. } | Sql::ShowDatabases { show_options, .. }
                if show_options.to_string().is_empty() =>
            {
                Ok(Self::Query(of_query(parse_query("SELECT schema_name FROM information_schema.schemata")?)?))
            }
            Sql::AlterTable(alter) => Ok(Self::AlterTable(Box::new(AlterTable::parse(alter)?))),
            Sql::CreateIndex(index) => Ok(Self::AlterTable(Box::new(AlterTable::create_index(index)?))),
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
                Err(not_offered(&words.join(" "), instead_of(&other)))
            }
        }
    }

    /// What begins with `WITH` may go on with a statement that changes rows.
    fn classify_query(mut query: Box<ast::Query>) -> Result<Self> {
        if !matches!(
            query.body.as_ref(),
            SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_)
        ) {
            return Ok(Self::Query(of_query(query)?));
        }
        let with = query.with.take();
        match *query.body {
            SetExpr::Insert(inner) | SetExpr::Update(inner) | SetExpr::Delete(inner) | SetExpr::Merge(inner) => {
                Self::classify_sql(inner, with)
            }
            other => Err(Error::internal(format!("{other} became another statement"))),
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
            | Self::AlterTable(_)
            | Self::Snapshot(_) => StatementKind::Update,
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
    Ok(Statement::Query(of_query(query)?))
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
///
/// # Errors
/// It compares rows in a way that is not offered.
pub fn of_query(mut query: Box<ast::Query>) -> Result<DfStatement> {
    prepare(&mut query)?;
    Ok(DfStatement::Statement(Box::new(Sql::Query(query))))
}

/// Without the forms that the planner does not take.
fn simplify(query: &mut Box<ast::Query>) -> Result<()> {
    forms::simplify(query)?;
    calls::rewrite(query)?;
    rows::take_apart(query)
}

/// With what the planner cannot see by itself.
fn name(query: &mut Box<ast::Query>) {
    casts::name_casts(query);
    mark_doubles(query);
}

fn prepare(query: &mut Box<ast::Query>) -> Result<()> {
    simplify(query)?;
    // Before casts are named: clients see the text that they wrote.
    mark_duplicates(query);
    name(query);
    Ok(())
}

/// The query where these tables are defined, too; its own definitions hide them.
///
/// # Errors
/// Never with queries that were parsed.
pub fn with_tables(with: With, mut query: Box<ast::Query>) -> Result<Box<ast::Query>> {
    if query.with.is_none() {
        query.with = Some(with);
        return Ok(query);
    }
    let mut outer = parse_query("SELECT 1")?;
    outer.with = Some(with);
    *outer.body = SetExpr::Query(query);
    Ok(outer)
}

fn check_insert(insert: &Insert) -> Result<()> {
    if insert.on.is_some() {
        return Err(Error::unsupported(
            "INSERT … ON is not offered: with a PRIMARY KEY a row takes the place of the one of its key, and MERGE does what \
             depends on the stored row",
        ));
    }
    check_clauses(
        "INSERT",
        &[
            (insert.returning.is_some() || insert.output.is_some(), "RETURNING"),
            (insert.or.is_some(), "OR"),
            (insert.ignore, "IGNORE"),
            (insert.replace_into, "as REPLACE INTO; with a PRIMARY KEY, INSERT replaces; it"),
            (insert.partitioned.is_some(), "PARTITION; rows find their partitions by their values; naming them"),
            (!insert.assignments.is_empty(), "SET; write (columns) VALUES (values); this form"),
            (insert.source.is_none(), "without rows"),
        ],
    )
}

const COPY: &str = "COPY t FROM 'location' loads files, and `ancho apply` keeps a table like them";
const SETTINGS: &str = "connections have no settings";
const VIEWS: &str = "name the query in a WITH clause, or store its rows with CREATE TABLE … AS";

/// What does the same, for statements that others offer.
fn instead_of(statement: &Sql) -> &'static str {
    match statement {
        Sql::Copy { .. } | Sql::CopyIntoSnowflake { .. } | Sql::LoadData { .. } => COPY,
        Sql::Set(_) => SETTINGS,
        Sql::Use(_) => "write schema.table where a table is not in the schema public",
        Sql::CreateView { .. } | Sql::AlterView { .. } => VIEWS,
        Sql::Drop { object_type: ast::ObjectType::View | ast::ObjectType::MaterializedView, .. } => VIEWS,
        Sql::ShowCreate { .. } => "DESCRIBE shows a table's columns, and system.tables how it is partitioned",
        Sql::Analyze { .. } => "statistics are kept by every write",
        _ => OFFERED,
    }
}

/// A query that a statement of another kind was turned into.
///
/// # Errors
/// `Internal` if it is not one.
pub fn parse_query(sql: &str) -> Result<Box<ast::Query>> {
    let wrong =
        |why: String| Error::internal(format!("a statement was turned into a query that cannot be read: {why}"));
    match parser(sql)?.parse_statement().map_err(|e| wrong(e.to_string()))? {
        DfStatement::Statement(statement) => match *statement {
            Sql::Query(mut query) => {
                precedence::restore(&mut query);
                positions::resolve(&mut query)?;
                Ok(query)
            }
            other => Err(wrong(other.to_string())),
        },
        other => Err(wrong(other.to_string())),
    }
}

/// What follows a word that the text begins with.
pub(super) fn after_word<'a>(sql: &'a str, word: &str) -> Option<&'a str> {
    let sql = sql.trim_start();
    let (first, rest) = sql.split_at_checked(word.len())?;
    (first.eq_ignore_ascii_case(word) && rest.starts_with(char::is_whitespace)).then_some(rest)
}

fn parser(sql: &str) -> Result<DFParser<'_>> {
    Ok(DFParserBuilder::new(sql).with_recursion_limit(RECURSION_LIMIT).build()?)
}

/// Depth of nested expressions that the parser follows.
const RECURSION_LIMIT: usize = 200;

const OFFERED: &str = "SELECT, INSERT, UPDATE, DELETE, MERGE, TRUNCATE, COPY, CREATE TABLE, ALTER TABLE, DROP TABLE, OPTIMIZE TABLE, CREATE SNAPSHOT, PIN SNAPSHOT, \
                       UNPIN SNAPSHOT, RESTORE TABLE, SHOW, DESCRIBE and EXPLAIN are";

fn not_offered(what: &str, instead: &str) -> Error {
    Error::unsupported(format!("{what} is not offered; {instead}"))
}

#[cfg(test)]
mod tests {
    use ancho_common::error::ErrorKind;

    use super::*;

    #[test]
    fn statements_are_sorted_by_what_runs_them() {
        for (sql, kind) in [
            ("select 1", StatementKind::Query),
            ("with a as (select 1) select * from a", StatementKind::Query),
            ("values (1)", StatementKind::Query),
            ("show tables", StatementKind::Query),
            ("describe t", StatementKind::Query),
            ("show schemas", StatementKind::Query),
            ("table t order by a limit 1", StatementKind::Query),
            ("select a from t offset 1 row fetch next 2 rows only", StatementKind::Query),
            ("explain select 1", StatementKind::Query),
            ("explain analyze verbose select 1", StatementKind::Query),
            ("insert into t values (1)", StatementKind::Update),
            ("create table t (a int) partition by (bucket(4, a), year(d))", StatementKind::Update),
            ("create snapshot of t", StatementKind::Update),
            (" CREATE  SNAPSHOT OF \"A\".t ;", StatementKind::Update),
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
            ("with u as (select 1 as a) insert into t select * from u", StatementKind::Update),
            ("with u as (select 1 as a) delete from t where a in (select a from u)", StatementKind::Update),
            ("with u as (select 1 as a) update t set a = u.a from u", StatementKind::Update),
            (
                "with u as (select 1 as a) merge into t using u on t.a = u.a when matched then delete",
                StatementKind::Update,
            ),
            ("explain update t set a = 1", StatementKind::Query),
        ] {
            assert_eq!(Statement::parse(sql).unwrap().kind(), kind, "{sql}");
        }
    }

    #[test]
    fn what_others_offer_is_refused_with_what_does_the_same() {
        for (sql, advice) in [
            ("select * from t for update", "FOR UPDATE"),
            ("select * from t fetch first 5 percent rows only", "FETCH"),
            ("set a = 1", "settings"),
            ("use other", "schema.table"),
            ("create view v as select 1", "WITH"),
            ("drop view v", "WITH"),
            ("show create table t", "DESCRIBE"),
            ("create index i on t (a)", "no names"),
            ("insert into t values (1) on conflict do nothing", "MERGE"),
            ("insert into t values (1) returning a", "RETURNING"),
        ] {
            let error = Statement::parse(sql).unwrap_err();
            assert!(error.kind == ErrorKind::Unsupported && error.message.contains(advice), "{sql}: {error}");
        }
    }

    #[test]
    fn tables_before_a_statement_are_hidden_by_its_own() {
        let parsed = |sql: &str| match Statement::parse(sql).unwrap() {
            Statement::Insert(statement) => statement.to_string(),
            other => panic!("{other:?}"),
        };
        assert_eq!(
            parsed("WITH u AS (SELECT 1 AS a) INSERT INTO t SELECT a FROM u"),
            "INSERT INTO t WITH u AS (SELECT 1 AS a) SELECT a FROM u"
        );
        assert_eq!(
            parsed("WITH u AS (SELECT 1 AS a) INSERT INTO t WITH u AS (SELECT 2 AS a) SELECT a FROM u"),
            "INSERT INTO t WITH u AS (SELECT 1 AS a) (WITH u AS (SELECT 2 AS a) SELECT a FROM u)"
        );
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
