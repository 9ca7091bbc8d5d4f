//! Starts the processes of a cluster that do not run.
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, bail, ensure};

use super::{
    DirectoryLock, StartFailure,
    file::{ClusterFile, ExecutorEntry, ProcessMark, SchedulerEntry},
    ports::{self, Ports},
    process, ready, stop,
};
use crate::output::counted;

/// What cluster to have.
#[derive(Debug, Clone)]
pub struct UpOptions {
    /// Holds everything; made if it is missing.
    pub data_dir: PathBuf,
    /// 1, 3 or 5.
    pub schedulers: usize,
    /// At least 1.
    pub executors: usize,
    /// First port to use; by default free ones are taken. Only for a cluster that is new.
    pub base_port: Option<u16>,
    /// Streams per task of each executor; its default if `None`.
    pub streams: Option<u32>,
    /// Longest time until everything is ready.
    pub timeout: Duration,
    /// The binary; this process's own if `None`.
    pub program: Option<PathBuf>,
}

/// A cluster that is up.
#[derive(Debug)]
pub struct Started {
    /// Where everything is.
    pub cluster: ClusterFile,
    /// Names of the processes that were started; empty if all ran already.
    pub started: Vec<String>,
}

/// A process that was just started.
pub(super) struct Spawned {
    pub(super) name: String,
    pub(super) process: ProcessMark,
    pub(super) log: PathBuf,
    /// Length of the log before.
    pub(super) log_from: u64,
    pub(super) ready_file: PathBuf,
}

/// Starts what does not run and waits until the cluster serves. On failure, what was started is stopped again.
///
/// # Errors
/// A [`StartFailure`] with the end of a log when a process does not come up; other errors when the options contradict
/// the directory, or files cannot be written.
pub async fn up(options: &UpOptions, tell: &(dyn Fn(&str) + Sync)) -> anyhow::Result<Started> {
    ensure!(matches!(options.schedulers, 1 | 3 | 5), "a group has 1, 3 or 5 schedulers, not {}", options.schedulers);
    ensure!(options.executors > 0, "a cluster needs at least one executor");
    let dir = &options.data_dir;
    fs::create_dir_all(dir).with_context(|| format!("create {}", dir.display()))?;
    let dir = &fs::canonicalize(dir).with_context(|| format!("find {}", dir.display()))?;
    let _lock = DirectoryLock::take(dir)?;
    let mut cluster = plan(dir, options)?;
    let program = match &options.program {
        Some(program) => program.clone(),
        None => std::env::current_exe().context("find the program file of this process")?,
    };
    let mut spawned = Vec::new();
    let outcome = match spawn_missing(dir, &program, options, &mut cluster, &mut spawned) {
        Ok(()) => {
            if !spawned.is_empty() {
                let number = spawned.len();
                tell(&format!("started {number} process{}", if number == 1 { "" } else { "es" }));
            }
            ready::wait(&cluster, &spawned, options.timeout, tell).await
        }
        Err(error) => Err(error),
    };
    if let Err(error) = outcome {
        let names: Vec<&str> = spawned.iter().map(|s| s.name.as_str()).collect();
        stop::stop(&mut cluster, Some(&names), false).await;
        cluster.write(dir)?;
        return Err(error);
    }
    Ok(Started { cluster, started: spawned.into_iter().map(|s| s.name).collect() })
}

/// The cluster of the directory, with the executors that the options add; or a new one.
fn plan(dir: &Path, options: &UpOptions) -> anyhow::Result<ClusterFile> {
    let mut cluster = match ClusterFile::read(dir)? {
        None => return plan_new(options),
        Some(cluster) => cluster,
    };
    ensure!(
        cluster.schedulers.len() == options.schedulers,
        "the cluster in {} has {}, not {}: the members of a group are fixed when it forms; give --schedulers {} or \
         another directory",
        dir.display(),
        counted(cluster.schedulers.len() as u64, "scheduler"),
        options.schedulers,
        cluster.schedulers.len(),
    );
    ensure!(
        cluster.executors.len() <= options.executors,
        "the cluster in {} has {}: with fewer, partitions would have no owner; give --executors {} or more",
        dir.display(),
        counted(cluster.executors.len() as u64, "executor"),
        cluster.executors.len(),
    );
    if let (Some(base), Some(first)) = (options.base_port, cluster.schedulers.first()) {
        ensure!(
            first.flight.port() == base,
            "the cluster in {} has its ports already, from {}: leave out --base-port, or use another directory",
            dir.display(),
            first.flight.port(),
        );
    }
    let taken = cluster.schedulers.iter().flat_map(|s| [s.flight, s.internal, s.http, s.metrics]);
    let taken: Vec<u16> = taken.chain(cluster.executors.iter().map(|e| e.address)).map(|a| a.port()).collect();
    let above = options.base_port.and(taken.iter().max().and_then(|port| port.checked_add(1)));
    let mut ports = Ports::new(above, taken);
    for number in cluster.executors.len() + 1..=options.executors {
        cluster.executors.push(executor(number, &mut ports)?);
    }
    Ok(cluster)
}

fn plan_new(options: &UpOptions) -> anyhow::Result<ClusterFile> {
    let mut ports = Ports::new(options.base_port, []);
    let mut schedulers = Vec::with_capacity(options.schedulers);
    for node_id in 1..=options.schedulers as u64 {
        schedulers.push(SchedulerEntry {
            name: format!("scheduler-{node_id}"),
            node_id,
            process: ProcessMark::STOPPED,
            flight: ports.take()?,
            internal: ports.take()?,
            http: ports.take()?,
            metrics: ports.take()?,
        });
    }
    let executors =
        (1..=options.executors).map(|number| executor(number, &mut ports)).collect::<anyhow::Result<_>>()?;
    Ok(ClusterFile::new(schedulers, executors))
}

fn executor(number: usize, ports: &mut Ports) -> anyhow::Result<ExecutorEntry> {
    Ok(ExecutorEntry { name: format!("executor-{number}"), process: ProcessMark::STOPPED, address: ports.take()? })
}

/// Starts every process that does not run. The file is written after each, so that `down` finds all of them.
fn spawn_missing(
    dir: &Path,
    program: &Path,
    options: &UpOptions,
    cluster: &mut ClusterFile,
    spawned: &mut Vec<Spawned>,
) -> anyhow::Result<()> {
    for folder in ["logs", "run"] {
        fs::create_dir_all(dir.join(folder)).with_context(|| format!("create {}", dir.join(folder).display()))?;
    }
    check_ports(cluster)?;
    let arguments = arguments(dir, options, cluster);
    for position in 0..cluster.schedulers.len() + cluster.executors.len() {
        let (name, mark) = match position.checked_sub(cluster.schedulers.len()) {
            None => {
                let entry = &mut cluster.schedulers[position];
                (entry.name.clone(), &mut entry.process)
            }
            Some(position) => {
                let entry = &mut cluster.executors[position];
                (entry.name.clone(), &mut entry.process)
            }
        };
        if mark.is_alive() {
            continue;
        }
        let Some(arguments) = arguments.get(&name) else { continue };
        let started = spawn(dir, program, &name, arguments)?;
        *mark = started.process;
        spawned.push(started);
        cluster.write(dir)?;
    }
    Ok(())
}

fn check_ports(cluster: &ClusterFile) -> anyhow::Result<()> {
    let schedulers = cluster.schedulers.iter().filter(|s| !s.process.is_alive());
    let addresses = schedulers.flat_map(|s| [s.flight, s.internal, s.http, s.metrics].map(|a| (&s.name, a)));
    let executors = cluster.executors.iter().filter(|e| !e.process.is_alive()).map(|e| (&e.name, e.address));
    for (name, address) in addresses.chain(executors) {
        if !ports::is_free(address) {
            bail!("{name} cannot listen on {address}: another process does; stop it and run `ancho up` again");
        }
    }
    Ok(())
}

/// The command line of each process, by name.
fn arguments(dir: &Path, options: &UpOptions, cluster: &ClusterFile) -> BTreeMap<String, Vec<String>> {
    let data_dir = |name: &str| dir.join(name).display().to_string();
    let mut all = BTreeMap::new();
    for s in &cluster.schedulers {
        let mut line: Vec<String> = vec!["scheduler".into()];
        for (option, value) in [
            ("--data-dir", data_dir(&s.name)),
            ("--node-id", s.node_id.to_string()),
            ("--peers", cluster.peers()),
            ("--bind", s.flight.ip().to_string()),
            ("--flight-port", s.flight.port().to_string()),
            ("--internal-port", s.internal.port().to_string()),
            ("--http-port", s.http.port().to_string()),
            ("--metrics-port", s.metrics.port().to_string()),
            ("--advertise-url", format!("http://{}", s.internal)),
        ] {
            line.extend([option.to_owned(), value]);
        }
        all.insert(s.name.clone(), line);
    }
    for e in &cluster.executors {
        let mut line: Vec<String> = vec!["executor".into()];
        for (option, value) in [
            ("--scheduler-address", cluster.scheduler_addresses()),
            ("--data-dir", data_dir(&e.name)),
            ("--bind", e.address.ip().to_string()),
            ("--port", e.address.port().to_string()),
            ("--advertise-url", format!("http://{}", e.address)),
        ] {
            line.extend([option.to_owned(), value]);
        }
        if let Some(streams) = options.streams {
            line.extend(["--streams".to_owned(), streams.to_string()]);
        }
        all.insert(e.name.clone(), line);
    }
    all
}

fn spawn(dir: &Path, program: &Path, name: &str, arguments: &[String]) -> anyhow::Result<Spawned> {
    let log = dir.join("logs").join(format!("{name}.log"));
    let ready_file = dir.join("run").join(format!("{name}.ready"));
    match fs::remove_file(&ready_file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("remove {}", ready_file.display()));
        }
        _ => {}
    }
    let file = fs::File::options().create(true).append(true).open(&log);
    let file = file.with_context(|| format!("open {}", log.display()))?;
    let log_from = file.metadata().map(|m| m.len()).unwrap_or(0);
    let errors = file.try_clone().with_context(|| format!("open {}", log.display()))?;
    let child = Command::new(program)
        .args(arguments)
        .args(["--detached", "--ready-file"])
        .arg(&ready_file)
        // A relative path in an option would mean another place after this.
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(errors)
        .spawn()
        .with_context(|| format!("start {} as {name}", program.display()))?;
    let process = ProcessMark { pid: Some(child.id()), started: process::started(child.id()) };
    Ok(Spawned { name: name.to_owned(), process, log, log_from, ready_file })
}

impl Spawned {
    /// An error about this process, with what it wrote last.
    pub(super) fn failure(&self, summary: String) -> StartFailure {
        let lines = super::logs::tail(&self.log, self.log_from, 20);
        StartFailure { summary, log: Some((self.log.display().to_string(), lines)) }
    }
}
