//! Why a statement cannot be run as it was planned, and what its next plan must do without.
use std::fmt;

use ancho_common::error::Error;
use datafusion::error::DataFusionError;

use super::session::PlanOptions;

/// What the next plan of a statement must do without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replan {
    /// Joins and aggregates that rely on where buckets lie.
    WithoutColocation,
    /// Being spread: everything above the scans must run in one place.
    InOnePiece,
    /// The bounds of columns, which the engine's estimates misuse.
    WithoutBounds,
}

/// What the engine says when it reckons from the bounds of columns that more rows pass a filter than there are
/// (`ts >= CAST(ts AS DATE)`). It has no type of its own.
const BOUNDS_MISUSED: &str = "Selectivity is out of limit";

impl Replan {
    /// The options of the next plan; `None` if it was planned with them already.
    #[must_use]
    pub fn next(self, options: PlanOptions) -> Option<PlanOptions> {
        let next = match self {
            Self::WithoutColocation => PlanOptions { colocate: false, ..options },
            Self::InOnePiece => PlanOptions { gather: true, ..options },
            Self::WithoutBounds => PlanOptions { bounds: false, ..options },
        };
        (next != options).then_some(next)
    }
}

/// An error of planning or running a statement, with the way around it if there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanError {
    /// What a client is told if there is no way around it.
    pub error: Error,
    /// How the statement can be planned instead.
    pub replan: Option<Replan>,
}

/// Result of planning or running a statement.
pub type PlanResult<T> = Result<T, PlanError>;

impl PlanError {
    /// A plan that must not run, where another can.
    #[must_use]
    pub fn refused(replan: Replan, why: &str) -> Self {
        let message = format!("the plan of this statement is unsafe to run and was refused: {why}");
        Self { error: Error::internal(message), replan: Some(replan) }
    }

    /// Says what was being done when it arose.
    #[must_use]
    pub fn context(self, doing: &str) -> Self {
        Self { error: self.error.context(doing), ..self }
    }
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for PlanError {}

impl From<Error> for PlanError {
    fn from(error: Error) -> Self {
        Self { error, replan: None }
    }
}

impl From<DataFusionError> for PlanError {
    fn from(error: DataFusionError) -> Self {
        // What a handler inside the distribution library refused comes back through it.
        if let DataFusionError::External(source) = error.find_root()
            && let Some(refused) = source.downcast_ref::<Self>()
        {
            return refused.clone();
        }
        let misused = matches!(error.find_root(), DataFusionError::Internal(text) | DataFusionError::Plan(text) if text.contains(BOUNDS_MISUSED));
        Self { error: error.into(), replan: misused.then_some(Replan::WithoutBounds) }
    }
}

impl From<PlanError> for DataFusionError {
    fn from(error: PlanError) -> Self {
        Self::External(Box::new(error))
    }
}

impl From<PlanError> for Error {
    fn from(error: PlanError) -> Self {
        error.error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_around_survives_the_library_and_is_taken_once() {
        for replan in [Replan::WithoutColocation, Replan::InOnePiece, Replan::WithoutBounds] {
            let refused = PlanError::refused(replan, "of its shape");
            let through = DataFusionError::from(refused.clone()).context("planning").context("a query");
            assert_eq!(PlanError::from(through), refused);
            let next = replan.next(PlanOptions::default()).unwrap();
            assert_eq!(replan.next(next), None);
        }
        let both = Replan::InOnePiece.next(PlanOptions::default()).and_then(|o| Replan::WithoutColocation.next(o));
        assert_eq!(both, Some(PlanOptions { colocate: false, gather: true, bounds: true }));
        assert_eq!(PlanError::from(DataFusionError::Plan("no such column".into())).replan, None);
    }
}
