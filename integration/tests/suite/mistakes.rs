//! What users get for typical mistakes: the SQLSTATE that other databases give, and one sentence without our internals.
use ancho_common::error::ErrorKind;
use ancho_integration::{Client, cluster::in_process::ClusterBuilder, run, turns};
use anyhow::{Context, ensure};

const TABLES: [&str; 4] = [
    "CREATE TABLE m (id BIGINT NOT NULL, name TEXT, price DECIMAL(5, 2), day DATE) PARTITION BY (bucket(3, id))",
    "INSERT INTO m VALUES (1, 'one', 1.50, '2024-01-31'), (2, 'two', NULL, '2024-02-29'), (3, NULL, 3, NULL)",
    "CREATE TABLE k (k BIGINT, v BIGINT, PRIMARY KEY (k)) PARTITION BY (bucket(3, k))",
    "INSERT INTO k VALUES (1, 10), (2, 20)",
];

/// Statement, SQLSTATE, part of the sentence.
const QUERIES: &[(&str, &str, &str)] = &[
    ("SELEC 1", "42601", "syntax error"),
    ("SELECT 'abc", "42601", "syntax error"),
    ("SELECT 1 +", "42601", "syntax error"),
    ("SELECT id FROM m UNION SELECT id, name FROM m", "42601", "columns"),
    ("SELECT * FROM nope", "42P01", "table nope does not exist"),
    ("SELECT * FROM other.nope", "42P01", "table other.nope does not exist"),
    ("SELECT nam FROM m", "42703", "column nam does not exist here; there are m.id, m.name"),
    ("SELECT m.nam FROM m", "42703", "column m.nam does not exist"),
    ("SELECT x.id FROM m", "42703", "column x.id does not exist"),
    ("SELECT id FROM m WHERE Nam = 'x'", "42703", "column nam does not exist"),
    ("SELECT id FROM m a, m b", "42702", "column id is ambiguous"),
    ("SELECT 1 FROM m, m", "42712", "called"),
    ("WITH a AS (SELECT 1), a AS (SELECT 2) SELECT * FROM a", "42712", "a"),
    ("SELECT flor(1.5)", "42883", "function flor does not exist; did you mean floor?"),
    ("SELECT sum(name) FROM m", "42883", "sum"),
    ("SELECT abs(1, 2)", "42883", "abs"),
    ("SELECT id, count(*) FROM m", "42803", "GROUP BY"),
    ("SELECT id FROM m WHERE count(*) > 1", "42803", "aggregate"),
    ("SELECT name + day FROM m", "42804", "Date32"),
    ("SELECT id FROM m WHERE day = TRUE", "42804", "Date32"),
    ("SELECT CAST(day AS BOOLEAN) FROM m", "42846", "Date32"),
    ("SELECT 1 / 0", "22012", "division by zero"),
    ("SELECT 1 / (id - 1) FROM m", "22012", "division by zero"),
    ("SELECT 1 % (id - 1) FROM m", "22012", "division by zero"),
    ("SELECT price / (id - 1) FROM m", "22012", "division by zero"),
    ("SELECT CAST('x' AS INT)", "22018", "'x' cannot be read as Int32"),
    ("SELECT CAST(name AS INT) FROM m", "22018", "cannot be read as Int32"),
    ("SELECT CAST(name AS BIGINT) FROM m WHERE id < 3 ORDER BY name", "22018", "cannot be read as Int64"),
    ("SELECT CAST(name AS DECIMAL(5, 2)) FROM m", "22018", "cannot be read as Decimal128"),
    ("SELECT CAST(name AS BOOLEAN) FROM m", "22018", "cannot be read as Boolean"),
    ("SELECT CAST(name AS DATE) FROM m", "22007", "cannot be read as Date32"),
    ("SELECT CAST('2020-13-45' AS TIMESTAMP)", "22007", "2020-13-45"),
    ("SELECT DATE 'soon'", "22007", "soon"),
    ("SELECT INTERVAL 'soon'", "22007", "soon"),
    ("SELECT CAST(300 AS TINYINT)", "22003", "300 does not fit type Int8"),
    ("SELECT CAST(id + 300 AS TINYINT) FROM m", "22003", "does not fit type Int8"),
    ("SELECT 9223372036854775807 + id FROM m", "22003", "9223372036854775807"),
    ("SELECT sum(9223372036854775807) FROM m", "22003", "sum"),
    ("SELECT CAST(id + 123456 AS DECIMAL(5, 2)) FROM m", "22003", "too large"),
    ("SELECT extract(nonsense FROM day) FROM m", "22023", "nonsense"),
    ("SELECT date_trunc('nonsense', day) FROM m", "22023", "nonsense"),
    ("SELECT name FROM m WHERE name ~ '('", "2201B", "("),
    ("SELECT (SELECT id FROM m)", "21000", "at most one"),
    ("SELECT id, (SELECT k.k FROM k WHERE k.k <> m.id) FROM m", "21000", "at most one"),
    ("SELECT id, (SELECT max(k) FROM k WHERE k <> m.id AND v IN (SELECT v FROM k)) FROM m", "0A000", "subquery"),
    ("SELECT id FROM m ORDER BY 7", "42P10", "7"),
    ("SELECT count(*) FROM m GROUP BY 9", "42P10", "9"),
    ("SELECT id FROM m LIMIT -1", "2201W", "LIMIT"),
    ("SELECT id FROM m WHERE (id, name) IN ((1, 2, 3))", "42601", "2 values"),
    ("SELECT id || 1 FROM m", "42804", "Int64"),
    ("SELECT id FROM m WHERE id IN (SELECT id, name FROM m)", "42601", "one column"),
    ("SELECT substring(name) FROM m", "42601", "FROM 2"),
    ("SELECT * FROM m JOIN k ON m.id", "42804", "boolean"),
    ("SELECT id FROM m FOR UPDATE", "0A000", "FOR UPDATE"),
    ("SHOW CREATE TABLE m", "0A000", "DESCRIBE"),
    ("EXPLAIN ANALYZE DELETE FROM m", "0A000", "ANALYZE"),
];

/// As [`QUERIES`], for statements that change something and must not.
const UPDATES: &[(&str, &str, &str)] = &[
    ("INSERT INTO m VALUES (NULL, 'x', 1, NULL)", "23502", "column id of table m is declared NOT NULL"),
    ("INSERT INTO m (name) VALUES ('x')", "23502", "column id of table m"),
    ("UPDATE m SET id = NULL WHERE id = 1", "23502", "column id of table m"),
    ("INSERT INTO k VALUES (5, 1), (NULL, 1)", "23502", "column k of table k is in the primary key"),
    ("UPDATE k SET k = 2 WHERE k = 1", "23505", "table k: another row has the key (2)"),
    ("UPDATE k SET k = 7", "23505", "table k: two rows would get the key (7)"),
    ("UPDATE k SET v = x.b FROM (VALUES (1, 1), (1, 2)) AS x (a, b) WHERE k.k = x.a", "21000", "table k"),
    ("INSERT INTO m VALUES (4)", "42601", "expected 4"),
    ("INSERT INTO m (id, name) VALUES (4)", "42601", "expected 2"),
    ("INSERT INTO m (id, nope) VALUES (4, 1)", "42703", "nope"),
    ("INSERT INTO m (id, id) VALUES (4, 4)", "42701", "id"),
    ("INSERT INTO nope VALUES (1)", "42P01", "table nope does not exist"),
    ("INSERT INTO m (id, price) VALUES (4, 123456)", "22003", "123456"),
    ("INSERT INTO m (id, price) SELECT 4, id * 100000 FROM m", "22003", "too large"),
    ("INSERT INTO m (id, day) VALUES (4, 'soon')", "22007", "soon"),
    ("INSERT INTO m (id) VALUES ('x')", "22018", "'x' cannot be read as Int64"),
    ("INSERT INTO m (id) SELECT 1 / (id - 1) FROM m", "22012", "division by zero"),
    ("INSERT INTO m VALUES (4) RETURNING id", "0A000", "RETURNING"),
    ("INSERT INTO k VALUES (1, 1) ON CONFLICT (k) DO NOTHING", "0A000", "MERGE"),
    ("UPDATE m SET nope = 1", "42703", "nope"),
    ("UPDATE m SET name = nope", "42703", "nope"),
    ("UPDATE m SET id = 5, id = 6", "42701", "id is set twice"),
    ("UPDATE nope SET a = 1", "42P01", "table nope does not exist"),
    ("DELETE FROM m WHERE nope = 1", "42703", "nope"),
    ("DELETE FROM m WHERE 1 / (id - 1) = 0", "22012", "division by zero"),
    ("DELETE FROM m RETURNING id", "0A000", "RETURNING"),
    ("CREATE TABLE m (id INT)", "42P07", "table m"),
    ("CREATE TABLE n (a INT, a INT)", "42701", "column a"),
    ("CREATE TABLE n (a INT, PRIMARY KEY (b))", "42703", "b"),
    ("CREATE TABLE n (a NOTYPE)", "42704", "NOTYPE"),
    ("CREATE TABLE n AS SELECT nope FROM m", "42703", "nope"),
    ("CREATE TABLE n (a INT) PARTITION BY (bucket(4, b))", "42703", "b"),
    ("CREATE TABLE n (a INT CHECK (a > 1))", "0A000", "check"),
    ("CREATE TABLE n (a INT DEFAULT 5)", "0A000", "DEFAULT"),
    ("DROP TABLE nope", "42P01", "table nope does not exist"),
    ("ALTER TABLE nope RENAME TO n", "42P01", "table nope does not exist"),
    ("ALTER TABLE m RENAME TO k", "42P07", "table k"),
    ("CREATE VIEW v AS SELECT 1", "0A000", "WITH"),
    ("SET search_path = x", "0A000", "settings"),
];

/// What no user should have to read.
const INTERNALS: &[&str] = &[
    "DataFusion",
    "Arrow",
    "External",
    "Internal error",
    "Execution error",
    "Error during",
    "partition id",
    "partition '",
    "executor",
    "sender",
    "://",
    "\n",
    "ParserError",
    "__ancho",
    "ancho_cast",
];

#[test]
fn mistakes_are_told_in_one_sentence_with_their_state() {
    run(async {
        let _turn = turns::shared().await?;
        let cluster = ClusterBuilder::default().executors(2).start().await?;
        let client = cluster.client()?;
        for table in TABLES {
            client.update(table).await?;
        }
        let mut wrong = Vec::new();
        for (sql, state, part) in QUERIES {
            check(sql, state, part, client.query(sql).await.map(|_| ()), &mut wrong);
        }
        let before = all_rows(&client).await?;
        for (sql, state, part) in UPDATES {
            check(sql, state, part, client.update(sql).await.map(|_| ()), &mut wrong);
        }
        ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
        ensure!(all_rows(&client).await? == before, "a statement failed and changed something");
        cluster.stop().await
    });
}

fn check(sql: &str, state: &str, part: &str, outcome: ancho_integration::client::Result<()>, wrong: &mut Vec<String>) {
    let Err(failure) = outcome else { return wrong.push(format!("{sql}: succeeded")) };
    let error = failure.error;
    let told = &error.message;
    let hidden = INTERNALS.iter().find(|internal| told.contains(**internal));
    if error.sqlstate() != state
        || !told.contains(part)
        || hidden.is_some()
        || told.len() > 300
        || error.kind == ErrorKind::Internal
    {
        wrong.push(format!("{sql}\n    {} for {state}, {part:?}: {error} {hidden:?}", error.sqlstate()));
    }
}

async fn all_rows(client: &Client) -> anyhow::Result<String> {
    let mut all = String::new();
    for sql in
        ["SELECT * FROM m ORDER BY id", "SELECT * FROM k ORDER BY k", "SELECT table_name FROM system.tables ORDER BY 1"]
    {
        let answer = client.query(sql).await.context(sql)?;
        all += &format!("{:?}", answer.batches);
    }
    Ok(all)
}
