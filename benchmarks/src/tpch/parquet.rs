//! The generated tables as Parquet files, made once per folder and scale.

use super::generate::generate;
use super::schema::Table;
use anyhow::{Context, anyhow, bail, ensure};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;

/// Name of the file that says that all other files are complete.
const MARKER: &str = "complete.json";

/// Grows when the files of the same scale would differ from those of an older build.
const LAYOUT: u32 = 1;

/// What one call of [`write_parquet`] left in its folder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GeneratedData {
    /// The folder that was given.
    #[serde(skip)]
    pub dir: PathBuf,
    layout: u32,
    /// The TPC-H scale factor.
    pub scale: f64,
    /// Files per large table.
    pub parts: u32,
    /// Exact number of rows per table.
    pub rows: BTreeMap<String, u64>,
    /// Number of files per table.
    pub files: BTreeMap<String, u32>,
}

impl GeneratedData {
    /// The folder with a table's files.
    pub fn table_dir(&self, table: Table) -> PathBuf {
        self.dir.join(table.name())
    }

    /// Number of rows of a table.
    pub fn row_count(&self, table: Table) -> u64 {
        self.rows.get(table.name()).copied().unwrap_or_default()
    }
}

/// How far the generation is, over all tables.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// The table whose rows have just been written.
    pub table: Table,
    /// Rows of all tables written so far.
    pub rows_done: u64,
    /// Rows expected in all; `lineitem` is an estimate within a few per cent.
    pub rows_expected: u64,
}

/// Writes `dir/<table>/part-<i>.parquet` (Zstandard) for all tables, in parallel on all cores.
///
/// A folder that a former call completed for the same scale and number of parts is left as it is;
/// anything else that this function wrote there is replaced. `region`, `nation` and `supplier` have
/// one file. `progress` is called from several threads after each batch.
///
/// # Errors
/// When a file cannot be written, or a table's folder holds files that are not ours.
pub fn write_parquet(
    dir: &Path,
    scale: f64,
    parts_per_table: u32,
    progress: &(dyn Fn(Progress) + Sync),
) -> anyhow::Result<GeneratedData> {
    ensure!(parts_per_table > 0, "the number of Parquet files per table must be above zero");
    let dir = std::path::absolute(dir).with_context(|| format!("find the absolute path of {}", dir.display()))?;
    if let Some(data) = read_marker(&dir, scale, parts_per_table)? {
        return Ok(data);
    }
    let jobs = prepare(&dir, parts_per_table)?;
    let totals = Totals::new(scale);
    run_jobs(&jobs, |job| write_file(job, scale, &totals, progress))?;

    let mut files = BTreeMap::new();
    for job in &jobs {
        *files.entry(job.table.name().to_owned()).or_insert(0) += 1;
    }
    let data = GeneratedData {
        dir: dir.clone(),
        layout: LAYOUT,
        scale,
        parts: parts_per_table,
        rows: totals.per_table(),
        files,
    };
    write_marker(&dir, &data)?;
    Ok(data)
}

/// One file to write.
struct Job {
    table: Table,
    part: u32,
    parts: u32,
    path: PathBuf,
}

/// Rows written so far.
struct Totals {
    expected: u64,
    done: AtomicU64,
    per_table: Mutex<BTreeMap<Table, u64>>,
}

impl Totals {
    fn new(scale: f64) -> Self {
        Self {
            expected: Table::ALL.iter().map(|table| table.estimated_rows(scale)).sum(),
            done: AtomicU64::new(0),
            per_table: Mutex::new(BTreeMap::new()),
        }
    }

    fn add(&self, table: Table, rows: u64) -> Progress {
        let mut per_table = self.per_table.lock().unwrap_or_else(|e| e.into_inner());
        *per_table.entry(table).or_insert(0) += rows;
        Progress { table, rows_done: self.done.fetch_add(rows, Ordering::Relaxed) + rows, rows_expected: self.expected }
    }

    fn per_table(&self) -> BTreeMap<String, u64> {
        let per_table = self.per_table.lock().unwrap_or_else(|e| e.into_inner());
        let named = per_table.iter().map(|(table, rows)| (table.name().to_owned(), *rows));
        named.collect()
    }
}

fn read_marker(dir: &Path, scale: f64, parts: u32) -> anyhow::Result<Option<GeneratedData>> {
    let path = dir.join(MARKER);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("read {}", path.display())),
    };
    // A marker of another build may have another shape: then the files are made anew.
    let Ok(mut data) = serde_json::from_str::<GeneratedData>(&text) else {
        return Ok(None);
    };
    if data.layout != LAYOUT || data.scale != scale || data.parts != parts {
        return Ok(None);
    }
    data.dir = dir.to_owned();
    for table in Table::ALL {
        let files = data.files.get(table.name()).copied().unwrap_or(0);
        let complete = files > 0 && (0..files).all(|i| file_path(dir, table, i).is_file());
        if !complete {
            return Ok(None);
        }
    }
    Ok(Some(data))
}

fn write_marker(dir: &Path, data: &GeneratedData) -> anyhow::Result<()> {
    let path = dir.join(MARKER);
    let staged = dir.join(format!("{MARKER}.tmp"));
    fs::write(&staged, serde_json::to_vec_pretty(data)?)
        .and_then(|()| fs::rename(&staged, &path))
        .with_context(|| format!("write {}", path.display()))
}

fn file_path(dir: &Path, table: Table, index: u32) -> PathBuf {
    dir.join(table.name()).join(format!("part-{index}.parquet"))
}

/// Makes the folders, removes what an earlier call left, and lists the files to write, large first.
fn prepare(dir: &Path, parts_per_table: u32) -> anyhow::Result<Vec<Job>> {
    match fs::remove_file(dir.join(MARKER)) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("remove the marker in {}", dir.display()));
        }
        _ => {}
    }
    let mut jobs = Vec::new();
    for table in Table::ALL.into_iter().rev() {
        let folder = dir.join(table.name());
        fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
        clear(&folder)?;
        let parts = match table.bucket_column() {
            Some(_) => parts_per_table,
            None => 1,
        };
        jobs.extend((1..=parts).map(|part| Job { table, part, parts, path: file_path(dir, table, part - 1) }));
    }
    Ok(jobs)
}

/// Readers take every file of the folder for data, so a foreign one must not stay unnoticed.
fn clear(folder: &Path) -> anyhow::Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("list {}", folder.display()))?;
    for entry in entries {
        let path = entry.with_context(|| format!("list {}", folder.display()))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let ours = name.starts_with("part-") && (name.ends_with(".parquet") || name.ends_with(".parquet.tmp"));
        if !ours {
            bail!("{} is not a generated file: give a folder of its own to the benchmark data", path.display());
        }
        fs::remove_file(&path).with_context(|| format!("remove {}", path.display()))?;
    }
    Ok(())
}

/// Runs all jobs on as many threads as there are cores; the first failure stops the others.
fn run_jobs(jobs: &[Job], work: impl Fn(&Job) -> anyhow::Result<()> + Sync) -> anyhow::Result<()> {
    let threads = thread::available_parallelism().map_or(1, |n| n.get()).min(jobs.len());
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let run = || -> anyhow::Result<()> {
        while !failed.load(Ordering::Relaxed) {
            let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) else {
                break;
            };
            work(job)
                .with_context(|| format!("write {}", job.path.display()))
                .inspect_err(|_| failed.store(true, Ordering::Relaxed))?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        let mut outcome = Ok(());
        for handle in handles {
            let result = handle.join().unwrap_or_else(|_| Err(anyhow!("a generator thread panicked")));
            outcome = outcome.and(result);
        }
        outcome
    })
}

fn write_file(job: &Job, scale: f64, totals: &Totals, progress: &(dyn Fn(Progress) + Sync)) -> anyhow::Result<()> {
    let staged = job.path.with_extension("parquet.tmp");
    let properties = WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?)).build();
    let file = File::create(&staged)?;
    let mut writer = ArrowWriter::try_new(file, job.table.schema(), Some(properties))?;
    for batch in generate(job.table, scale, job.part, job.parts)? {
        let batch = batch?;
        writer.write(&batch)?;
        progress(totals.add(job.table, u64::try_from(batch.num_rows())?));
    }
    writer.close()?;
    fs::rename(&staged, &job.path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};

    fn rows_in(path: &Path) -> u64 {
        let file = File::open(path).expect("a written file");
        let reader = SerializedFileReader::new(file).expect("a Parquet file");
        u64::try_from(reader.metadata().file_metadata().num_rows()).expect("not negative")
    }

    #[test]
    fn files_are_written_once_and_repaired_when_they_are_not_whole() {
        let dir = tempfile::tempdir().expect("a folder");
        let calls = AtomicUsize::new(0);
        let count = |_: Progress| {
            calls.fetch_add(1, Ordering::Relaxed);
        };
        let data = write_parquet(dir.path(), 0.001, 2, &count).expect("written");
        assert_eq!(data.row_count(Table::Orders), 1500);
        for table in Table::ALL {
            let files = data.files[table.name()];
            assert_eq!(files, if table.bucket_column().is_some() { 2 } else { 1 });
            let rows: u64 = (0..files).map(|i| rows_in(&file_path(&data.dir, table, i))).sum();
            assert_eq!(rows, data.row_count(table), "{table}");
        }

        let before = calls.load(Ordering::Relaxed);
        let again = write_parquet(dir.path(), 0.001, 2, &count).expect("found");
        assert_eq!((again, calls.load(Ordering::Relaxed)), (data.clone(), before));

        fs::remove_file(file_path(&data.dir, Table::Orders, 1)).expect("removed");
        assert_eq!(write_parquet(dir.path(), 0.001, 2, &count).expect("repaired"), data);
        assert!(calls.load(Ordering::Relaxed) > before);

        let fewer = write_parquet(dir.path(), 0.001, 1, &count).expect("written anew");
        assert!(!file_path(&fewer.dir, Table::Orders, 1).exists());
    }

    #[test]
    fn a_foreign_file_is_refused() {
        let dir = tempfile::tempdir().expect("a folder");
        fs::create_dir(dir.path().join("orders")).expect("created");
        fs::write(dir.path().join("orders/mine.parquet"), b"x").expect("written");
        let error = write_parquet(dir.path(), 0.001, 1, &|_| {}).expect_err("refused");
        assert!(error.to_string().contains("mine.parquet"), "{error}");
        assert!(dir.path().join("orders/mine.parquet").exists());
    }
}
