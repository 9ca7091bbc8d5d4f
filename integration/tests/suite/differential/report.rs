//! What the gate found, for people: all failures in a file, the first ones in the test's output.
use std::{fmt::Write as _, fs, path::PathBuf, time::Duration};

use ancho_integration::corpus::QueryCase;
use anyhow::{Context, bail};

/// Failures that the output shows.
const SHOWN: usize = 40;

/// Collects failures; the gate runs to its end.
pub struct Report {
    path: PathBuf,
    text: String,
    failures: Vec<String>,
}

impl Report {
    /// A report with this name, in the folder for the tests' files.
    pub fn new(name: &str) -> Self {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.txt"));
        Self { path, text: String::new(), failures: Vec::new() }
    }

    /// Adds a line.
    pub fn note(&mut self, line: &str) {
        println!("{line}");
        let _ = writeln!(self.text, "{line}");
    }

    /// Adds what one topology made of the corpus.
    pub fn add_topology(&mut self, topology: &str, took: Duration, results: Vec<(&QueryCase, Result<(), String>)>) {
        let (mut passed, mut failed) = (0, 0);
        for (case, result) in results {
            match result {
                Ok(()) => passed += 1,
                Err(problem) => {
                    failed += 1;
                    self.add_failure(topology, &case.id, &case.place, &case.sql, &problem);
                }
            }
        }
        self.note(&format!("{topology}: {passed} right, {failed} wrong, {:.1} s", took.as_secs_f64()));
    }

    /// Adds one failure.
    pub fn add_failure(&mut self, topology: &str, id: &str, place: &str, sql: &str, problem: &str) {
        let sql = sql.replace('\n', "\n    ");
        self.failures.push(format!("{id} ({place}) on {topology}\n    {sql}\n    {problem}"));
    }

    /// Writes the file.
    ///
    /// # Errors
    /// There is a failure.
    pub fn finish(mut self) -> anyhow::Result<()> {
        for failure in &self.failures {
            let _ = writeln!(self.text, "\n{failure}");
        }
        fs::write(&self.path, &self.text).with_context(|| format!("write {}", self.path.display()))?;
        if self.failures.is_empty() {
            return Ok(());
        }
        for failure in self.failures.iter().take(SHOWN) {
            println!("\n{failure}");
        }
        bail!("{} failures, all of them in {}", self.failures.len(), self.path.display())
    }
}
