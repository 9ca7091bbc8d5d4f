//! Times that the simulated processes keep to; those of the product's defaults.
use std::time::Duration;

/// Length of a session.
pub const TTL: Duration = Duration::from_secs(10);
/// How much longer the leader waits.
pub const MARGIN: Duration = Duration::from_secs(2);
/// How long an executor waits for its welcome.
pub const WELCOME_LIMIT: Duration = Duration::from_secs(5);
/// Stillness of the state before partitions are placed.
pub const DEBOUNCE: Duration = Duration::from_millis(200);
/// How long something must be due before partitions are moved.
pub const SETTLE: Duration = Duration::from_secs(1);
/// So long after the beginning nobody asks for moves any more.
pub const OPERATOR_UNTIL: Duration = Duration::from_secs(58);
/// How long a partition that nobody assigns stays on disk.
pub const UNASSIGNED_GRACE: Duration = Duration::from_secs(15);
/// How long a request is tried.
pub const PROPOSE_LIMIT: Duration = Duration::from_secs(10);
/// How long one attempt may take.
pub const ATTEMPT_LIMIT: Duration = Duration::from_secs(3);
/// Pause before a request is tried again.
pub const PROPOSE_PAUSE: Duration = Duration::from_millis(50);
/// How long a read index is asked for.
pub const INDEX_LIMIT: Duration = Duration::from_secs(5);
/// How long one question to a leader may take.
pub const INDEX_ROUND: Duration = Duration::from_secs(2);
/// How long an executor may take to answer.
pub const EXECUTOR_LIMIT: Duration = Duration::from_secs(5);
/// How long a client waits for an answer.
pub const CLIENT_LIMIT: Duration = Duration::from_secs(15);
