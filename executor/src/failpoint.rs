//! Lets a test kill this process, or fill its disk, exactly at a durable step of the storage engine. Only in builds with debug
//! assertions: a release build does not contain this module, and ignores the variable.
//!
//! `ANCHO_FAILPOINT=<step>:<n>:<action>` acts when `step` (a name of [`Step`]) is met for the `n`th time, counted from 0 over
//! all partitions:
//!
//! * `kill` ends the process as `kill -9` does;
//! * `fill` fills the disk of the data directory with a file `ballast` and goes on, so that the step itself and everything
//!   behind it meet a full disk.
use std::{
    fs::File,
    io::Write,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use cayenne::{Failpoints, Outcome, Step};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tracing::warn;

use crate::error::{Error, Result};

/// The variable.
const VARIABLE: &str = "ANCHO_FAILPOINT";
/// Bytes that the disk is filled with at a time, first coarsely, then to the last byte.
const BLOCKS: [usize; 3] = [1 << 20, 4 << 10, 1];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Kill,
    Fill,
}

/// What the variable asks for.
#[derive(Debug)]
struct Failpoint {
    step: Step,
    left: AtomicUsize,
    action: Action,
    ballast: PathBuf,
}

/// The failpoint that the environment asks for.
///
/// # Errors
/// The variable cannot be understood.
pub(crate) fn from_environment(data_dir: &Path) -> Result<Option<Arc<dyn Failpoints>>> {
    let Ok(text) = std::env::var(VARIABLE) else { return Ok(None) };
    let failpoint = parse(&text, data_dir)
        .ok_or_else(|| Error::Options(format!("{VARIABLE}={text} is not like Publish:0:kill or Seal:2:fill")))?;
    warn!(?failpoint, "a failpoint is set");
    Ok(Some(Arc::new(failpoint)))
}

fn parse(text: &str, data_dir: &Path) -> Option<Failpoint> {
    let mut words = text.split(':');
    let step = words.next()?;
    let step = Step::ALL.into_iter().find(|known| format!("{known:?}") == step)?;
    let left = AtomicUsize::new(words.next()?.parse().ok()?);
    let action = match words.next()? {
        "kill" => Action::Kill,
        "fill" => Action::Fill,
        _ => return None,
    };
    words.next().is_none().then(|| Failpoint { step, left, action, ballast: data_dir.join("ballast") })
}

impl Failpoints for Failpoint {
    fn at(&self, step: Step) -> Outcome {
        if step != self.step || !self.is_due() {
            return Outcome::Continue;
        }
        warn!(?step, action = ?self.action, "the failpoint is met");
        match self.action {
            Action::Kill => {
                // Nothing may happen behind the signal.
                let _ = kill(Pid::this(), Signal::SIGKILL);
                loop {
                    std::thread::park();
                }
            }
            Action::Fill => self.fill(),
        }
        Outcome::Continue
    }
}

impl Failpoint {
    /// Whether this is the time that was asked for; it comes once.
    fn is_due(&self) -> bool {
        let less = |left: usize| Some(left.checked_sub(1).unwrap_or(usize::MAX));
        self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less) == Ok(0)
    }

    fn fill(&self) {
        let Ok(mut file) = File::create(&self.ballast) else { return };
        for block in BLOCKS {
            let bytes = vec![0; block];
            while file.write_all(&bytes).is_ok() {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failpoint_is_met_once_at_its_time() {
        let failpoint = parse("Publish:2:kill", Path::new("/nowhere")).unwrap();
        assert_eq!((failpoint.step, failpoint.action), (Step::Publish, Action::Kill));
        assert_eq!([(); 5].map(|()| failpoint.is_due()), [false, false, true, false, false]);
        for wrong in ["Publish", "Publish:x:kill", "publish:0:kill", "Publish:0:fail", "Publish:0:kill:1", ""] {
            assert!(parse(wrong, Path::new("/nowhere")).is_none(), "{wrong}");
        }
    }
}
