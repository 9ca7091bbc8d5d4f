//! The files of a dataset's source: found by folder, name or pattern, and read as one table.
use std::{panic::AssertUnwindSafe, sync::Arc};

use ancho_common::{
    error::{Error, Result, panic_text},
    plan::csv::compression,
    spec::source::{FileFormat as SourceFormat, Location, SourceSpec},
};
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::{
    catalog::TableProvider,
    datasource::{
        file_format::{FileFormat, csv::CsvFormat, parquet::ParquetFormat},
        listing::{ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl},
        physical_plan::parquet::metadata::DFParquetMetadata,
    },
    error::DataFusionError,
    execution::SessionState,
};
use futures::{
    FutureExt, StreamExt, TryStreamExt,
    future::{join_all, try_join_all},
    stream,
};
use glob::{MatchOptions, Pattern};
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt, path::Path};
use url::Url;

use super::{csv_format::WholeCsvFormat, ddl::with_small_lists};

/// A star or a question mark stands for characters of one name; only `**` goes through folders.
const MATCHING: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: false };

/// Folders listed at the same time.
const AT_ONCE: usize = 16;

/// The files of a source as a table whose columns are those of all files together. The library's own listing is not
/// used: it remembers old listings, and its patterns match single names only.
///
/// # Errors
/// `NotFound` if there is no such file, naming the source: a typing error must not load as an empty table. Otherwise
/// what keeps the files from being read.
pub async fn table(session: &SessionState, source: &SourceSpec) -> Result<Arc<dyn TableProvider>> {
    table_as(session, source, Ok).await
}

/// As [`table`], with the columns that `declared` makes of those that were found.
///
/// # Errors
/// As [`table`], and those of `declared`.
pub async fn table_as(
    session: &SessionState,
    source: &SourceSpec,
    declared: impl FnOnce(SchemaRef) -> Result<SchemaRef>,
) -> Result<Arc<dyn TableProvider>> {
    let base = base_url(&source.from)?;
    let store = session.runtime_env().object_store(ListingTableUrl::try_new(base.clone(), None)?.object_store())?;
    let (format, endings) = file_format(&source.format)?;
    let mut files = list(store.as_ref(), &source.from, endings).await?;
    files.sort_by(|a, b| a.location.cmp(&b.location));
    let paths = files.iter().map(|file| file_url(&base, &file.location)).collect::<Result<Vec<_>>>()?;
    // A CSV file without a byte holds no rows and no columns; every Parquet file has its columns.
    let filled: Vec<ObjectMeta> = match &source.format {
        SourceFormat::Parquet => files,
        SourceFormat::Csv(_) | SourceFormat::Snapshot => files.into_iter().filter(|file| file.size > 0).collect(),
    };
    if filled.is_empty() {
        return Err(Error::invalid(format!("{} holds empty files only, which do not tell the columns", source.from)));
    }
    if source.format == SourceFormat::Parquet {
        each_name_once(session, &store, &filled).await?;
    }
    let schema = match columns(session, &store, format.as_ref(), &filled).await {
        Ok(schema) => schema,
        Err(error) => return Err(odd_one(session, &store, format.as_ref(), &filled, &source.from, error).await),
    };
    let schema = match &source.format {
        SourceFormat::Parquet => never_null(session, &store, format.as_ref(), &filled, schema).await?,
        SourceFormat::Csv(_) | SourceFormat::Snapshot => schema,
    };
    let fields = schema.fields().iter().map(|f| f.as_ref().clone().with_data_type(with_small_lists(f.data_type())));
    let schema = Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone()));
    let schema = declared(schema)?;
    let options = ListingOptions::new(format).with_file_extension("");
    let config = ListingTableConfig::new_with_multi_paths(paths).with_listing_options(options).with_schema(schema);
    Ok(Arc::new(ListingTable::try_new(config)?))
}

/// The columns of all files together. A damaged file may have the library panic; that is the file's error like any other.
async fn columns(
    session: &SessionState,
    store: &Arc<dyn ObjectStore>,
    format: &dyn FileFormat,
    files: &[ObjectMeta],
) -> Result<SchemaRef, DataFusionError> {
    let found = AssertUnwindSafe(format.infer_schema(session, store, files)).catch_unwind();
    found
        .await
        .unwrap_or_else(|panic| Err(Error::invalid(format!("it cannot be read: {}", panic_text(&*panic))).into()))
}

/// Of two columns of one name the engine would read the first one. What cannot be read at all is for others to say.
async fn each_name_once(session: &SessionState, store: &Arc<dyn ObjectStore>, files: &[ObjectMeta]) -> Result<()> {
    let cache = session.runtime_env().cache_manager.get_file_metadata_cache();
    for files in files.chunks(AT_ONCE) {
        let mut each = Vec::with_capacity(files.len());
        for file in files {
            let reading =
                DFParquetMetadata::new(store.as_ref(), file).with_file_metadata_cache(Some(Arc::clone(&cache)));
            // A damaged file may have the library panic.
            each.push(AssertUnwindSafe(async move { reading.fetch_metadata().await }).catch_unwind());
        }
        for (file, metadata) in files.iter().zip(join_all(each).await) {
            let Ok(Ok(metadata)) = metadata else { continue };
            let mut names: Vec<&str> =
                metadata.file_metadata().schema().get_fields().iter().map(|f| f.name()).collect();
            names.sort_unstable();
            if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
                return Err(Error::invalid(format!(
                    "file /{} has two columns named `{}`; give each column a name of its own",
                    file.location, twice[0]
                )));
            }
        }
    }
    Ok(())
}

/// The files' common columns, of which one takes no NULL only if every file has it and says so: where a file lacks a
/// column its rows have NULL there.
async fn never_null(
    session: &SessionState,
    store: &Arc<dyn ObjectStore>,
    format: &dyn FileFormat,
    files: &[ObjectMeta],
    common: SchemaRef,
) -> Result<SchemaRef> {
    let mut required: Vec<bool> = common.fields().iter().map(|field| !field.is_nullable()).collect();
    if required.contains(&true) && files.len() > 1 {
        for files in files.chunks(AT_ONCE) {
            let mut each = Vec::with_capacity(files.len());
            for file in files {
                each.push(columns(session, store, format, std::slice::from_ref(file)));
            }
            for schema in try_join_all(each).await? {
                for (required, field) in required.iter_mut().zip(common.fields()) {
                    *required &= schema.field_with_name(field.name()).is_ok_and(|field| !field.is_nullable());
                }
            }
        }
    }
    let fields = common.fields().iter().zip(required).map(|(f, required)| f.as_ref().clone().with_nullable(!required));
    Ok(Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), common.metadata().clone())))
}

/// Names the first file whose columns cannot be told; if there is none, the files do not go together.
async fn odd_one(
    session: &SessionState,
    store: &Arc<dyn ObjectStore>,
    format: &dyn FileFormat,
    files: &[ObjectMeta],
    from: &Location,
    together: DataFusionError,
) -> Error {
    for file in files {
        if let Err(error) = columns(session, store, format, std::slice::from_ref(file)).await {
            let kind = format.get_ext().trim_start_matches('.').to_uppercase();
            // Without its root, as the stores keep it.
            let file = format!("/{}", file.location);
            return Error::from(error).context(&format!("file {file} of {from} is no readable {kind}"));
        }
    }
    Error::from(together).context(&format!("the files of {from} do not go together"))
}

fn base_url(from: &Location) -> Result<Url> {
    let text = match from {
        Location::File(_) => "file:///".to_owned(),
        Location::S3 { bucket, .. } => format!("s3://{bucket}/"),
    };
    Url::parse(&text).map_err(|e| Error::invalid(format!("{from}: {e}")))
}

fn file_url(base: &Url, location: &Path) -> Result<ListingTableUrl> {
    let mut url = base.clone();
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.clear().extend(location.as_ref().split('/'));
    }
    Ok(ListingTableUrl::try_new(url, None)?)
}

fn file_format(format: &SourceFormat) -> Result<(Arc<dyn FileFormat>, Endings)> {
    let byte = |c: char| u8::try_from(c).unwrap_or(b',');
    Ok(match format {
        SourceFormat::Snapshot => return Err(Error::internal("a snapshot was to be read as files")),
        SourceFormat::Parquet => (Arc::new(ParquetFormat::default().with_enable_pruning(true)), Endings::PARQUET),
        SourceFormat::Csv(csv) => {
            let format = CsvFormat::default()
                .with_has_header(csv.has_header)
                .with_delimiter(byte(csv.delimiter))
                .with_quote(byte(csv.quote))
                .with_escape(csv.escape.map(byte))
                .with_comment(csv.comment.map(byte))
                .with_schema_infer_max_rec(csv.schema_infer_max_records);
            let format = WholeCsvFormat {
                inner: format,
                quoted_is_null: csv.quoted_is_null,
                rows_to_infer: csv.schema_infer_max_records,
            };
            (Arc::new(format), Endings::CSV)
        }
    })
}

/// Names of the files that a folder or a pattern means.
#[derive(Debug, Clone, Copy)]
struct Endings {
    /// What a name may end in; the first one is the usual one.
    read: &'static [&'static str],
}

impl Endings {
    const PARQUET: Self = Self { read: &[".parquet"] };
    const CSV: Self = Self { read: &[".csv", ".csv.gz"] };

    fn usual(self) -> &'static str {
        self.read[0]
    }

    fn has(self, file: &ObjectMeta) -> bool {
        self.read.iter().any(|ending| file.location.as_ref().ends_with(ending))
    }

    /// Rows in a compression that is not read would be missing without a word.
    fn refuse_others(self, files: &[ObjectMeta], from: &Location) -> Result<()> {
        let is_other = |file: &&ObjectMeta| {
            let name = file.location.as_ref();
            let inner = compression::OTHERS.iter().chain([&compression::GZIP]).find_map(|end| name.strip_suffix(end));
            inner.is_some_and(|inner| inner.ends_with(self.usual())) && !self.has(file)
        };
        let Some(other) = files.iter().find(is_other) else { return Ok(()) };
        let readable = if self.read.contains(&".csv.gz") { ", or compress it as `.csv.gz`" } else { "" };
        Err(Error::invalid(format!(
            "{from} holds /{}, whose compression cannot be read; unpack it{readable}, or leave it out by a pattern such as `*{}`",
            other.location,
            self.usual()
        )))
    }
}

/// The files that a location names; at least one.
async fn list(store: &dyn ObjectStore, from: &Location, endings: Endings) -> Result<Vec<ObjectMeta>> {
    let (Location::File(path) | Location::S3 { key: path, .. }) = from;
    let path = path.trim_start_matches('/');
    let failed = |e: object_store::Error| unreadable(from, &e);
    let usual = endings.usual();
    let (files, missing) = if is_pattern(path) {
        let found = expand(store, path).await.map_err(|e| match e {
            Expansion::Pattern(e) => Error::invalid(format!("{from} is not a pattern of paths: {e}")),
            Expansion::Store(e) => failed(e),
        })?;
        endings.refuse_others(&found, from)?;
        // A pattern that ends in a wildcard takes what is in the folder, but not files of other kinds.
        let found = found.into_iter().filter(|f| endings.has(f)).collect();
        (found, format!("no file ending in `{usual}` matches {from}; check the pattern"))
    } else if path.is_empty() || path.ends_with('/') {
        let folder = parse(path).map_err(failed)?;
        let listed: Vec<ObjectMeta> = store.list(Some(&folder)).try_collect().await.map_err(failed)?;
        let shown: Vec<(ObjectMeta, bool)> =
            listed.into_iter().filter_map(|f| place_in(&folder, &f.location).map(|direct| (f, direct))).collect();
        // To read them or to pass them over would both be a guess.
        if let Some((deep, _)) = shown.iter().find(|(file, direct)| !direct && endings.has(file)) {
            return Err(Error::invalid(format!(
                "{from} holds files in folders of their own, such as /{}; write `{path}**` to read those as well, or `{path}*{usual}` \
                 for the files of the folder itself",
                deep.location,
                path = from,
            )));
        }
        let found: Vec<ObjectMeta> = shown.into_iter().filter(|(_, direct)| *direct).map(|(file, _)| file).collect();
        endings.refuse_others(&found, from)?;
        let found = found.into_iter().filter(|f| endings.has(f)).collect();
        (found, format!("{from} holds no file ending in `{usual}`; check the path"))
    } else {
        // A single named file counts whatever its ending is.
        let missing = format!("{from} is no file; check the path, and end a folder with `/`");
        match store.head(&parse(path).map_err(failed)?).await {
            Ok(file) => {
                endings.refuse_others(std::slice::from_ref(&file), from)?;
                (vec![file], missing)
            }
            Err(object_store::Error::NotFound { .. }) => (Vec::new(), missing),
            Err(error) => return Err(failed(error)),
        }
    };
    if files.is_empty() { Err(Error::not_found(missing)) } else { Ok(files) }
}

/// A store that does not answer may answer later; one that refuses will refuse again.
fn unreadable(from: &Location, error: &object_store::Error) -> Error {
    use object_store::Error as Cause;
    let text = format!("{from} cannot be listed: {error}");
    match error {
        Cause::PermissionDenied { .. } | Cause::Unauthenticated { .. } | Cause::InvalidPath { .. } => {
            Error::invalid(text)
        }
        Cause::NotFound { .. } => Error::not_found(text),
        // The library keeps some refusals as text only.
        _ => match refusal(&error.to_string()) {
            Some(refusal) => Error::invalid(format!("{from} cannot be listed: the store answers {refusal}")),
            None => Error::unavailable(text),
        },
    }
}

/// The answer of a store in an error's text that means that the request is wrong: its status, with what S3 says in XML.
fn refusal(error: &str) -> Option<String> {
    let (_, answer) = error.split_once("status code: ")?;
    let status: u16 = answer.get(..3)?.parse().ok()?;
    // 408 and 429 ask for patience.
    if !(400..500).contains(&status) || [408, 429].contains(&status) {
        return None;
    }
    let tag = |name: &str| {
        let (_, rest) = answer.split_once(&format!("<{name}>"))?;
        rest.split_once(&format!("</{name}>")).map(|(text, _)| text.trim())
    };
    Some(match (tag("Code"), tag("Message")) {
        (Some(code), Some(message)) => format!("{status} {code}: {message}"),
        (Some(code), None) => format!("{status} {code}"),
        (None, _) => answer.lines().next().unwrap_or_default().trim_end_matches([' ', ':']).to_owned(),
    })
}

fn parse(path: &str) -> object_store::Result<Path> {
    Ok(Path::parse(path.trim_end_matches('/'))?)
}

fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// What writers leave beside their files, by the convention of Hive and Spark: `.part.csv.crc`, `_temporary/`, `_SUCCESS`. A
/// folder or pattern does not name it, unless the pattern begins with that character, too.
fn is_hidden(name: &str) -> bool {
    name.starts_with('.') || (name.starts_with('_') && !name.contains('='))
}

/// Whether a file counts to the folder itself, which also those in folders named like `year=2024` do; `None` of what
/// writers leave beside their files.
fn place_in(folder: &Path, file: &Path) -> Option<bool> {
    let parts: Vec<_> = file.prefix_match(folder)?.collect();
    let (name, folders) = parts.split_last()?;
    let hidden = is_hidden(name.as_ref()) || folders.iter().any(|part| is_hidden(part.as_ref()));
    (!hidden).then(|| folders.iter().all(|part| part.as_ref().contains('=')))
}

enum Expansion {
    Pattern(glob::PatternError),
    Store(object_store::Error),
}

impl From<glob::PatternError> for Expansion {
    fn from(error: glob::PatternError) -> Self {
        Self::Pattern(error)
    }
}

impl From<object_store::Error> for Expansion {
    fn from(error: object_store::Error) -> Self {
        Self::Store(error)
    }
}

/// The files that match a pattern, found folder by folder: only folders that can hold matches are listed.
async fn expand(store: &dyn ObjectStore, pattern: &str) -> Result<Vec<ObjectMeta>, Expansion> {
    // The library reports errors of the whole pattern with a position in it.
    Pattern::new(pattern)?;
    let parts: Vec<&str> = pattern.split('/').filter(|part| !part.is_empty()).collect();
    let Some((last, folders)) = parts.split_last() else { return Ok(Vec::new()) };
    let mut found = vec![Path::default()];
    for (depth, part) in folders.iter().enumerate() {
        if *part == "**" {
            let rest = Pattern::new(&parts[depth..].join("/"))?;
            return below(store, found, &rest).await;
        }
        if !is_pattern(part) {
            found = found.into_iter().map(|folder| folder.join(*part)).collect();
            continue;
        }
        let part = Pattern::new(part)?;
        let listed = list_each(store, found).await?;
        let subfolders = listed.into_iter().flat_map(|listing| listing.common_prefixes);
        found = subfolders.filter(|f| matches(&part, f.filename())).collect();
    }
    if *last == "**" {
        return below(store, found, &Pattern::new("**")?).await;
    }
    let last = Pattern::new(last)?;
    let listed = list_each(store, found).await?;
    let files = listed.into_iter().flat_map(|listing| listing.objects);
    Ok(files.filter(|file| matches(&last, file.location.filename())).collect())
}

fn matches(pattern: &Pattern, name: Option<&str>) -> bool {
    name.is_some_and(|name| {
        let last = pattern.as_str().rsplit('/').next().unwrap_or_default();
        let (folders, file) = name.rsplit_once('/').map_or(("", name), |(folders, file)| (folders, file));
        let shown = !is_hidden(file) || last.starts_with(['.', '_']);
        shown && !folders.split('/').any(is_hidden) && pattern.matches_with(name, MATCHING)
    })
}

async fn list_each(store: &dyn ObjectStore, folders: Vec<Path>) -> object_store::Result<Vec<object_store::ListResult>> {
    let listings = stream::iter(folders).map(|folder| async move { store.list_with_delimiter(Some(&folder)).await });
    listings.buffered(AT_ONCE).try_collect().await
}

/// The files anywhere below the folders whose path from there matches.
async fn below(store: &dyn ObjectStore, folders: Vec<Path>, rest: &Pattern) -> Result<Vec<ObjectMeta>, Expansion> {
    let mut found = Vec::new();
    for folder in folders {
        let listed: Vec<ObjectMeta> = store.list(Some(&folder)).try_collect().await?;
        found.extend(listed.into_iter().filter(|file| {
            let path = file.location.prefix_match(&folder);
            let path = path.map(|parts| parts.map(|p| p.as_ref().to_owned()).collect::<Vec<_>>().join("/"));
            matches(rest, path.as_deref())
        }));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use ancho_common::error::ErrorKind;
    use arrow::datatypes::{DataType, Field};
    use datafusion::{parquet::arrow::ArrowWriter, prelude::SessionContext};
    use object_store::{PutPayload, memory::InMemory};

    use super::*;

    const FILES: [&str; 17] = [
        "pq/_temporary/t.parquet",
        "pq/.hidden.parquet",
        "ps/_x_3.parquet",
        "ps/_year=2026/h.parquet",
        "ps/.year=2024/i.parquet",
        "top.parquet",
        "pq/a.parquet",
        "pq/b.parquet",
        "pq/c.csv",
        "pq/deep/d.parquet",
        "pr/e.parquet",
        "ps/x_1.parquet",
        "ps/x_12.parquet",
        "ps/year=2024/f.parquet",
        "ps/year=2025/g.parquet",
        "odd %[1]/h i%20.parquet",
        "ps.parquet/j.parquet",
    ];

    async fn listed(from: &str) -> Result<Vec<String>> {
        let store = InMemory::new();
        for file in FILES {
            store.put(&Path::parse(file).unwrap(), PutPayload::from_static(b"x")).await.unwrap();
        }
        let from = Location::parse(&format!("s3://lake/{from}")).unwrap();
        let mut files: Vec<String> =
            list(&store, &from, Endings::PARQUET).await?.into_iter().map(|f| f.location.to_string()).collect();
        files.sort();
        Ok(files)
    }

    #[tokio::test]
    async fn folders_names_and_patterns_name_their_files_and_no_others() {
        for (from, expected) in [
            (
                "ps/",
                &[
                    "ps/_year=2026/h.parquet",
                    "ps/x_1.parquet",
                    "ps/x_12.parquet",
                    "ps/year=2024/f.parquet",
                    "ps/year=2025/g.parquet",
                ][..],
            ),
            ("pq/.hidden.parquet", &["pq/.hidden.parquet"]),
            ("pq/.h*", &["pq/.hidden.parquet"]),
            ("p?/_x*.parquet", &["ps/_x_3.parquet"]),
            ("pq/_temporary/", &["pq/_temporary/t.parquet"]),
            ("pq/_temp*/*", &["pq/_temporary/t.parquet"]),
            ("pq/*/*.parquet", &["pq/deep/d.parquet"]),
            ("pq/c.csv", &["pq/c.csv"]),
            ("p[q]/*.parquet", &["pq/a.parquet", "pq/b.parquet"]),
            ("p[q]/*", &["pq/a.parquet", "pq/b.parquet"]),
            ("p[!q]/e.parquet", &["pr/e.parquet"]),
            ("*/x_?.parquet", &["ps/x_1.parquet"]),
            ("*.parquet", &["top.parquet"]),
            ("ps/year=*/*.parquet", &["ps/year=2024/f.parquet", "ps/year=2025/g.parquet"]),
            ("*/d*/?.parquet", &["pq/deep/d.parquet"]),
            ("pq/**", &["pq/a.parquet", "pq/b.parquet", "pq/deep/d.parquet"]),
            (
                "p?/**/?.parquet",
                &[
                    "pq/a.parquet",
                    "pq/b.parquet",
                    "pq/deep/d.parquet",
                    "pr/e.parquet",
                    "ps/_year=2026/h.parquet",
                    "ps/year=2024/f.parquet",
                    "ps/year=2025/g.parquet",
                ],
            ),
            ("odd %[[]1]/*", &["odd %[1]/h i%20.parquet"]),
        ] {
            assert_eq!(listed(from).await.unwrap(), expected, "{from}");
        }
    }

    #[tokio::test]
    async fn a_column_is_free_of_nulls_only_if_every_file_has_it_and_says_so() {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let session = SessionContext::new().state();
        let format = ParquetFormat::default();
        let file = |name: &'static str, columns: Vec<(&'static str, bool)>| {
            let fields: Vec<Field> = columns.iter().map(|(n, null)| Field::new(*n, DataType::Int64, *null)).collect();
            let mut bytes = Vec::new();
            ArrowWriter::try_new(&mut bytes, Arc::new(Schema::new(fields)), None).unwrap().close().unwrap();
            let store = Arc::clone(&store);
            async move {
                store.put(&Path::from(name), bytes.into()).await.unwrap();
                store.head(&Path::from(name)).await.unwrap()
            }
        };
        let first = file("a.parquet", vec![("always", false), ("sometimes", false), ("added", false)]).await;
        let second = file("b.parquet", vec![("always", false), ("sometimes", true)]).await;
        for (files, expected) in [
            (vec![first.clone()], [("always", false), ("sometimes", false), ("added", false)]),
            (vec![first.clone(), second.clone()], [("always", false), ("sometimes", true), ("added", true)]),
            (vec![second, first], [("always", false), ("sometimes", true), ("added", true)]),
        ] {
            let common = format.infer_schema(&session, &store, &files).await.unwrap();
            let schema = never_null(&session, &store, &format, &files, common).await.unwrap();
            let found: Vec<_> = schema.fields().iter().map(|f| (f.name().as_str(), f.is_nullable())).collect();
            assert_eq!(found, expected);
        }
    }

    #[tokio::test]
    async fn files_are_not_passed_over_in_silence() {
        let store = InMemory::new();
        for file in [
            "a/x.csv",
            "a/sub/y.csv",
            "a/note.txt",
            "b/x.csv",
            "b/y.csv.gz",
            "c/x.csv",
            "c/y.csv.zst",
            "d/x.parquet",
            "d/y.parquet.gz",
        ] {
            store.put(&Path::parse(file).unwrap(), PutPayload::from_static(b"x")).await.unwrap();
        }
        for (from, endings, expected) in [
            ("a/", Endings::CSV, Err("s3://lake/a/**")),
            ("a/**", Endings::CSV, Ok(2)),
            ("a/*.csv", Endings::CSV, Ok(1)),
            ("b/", Endings::CSV, Ok(2)),
            ("b/*", Endings::CSV, Ok(2)),
            ("b/y.csv.gz", Endings::CSV, Ok(1)),
            ("c/", Endings::CSV, Err("/c/y.csv.zst")),
            ("c/*", Endings::CSV, Err("/c/y.csv.zst")),
            ("c/y.csv.zst", Endings::CSV, Err("/c/y.csv.zst")),
            ("c/*.csv", Endings::CSV, Ok(1)),
            ("d/", Endings::PARQUET, Err("/d/y.parquet.gz")),
            ("d/*.parquet", Endings::PARQUET, Ok(1)),
        ] {
            let location = Location::parse(&format!("s3://lake/{from}")).unwrap();
            match (list(&store, &location, endings).await, expected) {
                (Ok(files), Ok(count)) => assert_eq!(files.len(), count, "{from}"),
                (Err(error), Err(part)) => {
                    assert_eq!(error.kind, ErrorKind::Invalid, "{from}");
                    assert!(error.message.contains(part), "{from}: {error}");
                }
                (found, expected) => panic!("{from}: {found:?}, not {expected:?}"),
            }
        }
    }

    #[test]
    fn refusals_of_a_store_are_told_from_its_troubles() {
        let body =
            "<?xml version=\"1.0\"?>\n<Error><Code>NoSuchBucket</Code><Message>It does not exist</Message></Error>";
        for (text, expected) in [
            (
                format!(
                    "Generic S3 error: Error performing list request: Server returned non-2xx status code: 404 Not Found: {body}"
                ),
                Some("404 NoSuchBucket: It does not exist"),
            ),
            ("Server returned non-2xx status code: 403 Forbidden: ".to_owned(), Some("403 Forbidden")),
            ("Server returned non-2xx status code: 429 Too Many Requests: <Code>SlowDown</Code>".to_owned(), None),
            ("Server returned non-2xx status code: 503 Service Unavailable: ".to_owned(), None),
            ("connection refused".to_owned(), None),
        ] {
            assert_eq!(refusal(&text).as_deref(), expected, "{text}");
        }
    }

    #[tokio::test]
    async fn two_columns_of_one_name_are_refused() {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let session = SessionContext::new().state();
        let mut files = Vec::new();
        for (name, columns) in [("a.parquet", ["x", "y"]), ("b.parquet", ["x", "x"])] {
            let fields: Vec<Field> = columns.iter().map(|c| Field::new(*c, DataType::Int64, true)).collect();
            let mut bytes = Vec::new();
            ArrowWriter::try_new(&mut bytes, Arc::new(Schema::new(fields)), None).unwrap().close().unwrap();
            store.put(&Path::from(name), bytes.into()).await.unwrap();
            files.push(store.head(&Path::from(name)).await.unwrap());
        }
        each_name_once(&session, &store, &files[..1]).await.unwrap();
        let error = each_name_once(&session, &store, &files).await.unwrap_err();
        assert!(error.message.contains("/b.parquet") && error.message.contains("`x`"), "{error}");
    }

    #[tokio::test]
    async fn what_names_no_file_is_an_error_with_its_name() {
        for from in ["nothing/", "pq/z*.parquet", "*/*/*/*.parquet", "pq", "pq/deep/*.csv", "p[x]/**"] {
            let error = listed(from).await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::NotFound, "{from}");
            assert!(error.message.contains(&format!("s3://lake/{from}")), "{error}");
        }
        let error = listed("p[q/*.parquet").await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
    }

    #[test]
    fn a_file_keeps_its_name_on_the_way_through_a_url() {
        let base = Url::parse("file:///").unwrap();
        for file in FILES {
            let path = Path::parse(file).unwrap();
            assert_eq!(file_url(&base, &path).unwrap().prefix(), &path);
        }
    }
}
