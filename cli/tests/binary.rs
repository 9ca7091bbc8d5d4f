//! The binary from the outside: exit codes, what it prints, and clusters of real processes.
mod terminal;

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

fn ancho(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ancho"));
    // The surroundings of a developer must not decide what a test sees.
    command.args(arguments).env_remove("ANCHO_URL").env_remove("RUST_LOG").env_remove("ANCHO_DATA_DIR");
    command
}

fn run(arguments: &[&str]) -> Output {
    ancho(arguments).stdin(Stdio::null()).output().expect("the binary starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Standard output of a run that must end well.
fn good(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(output.status.success(), "{arguments:?}: {}\n{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// Standard error of a run that must fail with this code.
fn bad(code: i32, arguments: &[&str]) -> String {
    let output = run(arguments);
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}\n{told}", text(&output.stdout));
    told
}

/// A running cluster; dropping it ends its processes.
struct Cluster {
    dir: tempfile::TempDir,
}

impl Cluster {
    fn up(executors: &str) -> Self {
        let cluster = Self { dir: tempfile::tempdir().expect("a folder") };
        let told = good(&["up", "--schedulers", "1", "--executors", executors, "--data-dir", cluster.path()]);
        assert!(told.contains("is up") && told.contains("executor-1"), "{told}");
        cluster
    }

    fn path(&self) -> &str {
        self.dir.path().to_str().expect("a UTF-8 path")
    }

    fn file(&self) -> serde_json::Value {
        let text = fs::read_to_string(self.dir.path().join("cluster.json")).expect("cluster.json");
        serde_json::from_str(&text).expect("JSON")
    }

    fn url(&self) -> String {
        self.file()["flight_urls"][0].as_str().expect("a URL").to_owned()
    }

    fn sql(&self, format: &str, sql: &str) -> String {
        good(&["sql", "--url", &self.url(), "--format", format, "-c", sql])
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = run(&["down", "--kill", "--data-dir", self.path()]);
    }
}

fn write(dir: &Path, name: &str, content: &str) -> PathBuf {
    let path = dir.join(name);
    fs::create_dir_all(path.parent().expect("a folder")).expect("created");
    fs::write(&path, content).expect("written");
    path
}

#[test]
fn wrong_usage_ends_with_2_and_failures_with_1() {
    assert!(bad(2, &["sql", "--format", "xml"]).contains("xml"));
    assert!(bad(2, &["executor", "--data-dir", "/tmp/x"]).contains("--scheduler-address"));
    assert!(bad(2, &["scheduler", "--data-dir", "/tmp/x", "--partition-wait", "soon"]).contains("not a time"));
    let told = bad(1, &["sql", "--url", "grpc://127.0.0.1:1", "-c", "select 1"]);
    assert!(
        told.starts_with("error: no scheduler answers at grpc://127.0.0.1:1") && told.lines().count() == 1,
        "{told}"
    );
    assert!(good(&["down", "--data-dir", "/nonexistent/ancho"]).contains("nothing runs"));
}

#[test]
fn a_wrong_spec_is_refused_before_anything_is_sent() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = write(dir.path(), "c.yaml", "datasets:\n  - from: gs://x\n    name: a\n    acceleration: {engin: x}\n");
    let told = bad(1, &["apply", "-f", file.to_str().expect("UTF-8"), "--url", "grpc://127.0.0.1:1"]);
    assert!(told.contains("2 problems") && told.contains("datasets[0].acceleration.engin"), "{told}");
}

#[test]
fn statements_run_in_every_form_and_stop_at_the_first_error() {
    let cluster = Cluster::up("2");
    let url = cluster.url();
    let told = cluster.sql(
        "table",
        "create table t (k bigint, v varchar) partition by (bucket(4, k)); insert into t values (1, 'a;b'), (2, NULL), (3, '')",
    );
    assert!(told.contains("OK, 3 rows"), "{told}");
    assert_eq!(cluster.sql("csv", "select k, v from t order by k"), "k,v\n1,a;b\n2,\n3,\"\"\n");
    assert_eq!(cluster.sql("json", "select v from t where k < 3 order by k"), "{\"v\":\"a;b\"}\n{\"v\":null}\n");
    assert!(cluster.sql("table", "select v from t order by k").contains("NULL"));
    let nothing = "select null as n, cast(null as text) as t, cast(null as int) as i, '' as e";
    assert_eq!(cluster.sql("csv", nothing), "n,t,i,e\n,,,\"\"\n");
    assert_eq!(cluster.sql("json", nothing), "{\"n\":null,\"t\":null,\"i\":null,\"e\":\"\"}\n");

    let wide = cluster.sql("csv", "select repeat('x', 6000000) as x");
    assert_eq!(wide.len(), 6_000_003, "a row larger than what clients take unless told otherwise");

    let output =
        run(&["sql", "--url", &url, "--format", "csv", "-c", "select 1 as one; select nothing; select 2 as two"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stdout), "one\n1\n");
    let told = text(&output.stderr);
    assert!(told.starts_with("error: statement 2 in line 1: ") && told.contains("not retryable"), "{told}");
    assert_eq!(told.lines().count(), 1, "{told}");

    let file = write(cluster.dir.path(), "in.sql", "-- a comment; with a semicolon\nselect count(*) as n\nfrom t;\n");
    assert_eq!(good(&["sql", "--url", &url, "--format", "csv", "-f", file.to_str().expect("UTF-8")]), "n\n3\n");

    let mut piped = ancho(&["sql", "--url", &url, "--format", "csv"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    piped.stdin.take().expect("a pipe").write_all(b"select sum(k) as s from t").expect("written");
    let output = piped.wait_with_output().expect("it ends");
    assert_eq!((output.status.success(), text(&output.stdout).as_str()), (true, "s\n6\n"));
}

#[test]
fn a_port_of_another_service_is_told_in_one_sentence() {
    let cluster = Cluster::up("1");
    let scheduler = cluster.file()["schedulers"][0].clone();
    for service in ["http", "internal"] {
        let address = scheduler[service].as_str().unwrap_or_else(|| panic!("no {service} in {scheduler}"));
        let url = format!("grpc://{address}");
        let told = bad(1, &["sql", "--url", &url, "-c", "select 1"]);
        assert!(
            told.contains(&url) && told.contains("Flight SQL") && !told.contains("grpc-status"),
            "{service}: {told}"
        );
        assert_eq!(told.lines().count(), 1, "{told}");
    }
}

#[test]
fn statements_typed_ahead_and_pasted_all_run() {
    let cluster = Cluster::up("1");
    let mut command = ancho(&["sql", "--url", &cluster.url()]);
    command.env("XDG_STATE_HOME", cluster.path());
    let mut shell = terminal::Terminal::start(command);
    shell.wait_for("ancho> ", 1);
    // Sent at once, as a terminal without bracketed paste does.
    shell.send("select 7001 * 7001 as a;\rselect 7002 * 7002 as b;\rselect 7003 *\r7003 as c;\r");
    for answer in ["49014001", "49028004", "49042009"] {
        shell.wait_for(answer, 1);
    }
    // Typed while a statement runs. Leaving the line editor switches bracketed paste off.
    const LEFT: &str = "\x1b[?2004l";
    let left = shell.told().matches(LEFT).count();
    shell.send("select count(*) + 8000000 as d from generate_series(1, 2000000);\r");
    shell.wait_for(LEFT, left + 1);
    shell.send("select 7004 * 7004 as e;\rselect 7005 * 7005 as f;\r");
    for answer in ["10000000", "49056016", "49070025"] {
        shell.wait_for(answer, 1);
    }
    shell.send("\\q\r");
    assert!(shell.ends(), "{}", shell.told());
}

#[test]
fn transactions_begin_and_end_by_their_words() {
    let cluster = Cluster::up("1");
    let url = cluster.url();
    let counted = || cluster.sql("csv", "select count(*) as n, sum(v) as s from t");
    cluster.sql("table", "create table t (k bigint, v bigint); insert into t values (1, 10)");
    let told = cluster.sql(
        "csv",
        "-- both or none\nBEGIN; insert into t values (2, 20); update t set v = v + 1; select sum(v) as s from t; /* done */ commit;",
    );
    assert_eq!((told.as_str(), counted().as_str()), ("s\n32\n", "n,s\n2,32\n"));
    cluster.sql("csv", "start transaction; delete from t; rollback");
    let told =
        bad(1, &["sql", "--url", &url, "-c", "begin; delete from t; select assert(count(*) > 0, 'empty') from t"]);
    assert!(told.contains("assertion failed: empty"), "{told}");
    let told = bad(1, &["sql", "--url", &url, "-c", "begin; delete from t"]);
    assert!(told.contains("rolled back: end it by COMMIT"), "{told}");
    assert!(bad(1, &["sql", "--url", &url, "-c", "commit"]).contains("no transaction is open"));
    assert!(bad(1, &["sql", "--url", &url, "-c", "begin; begin"]).contains("open already"));
    assert_eq!(counted(), "n,s\n2,32\n");
}

#[test]
fn datasets_are_applied_once_and_a_cluster_comes_back_with_its_rows() {
    let cluster = Cluster::up("2");
    let dir = fs::canonicalize(cluster.dir.path()).expect("a path");
    write(&dir, "source/a.csv", "id,region,amount\n1,north,10\n2,south,20\n");
    write(&dir, "source/b.csv", "id,region,amount\n3,north,30\n4,,40\n");
    let spec = format!(
        "version: v1\nkind: Cluster\nname: shop\ndatasets:\n  - from: file://{}/source/\n    name: sales\n    params:\n      \
         file_format: csv\n    acceleration:\n      enabled: true\n      engine: cayenne\n      mode: file\n      \
         refresh_mode: full\n      partition_by:\n        - region\n",
        dir.display()
    );
    let file = write(&dir, "shop.yaml", &spec);
    let file = file.to_str().expect("UTF-8");
    let apply = |cluster: &Cluster| good(&["apply", "-f", file, "--url", &cluster.url()]);
    let told = apply(&cluster);
    assert!(told.contains("sales") && told.contains("4 rows"), "{told}");
    assert_eq!(apply(&cluster), "nothing to change\n");
    // A second dataset that cannot be read is told by name; the others are applied and told.
    let with_more = |path: &str| {
        let second = &spec[spec.find("  - from").expect("a dataset")..];
        let second = second.replace("source/", path).replace("name: sales", "name: more");
        write(&dir, "more.yaml", &format!("{spec}{second}{}", second.replace("more", "most").replace(path, "source/")))
    };
    let file_with = with_more("missing/");
    let output = run(&["apply", "-f", file_with.to_str().expect("UTF-8"), "--url", &cluster.url()]);
    assert_eq!(output.status.code(), Some(1));
    let (told, failed) = (text(&output.stdout), text(&output.stderr));
    assert!(told.contains("created") && told.contains("most") && !told.contains("more"), "{told}");
    assert!(failed.starts_with("error: dataset more: ") && failed.contains("missing/"), "{failed}");
    assert_eq!(failed.lines().count(), 1, "{failed}");
    let query = "select count(*) as n, sum(amount) as s from sales";
    assert_eq!(cluster.sql("csv", query), "n,s\n4,100\n");

    let status = good(&["cluster", "status", "--json", "--url", &cluster.url()]);
    let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
    assert_eq!(status["executors"].as_array().map(Vec::len), Some(2), "{status:#}");
    assert!(good(&["cluster", "status", "--url", &cluster.url()]).contains("sales"));

    let up = || good(&["up", "--schedulers", "1", "--executors", "2", "--data-dir", cluster.path()]);
    let ports = cluster.file()["schedulers"][0]["flight"].clone();
    assert!(up().contains("already running"));
    let told = good(&["down", "--data-dir", cluster.path()]);
    assert_eq!(told.matches("stopped ").count(), 3, "{told}");
    assert!(good(&["down", "--data-dir", cluster.path()]).contains("nothing runs"));
    assert!(up().contains("is up"));
    assert_eq!(cluster.file()["schedulers"][0]["flight"], ports);
    assert_eq!(cluster.sql("csv", query), "n,s\n4,100\n");
    let told = bad(1, &["up", "--schedulers", "3", "--executors", "2", "--data-dir", cluster.path()]);
    assert!(told.contains("fixed when it forms"), "{told}");
}

#[test]
fn a_process_that_does_not_come_up_is_told_with_the_end_of_its_log() {
    let dir = tempfile::tempdir().expect("a folder");
    // A file where a directory has to be made.
    write(dir.path(), "executor-1", "in the way");
    let path = dir.path().to_str().expect("UTF-8");
    let told = bad(1, &["up", "--executors", "1", "--timeout", "20s", "--data-dir", path]);
    assert!(told.contains("executor-1 ended before it was ready") && told.contains("the last lines of"), "{told}");
    assert!(good(&["down", "--data-dir", path]).contains("nothing runs"));
}

#[test]
fn the_demonstration_ends_with_22_correct_queries() {
    let told = good(&["demo", "--scale", "0.01", "--executors", "2", "--buckets", "4"]);
    assert!(told.contains("22 correct, 0 wrong"), "{told}");
}
