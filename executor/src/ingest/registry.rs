//! The writes in progress on this executor, and the ones that were dropped.
use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use ancho_common::{
    error::{Error, Result},
    ids::WriteId,
    plan::changes::KeyRule,
};
use parking_lot::Mutex;

use super::open_write::{OpenWrite, WriteScope};

/// Dropped writes that are remembered: rows of theirs may still arrive.
const REMEMBERED: usize = 4096;

/// All writes. A write enters with its first header and leaves when it is published, dropped or long settled.
#[derive(Debug, Default)]
pub(super) struct Registry {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    closed: bool,
    writes: HashMap<WriteId, Arc<OpenWrite>>,
    dropped: HashMap<WriteId, String>,
    order: VecDeque<WriteId>,
}

impl Registry {
    /// The write of that id, new if it is not known.
    pub(super) fn open(&self, id: WriteId, scope: WriteScope, key_rule: KeyRule) -> Result<Arc<OpenWrite>> {
        let mut inner = self.inner.lock();
        if let Some(reason) = inner.dropped.get(&id) {
            return Err(Error::conflict(format!("write {id} was dropped: {reason}; start the statement again")));
        }
        if inner.closed {
            return Err(Error::unavailable("the executor is stopping and takes no rows; try again"));
        }
        let write = inner.writes.entry(id).or_insert_with(|| Arc::new(OpenWrite::new(id, scope, key_rule)));
        if write.scope != scope {
            return Err(Error::invalid(format!("write {id} is {:?}, a request names {scope:?}", write.scope)));
        }
        Ok(Arc::clone(write))
    }

    /// Whether it is in progress.
    pub(super) fn knows(&self, id: WriteId) -> bool {
        self.inner.lock().writes.contains_key(&id)
    }

    /// Takes no new requests.
    pub(super) fn close(&self) {
        self.inner.lock().closed = true;
    }

    pub(super) fn all(&self) -> Vec<Arc<OpenWrite>> {
        self.inner.lock().writes.values().cloned().collect()
    }

    /// Ends it successfully.
    pub(super) fn forget(&self, id: WriteId) {
        self.inner.lock().writes.remove(&id);
    }

    /// Ends it and refuses everything that still comes for it.
    pub(super) fn drop_write(&self, id: WriteId, reason: &str) -> Option<Arc<OpenWrite>> {
        let mut inner = self.inner.lock();
        if inner.dropped.insert(id, reason.to_owned()).is_none() {
            inner.order.push_back(id);
            if inner.order.len() > REMEMBERED
                && let Some(oldest) = inner.order.pop_front()
            {
                inner.dropped.remove(&oldest);
            }
        }
        inner.writes.remove(&id)
    }
}

#[cfg(test)]
mod tests {
    use ancho_common::ids::TableId;

    use super::*;

    #[test]
    fn a_dropped_write_does_not_come_back() {
        let registry = Registry::default();
        let id = WriteId::new();
        let scope = WriteScope { table: TableId(1), schema_version: 0, overwrite: false };
        let others = [
            WriteScope { table: TableId(2), ..scope },
            WriteScope { schema_version: 1, ..scope },
            WriteScope { overwrite: true, ..scope },
        ];
        registry.open(id, scope, KeyRule::LastArrival).unwrap();
        assert!(others.into_iter().all(|other| registry.open(id, other, KeyRule::LastArrival).is_err()));
        assert!(registry.drop_write(id, "test").is_some());
        assert!(registry.open(id, scope, KeyRule::LastArrival).unwrap_err().message.contains("was dropped: test"));
        for _ in 0..REMEMBERED {
            registry.drop_write(WriteId::new(), "other");
        }
        assert_eq!(registry.inner.lock().dropped.len(), REMEMBERED);
    }
}
