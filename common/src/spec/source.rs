//! Where the rows of a dataset come from, and how to read them.
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_norway::{Mapping, Value};

use crate::{error::Error, snapshot::SnapshotLocation};

use super::{
    SpecError,
    fields::{Fields, KeyPath, Problems},
    secret::Secret,
};

/// A checked source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SourceSpec {
    /// A file, a folder (ends with `/`) or a glob.
    pub from: Location,
    /// How the files are read.
    pub format: FileFormat,
    /// How S3 is reached; `None` for local files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub s3: Option<S3Options>,
}

/// A place that holds files. Not a parsed URL, since globs are none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Location {
    /// An absolute path on the machines that read it: `file:///data/orders/*.parquet`.
    File(String),
    /// A bucket, and a key, prefix or glob in it: `s3://lake/orders/`.
    S3 {
        /// Name of the bucket.
        bucket: String,
        /// What follows the bucket, without the leading slash.
        key: String,
    },
}

/// How files are read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileFormat {
    /// Apache Parquet.
    Parquet,
    /// Text with separators.
    Csv(CsvOptions),
    /// Snapshots that another cluster publishes there.
    Snapshot,
}

/// How CSV files are read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CsvOptions {
    /// The first line of each file names the columns. Default: yes.
    pub has_header: bool,
    /// Between two values. Default: a comma.
    pub delimiter: char,
    /// Around values that contain separators. Default: a double quote.
    pub quote: char,
    /// Before a quote inside quotes. Default: none, a quote is doubled.
    pub escape: Option<char>,
    /// Starts a line that is skipped. Default: none.
    pub comment: Option<char>,
    /// Rows looked at to find the types of the columns. Default: 1000.
    pub schema_infer_max_records: usize,
    /// `""` is NULL, as an empty field is. Default: no, it is an empty text.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub quoted_is_null: bool,
}

impl Default for CsvOptions {
    fn default() -> Self {
        Self {
            has_header: true,
            delimiter: ',',
            quote: '"',
            escape: None,
            comment: None,
            schema_infer_max_records: 1000,
            quoted_is_null: false,
        }
    }
}

/// How an S3 bucket is reached. What is not set comes from the environment of the process that reads.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct S3Options {
    /// Region of the bucket.
    pub region: Option<String>,
    /// URL of an S3-compatible server.
    pub endpoint: Option<String>,
    /// Access key id.
    pub key: Option<Secret>,
    /// Secret access key.
    pub secret: Option<Secret>,
    /// Token of temporary credentials.
    pub session_token: Option<Secret>,
    /// Plain HTTP is fine. Default: only where the endpoint says `http://`.
    pub allow_http: bool,
    /// Longest time of one request, as `30s`.
    pub client_timeout: Option<String>,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "file://{path}"),
            Self::S3 { bucket, key } => write!(f, "s3://{bucket}/{key}"),
        }
    }
}

impl Location {
    /// Reads `file:///path` or `s3://bucket/key`.
    ///
    /// # Errors
    /// Says what is wrong and what to write.
    pub fn parse(text: &str) -> Result<Self, String> {
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(format!("`{text}` is not a URL: write file:///absolute/path or s3://bucket/prefix/"));
        };
        match scheme {
            "file" if rest.starts_with('/') => Ok(Self::File(rest.to_owned())),
            "file" => Err(format!("`{text}` has no absolute path: write file:///absolute/path, with three slashes")),
            "s3" => {
                let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
                if bucket.is_empty() || bucket.contains(['*', '?', '[', '@', ':']) {
                    return Err(format!("`{text}` names no bucket: write s3://bucket/prefix/"));
                }
                Ok(Self::S3 { bucket: bucket.to_owned(), key: key.to_owned() })
            }
            other => {
                Err(format!("the scheme `{other}` is not offered: write file:///absolute/path or s3://bucket/prefix/"))
            }
        }
    }

    /// What names the files: the path, or the key in the bucket.
    fn path(&self) -> &str {
        match self {
            Self::File(path) => path,
            Self::S3 { key, .. } => key,
        }
    }
}

/// Parameters of sources that the format knows and Ancho does not offer yet.
const NOT_YET: &[&str] =
    &["file_compression_type", "file_extension", "hive_partitioning_enabled", "schema_source_path", "tsv_has_header"];

const CSV_KEYS: [&str; 7] = [
    "csv_has_header",
    "csv_delimiter",
    "csv_quote",
    "csv_escape",
    "csv_comment",
    "csv_schema_infer_max_records",
    "csv_allow_quoted_nulls",
];

const S3_KEYS: [&str; 10] = [
    "s3_region",
    "region",
    "s3_endpoint",
    "s3_auth",
    "s3_key",
    "s3_secret",
    "s3_session_token",
    "allow_http",
    "s3_allow_http",
    "client_timeout",
];

impl SourceSpec {
    /// Of a location and parameters by the names that datasets have for them.
    ///
    /// # Errors
    /// `Invalid`, with every problem found.
    pub fn of(from: &str, params: impl IntoIterator<Item = (String, String)>) -> Result<Self, Error> {
        let text = |text: String| Value::String(text);
        let params = params.into_iter().map(|(name, value)| (text(name), text(value)));
        let document = Value::Mapping(Mapping::from_iter([
            (text("from".into()), text(from.into())),
            (text("params".into()), Value::Mapping(params.collect())),
        ]));
        let mut problems = Problems::default();
        let fields = Fields::open(KeyPath::root(), &document, "the source", &mut problems);
        let source = fields.and_then(|mut fields| Self::read(&mut fields, &mut problems));
        if source.as_ref().is_some_and(Self::is_published) {
            return Err(Error::invalid("file_format: snapshots are read by datasets only; write `parquet` or `csv`"));
        }
        let told = |problem: &SpecError| match problem.path.strip_prefix("params.") {
            Some(name) => format!("{name}: {}", problem.message),
            None => problem.message.clone(),
        };
        let problems: Vec<String> = problems.into_errors().iter().map(told).collect();
        source.filter(|_| problems.is_empty()).ok_or_else(|| Error::invalid(problems.join("; ")))
    }

    /// Whether it is what another cluster publishes.
    #[must_use]
    pub fn is_published(&self) -> bool {
        self.format == FileFormat::Snapshot
    }

    /// Reads `from` and `params` of a dataset.
    pub(super) fn read(dataset: &mut Fields<'_>, problems: &mut Problems) -> Option<Self> {
        let from = read_from(dataset, problems);
        let empty = Value::Mapping(serde_norway::Mapping::new());
        let (path, value) = dataset.get("params").unwrap_or((dataset.path("params"), &empty));
        let mut params = Fields::open(path, value, "`params`", problems)?;
        let format = read_format(&mut params, from.as_ref(), problems);
        let s3 = read_s3(&mut params, from.as_ref(), problems);
        params.finish(NOT_YET, problems);
        let source = Self { from: from?, format: format?, s3 };
        if source.is_published()
            && let Err(problem) = SnapshotLocation::of(&source)
        {
            problems.add(&dataset.path("from"), problem);
        }
        Some(source)
    }
}

fn read_from(dataset: &mut Fields<'_>, problems: &mut Problems) -> Option<Location> {
    if dataset.get("from").is_none() {
        problems.add(&dataset.path("from"), "missing: name the source, file:///absolute/path or s3://bucket/prefix/");
        return None;
    }
    let (path, text) = dataset.text("from", problems)?;
    Location::parse(text).map_err(|message| problems.add(&path, message)).ok()
}

fn read_format(params: &mut Fields<'_>, from: Option<&Location>, problems: &mut Problems) -> Option<FileFormat> {
    let mut csv = CsvOptions::default();
    let csv_keys_before = CSV_KEYS.iter().filter_map(|&key| params.get(key)).map(|(path, _)| path).collect::<Vec<_>>();
    if let Some((_, value)) = params.boolean("csv_has_header", problems) {
        csv.has_header = value;
    }
    if let Some(value) = read_char(params, "csv_delimiter", problems) {
        csv.delimiter = value;
    }
    if let Some(value) = read_char(params, "csv_quote", problems) {
        csv.quote = value;
    }
    csv.escape = read_char(params, "csv_escape", problems);
    csv.comment = read_char(params, "csv_comment", problems);
    if let Some((path, text)) = params.scalar("csv_schema_infer_max_records", problems) {
        match text.parse() {
            Ok(rows) if rows > 0 => csv.schema_infer_max_records = rows,
            _ => problems.add(&path, format!("`{text}` is not possible here: write a whole number of at least 1")),
        }
    }
    if let Some((_, value)) = params.boolean("csv_allow_quoted_nulls", problems) {
        csv.quoted_is_null = value;
    }
    let name = match params.get("file_format") {
        Some(_) => params.one_of("file_format", &["parquet", "csv", "snapshot"], problems)?,
        None => match from?.path() {
            path if path.ends_with(".parquet") => "parquet",
            path if path.ends_with(".csv") || path.ends_with(".csv.gz") => "csv",
            _ => {
                problems.add(&params.path("file_format"), "missing: write `parquet` or `csv`");
                return None;
            }
        },
    };
    if name == "csv" {
        return Some(FileFormat::Csv(csv));
    }
    let (format, is) = match name {
        "snapshot" => (FileFormat::Snapshot, "the source is a snapshot"),
        _ => (FileFormat::Parquet, "the files are Parquet"),
    };
    for path in csv_keys_before {
        problems.add(&path, format!("this is a setting for CSV, but {is}: remove it"));
    }
    Some(format)
}

/// One ASCII character; `\t` may be written as an escape.
fn read_char(params: &mut Fields<'_>, key: &'static str, problems: &mut Problems) -> Option<char> {
    let (path, value) = params.get(key)?;
    let text = value.as_str().unwrap_or_default();
    let text = if text == "\\t" { "\t" } else { text };
    let mut chars = text.chars();
    match (chars.next(), chars.next()) {
        (Some(one), None) if one.is_ascii() && !matches!(one, '\n' | '\r') => Some(one),
        _ => {
            problems.add(&path, "write one ASCII character in quotes");
            None
        }
    }
}

/// How a bucket is reached, by the names that datasets have for it.
///
/// # Errors
/// Every problem found, each with the name of its parameter.
pub fn s3_options(params: &std::collections::BTreeMap<String, String>) -> Result<S3Options, String> {
    let text = |text: &String| Value::String(text.clone());
    let document = Value::Mapping(params.iter().map(|(name, value)| (text(name), text(value))).collect());
    let mut problems = Problems::default();
    let options = Fields::open(KeyPath::root(), &document, "the parameters", &mut problems).and_then(|mut fields| {
        let options = read_s3(&mut fields, None, &mut problems);
        fields.finish(&[], &mut problems);
        options
    });
    let problems: Vec<String> = problems.into_errors().iter().map(ToString::to_string).collect();
    options.filter(|_| problems.is_empty()).ok_or_else(|| problems.join("; "))
}

fn read_s3(params: &mut Fields<'_>, from: Option<&Location>, problems: &mut Problems) -> Option<S3Options> {
    let given: Vec<KeyPath> = S3_KEYS.iter().filter_map(|&key| params.get(key)).map(|(path, _)| path).collect();
    if let Some(Location::File(_)) = from {
        for path in given {
            problems.add(&path, "this is a setting for s3:// sources, but the files are local: remove it");
        }
        return None;
    }
    let region = aliased(params, "s3_region", "region", problems);
    let endpoint = read_endpoint(params, problems);
    let key = read_variable(params, "s3_key", problems);
    let secret = read_secret(params, "s3_secret", problems);
    let session_token = read_secret(params, "s3_session_token", problems);
    check_auth(params, key.is_some(), secret.is_some(), problems);
    let allow_http = params.boolean("allow_http", problems).or(params.boolean("s3_allow_http", problems));
    let plain = endpoint.as_ref().is_some_and(|url| url.starts_with("http://"));
    if let (true, Some((path, false))) = (plain, &allow_http) {
        problems.add(path, "the endpoint is plain HTTP: write true, or an https:// endpoint");
    }
    let client_timeout = params.scalar("client_timeout", problems).and_then(|(path, text)| {
        let valid = is_duration(&text);
        if !valid {
            problems.add(&path, format!("`{text}` is not a time: write for example 30s or 2m"));
        }
        valid.then_some(text)
    });
    let allow_http = plain || allow_http.is_some_and(|(_, value)| value);
    Some(S3Options { region, endpoint, key, secret, session_token, allow_http, client_timeout })
}

/// A setting with two names.
fn aliased(
    params: &mut Fields<'_>,
    name: &'static str,
    alias: &'static str,
    problems: &mut Problems,
) -> Option<String> {
    let first = params.text(name, problems);
    let second = params.text(alias, problems);
    if let (Some((_, a)), Some((path, b))) = (&first, &second)
        && a != b
    {
        problems.add(path, format!("`{b}` contradicts `{name}: {a}`, which is the same setting: keep one of them"));
    }
    first.or(second).map(|(_, text)| text.to_owned())
}

fn read_endpoint(params: &mut Fields<'_>, problems: &mut Problems) -> Option<String> {
    let (path, text) = params.text("s3_endpoint", problems)?;
    let url = url::Url::parse(text).ok().filter(|u| matches!(u.scheme(), "http" | "https") && u.has_host());
    if url.as_ref().is_some_and(|u| !u.username().is_empty() || u.password().is_some()) {
        problems.add(&path, "a URL with a user or a password would be kept in the log: give `s3_key` and `s3_secret`");
        return None;
    }
    let valid = url.is_some();
    if !valid {
        problems.add(&path, format!("`{text}` is not a URL of a server: write for example https://s3.example.com"));
    }
    valid.then(|| text.to_owned())
}

/// A text that may name environment variables.
fn read_variable(params: &mut Fields<'_>, key: &'static str, problems: &mut Problems) -> Option<Secret> {
    let (path, text) = params.text(key, problems)?;
    let secret = Secret::new(text);
    secret.check().map_err(|message| problems.add(&path, message)).ok().map(|()| secret)
}

/// A text that must name its value, since definitions are kept in the schedulers' log.
fn read_secret(params: &mut Fields<'_>, key: &'static str, problems: &mut Problems) -> Option<Secret> {
    let secret = read_variable(params, key, problems)?;
    if !secret.is_reference() {
        problems.add(
            &params.path(key),
            "a secret that is written out would be kept in the log of the schedulers: write ${env:NAME}, and set the \
             variable NAME where schedulers and executors run",
        );
    }
    Some(secret)
}

fn check_auth(params: &mut Fields<'_>, has_key: bool, has_secret: bool, problems: &mut Problems) {
    let auth = params.one_of("s3_auth", &["iam_role", "key", "public"], problems);
    let path = params.path("s3_auth");
    match (auth, has_key, has_secret) {
        (Some("key"), false, _) | (Some("key"), _, false) => {
            problems.add(&path, "`key` needs both `s3_key` and `s3_secret`");
        }
        (Some("public"), ..) => {
            problems.add(&path, "public buckets are not offered by this version: give a key, or `iam_role`");
        }
        (_, true, false) => problems.add(&params.path("s3_secret"), "missing: `s3_key` needs it"),
        (_, false, true) => problems.add(&params.path("s3_key"), "missing: `s3_secret` needs it"),
        (Some("iam_role"), true, true) => {
            problems.add(&path, "`iam_role` takes the credentials of the machine: remove `s3_key` and `s3_secret`");
        }
        _ => {}
    }
}

/// A whole number of `ms`, `s`, `m` or `h`, above zero.
fn is_duration(text: &str) -> bool {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    number.parse::<u32>().is_ok_and(|n| n > 0) && matches!(unit, "ms" | "s" | "m" | "h")
}
