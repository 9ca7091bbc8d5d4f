//! Simulated time. Every process has a monotonic clock of its own speed and a wall clock that may be set at any time.
use std::time::{Duration, Instant};

/// Since the start of the simulation, by nobody's clock.
pub type Time = Duration;

/// The clocks of one process.
#[derive(Debug, Clone)]
pub struct Clock {
    zero: Instant,
    /// Seconds that it counts in one.
    speed: f64,
    /// How far the wall clock is off, in milliseconds.
    pub wall_offset_ms: i64,
}

impl Clock {
    /// A clock that showed `zero` at the start.
    #[must_use]
    pub fn new(zero: Instant, speed: f64) -> Self {
        Self { zero, speed, wall_offset_ms: 0 }
    }

    /// What the monotonic clock shows at a time.
    #[must_use]
    pub fn at(&self, time: Time) -> Instant {
        self.zero + time.mul_f64(self.speed)
    }

    /// How long it takes until the clock has counted so much.
    #[must_use]
    pub fn time_of(&self, counted: Duration) -> Time {
        counted.div_f64(self.speed)
    }

    /// Milliseconds since the epoch, as the wall clock has it.
    #[must_use]
    pub fn wall_ms(&self, time: Time) -> u64 {
        let right = 1_750_000_000_000 + i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        u64::try_from(right.saturating_add(self.wall_offset_ms)).unwrap_or(0)
    }
}
