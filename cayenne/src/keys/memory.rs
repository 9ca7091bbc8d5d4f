//! What keys hold in memory: a bound of their own, and an account with the pool of the process.

use std::sync::Arc;

use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};

/// So many bytes are never refused: a write of a few rows must not read its files again because memory is short.
pub(crate) const SMALL: usize = 64 << 10;
/// The account grows in steps of this size, so that not every key asks the pool.
const STEP: usize = 16 << 10;

/// The memory of one holder of keys. It is given back when this is dropped.
#[derive(Debug)]
pub(crate) struct KeyMemory {
    budget: usize,
    account: Option<MemoryReservation>,
}

impl KeyMemory {
    /// At most `budget` bytes, which are told to the pool.
    pub(crate) fn new(budget: usize, pool: Option<&Arc<dyn MemoryPool>>) -> Self {
        let account = pool.map(|pool| MemoryConsumer::new("cayenne keys").register(pool));
        Self { budget, account }
    }

    /// For few keys, or for a short time.
    pub(crate) fn unaccounted() -> Self {
        Self { budget: usize::MAX, account: None }
    }

    /// Whether so many bytes may be held in all; if so, they are accounted.
    pub(crate) fn hold(&self, bytes: usize) -> bool {
        if bytes > self.budget {
            return false;
        }
        let Some(account) = &self.account else { return true };
        if bytes <= account.size() {
            return true;
        }
        if bytes <= SMALL {
            account.resize(bytes);
            return true;
        }
        account.try_resize(bytes.next_multiple_of(STEP)).is_ok()
    }

    /// So many bytes are held, whether or not there is room.
    pub(crate) fn note(&self, bytes: usize) {
        if let Some(account) = &self.account {
            account.resize(bytes);
        }
    }

    /// Bytes to come down to after [`hold`](Self::hold) has refused some.
    pub(crate) fn limit(&self) -> usize {
        let granted = self.account.as_ref().map_or(usize::MAX, |account| account.size().max(SMALL));
        self.budget.min(granted)
    }
}

#[cfg(test)]
mod tests {
    use datafusion::execution::memory_pool::GreedyMemoryPool;

    use super::*;

    #[test]
    fn a_budget_and_a_pool_bound_what_is_held() {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1 << 20));
        let first = KeyMemory::new(300 << 10, Some(&pool));
        assert!(first.hold(300 << 10) && !first.hold((300 << 10) + 1));
        assert_eq!(first.limit(), 300 << 10);
        assert_eq!(pool.reserved(), (300usize << 10).next_multiple_of(STEP));
        let second = KeyMemory::new(usize::MAX, Some(&pool));
        assert!(second.hold(512 << 10), "there is room");
        assert!(!second.hold(800 << 10), "the pool has not as much");
        assert_eq!(second.limit(), 512 << 10, "what it has");
        second.note(10);
        first.note(5);
        assert_eq!(pool.reserved(), 15);
        assert!(second.hold(800 << 10));
        drop((first, second));
        assert_eq!(pool.reserved(), 0);
    }

    #[test]
    fn a_little_is_there_in_any_case() {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1));
        let memory = KeyMemory::new(1 << 20, Some(&pool));
        assert!(memory.hold(SMALL) && !memory.hold(SMALL + 1));
        assert_eq!((pool.reserved(), memory.limit()), (SMALL, SMALL));
        let free = KeyMemory::unaccounted();
        assert!(free.hold(usize::MAX));
        let budget = KeyMemory::new(100, None);
        assert!(budget.hold(100) && !budget.hold(101));
        assert_eq!(budget.limit(), 100);
    }
}
