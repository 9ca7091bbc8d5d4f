//! The commands of the binary, one module each.
pub mod apply;
pub mod bench;
pub mod cluster;
pub mod demo;
pub mod down;
pub mod executor;
pub mod partition;
pub mod scheduler;
mod server;
pub mod snapshot;
pub mod sql;
pub mod up;

use clap::Subcommand;

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a scheduler: joins or forms its group, and serves clients
    Scheduler(scheduler::Args),
    /// Run an executor: holds partitions and serves fragments of queries
    Executor(executor::Args),
    /// See it work: a cluster in this process, TPC-H loaded, 22 queries checked
    Demo(demo::Args),
    /// Start a cluster of processes on this machine, or start it again
    Up(up::Args),
    /// Stop the cluster that `ancho up` started
    Down(down::Args),
    /// Run SQL: interactively, from the command line, a file or a pipe
    Sql(sql::Args),
    /// Bring the datasets of a cluster spec into the cluster
    Apply(apply::Args),
    /// Look at a cluster
    #[command(subcommand)]
    Cluster(cluster::ClusterCommand),
    /// Look after partitions
    #[command(subcommand)]
    Partition(partition::PartitionCommand),
    /// Publish tables into an object store, and see what is there
    #[command(subcommand)]
    Snapshot(snapshot::SnapshotCommand),
    /// Measure a cluster
    #[command(subcommand)]
    Bench(bench::BenchCommand),
}

impl Command {
    /// The log filter where none is given.
    pub(crate) fn default_log(&self) -> &'static str {
        match self {
            Self::Scheduler(_) | Self::Executor(_) => "info,openraft=warn,h2=warn,hyper=warn,tower=warn",
            // Its cluster runs in the same process, and its log lines would run into the progress bars.
            Self::Demo(_) => "error",
            _ => "warn",
        }
    }

    /// Does it.
    ///
    /// # Errors
    /// What went wrong, to be shown to the user.
    pub async fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Scheduler(args) => scheduler::run(args).await,
            Self::Executor(args) => executor::run(args).await,
            Self::Demo(args) => demo::run(args).await,
            Self::Up(args) => up::run(args).await,
            Self::Down(args) => down::run(args).await,
            Self::Sql(args) => sql::run(args).await,
            Self::Apply(args) => apply::run(args).await,
            Self::Cluster(command) => cluster::run(command).await,
            Self::Partition(command) => partition::run(command).await,
            Self::Snapshot(command) => snapshot::run(command).await,
            Self::Bench(command) => bench::run(command).await,
        }
    }
}
