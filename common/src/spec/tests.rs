//! What a spec may say, and how each mistake is reported.
use super::*;

const SAMPLE: &str = include_str!("../../../deploy/examples/cluster.yaml");

fn problems(yaml: &str) -> Vec<String> {
    match ClusterSpec::parse(yaml) {
        Ok(_) => Vec::new(),
        Err(errors) => errors.iter().map(ToString::to_string).collect(),
    }
}

/// One dataset with these lines added to the dataset and to its acceleration.
fn with(dataset: &str, acceleration: &str) -> String {
    format!(
        "datasets:\n  - from: file:///d/t.parquet\n    name: t\n    {dataset}\n    acceleration:\n      enabled: true\n      {acceleration}\n"
    )
}

fn only_problem(yaml: &str) -> String {
    let found = problems(yaml);
    assert_eq!(found.len(), 1, "{yaml}\n{found:#?}");
    found[0].clone()
}

#[test]
fn the_sample_file_is_right() {
    let spec = ClusterSpec::parse(SAMPLE).expect("the sample");
    assert!(spec.datasets.len() >= 2);
}

#[test]
fn every_part_of_a_dataset_is_read() {
    let spec = ClusterSpec::parse(
        r#"
version: v1
kind: Cluster
name: shop
datasets:
  - from: s3://lake/sales/*.csv
    name: sales
    description: all sales
    params:
      file_format: csv
      csv_delimiter: ";"
      csv_has_header: false
      csv_allow_quoted_nulls: true
      s3_region: eu-central-1
      s3_endpoint: http://127.0.0.1:9000
      s3_key: ${env:KEY}
      s3_secret: ${env:SECRET}
    acceleration:
      enabled: true
      engine: cayenne
      mode: file
      refresh_mode: full
      primary_key: (region, id)
      partition_by:
        - region: "region"
        - bucket(8, id)
      params:
        cayenne_target_file_size_mb: 64
        cayenne_compression_strategy: zstd
"#,
    )
    .expect("a right spec");
    let dataset = &spec.datasets[0];
    assert_eq!(spec.name.as_deref(), Some("shop"));
    assert_eq!(dataset.source.from, Location::S3 { bucket: "lake".into(), key: "sales/*.csv".into() });
    assert_eq!(dataset.source.from.to_string(), "s3://lake/sales/*.csv");
    let FileFormat::Csv(csv) = &dataset.source.format else { panic!("not CSV: {dataset:?}") };
    assert_eq!((csv.delimiter, csv.has_header, csv.quote, csv.quoted_is_null), (';', false, '"', true));
    let s3 = dataset.source.s3.as_ref().expect("S3 options");
    assert_eq!((s3.region.as_deref(), s3.allow_http), (Some("eu-central-1"), true));
    assert_eq!(dataset.acceleration.partition_by, ["region", "bucket(8, id)"]);
    assert_eq!(dataset.acceleration.primary_key, ["region", "id"]);
    assert_eq!(dataset.acceleration.params["cayenne_target_file_size_mb"], "64");
}

#[test]
fn a_definition_is_read_back_and_keeps_references() {
    let spec = ClusterSpec::parse(SAMPLE).expect("the sample");
    for dataset in &spec.datasets {
        let definition = dataset.definition();
        assert_eq!(&DatasetSpec::from_definition(&definition).expect("a definition"), dataset);
        assert_eq!(DatasetSpec::from_definition(&definition).expect("a definition").definition(), definition);
    }
    let all: String = spec.datasets.iter().map(DatasetSpec::definition).collect();
    assert!(all.contains("${env:"), "{all}");
}

#[test]
fn all_problems_are_listed_at_once_with_their_paths() {
    let found = problems(
        r#"
version: v9
colour: red
datasets:
  - from: postgres://db/orders
    name: orders
    acceleration: {enabled: true}
  - from: file:///d/
    name: orders
    acceleration:
      engine: duckdb
      mode: memory
      refresh_mode: append
      partition_by: [ "bucket(0, k)", "k", "k" ]
      params: {cayenne_target_file_size_mb: 0}
"#,
    );
    let paths: Vec<&str> = found.iter().map(|text| text.split_once(": ").map_or("", |(path, _)| path)).collect();
    assert_eq!(
        paths,
        [
            "version",
            "datasets[0].from",
            "datasets[1].name",
            "datasets[1].params.file_format",
            "datasets[1].acceleration.engine",
            "datasets[1].acceleration.partition_by[0]",
            "datasets[1].acceleration.partition_by[2]",
            "datasets[1].acceleration.mode",
            "datasets[1].acceleration.refresh_mode",
            "datasets[1].acceleration.params.cayenne_target_file_size_mb",
            "colour",
        ],
        "{found:#?}"
    );
}

#[test]
fn unknown_keys_are_refused_with_the_nearest_known_one() {
    assert_eq!(only_problem(&with("nmae: x", "mode: file")), "datasets[0].nmae: unknown key; did you mean `name`?");
    assert_eq!(
        only_problem(&with("description: x", "partiton_by: [k]")),
        "datasets[0].acceleration.partiton_by: unknown key; did you mean `partition_by`?"
    );
    let text = only_problem(&with("description: x", "snapshots_reset_expiry_on_load: true"));
    assert!(text.contains("not offered"), "{text}");
    let text = only_problem(&with("description: x", "snapshots: on"));
    assert!(text.starts_with("datasets[0].acceleration.snapshots: `on` is not possible here"), "{text}");
    let text = only_problem(&with("description: x", "snapshots_trigger: stream_batches"));
    assert!(text.starts_with("datasets[0].acceleration.snapshots_trigger: "), "{text}");
    let text = only_problem(&with("description: x", "snapshots_location: snapshots/"));
    assert!(text.starts_with("datasets[0].acceleration.snapshots_location: "), "{text}");
    let text = only_problem(&with("description: x", "params: {cayenne_sort_colums: a}"));
    assert!(text.contains("cayenne_sort_columns") || text.contains("not offered"), "{text}");
}

#[test]
fn values_of_engine_parameters_are_checked() {
    let problem = |key: &str, value: &str| {
        let text = only_problem(&with("description: x", &format!("params: {{{key}: {value}}}")));
        assert!(text.starts_with(&format!("datasets[0].acceleration.params.{key}: ")), "{text}");
        text
    };
    for (key, wrong, right) in [
        ("cayenne_target_file_size_mb", "0", "auto"),
        ("cayenne_target_file_size_mb", "-1", "256"),
        ("cayenne_target_file_size_mb", "big", "1"),
        ("cayenne_compression_strategy", "gzip", "zstd"),
        ("cayenne_unsupported_type_action", "drop", "error"),
        ("pk_conflict_detection", "maybe", "none"),
        ("cayenne_deletion_mode", "row", "key"),
        ("cayenne_metastore", "turso", "sqlite"),
        ("sort_columns", "'a,,b'", "'a, b'"),
        ("cayenne_cluster_by", "','", "a"),
        ("cayenne_unsupported_type_action", "drop", "string"),
        ("cayenne_pk_keyset_cache_mb", "-1", "auto"),
        ("cayenne_compaction_trigger_files", "0", "1"),
        ("cayenne_compaction_max_levels", "0", "3"),
        ("cayenne_compaction_background_interval_ms", "soon", "0"),
        ("cayenne_compaction_trigger_snapshot_age_ms", "-1", "0"),
    ] {
        problem(key, wrong);
        assert_eq!(problems(&with("description: x", &format!("params: {{{key}: {right}}}"))), [""; 0], "{key}");
    }
    // Understood, and not in effect yet: a wrong value is named first.
    for (key, wrong, right) in [
        ("cayenne_delta_encoding", "11", "10"),
        ("cayenne_scan_concurrency", "many", "off"),
        ("cayenne_force_view_types", "yes", "true"),
    ] {
        assert!(!problem(key, wrong).contains("not offered"));
        assert!(problem(key, right).contains("not offered by this version"));
    }
    let both = problems(&with("description: x", "params: {sort_columns: a, cayenne_sort_columns: b}"));
    assert!(both.iter().any(|text| text.contains("contradicts")), "{both:?}");

    let both = only_problem(&with("description: x", "params: {sort_columns: a, cayenne_cluster_by: b}"));
    assert!(both.starts_with("datasets[0].acceleration.params.cayenne_cluster_by: "), "{both}");
    // Known, and not of one dataset: the way out is named.
    for (key, value, part) in [
        ("cayenne_file_path", "/tmp", "data directory"),
        ("cayenne_footer_cache_mb", "64", "--footer-cache"),
        ("cayenne_segment_cache_mb", "64", "page cache"),
        ("cayenne_compaction_memory_fraction", "0.2", "--compaction-memory-fraction"),
        ("cayenne_datalake_clustering_columns", "a", "`cayenne_cluster_by`"),
        ("time_column", "at", "beside `name`"),
    ] {
        assert!(problem(key, value).contains(part));
    }
}

#[test]
fn the_time_column_is_a_parameter_of_the_table() {
    let spec = ClusterSpec::parse(&with("time_column: at", "params: {sort_columns: a}")).unwrap();
    let dataset = &spec.datasets[0];
    let params = dataset.table_params();
    assert_eq!((params["time_column"].as_str(), params["sort_columns"].as_str()), ("at", "a"));
    assert_eq!(DatasetSpec::from_definition(&dataset.definition()).unwrap(), *dataset);
}

#[test]
fn partition_expressions_are_checked_for_syntax_buckets_and_the_key() {
    for (expression, part) in [
        ("bucket(70000, k)", "between 1 and"),
        ("bucket(k)", "bucket(16, column)"),
        ("bucket(1.5, k)", "between 1 and"),
        ("year(", "not an expression"),
        ("a b", "left over"),
        ("1 + 1", "no column"),
        ("''", "no column"),
    ] {
        let text = only_problem(&with("description: x", &format!("partition_by: [ \"{expression}\" ]")));
        assert!(text.starts_with("datasets[0].acceleration.partition_by[0]: ") && text.contains(part), "{text}");
    }
    let text = only_problem(&with("description: x", "partition_by: [{r: region}]\n      primary_key: id"));
    assert!(text.contains("partition_by[0].r: ") && text.contains("primary_key"), "{text}");
    let text = only_problem(&with("description: x", "partition_by: region"));
    assert!(text.contains("a list of expressions"), "{text}");
    for right in ["region", "year(d)", "\\\"Odd Name\\\"", "BUCKET(4, k)", "substr(s, 1, 2)", "k % 10"] {
        assert_eq!(problems(&with("description: x", &format!("partition_by: [ \"{right}\" ]"))), [""; 0], "{right}");
    }
}

#[test]
fn sources_are_checked() {
    for (from, part) in [
        ("file://relative/path.csv", "three slashes"),
        ("/data/t.csv", "not a URL"),
        ("gs://bucket/t.csv", "scheme `gs`"),
        ("s3:///t.csv", "no bucket"),
    ] {
        let text = only_problem(&with("description: x", "mode: file").replace("file:///d/t.parquet", from));
        assert!(text.starts_with("datasets[0].from: ") && text.contains(part), "{text}");
    }
    for (params, part) in [
        ("{file_format: orc}", "`parquet`, `csv` or `snapshot`"),
        ("{csv_delimiter: ';'}", "Parquet"),
        ("{csv_allow_quoted_nulls: true}", "Parquet"),
        ("{s3_region: x}", "local"),
        ("{file_format: csv, csv_delimiter: 'ab'}", "one ASCII character"),
        ("{file_fromat: csv}", "did you mean `file_format`?"),
    ] {
        let text = only_problem(&with(&format!("params: {params}"), "mode: file"));
        assert!(text.starts_with("datasets[0].params.") && text.contains(part), "{text}");
    }
    for (params, part) in [
        ("{s3_key: a}", "s3_secret: missing"),
        ("{s3_auth: key}", "needs both"),
        ("{s3_endpoint: 'minio:9000'}", "not a URL of a server"),
        ("{s3_endpoint: 'http://m:9000', allow_http: false}", "plain HTTP"),
        ("{region: a, s3_region: b}", "contradicts"),
        ("{s3_key: '${vault:A}', s3_secret: '${env:B}'}", "${env:NAME}"),
        ("{s3_key: a, s3_secret: hunter2}", "s3_secret: a secret that is written out"),
        ("{s3_key: a, s3_secret: '${env:B}', s3_session_token: 'hunter2${env:B}'}", "s3_session_token: a secret that"),
        ("{s3_endpoint: 'http://me:hunter2@m:9000'}", "a user or a password"),
        ("{client_timeout: soon}", "not a time"),
    ] {
        let yaml = with(&format!("params: {params}"), "mode: file").replace("file:///d/", "s3://lake/");
        let text = problems(&yaml).join("\n");
        assert!(text.contains(part), "{params}: {text}");
        assert!(!text.contains("hunter2"), "{text}");
    }
    let named =
        with("params: {s3_key: a, s3_secret: '${secrets:B}'}", "mode: file").replace("file:///d/", "s3://lake/");
    assert_eq!(problems(&named), Vec::<String>::new());
}

#[test]
fn documents_that_are_no_spec_are_refused() {
    for (yaml, part) in [
        ("", "the document is empty"),
        ("- a", "must be a map"),
        ("datasets: {a: b}", "a list is needed"),
        ("name: x", "datasets: missing"),
        ("a: b: c", "not a YAML document"),
        ("datasets: [7]", "datasets[0]: a dataset must be a map"),
        ("datasets: [{from: 'file:///a.csv', name: t}]", "acceleration: missing"),
        ("datasets: [{from: 'file:///a.csv', name: '', acceleration: {enabled: true}}]", "datasets[0].name: empty"),
        ("datasets: [{from: 'file:///a.csv', name: a.b, acceleration: {enabled: false}}]", "write true"),
    ] {
        let text = problems(yaml).join("\n");
        assert!(text.contains(part), "{yaml}: {text}");
    }
}

#[test]
fn parameters_are_checked_one_by_one_for_sql() {
    assert_eq!(settings::check_param("cayenne_target_file_size_mb", "64"), Ok(()));
    assert!(settings::check_param("cayenne_delta_encoding", "3").is_err());
    assert_eq!(settings::check_table_option("time_column", "at"), Ok(()));
    assert!(settings::check_table_option("time_column", " ").is_err());
    assert!(settings::check_table_option("sort_columns", ",").is_err());
    assert!(settings::check_param("cayenne_target_file_size_mb", "0").is_err());
    assert!(settings::check_param("colour", "red").is_err());
}

#[test]
fn what_another_cluster_publishes_is_a_source() {
    let published = |dataset: &str, acceleration: &str| {
        format!(
            "datasets:\n  - from: s3://lake/snapshots/\n    name: t\n    params:\n      file_format: snapshot\n      s3_region: eu\n{dataset}{acceleration}"
        )
    };
    let spec = |yaml: &str| ClusterSpec::parse(yaml).unwrap().datasets.remove(0);
    let least = spec(&published("", ""));
    assert_eq!(least.acceleration.refresh_mode, "snapshot");
    assert_eq!(least.acceleration.check_interval().as_secs(), 60);
    assert_eq!(DatasetSpec::from_definition(&least.definition()).unwrap(), least);
    let more = "    acceleration:\n      refresh_mode: snapshot\n      refresh_check_interval: 5s\n      partition_by: [\"bucket(2, id)\"]\n";
    let more = spec(&published("", more));
    assert_eq!((more.acceleration.check_interval().as_secs(), more.acceleration.partition_by.len()), (5, 1));
    for (dataset, acceleration, what) in [
        ("    time_column: at\n", "", "time_column: the source is a snapshot"),
        ("", "    acceleration:\n      refresh_mode: full\n", "write `snapshot`"),
        ("", "    acceleration:\n      refresh_mode: append\n", "write `snapshot`"),
        ("", "    acceleration:\n      refresh_check_interval: 5ms\n", "at least 1s"),
        ("", "    acceleration:\n      primary_key: id\n", "the key is that of the snapshot"),
        ("      csv_delimiter: x\n", "", "the source is a snapshot"),
        ("      s3_key: ${env:K}\n", "", "s3_secret"),
    ] {
        let found = only_problem(&published(dataset, acceleration));
        assert!(found.contains(what), "{found}");
    }
    let pattern = published("", "").replace("snapshots/", "*/");
    assert!(only_problem(&pattern).contains("is a pattern"), "{}", only_problem(&pattern));
    assert!(only_problem(&with("", "refresh_mode: snapshot")).contains("file_format: snapshot"));
    assert!(SourceSpec::of("file:///a", [("file_format".to_owned(), "snapshot".to_owned())]).is_err());
}
