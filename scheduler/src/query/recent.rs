//! Plans of queries that were announced to a client and wait for being run.
//!
//! Flight SQL asks for a query's columns in one call and for its rows in the next. The second need not plan again, as
//! long as it comes soon, to the same scheduler, and sees the same state. Otherwise it plans: a ticket carries all of its
//! statement, and nothing here is needed to run it.
use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use arrow::{datatypes::SchemaRef, record_batch::RecordBatch};
use datafusion::logical_expr::LogicalPlan;
use parking_lot::Mutex;

use crate::state::ClusterState;

/// Plans kept; the oldest goes first.
const MAX_KEPT: usize = 64;
/// Longest time between the two calls.
const MAX_AGE: Duration = Duration::from_secs(10);
/// Plans of longer statements are not kept: the plan of a long list of values takes many times the list's size.
const MAX_SQL_BYTES: usize = 32 * 1024;

/// A query's logical plan, its parameters bound.
#[derive(Debug, Clone)]
pub struct Planned {
    /// What it was planned on.
    pub state: Arc<ClusterState>,
    /// The plan, before it is optimized.
    pub plan: LogicalPlan,
    /// Its columns, as announced.
    pub schema: SchemaRef,
}

impl Planned {
    /// Whether planning on `state` would give the same.
    #[must_use]
    pub fn holds_on(&self, state: &Arc<ClusterState>) -> bool {
        Arc::ptr_eq(&self.state, state)
    }
}

struct Entry {
    sql: String,
    parameters: Option<RecordBatch>,
    made: Instant,
    planned: Planned,
}

/// Shared by all connections of a scheduler.
#[derive(Clone, Default)]
pub struct RecentPlans {
    entries: Arc<Mutex<VecDeque<Entry>>>,
}

impl std::fmt::Debug for RecentPlans {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecentPlans").field("kept", &self.entries.lock().len()).finish()
    }
}

impl RecentPlans {
    /// Keeps the plan of an announced query for the call that runs it.
    pub fn put(&self, sql: &str, parameters: Option<&RecordBatch>, planned: Planned) {
        if sql.len() > MAX_SQL_BYTES {
            return;
        }
        let mut entries = self.entries.lock();
        drop_old(&mut entries);
        if entries.len() >= MAX_KEPT {
            entries.pop_front();
        }
        let (sql, parameters) = (sql.to_owned(), parameters.cloned());
        entries.push_back(Entry { sql, parameters, made: Instant::now(), planned });
    }

    /// The plan of a query that was announced, once.
    pub fn take(&self, sql: &str, parameters: Option<&RecordBatch>) -> Option<Planned> {
        let mut entries = self.entries.lock();
        drop_old(&mut entries);
        let found = entries.iter().rposition(|e| e.sql == sql && e.parameters.as_ref() == parameters)?;
        entries.remove(found).map(|entry| entry.planned)
    }
}

/// Entries stand in the order of their age.
fn drop_old(entries: &mut VecDeque<Entry>) {
    while entries.front().is_some_and(|e| e.made.elapsed() > MAX_AGE) {
        entries.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use arrow::{array::Int64Array, datatypes::Schema};
    use datafusion::logical_expr::LogicalPlanBuilder;

    use super::*;

    fn planned(state: &Arc<ClusterState>) -> Planned {
        let plan = LogicalPlanBuilder::empty(true).build().unwrap();
        Planned { state: Arc::clone(state), plan, schema: Arc::new(Schema::empty()) }
    }

    fn row(value: i64) -> RecordBatch {
        RecordBatch::try_from_iter([("1", Arc::new(Int64Array::from(vec![value])) as _)]).unwrap()
    }

    #[test]
    fn a_plan_is_taken_once_by_its_own_statement_and_parameters_and_soon() {
        let state = Arc::new(ClusterState::default());
        let recent = RecentPlans::default();
        recent.put("select $1", Some(&row(1)), planned(&state));
        recent.put("select 1", None, planned(&state));
        assert!(recent.take("select $1", None).is_none());
        assert!(recent.take("select $1", Some(&row(2))).is_none());
        assert!(recent.take("select $1", Some(&row(1))).is_some());
        assert!(recent.take("select $1", Some(&row(1))).is_none());
        if let Some(entry) = recent.entries.lock().front_mut() {
            entry.made -= MAX_AGE + Duration::from_secs(1);
        }
        assert!(recent.take("select 1", None).is_none());
    }

    #[test]
    fn few_plans_are_kept_and_none_outlives_its_state() {
        let state = Arc::new(ClusterState::default());
        let recent = RecentPlans::default();
        recent.put(&"x".repeat(MAX_SQL_BYTES + 1), None, planned(&state));
        assert_eq!(recent.entries.lock().len(), 0);
        for n in 0..=MAX_KEPT {
            recent.put(&format!("select {n}"), None, planned(&state));
        }
        assert!(recent.take("select 0", None).is_none());
        let kept = recent.take("select 1", None).unwrap();
        assert!(kept.holds_on(&state));
        assert!(!kept.holds_on(&Arc::new(ClusterState::default())));
    }
}
