//! Processes of this machine: whether one still runs, and telling it to stop.
use std::fs;

use anyhow::Context;
use nix::{
    errno::Errno,
    sys::{
        signal::{Signal, kill},
        wait::{WaitPidFlag, waitpid},
    },
    unistd::Pid,
};

fn id(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().filter(|pid| *pid > 0).map(Pid::from_raw)
}

/// When the process started, in clock ticks since boot; `None` where the system does not tell or it does not run.
pub(super) fn started(pid: u32) -> Option<u64> {
    stat(pid).map(|(_, started)| started)
}

/// State letter and start of a process, from `/proc/<pid>/stat`.
fn stat(pid: u32) -> Option<(char, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may contain anything, so fields count from its end.
    let (_, fields) = text.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(18)?.parse().ok()?))
}

/// Whether the process runs that had this id when it started at `started`.
pub(super) fn is_alive(pid: u32, started: Option<u64>) -> bool {
    let Some(raw) = id(pid) else { return false };
    // An ended child of ours keeps its id until it is asked for; others are none of our children.
    let _ = waitpid(raw, Some(WaitPidFlag::WNOHANG));
    if let Some((state, found)) = stat(pid) {
        return !matches!(state, 'Z' | 'X') && started.is_none_or(|started| started == found);
    }
    if cfg!(target_os = "linux") {
        return false;
    }
    matches!(kill(raw, None), Ok(()) | Err(Errno::EPERM))
}

/// Asks a process to end (SIGTERM), or ends it (SIGKILL).
pub(super) fn end(pid: u32, at_once: bool) -> anyhow::Result<()> {
    let raw = id(pid).with_context(|| format!("{pid} is no process id"))?;
    let signal = if at_once { Signal::SIGKILL } else { Signal::SIGTERM };
    match kill(raw, signal) {
        // It was faster.
        Ok(()) | Err(Errno::ESRCH) => Ok(()),
        Err(error) => Err(error).with_context(|| format!("send {signal} to process {pid}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_process_is_alive_until_it_ends_and_no_other_is_taken_for_it() {
        let mut child = Command::new("sleep").arg("60").spawn().expect("sleep");
        let pid = child.id();
        let mark = started(pid);
        assert!(is_alive(pid, mark));
        assert!(!is_alive(pid, mark.map(|m| m + 1)) || mark.is_none());
        end(pid, true).expect("killed");
        let mut waited = 0;
        while is_alive(pid, mark) {
            waited += 1;
            assert!(waited < 200, "still alive");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        // Already reaped above.
        let _ = child.wait();
    }
}
