//! Files on the local disk: Parquet and CSV, folders, single files and globs.
use std::{
    collections::BTreeSet,
    fs,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use ancho_common::error::ErrorKind;
use ancho_integration::{client::first_column, cluster::in_process::ClusterBuilder, run, sources::write_file, turns};
use anyhow::{Context, ensure};
use tokio::time::{sleep, timeout};

use super::{SpecText, apply, check_rows, integer, rows_sql, write_three};

const PARQUET: (&str, &str) = ("file_format", "parquet");
const CSV: (&str, &str) = ("file_format", "csv");

#[test]
fn folders_files_and_globs() {
    run(async {
        let _turn = turns::shared().await?;
        let sources = tempfile::tempdir()?;
        let root = sources.path().display().to_string();
        write_three(&sources.path().join("parquet"), "parquet").await?;
        write_three(&sources.path().join("csv"), "csv").await?;
        // Files beside the ones that a glob or a single file names.
        write_file(&sources.path().join("parquet/extra.parquet"), &rows_sql(1, 40)).await?;
        write_three(&sources.path().join("whole"), "parquet").await?;

        let cluster = ClusterBuilder::default().executors(2).start().await?;
        let client = cluster.client()?;
        let spec = SpecText::new()
            .dataset("p_folder", &format!("file://{root}/whole/"), &[PARQUET], &["bucket(5, id)"])
            .dataset("p_glob", &format!("file://{root}/parquet/part-*.parquet"), &[PARQUET], &["k"])
            .dataset("p_file", &format!("file://{root}/parquet/extra.parquet"), &[], &[])
            .dataset("c_folder", &format!("file://{root}/csv/"), &[CSV], &["bucket(3, id)"])
            .dataset("c_glob", &format!("file://{root}/csv/part-[12].csv"), &[CSV], &["year(day)", "bucket(2, id)"]);
        apply(&client, &spec, "created").await?;
        for (table, last) in [("p_folder", 300), ("p_glob", 300), ("p_file", 40), ("c_folder", 300)] {
            check_rows(&client, table, last).await?;
        }
        let glob = "SELECT count(*) FROM c_glob WHERE id BETWEEN 101 AND 300";
        ensure!(integer(&client, glob).await? == 200);
        ensure!(integer(&client, "SELECT count(*) FROM c_glob").await? == 200);
        apply(&client, &spec, "unchanged").await?;
        check_rows(&client, "p_folder", 300).await?;
        cluster.stop().await
    });
}

#[test]
fn csv_options_are_kept() {
    run(async {
        let _turn = turns::shared().await?;
        let sources = tempfile::tempdir()?;
        let path = sources.path().join("odd.csv");
        fs::write(&path, "1;'a;b'\n2;''\n3;'it''s'\n4;\n").context("write the CSV file")?;
        let cluster = ClusterBuilder::default().executors(2).start().await?;
        let client = cluster.client()?;
        let options = [CSV, ("csv_has_header", "false"), ("csv_delimiter", "\";\""), ("csv_quote", "\"'\"")];
        let from = format!("file://{}", path.display());
        let as_null = [options.as_slice(), &[("csv_allow_quoted_nulls", "true")]].concat();
        let spec = SpecText::new().dataset("odd", &from, &options, &[]).dataset("odd_null", &from, &as_null, &[]);
        apply(&client, &spec, "created").await?;
        for (table, empty) in [("odd", "(empty)"), ("odd_null", "NULL")] {
            let sql =
                format!("SELECT CASE column_2 WHEN '' THEN '(empty)' ELSE column_2 END FROM {table} ORDER BY column_1");
            let texts = first_column(&client.query(&sql).await?)?;
            ensure!(texts == ["a;b", empty, "it's", "NULL"], "{table}: {texts:?}");
        }
        cluster.stop().await
    });
}

/// Values with line breaks, in files of which a task could read a part: no row is cut, whatever reads how much.
#[test]
fn lines_may_break_inside_of_values() {
    run(async {
        let _turn = turns::shared().await?;
        let sources = tempfile::tempdir()?;
        // A file of 9 MB and small ones; each second line break is inside of a value that looks like rows.
        for (name, rows) in [("a", 0..400_000), ("b", 400_000..400_003), ("c", 400_003..400_100)] {
            let mut text = String::from("id,word,note\n");
            for id in rows {
                let (word, note) = if id % 3 == 0 { ("\"\"", "") } else { ("w", "\"1,x,\n2,\"\"y\"\",z\n3,\"") };
                text.push_str(&format!("{id},{word},{note}\n"));
            }
            fs::write(sources.path().join(format!("{name}.csv")), text).context("write a CSV file")?;
        }
        let cluster = ClusterBuilder::default().executors(2).start().await?;
        let client = cluster.client()?;
        let from = format!("file://{}/", sources.path().display());
        apply(&client, &SpecText::new().dataset("lines", &from, &[CSV], &["bucket(4, id)"]), "created").await?;
        for (sql, expected) in [
            ("SELECT count(*) FROM lines", 400_100),
            ("SELECT sum(id) FROM lines", 400_100 * 400_099 / 2),
            ("SELECT count(*) FROM lines WHERE word = ''", 133_367),
            ("SELECT count(*) FROM lines WHERE word IS NULL", 0),
            ("SELECT count(*) FROM lines WHERE note IS NULL", 133_367),
            ("SELECT count(DISTINCT note) FROM lines", 1),
            ("SELECT max(length(note)) FROM lines", 15),
        ] {
            ensure!(integer(&client, sql).await? == expected, "{sql}: {}", integer(&client, sql).await?);
        }
        cluster.stop().await
    });
}

#[test]
fn partition_values_are_found_while_loading() {
    run(async {
        let _turn = turns::shared().await?;
        let sources = tempfile::tempdir()?;
        // 40 values, NULL and the empty text among them, which no statement has named before.
        let query = "SELECT value AS id, CASE value % 40 WHEN 0 THEN NULL WHEN 1 THEN '' \
                     ELSE 'region/' || CAST(value % 40 AS VARCHAR) END AS region \
                     FROM generate_series(1, 4000) AS g(value)";
        write_file(&sources.path().join("r/a.parquet"), query).await?;
        let cluster = ClusterBuilder::default().executors(3).start().await?;
        let client = cluster.client()?;
        let from = format!("file://{}/r/", sources.path().display());
        apply(&client, &SpecText::new().dataset("found", &from, &[PARQUET], &["region"]), "created").await?;
        ensure!(integer(&client, "SELECT count(*) FROM found").await? == 4000);
        ensure!(integer(&client, "SELECT sum(id) FROM found").await? == 4000 * 4001 / 2);
        let per_region = client.query("SELECT count(*) FROM found GROUP BY region").await?;
        let per_region = first_column(&per_region)?;
        ensure!(per_region.len() == 40 && per_region.iter().all(|n| n == "100"), "{per_region:?}");
        ensure!(integer(&client, "SELECT count(*) FROM found WHERE region IS NULL").await? == 100);
        ensure!(integer(&client, "SELECT count(*) FROM found WHERE region = ''").await? == 100);
        ensure!(integer(&client, "SELECT count(*) FROM found WHERE region = 'region/7'").await? == 100);

        // Every value is a partition of its own, and the executors share them evenly.
        let status = client.status().await?;
        let tables = status["tables"].as_array().context("tables")?;
        let table = tables.iter().find(|t| t["name"].as_str().is_some_and(|n| n.ends_with("found")));
        ensure!(table.is_some_and(|t| t["partitions"] == 40), "{status}");
        let held: Vec<usize> = cluster.executors().iter().map(|e| e.partitions().len()).collect();
        ensure!(held.iter().max() <= held.iter().min().map(|n| n + 1).as_ref(), "partitions per executor: {held:?}");
        cluster.stop().await
    });
}

/// A changed definition replaces all rows at once: whoever reads meanwhile sees the old rows or the new ones.
#[test]
fn a_refresh_replaces_all_rows_at_once() {
    run(async {
        let _turn = turns::shared().await?;
        let sources = tempfile::tempdir()?;
        write_file(&sources.path().join("v1/a.parquet"), &rows_sql(1, 1000)).await?;
        write_file(&sources.path().join("v2/a.parquet"), &rows_sql(1, 3000)).await?;
        let cluster = ClusterBuilder::default().executors(2).start().await?;
        let client = cluster.client()?;
        let spec = |version: &str| {
            let from = format!("file://{}/{version}/", sources.path().display());
            SpecText::new().dataset("fresh", &from, &[PARQUET], &["bucket(8, id)"])
        };
        apply(&client, &spec("v1"), "created").await?;
        check_rows(&client, "fresh", 1000).await?;

        let stop = Arc::new(AtomicBool::new(false));
        let reader = tokio::spawn({
            let (client, stop) = (client.clone(), Arc::clone(&stop));
            async move {
                let mut seen = BTreeSet::new();
                while !stop.load(Ordering::Relaxed) {
                    seen.insert(integer(&client, "SELECT sum(id) FROM fresh").await?);
                    sleep(Duration::from_millis(5)).await;
                }
                anyhow::Ok(seen)
            }
        });
        let (old, new) = (1000 * 1001 / 2, 3000 * 3001 / 2);
        for version in ["v2", "v1", "v2"] {
            let changes = client.apply(&spec(version).0).await?;
            ensure!(changes.iter().all(|c| c.action != "unchanged"), "{changes:?}");
        }
        sleep(Duration::from_millis(200)).await;
        stop.store(true, Ordering::Relaxed);
        let seen = timeout(Duration::from_secs(60), reader).await???;
        ensure!(seen.is_subset(&BTreeSet::from([old, new])), "sums seen: {seen:?}, possible: {old}, {new}");
        check_rows(&client, "fresh", 3000).await?;
        cluster.stop().await
    });
}

#[test]
fn a_source_that_cannot_be_read_leaves_nothing() {
    run(async {
        let _turn = turns::shared().await?;
        let sources = tempfile::tempdir()?;
        write_file(&sources.path().join("bad/a.parquet"), &rows_sql(1, 100)).await?;
        fs::write(sources.path().join("bad/b.parquet"), "this is no Parquet")?;
        let cluster = ClusterBuilder::default().executors(2).start().await?;
        let client = cluster.client()?;
        for path in ["bad/", "missing/"] {
            let from = format!("file://{}/{path}", sources.path().display());
            let spec = SpecText::new().dataset("broken", &from, &[PARQUET], &["bucket(4, id)"]);
            let failure = client.apply(&spec.0).await;
            let failure = failure.err().with_context(|| format!("{path} was loaded"))?;
            ensure!(failure.from_server, "{failure}");
            let rows = client.query("SELECT * FROM broken").await;
            ensure!(rows.as_ref().map_or(true, |a| a.rows() == 0), "{path} left rows: {rows:?}");
        }
        cluster.stop().await
    });
}

#[test]
fn columns_of_csv_files_are_found_by_their_names() {
    run(async {
        let _turn = turns::shared().await?;
        let sources = tempfile::tempdir()?;
        for (name, text) in [
            ("a.csv", "a,b,c\nx1,y1,1\n"),
            ("b.csv", "c,b,a\n2,y2,x2\n"),
            ("c.csv", "\"b\",\"a\"\n\"\",x3\n,x4\n"),
            ("d.csv", "b,a,c\n"),
            ("e.csv", ""),
            // Beside the files of others lies what is not theirs.
            (".f.csv", "a,b,c\nhidden,,\n"),
            ("_g.csv", "a,b,c\nhidden,,\n"),
            ("h.csv", "b,a,c\ny5,x5,5\n"),
        ] {
            fs::write(sources.path().join(name), text)?;
        }
        // A file may be compressed, also in several parts one behind the other.
        let packed = Command::new("gzip").arg("-c").arg(sources.path().join("h.csv")).output().context("gzip")?.stdout;
        fs::write(sources.path().join("more.csv"), "y6,x6,6\n")?;
        let more = Command::new("gzip").arg("-c").arg(sources.path().join("more.csv")).output()?.stdout;
        fs::write(sources.path().join("h.csv.gz"), [packed, more].concat())?;
        fs::remove_file(sources.path().join("h.csv"))?;
        fs::remove_file(sources.path().join("more.csv"))?;
        let cluster = ClusterBuilder::default().executors(2).start().await?;
        let client = cluster.client()?;
        let from = format!("file://{}/", sources.path().display());
        apply(&client, &SpecText::new().dataset("named", &from, &[CSV], &["bucket(3, a)"]), "created").await?;
        let sql = "SELECT concat_ws('|', a, coalesce(b, '-'), coalesce(c, 0)) FROM named ORDER BY a";
        let rows = first_column(&client.query(sql).await?)?;
        ensure!(rows == ["x1|y1|1", "x2|y2|2", "x3||0", "x4|-|0", "x5|y5|5", "x6|y6|6"], "{rows:?}");
        cluster.stop().await
    });
}

#[test]
fn a_spoiled_file_is_named_and_keeps_no_other_dataset_from_being_loaded() {
    run(async {
        let _turn = turns::shared().await?;
        let sources = tempfile::tempdir()?;
        let late = format!("a\n{}x\n", "1\n".repeat(3000));
        let beyond = format!("a\n{}", "1\n".repeat(1200));
        let spoiled: [(&str, &[(&str, &str)], &str); 9] = [
            ("late", &[("good.csv", "a\n1\n"), ("spoiled.csv", &late)], "'x'"),
            ("ragged", &[("good.csv", "a,b\n1,2\n"), ("spoiled.csv", "a,b\n1,2\n1,2,3\n")], "at line 3"),
            ("open", &[("good.csv", "a,b\n1,x\n"), ("spoiled.csv", "a,b\n1,\"abc\n2,x\n")], "line 2"),
            ("twice", &[("spoiled.csv", "a,a\n1,2\n")], "twice"),
            ("added", &[("a.csv", &beyond), ("spoiled.csv", "a,b\n1,2\n")], "\"b\""),
            ("packed", &[("spoiled.csv.gz", "a\n1\n")], "gzip"),
            ("panics", &[("spoiled.parquet", "PAR1xxxxxxxxPAR1")], "PARQUET"),
            ("empty", &[("spoiled.parquet", "")], "PARQUET"),
            ("short", &[("spoiled.parquet", "PAR1")], "PARQUET"),
        ];
        write_file(&sources.path().join("good/a.parquet"), &rows_sql(1, 40)).await?;
        let at = |name: &str| format!("file://{}/{name}/", sources.path().display());
        let mut spec = SpecText::new();
        for (name, files, _) in &spoiled {
            fs::create_dir(sources.path().join(name))?;
            for (file, text) in *files {
                fs::write(sources.path().join(name).join(file), text)?;
            }
            let format = if files[0].0.contains(".csv") { CSV } else { PARQUET };
            spec = spec.dataset(name, &at(name), &[format], &["a"]);
        }
        spec = spec.dataset("good", &at("good"), &[PARQUET], &["bucket(2, id)"]);
        let cluster = ClusterBuilder::default().executors(2).start().await?;
        let client = cluster.client()?;
        let changes = client.try_apply(&spec.0).await?;
        check_rows(&client, "good", 40).await?;
        for ((name, _, part), change) in spoiled.into_iter().zip(changes) {
            let file = format!("{}/{name}/spoiled.", sources.path().display());
            let told = change.detail.unwrap_or_default();
            ensure!(change.error == Some(ErrorKind::Invalid), "{name}: {:?}: {told}", change.error);
            ensure!(told.contains(&file) && told.contains(part), "{name}: {told}");
            let rows = client.query(&format!("SELECT * FROM {name}")).await;
            ensure!(rows.as_ref().map_or(true, |a| a.rows() == 0), "{name} left rows: {rows:?}");
        }
        cluster.stop().await
    });
}
