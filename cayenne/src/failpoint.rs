//! Places where a test can make one partition fail or "crash". The hook is handed in with the
//! options of that partition; nothing is global, so tests run side by side.

use std::fmt::Debug;

/// The steps at which the engine may stop, in the order in which a write meets them: all durable ones, and the work of encoders.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Step {
    /// A new data file is about to be created.
    CreateFile,
    /// The new data file exists and is empty.
    FileCreated,
    /// A column of a data file is about to be encoded, beside the others.
    EncodeColumn,
    /// Some bytes are about to be appended to a data file.
    WriteBytes,
    /// All bytes are written; the file is about to be synced.
    SyncFile,
    /// The file is synced and about to be checked.
    VerifyFile,
    /// All files are checked; their directory is about to be synced.
    SyncDirectory,
    /// The write is about to be recorded in the metastore.
    Seal,
    /// The write is recorded, and nobody has been told.
    Sealed,
    /// A staged write is about to become visible.
    Publish,
    /// It is visible in the metastore, and nobody has been told.
    Published,
    /// A staged write is about to be moved onto a newer version.
    Rebase,
    /// Compaction has picked files and is about to read them.
    CompactionPicked,
    /// The current version is about to get new files in place of old ones.
    Replace,
    /// It has them, and nobody has been told.
    Replaced,
    /// A run of an index is about to get a file, while its data file is written or later.
    CreateRun,
    /// The file of a run is complete; it is about to be synced.
    SyncRun,
    /// Runs of a data file that was without them are about to be recorded.
    RecordRuns,
    /// They are recorded; the files of those that they replace are still there.
    RunsRecorded,
    /// Runs that nobody wants any more are about to be struck from the metastore.
    DropRuns,
    /// A run is struck; its file is about to be removed.
    RemoveRun,
    /// A staged write is about to be forgotten.
    Discard,
    /// It is forgotten; its files are still there.
    DiscardFiles,
    /// Versions and files are about to be struck from the metastore.
    Expire,
    /// They are struck; the files are still there. Hit before each removal.
    RemoveFile,
    /// Start-up is about to remove a file that nothing names.
    RemoveOrphan,
    /// A metastore of an older format is about to be converted.
    Convert,
    /// All files of a copy are there; their directory is about to be synced.
    InstallFiles,
    /// The metastore of a copy is about to be moved into place.
    Install,
    /// The copy is a partition, and nobody has been told.
    Installed,
}

impl Step {
    /// Every step.
    pub const ALL: [Step; 30] = [
        Step::CreateFile,
        Step::FileCreated,
        Step::EncodeColumn,
        Step::WriteBytes,
        Step::SyncFile,
        Step::VerifyFile,
        Step::SyncDirectory,
        Step::Seal,
        Step::Sealed,
        Step::Publish,
        Step::Published,
        Step::Rebase,
        Step::CompactionPicked,
        Step::Replace,
        Step::Replaced,
        Step::CreateRun,
        Step::SyncRun,
        Step::RecordRuns,
        Step::RunsRecorded,
        Step::DropRuns,
        Step::RemoveRun,
        Step::Discard,
        Step::DiscardFiles,
        Step::Expire,
        Step::RemoveFile,
        Step::RemoveOrphan,
        Step::Convert,
        Step::InstallFiles,
        Step::Install,
        Step::Installed,
    ];

    /// Whether it is met only where there are secondary indexes.
    pub fn is_of_indexes(self) -> bool {
        matches!(
            self,
            Step::CreateRun | Step::SyncRun | Step::RecordRuns | Step::RunsRecorded | Step::DropRuns | Step::RemoveRun
        )
    }

    /// Whether it is met only while a partition is made as a copy of another one.
    pub fn is_of_copies(self) -> bool {
        matches!(self, Step::InstallFiles | Step::Install | Step::Installed)
    }

    /// Whether a write goes on if this fails: it has no index then, until one is made.
    pub fn is_dispensable(self) -> bool {
        matches!(self, Step::CreateRun | Step::SyncRun)
    }
}

/// What happens at a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing special.
    Continue,
    /// The step fails as if the disk had refused it; the engine cleans up behind itself.
    Fail,
    /// The process "dies" here: the handle refuses all further work and cleans nothing up.
    Crash,
}

/// Decides what happens at each step.
pub trait Failpoints: Debug + Send + Sync {
    /// Called on the thread that is about to do `step`.
    fn at(&self, step: Step) -> Outcome;
}
