//! A durable step that fails at its n-th time: what tests of crashes and of disk errors share.

use std::sync::atomic::{AtomicUsize, Ordering};

use cayenne::{Failpoints, Outcome, Step};

/// Lets a step pass a number of times and then does what it was told, for good.
#[derive(Debug)]
pub struct At {
    pub step: Step,
    pub left: AtomicUsize,
    pub outcome: Outcome,
    pub hit: AtomicUsize,
}

impl Failpoints for At {
    fn at(&self, step: Step) -> Outcome {
        if step != self.step {
            return Outcome::Continue;
        }
        if self.left.load(Ordering::SeqCst) > 0 {
            self.left.fetch_sub(1, Ordering::SeqCst);
            return Outcome::Continue;
        }
        self.hit.fetch_add(1, Ordering::SeqCst);
        self.outcome
    }
}
