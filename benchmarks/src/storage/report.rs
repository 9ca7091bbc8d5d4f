//! What the storage benchmark found, as text and as JSON.

use serde::Serialize;
use std::fmt::Write;

/// Which of two figures is the better one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Rows per second and the like.
    Higher,
    /// Times and sizes.
    Lower,
}

/// One figure of Ancho beside one of a peer.
#[derive(Debug, Clone, Serialize)]
pub struct Measure {
    /// What was measured.
    pub name: String,
    /// Unit of both figures.
    pub unit: &'static str,
    /// Which one is better.
    pub better: Better,
    /// Ancho's figure.
    pub ancho: f64,
    /// What it is compared with.
    pub peer: &'static str,
    /// The peer's figure.
    pub peer_figure: f64,
    /// The ratio that the project aims at; `None` where none is set.
    pub aim: Option<f64>,
}

impl Measure {
    /// Ancho's figure as a multiple of the peer's.
    pub fn ratio(&self) -> f64 {
        self.ancho / self.peer_figure
    }

    /// Whether the aim is reached; `None` without one.
    pub fn reached(&self) -> Option<bool> {
        self.aim.map(|aim| match self.better {
            Better::Higher => self.ratio() >= aim,
            Better::Lower => self.ratio() <= aim,
        })
    }

    /// One line of the table.
    pub fn line(&self) -> String {
        let aim = match (self.aim, self.reached()) {
            (Some(aim), Some(reached)) => {
                let sign = if self.better == Better::Higher { "≥" } else { "≤" };
                format!("{sign} {aim:.2}{}", if reached { "" } else { "  (missed)" })
            }
            _ => String::new(),
        };
        let ours = format!("{} {}", figure(self.ancho), self.unit);
        let theirs = format!("{} {}", figure(self.peer_figure), self.unit);
        let line = format!("{:<46}{ours:>22}{theirs:>22}  {:<22}{:>8.2}  {aim}", self.name, self.peer, self.ratio());
        line.trim_end().to_owned()
    }
}

/// A whole run.
#[derive(Debug, Clone, Serialize)]
pub struct StorageReport {
    /// TPC-H scale factor of `lineitem`.
    pub scale: f64,
    /// Cores of the machine, which each side had to itself.
    pub cores: usize,
    /// Executors of the cluster.
    pub executors: usize,
    /// In the order in which they ran.
    pub measures: Vec<Measure>,
}

impl StorageReport {
    /// The lines above the measures.
    pub fn header(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "lineitem at scale {}, {} cores, {} executors; each ratio is Ancho : peer",
            self.scale, self.cores, self.executors
        );
        text += &format!("{:<46}{:>22}{:>22}  {:<22}{:>8}  aim", "", "Ancho", "peer", "", "ratio");
        text
    }

    /// The report as JSON.
    ///
    /// # Errors
    /// None that is expected.
    pub fn to_json(&self) -> anyhow::Result<String> {
        Ok(serde_json::to_string_pretty(self)?)
    }
}

/// Three significant digits, or all digits before the point.
fn figure(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_aim_is_reached_on_the_better_side() {
        let measure = |better, ancho, aim| Measure {
            name: "x".into(),
            unit: "rows/s",
            better,
            ancho,
            peer: "duckdb",
            peer_figure: 100.0,
            aim,
        };
        assert_eq!(measure(Better::Higher, 70.0, Some(0.7)).reached(), Some(true));
        assert_eq!(measure(Better::Higher, 69.0, Some(0.7)).reached(), Some(false));
        assert_eq!(measure(Better::Lower, 110.0, Some(1.1)).reached(), Some(true));
        assert_eq!(measure(Better::Lower, 111.0, Some(1.1)).reached(), Some(false));
        assert_eq!(measure(Better::Lower, 1.0, None).reached(), None);
        assert!(measure(Better::Lower, 111.0, Some(1.1)).line().contains("1.11  ≤ 1.10  (missed)"));
    }
}
