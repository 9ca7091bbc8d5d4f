//! The reader of the corpus, on small texts and on the corpus itself.
use ancho_integration::corpus::{Corpus, CorpusFile};

const TEXT: &str = "\
-- About something.

-- @table a partition_by=bucket(4, id), year(d)
CREATE TABLE a (id INT,
  d DATE);
INSERT INTO a VALUES (1, NULL);

-- @table b partition_by=id
-- a comment
CREATE TABLE b AS SELECT 1 AS id;

-- @table c
CREATE TABLE c (id INT);

-- @query one ordered rows=2 repeat=3
-- @set datafusion.execution.batch_size=2
SELECT id,
  d FROM a
-- @expect
1\tNULL
-- 2\t(empty)

-- @query two error expect_only
SELECT 1 / 0

-- @query three
SELECT 1 WHERE false
-- @expect
";

#[test]
fn blocks_are_read() {
    let file = CorpusFile::parse("sample", TEXT).unwrap();
    let [a, b, c] = file.tables.as_slice() else { panic!("{:?}", file.tables) };
    assert_eq!(
        a.cluster_statements(),
        ["CREATE TABLE a (id INT,\n  d DATE) PARTITION BY (bucket(4, id), year(d))", "INSERT INTO a VALUES (1, NULL)"]
    );
    assert_eq!(b.cluster_statements(), ["CREATE TABLE b PARTITION BY (id) AS SELECT 1 AS id"]);
    assert_eq!(b.statements, ["CREATE TABLE b AS SELECT 1 AS id"]);
    assert_eq!(c.cluster_statements(), c.statements);
    let [one, two, three] = file.queries.as_slice() else { panic!("{:?}", file.queries) };
    assert!(one.ordered && !one.error && one.rows == Some(2) && one.repeat == 3);
    assert_eq!(one.place, "sample.sql:15");
    assert_eq!(one.sql, "SELECT id,\n  d FROM a");
    assert_eq!(one.settings, [("datafusion.execution.batch_size".to_owned(), "2".to_owned())]);
    assert_eq!(one.expected.as_deref().unwrap(), [["1", "NULL"], ["-- 2", "(empty)"]]);
    assert!(two.error && two.expect_only && two.expected.is_none());
    assert_eq!(three.expected.as_deref(), Some([].as_slice()));
}

#[test]
fn broken_blocks_are_refused_with_their_place() {
    for (text, message) in [
        ("SELECT 1", "without @table"),
        ("-- @query\nSELECT 1", "needs an id"),
        ("-- @query q quick\nSELECT 1", "\"quick\""),
        ("-- @query q", "no statement"),
        ("-- @table t\n-- @query q\nSELECT 1", "cannot stand here|a table or a query"),
        ("-- @table t", "no statement"),
    ] {
        let error = format!("{:#}", CorpusFile::parse("x", text).unwrap_err());
        assert!(error.contains("x.sql, the block at line 1"), "{error}");
        assert!(message.split('|').any(|m| error.contains(m)), "{text:?}: {error}");
    }
}

#[test]
fn the_corpus_is_well_formed() {
    let corpus = Corpus::load(&Corpus::dir()).unwrap();
    let core = corpus.queries().filter(|q| q.is_core()).count();
    assert!(core >= 400 && corpus.queries().count() >= 1500, "{core} core cases: has a part of the corpus been lost?");
    for query in corpus.queries() {
        let checked = query.expected.is_some() || query.rows.is_some() || query.error;
        assert!(checked || !query.expect_only, "{}: nothing is checked", query.id);
    }
}
