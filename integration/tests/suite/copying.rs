//! `COPY` between tables and local files: right rows, right counts, and nothing half done.
use std::{fs, path::Path};

use ancho_common::error::ErrorKind;
use ancho_integration::{
    Client,
    client::{Failure, first_column, single_integer},
    cluster::in_process::ClusterBuilder,
    run, turns,
};
use anyhow::{Context, ensure};

async fn count(client: &Client, table: &str) -> anyhow::Result<i64> {
    single_integer(&client.query(&format!("SELECT count(*) FROM {table}")).await?)
}

fn refused(outcome: Result<i64, Failure>, kind: ErrorKind, part: &str) -> anyhow::Result<()> {
    match outcome {
        Err(failure) if failure.kind() == kind && failure.error.message.contains(part) => Ok(()),
        other => anyhow::bail!("a failure of kind {kind:?} with {part:?} is needed, not {other:?}"),
    }
}

/// Names of the files in a folder.
fn files(folder: &Path) -> anyhow::Result<Vec<String>> {
    let mut names = fs::read_dir(folder)?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<std::io::Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

const COLUMNS: &str = "(k BIGINT, name VARCHAR, price DECIMAL(10,2), day DATE, at TIMESTAMP, f DOUBLE, ok BOOLEAN)";

#[test]
fn what_goes_out_comes_back() {
    run(async {
        let _turn = turns::shared().await?;
        let cluster = ClusterBuilder::default().executors(2).start().await?;
        let client = cluster.client()?;
        let folder = cluster.dir().join("files");
        fs::create_dir(&folder)?;
        let at = |name: &str| format!("file://{}", folder.join(name).display());
        client.update(&format!("CREATE TABLE t {COLUMNS} PARTITION BY (bucket(4, k))")).await?;
        client
            .update(
                "INSERT INTO t SELECT value, CASE WHEN value % 3 = 0 THEN NULL ELSE '0' || CAST(value AS VARCHAR) || ',\"' END, \
                 CAST(value AS DECIMAL(10,2)) / 4, DATE '2024-02-29', TIMESTAMP '2024-02-29 12:34:56.789', value / 8.0, \
                 value % 2 = 0 FROM generate_series(1, 1000) AS g(value)",
            )
            .await?;
        for (name, options) in [
            ("a.parquet", ""),
            ("a.csv", ""),
            ("b.txt", " (format csv, delimiter '|', header false)"),
            ("c.bin", " STORED AS PARQUET"),
        ] {
            let place = at(name);
            ensure!(client.update(&format!("COPY t TO '{place}'{options}")).await? == 1000, "{name}");
            client.update(&format!("CREATE TABLE back {COLUMNS} PARTITION BY (bucket(3, k))")).await?;
            ensure!(client.update(&format!("COPY back FROM '{place}'{options}")).await? == 1000, "{name}");
            let differ = "SELECT count(*) FROM (SELECT * FROM t EXCEPT SELECT * FROM back)";
            ensure!(single_integer(&client.query(differ).await?)? == 0, "{name} differs");
            ensure!(count(&client, "back").await? == 1000);
            client.update("DROP TABLE back").await?;
            refused(client.update(&format!("COPY t TO '{place}'{options}")).await, ErrorKind::AlreadyExists, name)?;
        }
        let lines = fs::read_to_string(folder.join("a.csv"))?;
        ensure!(lines.lines().next() == Some("k,name,price,day,at,f,ok"), "{:?}", lines.lines().next());
        ensure!(lines.lines().count() == 1001 && lines.contains("\"01,\"\"\""), "{}", &lines[..300]);

        let query = "SELECT k % 10 AS d, count(*) AS n FROM t GROUP BY 1";
        ensure!(client.update(&format!("COPY ({query}) TO '{}'", at("q.csv"))).await? == 10);
        ensure!(client.update(&format!("COPY (SELECT k FROM t WHERE k < 0) TO '{}'", at("none.csv"))).await? == 0);
        ensure!(fs::read_to_string(folder.join("none.csv"))? == "k\n");
        // Nothing is left of one that fails.
        let failing = "SELECT 1 / (k - 1000) AS x FROM t";
        ensure!(client.update(&format!("COPY ({failing}) TO '{}'", at("f.csv"))).await.is_err());
        let expected = ["a.csv", "a.parquet", "b.txt", "c.bin", "none.csv", "q.csv"];
        ensure!(files(&folder)? == expected, "{:?}", files(&folder)?);
        for outside in ["/tmp/ancho-outside.csv".to_owned(), format!("{}/../x.csv", folder.display())] {
            refused(
                client.update(&format!("COPY t TO 'file://{outside}'")).await,
                ErrorKind::Invalid,
                "--local-files",
            )?;
        }
        cluster.stop().await
    });
}

/// Every type that a table can have and CSV can hold, with two values that are odd.
const TYPES: [(&str, &str, &str); 17] = [
    ("boolean", "true", "false"),
    ("tinyint", "-128", "127"),
    ("smallint", "-32768", "0"),
    ("int", "-2147483648", "1"),
    ("bigint", "-9223372036854775808", "9223372036854775807"),
    ("bigint unsigned", "18446744073709551615", "0"),
    ("real", "0.1", "-3.4e38"),
    ("double", "0.1", "1e-300"),
    ("double", "'NaN'", "'-inf'"),
    ("decimal(38, 10)", "'-1234567890123456789012345678.0123456789'", "0"),
    ("decimal(5, 2)", "'-0.05'", "'999.99'"),
    ("date", "'1969-12-31'", "'2024-02-29'"),
    ("time", "'23:59:59.999999999'", "'00:00:00'"),
    ("timestamp", "'1969-12-31T23:59:59.999999999'", "'2024-02-29T00:00:00'"),
    ("timestamp with time zone", "'2024-02-29T12:34:56.789Z'", "'1970-01-01T00:00:00Z'"),
    ("bytea", "X'00ff'", "X''"),
    ("varchar", "''", "'NULL'"),
];

#[test]
fn null_and_the_empty_text_of_every_type_come_back() {
    run(async {
        let _turn = turns::shared().await?;
        let cluster = ClusterBuilder::default().executors(2).start().await?;
        let client = cluster.client()?;
        let folder = cluster.dir().join("files");
        fs::create_dir(&folder)?;
        let columns: Vec<String> = TYPES.iter().enumerate().map(|(i, (name, ..))| format!("c{i} {name}")).collect();
        let columns = format!("(k BIGINT, {}, s VARCHAR)", columns.join(", "));
        client.update(&format!("CREATE TABLE t {columns} PARTITION BY (bucket(3, k))")).await?;
        let row = |k: usize, value: &dyn Fn(usize) -> String, s: &str| {
            let values: Vec<String> = (0..TYPES.len()).map(value).collect();
            format!("({k}, {}, {s})", values.join(", "))
        };
        let cast = |i: usize, value: &str| format!("CAST({value} AS {})", TYPES[i].0);
        let rows = [
            row(0, &|_| "NULL".to_owned(), "NULL"),
            row(1, &|i| cast(i, TYPES[i].1), "''"),
            row(2, &|i| cast(i, TYPES[i].2), "'\"'"),
            row(3, &|i| if i % 2 == 0 { "NULL".to_owned() } else { cast(i, TYPES[i].1) }, "'a,b|c#d\\e'"),
            row(4, &|i| if i % 2 == 1 { "NULL".to_owned() } else { cast(i, TYPES[i].2) }, "'#not a comment'"),
        ];
        client.update(&format!("INSERT INTO t VALUES {}", rows.join(", "))).await?;
        let dialects = [
            "",
            " (header false)",
            " (delimiter '|', quote '''', escape '\\')",
            " (comment '#', delimiter ';', header false)",
        ];
        for (number, options) in dialects.iter().enumerate() {
            let file = folder.join(format!("{number}.csv"));
            let place = format!("file://{}", file.display());
            ensure!(client.update(&format!("COPY t TO '{place}'{options}")).await? == 5, "{options}");
            client.update(&format!("CREATE TABLE back {columns} PARTITION BY (bucket(2, k))")).await?;
            ensure!(client.update(&format!("COPY back FROM '{place}'{options}")).await? == 5, "{options}");
            for (one, other) in [("t", "back"), ("back", "t")] {
                let differ = client.query(&format!("SELECT * FROM {one} EXCEPT SELECT * FROM {other}")).await?;
                ensure!(differ.rows() == 0, "{options}: {differ:?}\n{}", fs::read_to_string(&file)?);
            }
            client.update("DROP TABLE back").await?;
        }
        // Rows of nothing but NULL, also where NULL is all that a column can be.
        let one = format!("file://{}", folder.join("one.csv").display());
        ensure!(client.update(&format!("COPY (SELECT s FROM t WHERE k < 3 ORDER BY k) TO '{one}'")).await? == 3);
        ensure!(fs::read_to_string(folder.join("one.csv"))?.lines().filter(|line| line.is_empty()).count() == 1);
        client.update("CREATE TABLE one (s VARCHAR)").await?;
        ensure!(client.update(&format!("COPY one FROM '{one}'")).await? == 3);
        ensure!(count(&client, "one WHERE s IS NULL").await? == 1);
        ensure!(count(&client, "one WHERE s = ''").await? == 1);
        let nothing = format!("file://{}", folder.join("nothing.csv").display());
        client.update(&format!("COPY (SELECT k, NULL AS n, 1 AS o FROM t WHERE k = 0) TO '{nothing}'")).await?;
        ensure!(fs::read_to_string(folder.join("nothing.csv"))? == "k,n,o\n0,,1\n");
        let list = format!("COPY (SELECT make_array(1) AS list FROM t) TO '{nothing}2' (format csv)");
        refused(client.update(&list).await, ErrorKind::Unsupported, "column list")?;
        cluster.stop().await
    });
}

#[test]
fn files_are_read_as_the_table_says() {
    run(async {
        let _turn = turns::shared().await?;
        let cluster = ClusterBuilder::default().executors(2).start().await?;
        let client = cluster.client()?;
        let folder = cluster.dir().join("files");
        fs::create_dir(&folder)?;
        let write = |name: &str, text: &str| fs::write(folder.join(name), text).context("write");
        let from = |name: &str| format!("FROM 'file://{}'", folder.join(name).display());
        client.update("CREATE TABLE t (k BIGINT NOT NULL, code VARCHAR, v INT) PARTITION BY (bucket(3, k))").await?;
        // Columns by name, texts that look like numbers, and a column that is not there.
        write("a.csv", "code,k\n007,1\n0x1,2\n")?;
        ensure!(client.update(&format!("COPY t {}", from("a.csv"))).await? == 2);
        ensure!(first_column(&client.query("SELECT code FROM t ORDER BY k").await?)? == ["007", "0x1"]);
        ensure!(single_integer(&client.query("SELECT count(*) FROM t WHERE v IS NULL").await?)? == 2);
        // By position, without names.
        write("b.csv", "5,50\n6,60\n")?;
        ensure!(client.update(&format!("COPY t (v, k) {} (header false)", from("b.csv"))).await? == 2);
        ensure!(single_integer(&client.query("SELECT sum(v) FROM t WHERE k >= 50").await?)? == 11);
        // Several files at once, as one write.
        fs::create_dir(folder.join("many"))?;
        for n in 0..5 {
            write(&format!("many/{n}.csv"), &format!("k,v\n{},{n}\n", 100 + n))?;
        }
        ensure!(client.update(&format!("COPY t {} (format csv)", from("many/"))).await? == 5);
        ensure!(count(&client, "t").await? == 9);

        for (name, text, columns, kind, part) in [
            ("x.csv", "k,v\n1,one\n", "", ErrorKind::Invalid, "one"),
            ("y.csv", "k,other\n1,2\n", "", ErrorKind::Invalid, "other"),
            ("z.csv", "v\n1\n", "", ErrorKind::Invalid, "column k of table t needs a value"),
            ("w.csv", "k,v\n1,2\n", "(k, nothing)", ErrorKind::Invalid, "nothing"),
            ("u.csv", "k,v\n1,2\n", "(k, v, code)", ErrorKind::Invalid, "no column code"),
            ("n.csv", "k,v\n,2\n", "", ErrorKind::Invalid, "NULL"),
        ] {
            write(name, text)?;
            refused(client.update(&format!("COPY t {columns} {}", from(name))).await, kind, part)
                .with_context(|| name.to_owned())?;
        }
        refused(client.update(&format!("COPY t {}", from("gone.csv"))).await, ErrorKind::NotFound, "gone.csv")?;
        refused(client.update("COPY t FROM 'file:///etc/passwd' (format csv)").await, ErrorKind::Invalid, "--local")?;
        ensure!(count(&client, "t").await? == 9);
        let open = client.begin().await?;
        ensure!(open.update(&format!("COPY t {}", from("a.csv"))).await? == 2);
        ensure!(count(&open, "t").await? == 11);
        open.roll_back().await?;
        ensure!(count(&client, "t").await? == 9);
        cluster.stop().await
    });
}
