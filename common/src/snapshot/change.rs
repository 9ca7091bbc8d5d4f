//! Changes of a head: read, changed, written if nobody else has changed it since, and from the start again if somebody has.
use std::time::Duration;

use bytes::Bytes;
use uuid::Uuid;

use super::{
    head::{Fenced, Head},
    names,
    store::{Conditional, HeadStore},
};
use crate::error::{Error, ErrorKind, Result};

/// How often a change is tried.
pub const ATTEMPTS: u32 = 10;
/// Least and longest first wait.
const FIRST_WAIT: (Duration, Duration) = (Duration::from_millis(12), Duration::from_millis(25));
/// Where the longest wait stops to double.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// What a change makes of a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It is to be written.
    Made,
    /// It is so already.
    None,
}

/// Applies a change to the head of a dataset's folder, and answers the head with it. `new` is the head where there is none
/// yet, and names the cluster that changes it. `change` may be asked several times, each time with the newest head.
///
/// # Errors
/// `Conflict` where another cluster publishes there, where a later epoch has been here, or others came first each time; `Unavailable` where the store does not
/// answer; what `change` raises. The head may have been changed only in the case of `Unknown`.
pub async fn change_head<S: HeadStore>(
    store: &S,
    folder: &str,
    epoch: u64,
    new: &Head,
    change: impl FnMut(&mut Head) -> Result<Change>,
) -> Result<Head> {
    change_with(store, (folder, epoch, new), change, |attempt| wait(attempt, fraction())).await
}

/// As [`change_head`], with the waits between attempts.
async fn change_with<S: HeadStore>(
    store: &S,
    (folder, epoch, new): (&str, u64, &Head),
    mut change: impl FnMut(&mut Head) -> Result<Change>,
    wait: impl Fn(u32) -> Duration,
) -> Result<Head> {
    let key = names::head(folder);
    let mut written: Option<Uuid> = None;
    let mut failure = Error::conflict("other writers came first each time");
    for attempt in 0..ATTEMPTS {
        if attempt > 0 {
            tokio::time::sleep(wait(attempt)).await;
        }
        let found = match store.read(&key).await {
            Ok(found) => found,
            // Nothing is known of a write before it, and will be at the next look.
            Err(error) if error.kind == ErrorKind::Unavailable => {
                failure = error;
                continue;
            }
            Err(error) => return Err(error),
        };
        let (mut head, version) = match &found {
            Some((bytes, version)) => (Head::decode(bytes).map_err(|e| e.context(&key))?, Some(version)),
            None => (new.clone(), None),
        };
        if written.is_some_and(|id| id == head.change_id) {
            return Ok(head);
        }
        // Epochs of another cluster mean nothing here.
        head.check_cluster(&new.cluster_id)?;
        head.enter(epoch).map_err(fenced)?;
        if change(&mut head)? == Change::None {
            return Ok(head);
        }
        let id = Uuid::new_v4();
        head.change_id = id;
        head.head_version += 1;
        match store.write(&key, Bytes::from(head.encode()?), version).await {
            Ok(Conditional::Written) => return Ok(head),
            // Also the answer to a repetition of one's own request whose first answer was lost: the next look tells.
            Ok(Conditional::Refused) => written = Some(id),
            Err(error) if error.kind == ErrorKind::Unavailable => {
                written = Some(id);
                failure = error;
            }
            Err(error) => return Err(error),
        }
    }
    let known = written.is_none() || failure.kind == ErrorKind::Conflict;
    let kind = if known { failure.kind } else { ErrorKind::Unknown };
    Err(Error::new(kind, format!("{key} could not be changed in {ATTEMPTS} attempts: {}", failure.message)))
}

fn fenced(Fenced { epoch, current }: Fenced) -> Error {
    Error::conflict(format!(
        "epoch {epoch} is over: the head was changed under epoch {current} by a publisher that took over"
    ))
}

/// The wait before an attempt; `random` is between 0 and 1.
#[must_use]
pub fn wait(attempt: u32, random: f64) -> Duration {
    let (least, most) = FIRST_WAIT;
    let most = most.saturating_mul(1 << attempt.saturating_sub(1).min(16)).min(LONGEST_WAIT);
    least + (most - least).mul_f64(random.clamp(0.0, 1.0))
}

/// Between 0 and 1, another one in each process.
fn fraction() -> f64 {
    f64::from(Uuid::new_v4().as_fields().0) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::{collections::VecDeque, sync::Arc};

    use object_store::UpdateVersion;
    use parking_lot::Mutex;

    use super::{super::head::tests::entry, *};
    use crate::snapshot::store::ObjectVersion;

    /// What happens to the next write.
    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Fault {
        /// It is made, and its answer lost.
        AnswerLost,
        /// It is made, its answer lost, and another writer comes before anybody looks.
        AnswerLostAndOvertaken,
        /// It is not made, and nobody says so.
        Lost,
        /// Another writer comes first.
        Overtaken,
    }

    /// One object in memory with faults.
    #[derive(Default)]
    struct Faulty {
        object: Mutex<Option<(Bytes, u64)>>,
        faults: Mutex<VecDeque<Fault>>,
        writes: Mutex<u32>,
    }

    impl Faulty {
        fn with(faults: &[Fault]) -> Arc<Self> {
            Arc::new(Self { faults: Mutex::new(faults.iter().copied().collect()), ..Self::default() })
        }

        fn head(&self) -> Option<Head> {
            self.object.lock().as_ref().map(|(bytes, _)| Head::decode(bytes).unwrap())
        }

        /// Somebody else changes the head.
        fn other_writer(&self) {
            let mut object = self.object.lock();
            let mut head = match &*object {
                Some((bytes, _)) => Head::decode(bytes).unwrap(),
                None => Head::new("t", "c"),
            };
            head.change_id = Uuid::new_v4();
            head.head_version += 1;
            let version = object.as_ref().map_or(0, |(_, version)| *version) + 1;
            *object = Some((Bytes::from(head.encode().unwrap()), version));
        }

        fn put(&self, bytes: Bytes, there: Option<&ObjectVersion>) -> Conditional {
            let mut object = self.object.lock();
            let found = object.as_ref().map(|(_, version)| version_of(*version));
            if found.as_ref() != there {
                return Conditional::Refused;
            }
            let version = object.as_ref().map_or(0, |(_, version)| *version) + 1;
            *object = Some((bytes, version));
            Conditional::Written
        }
    }

    fn version_of(version: u64) -> ObjectVersion {
        ObjectVersion(UpdateVersion { e_tag: Some(version.to_string()), version: None })
    }

    impl HeadStore for Faulty {
        async fn read(&self, _: &str) -> Result<Option<(Bytes, ObjectVersion)>> {
            Ok(self.object.lock().as_ref().map(|(bytes, version)| (bytes.clone(), version_of(*version))))
        }

        async fn write(&self, _: &str, bytes: Bytes, there: Option<&ObjectVersion>) -> Result<Conditional> {
            *self.writes.lock() += 1;
            let fault = self.faults.lock().pop_front();
            let lost = || Err(Error::unavailable("the connection broke"));
            match fault {
                None => Ok(self.put(bytes, there)),
                Some(Fault::AnswerLost) => {
                    self.put(bytes, there);
                    lost()
                }
                Some(Fault::AnswerLostAndOvertaken) => {
                    self.put(bytes, there);
                    self.other_writer();
                    lost()
                }
                Some(Fault::Lost) => lost(),
                Some(Fault::Overtaken) => {
                    self.other_writer();
                    Ok(self.put(bytes, there))
                }
            }
        }

        async fn remove(&self, _: &str) -> Result<()> {
            *self.object.lock() = None;
            Ok(())
        }
    }

    async fn publish(store: &Faulty, epoch: u64, n: u128) -> Result<Head> {
        let publish = |head: &mut Head| {
            if head.entry(entry(n).id).is_some() {
                return Ok(Change::None);
            }
            head.publish(entry(n));
            Ok(Change::Made)
        };
        change_with(store, ("f", epoch, &Head::new("t", "c")), publish, |_| Duration::from_millis(1)).await
    }

    #[tokio::test]
    async fn a_change_is_made_once_whatever_becomes_of_answers() {
        for faults in [
            vec![Fault::AnswerLost],
            vec![Fault::AnswerLostAndOvertaken],
            vec![Fault::Lost, Fault::Lost, Fault::AnswerLost],
            vec![Fault::Overtaken; 9],
            vec![Fault::Lost, Fault::Overtaken, Fault::AnswerLostAndOvertaken],
        ] {
            let store = Faulty::with(&faults);
            let head = publish(&store, 1, 7).await.unwrap();
            assert_eq!(head.snapshots, [entry(7)], "{faults:?}");
            assert_eq!(store.head().unwrap().snapshots, [entry(7)], "{faults:?}");
        }
    }

    #[tokio::test]
    async fn attempts_end_and_say_what_is_known() {
        let store = Faulty::with(&[Fault::Overtaken; 10]);
        assert_eq!(publish(&store, 1, 7).await.unwrap_err().kind, ErrorKind::Conflict);
        assert_eq!(*store.writes.lock(), ATTEMPTS);
        let store = Faulty::with(&[Fault::Lost; 10]);
        assert_eq!(publish(&store, 1, 7).await.unwrap_err().kind, ErrorKind::Unknown);
        assert!(store.head().is_none());
    }

    #[tokio::test]
    async fn a_publisher_that_was_overtaken_changes_nothing() {
        let store = Faulty::with(&[]);
        publish(&store, 2, 2).await.unwrap();
        let error = publish(&store, 1, 1).await.unwrap_err();
        assert!(error.kind == ErrorKind::Conflict && error.message.contains("epoch 1 is over"), "{error}");
        let head = store.head().unwrap();
        assert_eq!((head.snapshots, head.epoch), (vec![entry(2)], 2));
    }

    #[tokio::test]
    async fn another_cluster_is_told_whose_the_place_is() {
        let store = Faulty::with(&[]);
        publish(&store, 7, 2).await.unwrap();
        for epoch in [1, 9] {
            let change = |_: &mut Head| Ok(Change::Made);
            let refused = change_with(&*store, ("f", epoch, &Head::new("t", "other")), change, |_| Duration::ZERO)
                .await
                .unwrap_err();
            assert!(
                refused.kind == ErrorKind::Conflict && refused.message.contains("cluster c publishes"),
                "{refused}"
            );
        }
        assert_eq!(store.head().unwrap().epoch, 7);
    }

    #[tokio::test]
    async fn of_many_writers_each_change_is_there() {
        let store = Faulty::with(&[]);
        let writers = (1..=8).map(|n| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { publish(&store, 1, n).await.unwrap() })
        });
        for writer in writers.collect::<Vec<_>>() {
            writer.await.unwrap();
        }
        let head = store.head().unwrap();
        assert_eq!((head.snapshots.len(), head.head_version), (8, 8));
    }

    #[test]
    fn waits_grow_and_end() {
        assert_eq!(wait(1, 0.0), Duration::from_millis(12));
        assert_eq!(wait(1, 1.0), Duration::from_millis(25));
        assert_eq!(wait(2, 1.0), Duration::from_millis(50));
        assert_eq!(wait(9, 1.0), Duration::from_secs(2));
        assert_eq!(wait(u32::MAX, 1.0), Duration::from_secs(2));
    }
}
