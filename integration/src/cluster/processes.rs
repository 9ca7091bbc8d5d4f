//! A cluster of real processes of the `ancho` binary, which can be killed, paused and started again.
use std::{
    env,
    fmt::Write as _,
    fs::{self, File},
    io::{Read, Write},
    net::{Ipv4Addr, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use super::{leader, metrics, wait_serving};
use crate::{client::Client, ports::free_port, wait::wait_until};

/// Longest time for one node to be ready after its start.
const READY_LIMIT: Duration = Duration::from_secs(60);

/// Longest time for a node to end after it was asked to.
const STOP_LIMIT: Duration = Duration::from_secs(20);

/// Lines of each log that a failed test shows.
const LOG_TAIL: usize = 60;

/// What a cluster is made of.
#[derive(Debug, Clone)]
pub struct ProcessBuilder {
    schedulers: usize,
    executors: usize,
    streams: usize,
    partition_wait: Duration,
    session_ttl: Duration,
    failover_after: Duration,
    environment: Vec<(String, String)>,
}

impl Default for ProcessBuilder {
    fn default() -> Self {
        Self {
            schedulers: 1,
            executors: 2,
            streams: 2,
            partition_wait: Duration::from_secs(30),
            session_ttl: Duration::from_secs(10),
            failover_after: Duration::from_secs(60),
            environment: Vec::new(),
        }
    }
}

impl ProcessBuilder {
    /// Number of schedulers: 1, 3 or 5.
    #[must_use]
    pub fn schedulers(mut self, n: usize) -> Self {
        self.schedulers = n;
        self
    }

    /// Number of executors.
    #[must_use]
    pub fn executors(mut self, n: usize) -> Self {
        self.executors = n;
        self
    }

    /// Streams per task of every query.
    #[must_use]
    pub fn streams(mut self, n: usize) -> Self {
        self.streams = n;
        self
    }

    /// How long a query waits for a partition that nobody serves.
    #[must_use]
    pub fn partition_wait(mut self, wait: Duration) -> Self {
        self.partition_wait = wait;
        self
    }

    /// After how long a silent executor counts as down.
    #[must_use]
    pub fn session_ttl(mut self, ttl: Duration) -> Self {
        self.session_ttl = ttl;
        self
    }

    /// After how long others take over what a snapshot has of an executor that is down.
    #[must_use]
    pub fn failover_after(mut self, time: Duration) -> Self {
        self.failover_after = time;
        self
    }

    /// An environment variable of every node.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Starts it and waits until every scheduler sees every executor.
    ///
    /// # Errors
    /// The binary is not built, or a node is not ready in time; its log is shown.
    pub async fn start(self) -> anyhow::Result<Processes> {
        let binary = binary()?;
        let dir = tempfile::Builder::new().prefix("ancho-").tempdir().context("make a folder for the cluster")?;
        let logs = dir.path().join("logs");
        fs::create_dir_all(&logs).with_context(|| format!("create {}", logs.display()))?;
        let mut cluster = Processes { schedulers: Vec::new(), executors: Vec::new(), logs, finished: false, dir };
        let ports = (0..self.schedulers).map(|_| SchedulerPorts::take()).collect::<anyhow::Result<Vec<_>>>()?;
        let internal: Vec<String> = ports.iter().map(|p| format!("http://127.0.0.1:{}", p.internal)).collect();
        for (index, ports) in ports.into_iter().enumerate() {
            let node = cluster.node(&binary, &format!("scheduler-{}", index + 1), &self.environment);
            let arguments = self.scheduler_arguments(index, &ports, &internal, &node.data_dir);
            let node = Node { arguments, metrics_port: ports.metrics, ..node };
            cluster.schedulers.push(SchedulerNode { node, ports });
        }
        for number in 1..=self.executors {
            let node = cluster.node(&binary, &format!("executor-{number}"), &self.environment);
            let metrics_port = free_port()?;
            let arguments = self.executor_arguments(free_port()?, metrics_port, &internal, &node.data_dir);
            cluster.executors.push(Node { arguments, metrics_port, ..node });
        }
        for scheduler in &mut cluster.schedulers {
            scheduler.node.spawn()?;
        }
        for executor in &mut cluster.executors {
            executor.spawn()?;
        }
        cluster.wait_ready().await?;
        Ok(cluster)
    }

    fn scheduler_arguments(
        &self,
        index: usize,
        ports: &SchedulerPorts,
        internal: &[String],
        data_dir: &Path,
    ) -> Vec<String> {
        let mut arguments = vec!["scheduler".to_owned()];
        let mut flag = |name: &str, value: String| arguments.extend([format!("--{name}"), value]);
        flag("data-dir", data_dir.display().to_string());
        flag("node-id", (index + 1).to_string());
        flag("bind", "127.0.0.1".to_owned());
        flag("flight-port", ports.flight.to_string());
        flag("http-port", ports.http.to_string());
        flag("metrics-port", ports.metrics.to_string());
        flag("internal-port", ports.internal.to_string());
        flag("partition-wait", format!("{}ms", self.partition_wait.as_millis()));
        flag("session-ttl", format!("{}ms", self.session_ttl.as_millis()));
        flag("failover-after", format!("{}ms", self.failover_after.as_millis()));
        flag("streams", self.streams.to_string());
        if internal.len() > 1 {
            let peers = (1..).zip(internal).map(|(id, url): (usize, _)| format!("{id}={url}"));
            flag("peers", peers.collect::<Vec<_>>().join(","));
        }
        arguments
    }

    fn executor_arguments(&self, port: u16, metrics_port: u16, internal: &[String], data_dir: &Path) -> Vec<String> {
        let mut arguments = vec!["executor".to_owned()];
        let mut flag = |name: &str, value: String| arguments.extend([format!("--{name}"), value]);
        flag("scheduler-address", internal.join(","));
        flag("data-dir", data_dir.display().to_string());
        flag("bind", "127.0.0.1".to_owned());
        flag("port", port.to_string());
        flag("metrics-port", metrics_port.to_string());
        flag("streams", self.streams.to_string());
        arguments
    }
}

/// The `ancho` binary of the profile that the tests were built with.
///
/// # Errors
/// It is not there; the message says how to build it.
pub fn binary() -> anyhow::Result<PathBuf> {
    let test = env::current_exe().context("find the test's own executable")?;
    let profile = test.parent().and_then(Path::parent).context("the test's executable lies in no profile folder")?;
    let binary = profile.join("ancho");
    let name = profile.file_name().unwrap_or_default().to_string_lossy();
    let name = if name == "debug" { "dev".into() } else { name };
    ensure!(
        binary.is_file(),
        "{} is missing: build it with `cargo build --profile {name} -p ancho-cli`",
        binary.display()
    );
    Ok(binary)
}

#[derive(Debug, Clone, Copy)]
struct SchedulerPorts {
    flight: u16,
    http: u16,
    metrics: u16,
    internal: u16,
}

impl SchedulerPorts {
    fn take() -> anyhow::Result<Self> {
        Ok(Self { flight: free_port()?, http: free_port()?, metrics: free_port()?, internal: free_port()? })
    }
}

#[derive(Debug)]
struct SchedulerNode {
    node: Node,
    ports: SchedulerPorts,
}

/// One process and how to start it.
#[derive(Debug)]
struct Node {
    name: String,
    binary: PathBuf,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    data_dir: PathBuf,
    metrics_port: u16,
    log: PathBuf,
    child: Option<Child>,
}

impl Node {
    fn spawn(&mut self) -> anyhow::Result<()> {
        ensure!(self.child.is_none(), "{} runs already", self.name);
        let mut log = File::options().create(true).append(true).open(&self.log);
        let log = log.as_mut().map_err(|e| anyhow::anyhow!("open {}: {e}", self.log.display()))?;
        writeln!(log, "==== started: ancho {}", self.arguments.join(" "))?;
        let child = Command::new(&self.binary)
            .args(&self.arguments)
            .envs(self.environment.iter().map(|(k, v)| (k, v)))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log.try_clone()?)
            .spawn()
            .with_context(|| format!("start {}", self.name))?;
        self.child = Some(child);
        Ok(())
    }

    fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let child = self.child.as_ref().with_context(|| format!("{} does not run", self.name))?;
        let pid = Pid::from_raw(i32::try_from(child.id())?);
        kill(pid, signal).with_context(|| format!("send {signal} to {}", self.name))
    }

    fn kill(&mut self) -> anyhow::Result<()> {
        self.signal(Signal::SIGKILL)?;
        if let Some(mut child) = self.child.take() {
            child.wait()?;
        }
        Ok(())
    }

    async fn ends_within(&mut self, limit: Duration) -> anyhow::Result<bool> {
        let deadline = Instant::now() + limit;
        while let Some(child) = &mut self.child {
            if child.try_wait()?.is_some() {
                self.child = None;
            } else if Instant::now() > deadline {
                return Ok(false);
            } else {
                sleep(Duration::from_millis(50)).await;
            }
        }
        Ok(true)
    }

    /// An error with the end of its log if the process has ended by itself.
    fn check_alive(&mut self) -> anyhow::Result<()> {
        let ended: Option<ExitStatus> = match &mut self.child {
            Some(child) => child.try_wait()?,
            None => return Ok(()),
        };
        match ended {
            Some(status) => bail!("{} ended by itself ({status}):\n{}", self.name, tail(&self.log)),
            None => Ok(()),
        }
    }
}

/// A running cluster. Dropped without [`Processes::stop`], as a failing test does, it prints the end of every log.
#[derive(Debug)]
pub struct Processes {
    schedulers: Vec<SchedulerNode>,
    executors: Vec<Node>,
    logs: PathBuf,
    finished: bool,
    dir: TempDir,
}

impl Processes {
    fn node(&self, binary: &Path, name: &str, environment: &[(String, String)]) -> Node {
        Node {
            name: name.to_owned(),
            binary: binary.to_owned(),
            arguments: Vec::new(),
            environment: environment.to_vec(),
            data_dir: self.dir.path().join(name),
            metrics_port: 0,
            log: self.logs.join(format!("{name}.log")),
            child: None,
        }
    }

    /// Number of schedulers.
    #[must_use]
    pub fn scheduler_count(&self) -> usize {
        self.schedulers.len()
    }

    /// Where a scheduler (from 0) serves Flight SQL.
    #[must_use]
    pub fn flight_url(&self, scheduler: usize) -> String {
        format!("grpc://127.0.0.1:{}", self.schedulers[scheduler].ports.flight)
    }

    /// A client of a scheduler (from 0).
    ///
    /// # Errors
    /// Never, with the URLs of a cluster.
    pub fn client(&self, scheduler: usize) -> anyhow::Result<Client> {
        Ok(Client::new(&self.flight_url(scheduler))?)
    }

    /// The folder of an executor (from 0).
    #[must_use]
    pub fn executor_dir(&self, executor: usize) -> &Path {
        &self.executors[executor].data_dir
    }

    /// The sum of a metric over all running nodes.
    ///
    /// # Errors
    /// A node does not answer.
    pub async fn metric(&self, name: &str) -> anyhow::Result<f64> {
        let nodes = self.schedulers.iter().map(|s| &s.node).chain(&self.executors);
        let mut total = 0.0;
        for port in nodes.filter(|n| n.child.is_some()).map(|n| n.metrics_port) {
            let (status, text) = tokio::task::spawn_blocking(move || http_get(port, "/metrics")).await??;
            ensure!(status == 200, "the metrics at port {port} answer {status}");
            total += metrics::sum(&text, name);
        }
        Ok(total)
    }

    /// Asks an executor (from 0) to end (SIGTERM) and waits until it has.
    ///
    /// # Errors
    /// It does not run, or does not end in time.
    pub async fn stop_executor(&mut self, executor: usize) -> anyhow::Result<()> {
        let node = &mut self.executors[executor];
        node.signal(Signal::SIGTERM)?;
        ensure!(node.ends_within(STOP_LIMIT).await?, "{} does not end:\n{}", node.name, tail(&node.log));
        Ok(())
    }

    /// Kills a scheduler (from 0) with SIGKILL.
    ///
    /// # Errors
    /// It does not run.
    pub fn kill_scheduler(&mut self, scheduler: usize) -> anyhow::Result<()> {
        self.schedulers[scheduler].node.kill()
    }

    /// Starts a killed scheduler with its folder and ports; it may not be ready yet.
    ///
    /// # Errors
    /// It runs, or cannot be started.
    pub fn start_scheduler(&mut self, scheduler: usize) -> anyhow::Result<()> {
        self.schedulers[scheduler].node.spawn()
    }

    /// Kills an executor (from 0) with SIGKILL.
    ///
    /// # Errors
    /// It does not run.
    pub fn kill_executor(&mut self, executor: usize) -> anyhow::Result<()> {
        self.executors[executor].kill()
    }

    /// Starts a killed executor with its folder and port; it may not be ready yet.
    ///
    /// # Errors
    /// It runs, or cannot be started.
    pub fn start_executor(&mut self, executor: usize) -> anyhow::Result<()> {
        self.executors[executor].spawn()
    }

    /// Sets a variable in the environment of an executor (from 0) from its next start on, or removes it.
    pub fn set_executor_env(&mut self, executor: usize, name: &str, value: Option<&str>) {
        let environment = &mut self.executors[executor].environment;
        environment.retain(|(known, _)| known != name);
        environment.extend(value.map(|value| (name.to_owned(), value.to_owned())));
    }

    /// Whether an executor (from 0) has ended, by itself or by a signal.
    ///
    /// # Errors
    /// The system does not say.
    pub fn executor_ended(&mut self, executor: usize) -> anyhow::Result<bool> {
        let node = &mut self.executors[executor];
        let ended = match &mut node.child {
            Some(child) => child.try_wait()?.is_some(),
            None => true,
        };
        if ended {
            node.child = None;
        }
        Ok(ended)
    }

    /// Stops an executor's execution without ending it (SIGSTOP), or lets it go on (SIGCONT).
    ///
    /// # Errors
    /// It does not run.
    pub fn pause_executor(&self, executor: usize, pause: bool) -> anyhow::Result<()> {
        self.executors[executor].signal(if pause { Signal::SIGSTOP } else { Signal::SIGCONT })
    }

    /// Stops a scheduler's execution without ending it (SIGSTOP), or lets it go on (SIGCONT).
    ///
    /// # Errors
    /// It does not run.
    pub fn pause_scheduler(&self, scheduler: usize, pause: bool) -> anyhow::Result<()> {
        self.schedulers[scheduler].node.signal(if pause { Signal::SIGSTOP } else { Signal::SIGCONT })
    }

    /// Waits until a scheduler says by HTTP that it is ready.
    ///
    /// # Errors
    /// It is not within a minute, or has ended.
    pub async fn wait_scheduler_ready(&mut self, scheduler: usize) -> anyhow::Result<()> {
        let node = &mut self.schedulers[scheduler];
        let (port, name) = (node.ports.http, node.node.name.clone());
        let what = format!("{name} ready");
        let waited = wait_until(&what, READY_LIMIT, || async move {
            let (status, body) = tokio::task::spawn_blocking(move || http_get(port, "/v1/ready")).await??;
            ensure!(status == 200, "it says {status} {body}");
            Ok(Some(()))
        });
        let result = waited.await;
        node.node.check_alive()?;
        result.with_context(|| tail(&self.schedulers[scheduler].node.log))
    }

    /// Waits until every running node is ready and every running scheduler sees every running executor.
    ///
    /// # Errors
    /// They are not in time, or one has ended.
    pub async fn wait_ready(&mut self) -> anyhow::Result<()> {
        let running: Vec<usize> =
            (0..self.schedulers.len()).filter(|i| self.schedulers[*i].node.child.is_some()).collect();
        for &scheduler in &running {
            self.wait_scheduler_ready(scheduler).await?;
        }
        let executors = self.executors.iter().filter(|e| e.child.is_some()).count();
        for &scheduler in &running {
            let waited = wait_serving(&self.client(scheduler)?, executors).await;
            self.check_alive()?;
            waited?;
        }
        Ok(())
    }

    /// Fails with the end of its log if a node has ended that was not killed.
    ///
    /// # Errors
    /// As said.
    pub fn check_alive(&mut self) -> anyhow::Result<()> {
        let schedulers = self.schedulers.iter_mut().map(|s| &mut s.node);
        schedulers.chain(&mut self.executors).try_for_each(Node::check_alive)
    }

    /// Waits until a running scheduler names a leader that runs too; its number (from 0).
    ///
    /// # Errors
    /// None within `limit`.
    pub async fn wait_leader(&self, limit: Duration) -> anyhow::Result<usize> {
        let clients = self.schedulers.iter().enumerate().filter(|(_, s)| s.node.child.is_some());
        let clients = clients.map(|(i, _)| self.client(i)).collect::<anyhow::Result<Vec<_>>>()?;
        wait_until("a leader among the running schedulers", limit, || async {
            let mut last = None;
            for client in &clients {
                let asked = tokio::time::timeout(Duration::from_secs(2), client.status()).await;
                match asked.map_err(anyhow::Error::from).and_then(|r| r.map_err(anyhow::Error::from)) {
                    Ok(status) => {
                        let index = leader(&status)?.and_then(|id| usize::try_from(id).ok()?.checked_sub(1));
                        if let Some(index) = index.filter(|i| self.schedulers[*i].node.child.is_some()) {
                            return Ok(Some(index));
                        }
                    }
                    Err(error) => last = Some(error),
                }
            }
            last.map_or(Ok(None), Err)
        })
        .await
    }

    /// Ends all nodes, politely at first, and forgets the logs.
    ///
    /// # Errors
    /// A node had ended by itself before, or does not end within 20 s.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        self.check_alive()?;
        let executors = std::mem::take(&mut self.executors);
        let schedulers = std::mem::take(&mut self.schedulers);
        let nodes: Vec<Node> = executors.into_iter().chain(schedulers.into_iter().map(|s| s.node)).collect();
        let mut stubborn = String::new();
        for mut node in nodes {
            if node.child.is_none() {
                continue;
            }
            node.signal(Signal::SIGTERM)?;
            if !node.ends_within(STOP_LIMIT).await? {
                let _ = writeln!(stubborn, "{} does not end:\n{}", node.name, tail(&node.log));
                node.kill()?;
            }
        }
        ensure!(stubborn.is_empty(), "{stubborn}");
        self.finished = true;
        Ok(())
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        let nodes = self.schedulers.iter_mut().map(|s| &mut s.node).chain(&mut self.executors);
        for child in nodes.filter_map(|node| node.child.as_mut()) {
            // It may have ended; what matters is that it does not go on.
            let _ = child.kill();
            let _ = child.wait();
        }
        if self.finished {
            return;
        }
        let Ok(entries) = fs::read_dir(&self.logs) else { return };
        let mut paths: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
        paths.sort();
        for path in paths {
            eprintln!("---- {}\n{}", path.display(), tail(&path));
        }
    }
}

/// The last lines of a log.
fn tail(path: &Path) -> String {
    let text = fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let text = text.unwrap_or_else(|e| format!("(no log: {e})"));
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_TAIL)..].join("\n")
}

/// One request to a node on the loopback address: status and body.
fn http_get(port: u16, path: &str) -> anyhow::Result<(u16, String)> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply)?;
    let status = reply.split(' ').nth(1).and_then(|s| s.parse().ok()).context("the reply is not HTTP")?;
    let body = reply.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    Ok((status, body.to_owned()))
}
