//! The right to serve: held from the moment the last acknowledged beat was *sent*, for one TTL of this machine's
//! monotonic clock. The leader counts from when it *received* that beat, so the executor always stops first.
use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use ancho_common::error::{Error, Result};

/// Shared by the session (renews) and every request (checks). Lock-free: a busy executor must not delay a renewal.
#[derive(Debug)]
pub struct Lease {
    base: Instant,
    // Nanoseconds after `base`; 0 says that no session was ever held.
    until: AtomicU64,
}

impl Default for Lease {
    fn default() -> Self {
        // An hour back: `Instant`s taken just before this one must not fall before the base.
        let now = Instant::now();
        Self { base: now.checked_sub(Duration::from_secs(3600)).unwrap_or(now), until: AtomicU64::new(0) }
    }
}

impl Lease {
    /// Prolongs the lease to `sent + ttl`; an older acknowledgement never shortens it.
    pub fn renew(&self, sent: Instant, ttl: Duration) {
        self.until.fetch_max(self.nanos(sent + ttl), Ordering::AcqRel);
    }

    /// Whether serving is allowed now.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.is_held_at(Instant::now())
    }

    /// Whether serving is allowed at a moment.
    #[must_use]
    pub fn is_held_at(&self, now: Instant) -> bool {
        self.nanos(now) < self.until.load(Ordering::Acquire)
    }

    /// Ends it at once (the process is stopping, or was refused).
    pub fn end(&self) {
        self.until.store(0, Ordering::Release);
    }

    /// Refuses when the session has lapsed.
    ///
    /// # Errors
    /// `Unavailable`.
    pub fn check(&self, executor_id: &str) -> Result<()> {
        if self.is_held() {
            return Ok(());
        }
        let since = self.until.load(Ordering::Acquire);
        let why = if since == 0 {
            "has no session with the schedulers yet".to_owned()
        } else {
            let ago = self.nanos(Instant::now()).saturating_sub(since);
            format!("lost its session with the schedulers {} ms ago", ago / 1_000_000)
        };
        Err(Error::unavailable(format!("executor {executor_id} {why}; try again")))
    }

    fn nanos(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.base).as_nanos()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_counts_from_the_sending_and_never_shrinks() {
        let lease = Lease::default();
        assert!(!lease.is_held());
        let now = Instant::now();
        lease.renew(now, Duration::from_secs(60));
        assert!(lease.is_held());
        lease.renew(now.checked_sub(Duration::from_secs(120)).unwrap(), Duration::from_secs(60));
        assert!(lease.is_held());
        lease.end();
        let error = lease.check("x").unwrap_err();
        assert_eq!(error.kind, ancho_common::error::ErrorKind::Unavailable);
        lease.renew(now.checked_sub(Duration::from_secs(120)).unwrap(), Duration::from_secs(60));
        assert!(!lease.is_held() && lease.check("x").unwrap_err().message.contains("lost its session"));
    }
}
