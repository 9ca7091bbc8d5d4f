//! The runs of an open partition, by data file and index.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool};
use parking_lot::Mutex;
use uuid::Uuid;

use super::collector::{RunRecord, StoredRun};
use super::run::{Place, Run};

/// See the module.
#[derive(Debug)]
pub(crate) struct Catalog {
    /// What runs hold in memory is of this.
    pool: Option<Arc<dyn MemoryPool>>,
    runs: Mutex<HashMap<Uuid, Vec<Known>>>,
}

#[derive(Debug)]
struct Known {
    definition: String,
    run: Arc<Run>,
    /// It was not found missing or damaged.
    usable: bool,
}

impl Catalog {
    /// Without any run. What runs hold in memory is told to the pool.
    pub(crate) fn new(pool: Option<Arc<dyn MemoryPool>>) -> Self {
        Self { pool, runs: Mutex::default() }
    }

    /// Runs of a data file with so many rows.
    pub(crate) fn add(&self, dir: &Path, file: Uuid, rows: u64, records: &[RunRecord]) {
        if records.is_empty() {
            return;
        }
        let mut runs = self.runs.lock();
        let known = runs.entry(file).or_default();
        for record in records {
            let place = match &record.stored {
                StoredRun::File { name, bytes } => {
                    Place::File { name: name.clone(), path: dir.join(name), bytes: *bytes }
                }
                StoredRun::Inline(bytes) => Place::Inline(Bytes::from(bytes.clone())),
            };
            known.retain(|known| known.definition != record.definition);
            let memory = self.pool.as_ref().map(|pool| MemoryConsumer::new("cayenne index").register(pool));
            let run = Arc::new(Run::new(place, rows, memory));
            known.push(Known { definition: record.definition.clone(), run, usable: true });
        }
    }

    pub(crate) fn find(&self, file: Uuid, definition: &str) -> Option<Arc<Run>> {
        let runs = self.runs.lock();
        let known = runs.get(&file)?.iter().find(|known| known.usable && known.definition == definition)?;
        Some(Arc::clone(&known.run))
    }

    /// A run is of no use. It stays until another one takes its place, or its data file goes.
    pub(crate) fn give_up(&self, file: Uuid, run: &Arc<Run>) {
        if let Some(known) = self.runs.lock().get_mut(&file) {
            known.iter_mut().filter(|known| Arc::ptr_eq(&known.run, run)).for_each(|known| known.usable = false);
        }
    }

    /// Forgets the runs of data files that go; the files that hold them.
    pub(crate) fn remove<'a>(&self, files: impl IntoIterator<Item = &'a Uuid>) -> Vec<PathBuf> {
        let mut runs = self.runs.lock();
        files.into_iter().filter_map(|file| runs.remove(file)).flatten().filter_map(|known| path(&known.run)).collect()
    }

    /// Runs of indexes that nobody wants: of which data file, of which index.
    pub(crate) fn unwanted(&self, wanted: &HashSet<String>) -> Vec<(Uuid, String)> {
        let runs = self.runs.lock();
        let of = |(file, known): (&Uuid, &Vec<Known>)| {
            let unwanted = known.iter().filter(|known| !wanted.contains(&known.definition));
            unwanted.map(|known| (*file, known.definition.clone())).collect::<Vec<_>>()
        };
        runs.iter().flat_map(of).collect()
    }

    /// Forgets one run; the file that holds it.
    pub(crate) fn strike(&self, file: Uuid, definition: &str) -> Option<PathBuf> {
        let mut runs = self.runs.lock();
        let known = runs.get_mut(&file)?;
        let at = known.iter().position(|known| known.definition == definition)?;
        path(&known.swap_remove(at).run)
    }

    /// All runs, with their data files.
    pub(crate) fn all(&self) -> Vec<(Uuid, Arc<Run>)> {
        let runs = self.runs.lock();
        runs.iter().flat_map(|(file, known)| known.iter().map(|known| (*file, Arc::clone(&known.run)))).collect()
    }

    /// Names of the files that hold runs.
    pub(crate) fn names(&self) -> HashSet<String> {
        let name = |run: &Run| match run.place() {
            Place::File { name, .. } => Some(name.clone()),
            Place::Inline(_) => None,
        };
        self.all().iter().filter_map(|(_, run)| name(run)).collect()
    }

    /// Bytes of runs in memory, and of all runs.
    pub(crate) fn bytes(&self) -> (usize, u64) {
        self.all().iter().fold((0, 0), |(memory, bytes), (_, run)| (memory + run.memory(), bytes + run.place().bytes()))
    }
}

fn path(run: &Run) -> Option<PathBuf> {
    match run.place() {
        Place::File { path, .. } => Some(path.clone()),
        Place::Inline(_) => None,
    }
}
