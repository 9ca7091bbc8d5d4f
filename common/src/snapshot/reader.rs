//! What those do who serve what a head lists: which snapshot they take, and when they keep the one they have. Pure.
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::head::{Head, HeadEntry};

/// The snapshot that a reader serves, and what it knew when it took it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Served {
    /// Its id.
    pub id: Uuid,
    /// The cluster that published it.
    pub cluster_id: String,
    /// The epoch that it was published under; they grow with each snapshot of a table.
    pub epoch: u64,
    /// The head's version then.
    pub head_version: u64,
    /// When it was published, milliseconds since 1970.
    pub published_ms: u64,
}

/// What a reader is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice<'a> {
    /// Nothing is published yet.
    Wait,
    /// It serves what it should.
    Keep,
    /// This head is older than the one that its snapshot was chosen from, so it says nothing.
    KeepSinceStale,
    /// The current snapshot is older than the one that is served, and not because it was pinned.
    KeepSinceNewer(&'a HeadEntry),
    /// This one is to be served from now on.
    Take(&'a HeadEntry),
}

/// What a reader is to do that serves `served` and has read this head.
#[must_use]
pub fn choose<'a>(head: &'a Head, served: Option<&Served>) -> Choice<'a> {
    let Some(current) = head.current.and_then(|id| head.entry(id)) else {
        return if served.is_some() { Choice::Keep } else { Choice::Wait };
    };
    let Some(served) = served.filter(|served| served.cluster_id == head.cluster_id) else {
        // Versions and epochs of another cluster mean nothing here.
        return Choice::Take(current);
    };
    if head.head_version < served.head_version {
        Choice::KeepSinceStale
    } else if current.id == served.id {
        Choice::Keep
    } else if current.epoch < served.epoch && head.pinned != Some(current.id) {
        Choice::KeepSinceNewer(current)
    } else {
        Choice::Take(current)
    }
}

impl Served {
    /// What a reader serves that takes a snapshot of this head.
    #[must_use]
    pub fn of(head: &Head, entry: &HeadEntry) -> Self {
        Self {
            id: entry.id,
            cluster_id: head.cluster_id.clone(),
            epoch: entry.epoch,
            head_version: head.head_version,
            published_ms: entry.published_ms,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::head::tests::entry, *};

    /// A head that was changed once for each snapshot.
    fn publish(head: &mut Head, n: u64) {
        head.publish(HeadEntry { epoch: n, ..entry(n.into()) });
        head.head_version += 1;
    }

    fn taken(head: &Head, served: Option<&Served>) -> Option<u64> {
        match choose(head, served) {
            Choice::Take(entry) => Some(entry.epoch),
            _ => None,
        }
    }

    #[test]
    fn readers_follow_what_is_current() {
        let mut head = Head::new("t", "c");
        assert_eq!(choose(&head, None), Choice::Wait);
        publish(&mut head, 1);
        assert_eq!(taken(&head, None), Some(1));
        let first = Served::of(&head, &head.snapshots[0]);
        assert_eq!(choose(&head, Some(&first)), Choice::Keep);
        let former = head.clone();
        publish(&mut head, 2);
        assert_eq!(taken(&head, Some(&first)), Some(2));
        let second = Served::of(&head, &head.snapshots[1]);
        assert_eq!(choose(&former, Some(&second)), Choice::KeepSinceStale);

        // Back to an older one only where it is pinned, and forward again.
        let first_id = head.snapshots[0].id;
        head.pin(first_id).unwrap();
        head.head_version += 1;
        assert_eq!(taken(&head, Some(&second)), Some(1));
        let back = Served::of(&head, &head.snapshots[0]);
        publish(&mut head, 3);
        assert_eq!(choose(&head, Some(&back)), Choice::Keep);
        assert!(head.unpin());
        head.head_version += 1;
        assert_eq!(taken(&head, Some(&back)), Some(3));

        // Somebody has made an older one current without pinning it.
        let third = Served::of(&head, &head.snapshots[2]);
        head.current = Some(first_id);
        head.head_version += 1;
        assert!(matches!(choose(&head, Some(&third)), Choice::KeepSinceNewer(older) if older.id == first_id));
        // Another cluster publishes there now, from the beginning.
        let mut other = Head::new("t", "d");
        publish(&mut other, 1);
        assert_eq!(taken(&other, Some(&third)), Some(1));
        assert_eq!(choose(&Head::new("t", "c"), Some(&third)), Choice::Keep);
    }
}
