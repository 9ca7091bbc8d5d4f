//! The reader of the SQL corpus, `sql/*.sql`.
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail, ensure};

/// All files, in the order of their names.
#[derive(Debug, Clone)]
pub struct Corpus {
    /// Independent of one another.
    pub files: Vec<CorpusFile>,
}

/// One file.
#[derive(Debug, Clone)]
pub struct CorpusFile {
    /// Without folder and extension.
    pub name: String,
    /// To load in this order.
    pub tables: Vec<TableCase>,
    /// To run once the tables are loaded.
    pub queries: Vec<QueryCase>,
}

/// A table and its rows.
#[derive(Debug, Clone)]
pub struct TableCase {
    /// Its name.
    pub name: String,
    /// What goes between the parentheses of `PARTITION BY`.
    pub partition_by: Option<String>,
    /// `CREATE TABLE`, then `INSERT`s; without semicolons.
    pub statements: Vec<String>,
}

/// A query and what must come of it.
#[derive(Debug, Clone)]
pub struct QueryCase {
    /// Unique over all files.
    pub id: String,
    /// `file:line` of its directive.
    pub place: String,
    /// The order of the rows counts.
    pub ordered: bool,
    /// It must fail.
    pub error: bool,
    /// The single process is not to be asked.
    pub expect_only: bool,
    /// Number of rows.
    pub rows: Option<usize>,
    /// How often to run it.
    pub repeat: usize,
    /// Session settings.
    pub settings: Vec<(String, String)>,
    /// The statement, without a semicolon.
    pub sql: String,
    /// The rows as text, cell by cell.
    pub expected: Option<Vec<Vec<String>>>,
}

impl Corpus {
    /// The folder of this crate that holds the corpus.
    #[must_use]
    pub fn dir() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("sql")
    }

    /// Reads all files of a folder.
    ///
    /// # Errors
    /// A file cannot be read or breaks the format (named by file and line), or a name is used twice.
    pub fn load(dir: &Path) -> anyhow::Result<Self> {
        let mut paths = Vec::new();
        for entry in fs::read_dir(dir).with_context(|| format!("list {}", dir.display()))? {
            paths.push(entry?.path());
        }
        paths.retain(|path| path.extension().is_some_and(|e| e == "sql"));
        paths.sort();
        ensure!(!paths.is_empty(), "{} holds no SQL file", dir.display());
        let mut files = Vec::new();
        for path in paths {
            let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            files.push(CorpusFile::parse(&name, &text)?);
        }
        let corpus = Self { files };
        corpus.check_names()?;
        Ok(corpus)
    }

    /// All queries with the file they stand in.
    pub fn queries(&self) -> impl Iterator<Item = &QueryCase> {
        self.files.iter().flat_map(|file| &file.queries)
    }

    fn check_names(&self) -> anyhow::Result<()> {
        let (mut tables, mut queries) = (BTreeSet::new(), BTreeSet::new());
        for file in &self.files {
            for table in &file.tables {
                ensure!(tables.insert(&table.name), "the table {} is defined twice", table.name);
            }
            for query in &file.queries {
                ensure!(queries.insert(&query.id), "the query {} is defined twice", query.id);
            }
        }
        Ok(())
    }
}

impl CorpusFile {
    /// Reads one file.
    ///
    /// # Errors
    /// The text breaks the format.
    pub fn parse(name: &str, text: &str) -> anyhow::Result<Self> {
        let mut file = Self { name: name.to_owned(), tables: Vec::new(), queries: Vec::new() };
        let mut block: Vec<&str> = Vec::new();
        let mut start = 1;
        // An empty line at the end closes the last block.
        for (number, line) in text.lines().chain([""]).enumerate() {
            if !line.is_empty() {
                if block.is_empty() {
                    start = number + 1;
                }
                block.push(line);
                continue;
            }
            file.add_block(start, &block).with_context(|| format!("{name}.sql, the block at line {start}"))?;
            block.clear();
        }
        Ok(file)
    }

    fn add_block(&mut self, line: usize, block: &[&str]) -> anyhow::Result<()> {
        let place = format!("{}.sql:{line}", self.name);
        let mut query: Option<QueryCase> = None;
        let mut table: Option<TableCase> = None;
        let mut sql = String::new();
        for line in block {
            if let Some(expected) = query.as_mut().and_then(|q| q.expected.as_mut()) {
                expected.push(line.split('\t').map(str::to_owned).collect());
            } else if let Some(directive) = line.strip_prefix("-- @") {
                let (word, rest) = directive.split_once(' ').unwrap_or((directive, ""));
                match (word, &mut query) {
                    ("table", None) => table = Some(parse_table(rest)?),
                    ("query", None) => query = Some(parse_query(rest, &place)?),
                    ("set", Some(query)) => {
                        let (key, value) = rest.split_once('=').context("@set takes KEY=VALUE")?;
                        query.settings.push((key.to_owned(), value.to_owned()));
                    }
                    ("expect", Some(query)) => query.expected = Some(Vec::new()),
                    _ => bail!("@{word} cannot stand here"),
                }
            } else if !line.starts_with("--") {
                sql.push_str(line);
                sql.push('\n');
            }
        }
        match (query, table) {
            (Some(_), Some(_)) => bail!("a block is a table or a query"),
            (Some(mut query), None) => {
                query.sql = sql.trim_end().to_owned();
                ensure!(!query.sql.is_empty(), "the query has no statement");
                self.queries.push(query);
            }
            (None, Some(mut table)) => {
                let statements = sql.split(";\n").map(str::trim).filter(|s| !s.is_empty());
                table.statements = statements.map(str::to_owned).collect();
                ensure!(!table.statements.is_empty(), "the table has no statement");
                self.tables.push(table);
            }
            (None, None) => ensure!(sql.is_empty(), "SQL without @table or @query"),
        }
        Ok(())
    }
}

fn parse_table(text: &str) -> anyhow::Result<TableCase> {
    let (head, partition_by) = match text.split_once(" partition_by=") {
        Some((head, expressions)) => (head, Some(expressions.trim().to_owned())),
        None => (text, None),
    };
    let name = head.trim();
    ensure!(!name.is_empty() && !name.contains(' '), "@table takes NAME [partition_by=…], not {text:?}");
    Ok(TableCase { name: name.to_owned(), partition_by, statements: Vec::new() })
}

fn parse_query(text: &str, place: &str) -> anyhow::Result<QueryCase> {
    let mut words = text.split_whitespace();
    let mut query = QueryCase {
        id: words.next().context("@query needs an id")?.to_owned(),
        place: place.to_owned(),
        ordered: false,
        error: false,
        expect_only: false,
        rows: None,
        repeat: 1,
        settings: Vec::new(),
        sql: String::new(),
        expected: None,
    };
    for word in words {
        match word.split_once('=') {
            None if word == "ordered" => query.ordered = true,
            None if word == "error" => query.error = true,
            None if word == "expect_only" => query.expect_only = true,
            Some(("rows", n)) => query.rows = Some(n.parse().context("rows=")?),
            Some(("repeat", n)) => query.repeat = n.parse().context("repeat=")?,
            _ => bail!("{word:?} is not an attribute of a query"),
        }
    }
    Ok(query)
}

impl TableCase {
    /// The statements for a cluster: the first one says how the table is partitioned.
    #[must_use]
    pub fn cluster_statements(&self) -> Vec<String> {
        let mut statements = self.statements.clone();
        let (Some(expressions), Some(create)) = (&self.partition_by, statements.first_mut()) else {
            return statements;
        };
        let clause = format!(" PARTITION BY ({expressions})");
        let head = format!("CREATE TABLE {}", self.name);
        match create.strip_prefix(&head) {
            Some(rest) if rest.trim_start().starts_with("AS ") => *create = format!("{head}{clause}{rest}"),
            _ => create.push_str(&clause),
        }
        statements
    }
}

impl QueryCase {
    /// Of the catalogue of distributed-SQL cases: `S` and two digits.
    #[must_use]
    pub fn is_core(&self) -> bool {
        let id = self.id.as_bytes();
        id.len() > 3 && id[0] == b'S' && id[1].is_ascii_digit() && id[2].is_ascii_digit() && id[3] == b'_'
    }

    /// One of a share of all cases that depends on nothing but the id.
    #[must_use]
    pub fn in_sample(&self, one_in: u64) -> bool {
        // FNV-1a: the same on every machine and in every release.
        let hash = self
            .id
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        (hash >> 16).is_multiple_of(one_in.max(1))
    }
}
