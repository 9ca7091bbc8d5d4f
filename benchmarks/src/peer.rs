//! A Python program that answers requests: one JSON line in, one JSON line out.

use crate::python::PythonEnv;
use anyhow::{Context, anyhow, bail};
use serde_json::Value;
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// The running program. Dropping it ends the process.
pub(crate) struct Peer {
    name: &'static str,
    /// Owned for its end: the process is killed with it.
    _child: Child,
    requests: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    /// Set while a request is out: when its caller gave up, the next answer would be to another one.
    out_of_step: bool,
}

impl Peer {
    /// Starts `script` under a name for messages.
    ///
    /// # Errors
    /// When the interpreter does not start.
    pub(crate) fn start(name: &'static str, python: &PythonEnv, script: &str) -> anyhow::Result<Self> {
        let mut child = Command::new(&python.python)
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("start {} for {name}", python.python.display()))?;
        let requests = child.stdin.take().with_context(|| format!("the {name} process has no input"))?;
        let answers = child.stdout.take().with_context(|| format!("the {name} process has no output"))?;
        Ok(Self { name, _child: child, requests, answers: BufReader::new(answers).lines(), out_of_step: false })
    }

    /// Sends a request and waits for its answer.
    ///
    /// # Errors
    /// What the program answers under `error`; that it ended, or that an earlier request was abandoned.
    pub(crate) async fn request(&mut self, request: Value) -> anyhow::Result<Value> {
        let name = self.name;
        if self.out_of_step {
            bail!("an earlier request to {name} was abandoned: start it anew");
        }
        self.out_of_step = true;
        let line = format!("{request}\n");
        self.requests.write_all(line.as_bytes()).await.with_context(|| format!("ask the {name} process"))?;
        self.requests.flush().await.with_context(|| format!("ask the {name} process"))?;
        let line = self.answers.next_line().await.with_context(|| format!("read the answer of {name}"))?;
        let line = line.with_context(|| format!("the {name} process ended (its messages are above)"))?;
        self.out_of_step = false;
        let answer: Value =
            serde_json::from_str(&line).with_context(|| format!("the answer of {name} is no JSON: {line}"))?;
        match answer.get("error").and_then(Value::as_str) {
            Some(error) => Err(anyhow!("{error}")),
            None => Ok(answer),
        }
    }
}
