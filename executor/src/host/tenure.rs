//! What an executor knows of one partition from the schedulers, and what follows from it: under which epoch it is held,
//! which staged write becomes which version, what may be served, created or dropped. Pure: no disk and no clock. The
//! simulation of the control plane runs this very code.
use std::collections::{BTreeMap, BTreeSet};

use ancho_common::ids::WriteId;

/// How a request's epoch fits the assignment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// The partition is held under this epoch.
    Held,
    /// It is held under another one.
    OtherEpoch(u64),
    /// Nobody assigns it.
    NotHeld,
}

/// How the version on disk stands to the committed one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// They are the same: the partition can be served.
    Current,
    /// Committed versions are missing.
    Behind,
    /// The disk has versions that the schedulers do not know.
    Ahead,
}

/// See the module's description.
#[derive(Debug, Clone, Default)]
pub struct Tenure {
    /// Epoch of the assignment, while there is one.
    epoch: Option<u64>,
    /// Highest version known to be committed: assigned, or published here on request before that assignment came.
    committed: u64,
    commits: BTreeMap<u64, WriteId>,
    /// Staged by an earlier start of the process.
    inherited: BTreeSet<WriteId>,
    /// Staged by this start, and under which epoch.
    staged: BTreeMap<WriteId, u64>,
}

impl Tenure {
    /// Takes in a newer assignment: its epoch, the committed version and the latest commits. The committed version never
    /// goes back within the life of the process.
    pub fn assign(&mut self, epoch: u64, version: u64, commits: &BTreeMap<u64, WriteId>) {
        self.epoch = Some(epoch);
        self.committed = self.committed.max(version);
        self.commits.extend(commits);
        if let Some((&oldest, _)) = commits.first_key_value() {
            // What the schedulers no longer list is not needed here either.
            self.commits.retain(|version, _| *version >= oldest);
        }
    }

    /// Nobody assigns the partition any more.
    pub fn leave(&mut self) {
        self.epoch = None;
    }

    /// Epoch under which it is held.
    #[must_use]
    pub fn epoch(&self) -> Option<u64> {
        self.epoch
    }

    /// Whether a request that names an epoch may be served.
    #[must_use]
    pub fn fit(&self, asked: u64) -> Fit {
        match self.epoch {
            Some(known) if known == asked => Fit::Held,
            Some(known) => Fit::OtherEpoch(known),
            None => Fit::NotHeld,
        }
    }

    /// The partition was opened and holds these staged writes: those not staged by this start are inherited.
    pub fn opened(&mut self, staged: impl IntoIterator<Item = WriteId>) {
        self.inherited = staged.into_iter().filter(|id| !self.staged.contains_key(id)).collect();
    }

    /// Highest version known to be committed.
    #[must_use]
    pub fn committed(&self) -> u64 {
        self.committed
    }

    /// The write that became a version, as far as it is known.
    #[must_use]
    pub fn write_of(&self, version: u64) -> Option<WriteId> {
        self.commits.get(&version).copied()
    }

    /// Whether a write is known to be committed.
    #[must_use]
    pub fn is_committed(&self, write: WriteId) -> bool {
        self.commits.values().any(|id| *id == write)
    }

    /// A write was staged by this start of the process under the epoch.
    pub fn staged(&mut self, write: WriteId, epoch: u64) {
        self.staged.insert(write, epoch);
    }

    /// A staged write was dropped.
    pub fn discarded(&mut self, write: WriteId) {
        self.inherited.remove(&write);
        self.staged.remove(&write);
    }

    /// A write became a version here.
    pub fn published(&mut self, version: u64, write: WriteId) {
        self.committed = self.committed.max(version);
        self.commits.insert(version, write);
        self.discarded(write);
    }

    /// The next version to make on the way from the one on disk to `target`, and the write that makes it. `named` is a
    /// version whose write the caller knows. `None` at the target, and where the next write is unknown or not staged here:
    /// skipping a version would silently leave out its rows.
    pub fn next_version(
        &self,
        on_disk: u64,
        target: u64,
        named: Option<(u64, WriteId)>,
        is_staged: impl Fn(WriteId) -> bool,
    ) -> Option<(u64, WriteId)> {
        let next = on_disk + 1;
        if next > target {
            return None;
        }
        let named = named.filter(|(version, _)| *version == next).map(|(_, id)| id);
        let write = named.or_else(|| self.write_of(next))?;
        is_staged(write).then_some((next, write))
    }

    /// How the version on disk stands to what is committed.
    #[must_use]
    pub fn standing(&self, on_disk: u64) -> Standing {
        match on_disk.cmp(&self.committed) {
            std::cmp::Ordering::Less => Standing::Behind,
            std::cmp::Ordering::Equal => Standing::Current,
            std::cmp::Ordering::Greater => Standing::Ahead,
        }
    }

    /// Whether a partition can be brought from an older version to the committed one without rows that are not in it: if all
    /// commits in between are known and `needs_no_rows`.
    pub fn is_reached_from(&self, version: u64, needs_no_rows: impl Fn(WriteId) -> bool) -> bool {
        let between = version.saturating_add(1)..=self.committed;
        version > 0
            && version <= self.committed
            && between.into_iter().all(|v| self.write_of(v).is_some_and(&needs_no_rows))
    }

    /// Whether an empty partition may stand in for one that is not on disk: only if it never held rows.
    #[must_use]
    pub fn may_start_empty(&self) -> bool {
        self.committed == 0
    }

    /// Staged writes that no commit can name any more: staged by an earlier start, which the schedulers know to be
    /// over once they sent assignments to this one, or under an earlier epoch. Only to be asked when everything
    /// committed is published, and with the assignment that proves it in place.
    #[must_use]
    pub fn dead_writes(&self) -> Vec<WriteId> {
        let Some(epoch) = self.epoch else { return Vec::new() };
        let former = self.staged.iter().filter(|(_, at)| **at < epoch).map(|(id, _)| *id);
        let dead = self.inherited.iter().copied().chain(former);
        dead.filter(|id| !self.is_committed(*id)).collect()
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn write(n: u128) -> WriteId {
        WriteId(Uuid::from_u128(n))
    }

    #[test]
    fn versions_follow_each_other_and_only_staged_writes_make_them() {
        let mut tenure = Tenure::default();
        tenure.assign(1, 3, &BTreeMap::from([(2, write(2)), (3, write(3))]));
        assert_eq!(tenure.next_version(1, 3, None, |_| true), Some((2, write(2))));
        assert_eq!(tenure.next_version(1, 3, None, |id| id != write(2)), None, "version 3 must wait for 2");
        assert_eq!(tenure.next_version(1, 1, None, |_| true), None);
        assert_eq!(tenure.next_version(3, 4, None, |_| true), None, "nobody knows which write makes it");
        assert_eq!(tenure.next_version(3, 4, Some((4, write(4))), |_| true), Some((4, write(4))));
        assert_eq!(tenure.standing(2), Standing::Behind);
        assert_eq!(tenure.standing(3), Standing::Current);
        assert_eq!(tenure.standing(4), Standing::Ahead);
        tenure.published(4, write(4));
        assert_eq!((tenure.committed(), tenure.standing(4)), (4, Standing::Current));
        tenure.assign(1, 3, &BTreeMap::new());
        assert_eq!(tenure.committed(), 4, "an assignment that was under way takes nothing back");
    }

    #[test]
    fn an_older_version_will_do_only_if_no_rows_came_since() {
        let mut tenure = Tenure::default();
        tenure.assign(1, 4, &BTreeMap::from([(2, write(2)), (3, write(3)), (4, write(4))]));
        let changes_columns = |id: WriteId| id == write(3) || id == write(4);
        assert!(tenure.is_reached_from(4, |_| false));
        assert!(tenure.is_reached_from(2, changes_columns));
        assert!(!tenure.is_reached_from(1, changes_columns), "version 2 has rows");
        assert!(!tenure.is_reached_from(0, |_| true), "nobody knows what made version 1");
        assert!(!tenure.is_reached_from(5, |_| true), "it was never committed");
    }

    #[test]
    fn only_writes_that_no_commit_can_name_are_dead() {
        let mut tenure = Tenure::default();
        tenure.opened([write(1), write(2)]);
        assert!(tenure.dead_writes().is_empty(), "nothing is known before the first assignment");
        tenure.assign(5, 1, &BTreeMap::from([(1, write(1))]));
        tenure.staged(write(3), 5);
        tenure.opened([write(1), write(2), write(3)]);
        assert_eq!(tenure.dead_writes(), [write(2)]);
        tenure.assign(6, 1, &BTreeMap::from([(1, write(1))]));
        assert_eq!(tenure.dead_writes(), [write(2), write(3)]);
        tenure.discarded(write(2));
        tenure.leave();
        assert!(tenure.dead_writes().is_empty() && tenure.fit(6) == Fit::NotHeld);
    }

    #[test]
    fn an_epoch_fits_only_itself() {
        let mut tenure = Tenure::default();
        assert_eq!(tenure.fit(1), Fit::NotHeld);
        tenure.assign(2, 0, &BTreeMap::new());
        assert_eq!((tenure.fit(1), tenure.fit(2), tenure.fit(3)), (Fit::OtherEpoch(2), Fit::Held, Fit::OtherEpoch(2)));
        assert!(tenure.may_start_empty());
        tenure.published(1, write(1));
        assert!(!tenure.may_start_empty());
    }
}
