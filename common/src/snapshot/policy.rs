//! What a table's options say about its snapshots. Pure.
use std::{collections::BTreeMap, time::Duration};

use crate::duration;

/// Option: whether snapshots are made and used.
pub const MODE: &str = "snapshots";
/// Option: when one is made unasked.
pub const TRIGGER: &str = "snapshots_trigger";
/// Option: the period, or the number of commits.
pub const THRESHOLD: &str = "snapshots_trigger_threshold";
/// Option: whether one is made although nothing has changed.
pub const CREATION: &str = "snapshots_creation_policy";
/// Option: whether files are rewritten before.
pub const COMPACTION: &str = "snapshots_compaction";
/// Option: how long snapshots are kept.
pub const RETENTION: &str = "snapshots_retention";
/// Option: how many are kept at any age.
pub const MIN_KEEP: &str = "snapshots_min_keep";

/// All of them but those that say where snapshots go.
pub const OPTIONS: [&str; 7] = [MODE, TRIGGER, THRESHOLD, CREATION, COMPACTION, RETENTION, MIN_KEEP];

/// The period where none is given.
const DEFAULT_PERIOD: Duration = Duration::from_secs(600);
/// The shortest period: a snapshot asks the store a few times.
const SHORTEST_PERIOD: Duration = Duration::from_secs(1);
const DEFAULT_RETENTION: Duration = Duration::from_secs(28 * 24 * 3600);

/// When a snapshot is made unasked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// After each refresh of a dataset.
    RefreshComplete,
    /// After so much time.
    Interval(Duration),
    /// After so many commits.
    Commits(u64),
}

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotPolicy {
    /// Snapshots may be made.
    pub creates: bool,
    /// They are made unasked.
    pub automatic: Option<Trigger>,
    /// Lost partitions are restored from them.
    pub restores: bool,
    /// One is made although nothing has changed.
    pub always: bool,
    /// Files are rewritten before.
    pub compacts: bool,
    /// How long they are kept.
    pub retention: Duration,
    /// How many are kept at any age.
    pub min_keep: usize,
}

impl SnapshotPolicy {
    /// Of a table's options; `has_source` tells datasets from tables that statements write to.
    ///
    /// # Errors
    /// Which option is wrong, and what to write.
    pub fn of(params: &BTreeMap<String, String>, has_source: bool) -> Result<Self, (&'static str, String)> {
        let option = |name: &str| params.get(name).map(|text| text.trim());
        let one_of = |name: &'static str, words: &[&'static str]| match option(name) {
            None => Ok(None),
            Some(text) => match words.iter().find(|word| **word == text) {
                Some(word) => Ok(Some(*word)),
                None => Err((name, format!("`{text}` is not possible here: write one of {}", words.join(", ")))),
            },
        };
        let (creates, on, restores) = match one_of(MODE, &["enabled", "bootstrap_only", "create_only", "disabled"])? {
            // On demand only.
            None => (true, false, true),
            Some("enabled") => (true, true, true),
            Some("create_only") => (true, true, false),
            Some("bootstrap_only") => (false, false, true),
            Some(_) => (false, false, false),
        };
        let trigger = trigger(
            one_of(TRIGGER, &["refresh_complete", "time_interval", "stream_batches"])?,
            option(THRESHOLD),
            has_source,
        )?;
        let always = one_of(CREATION, &["on_change", "always"])? == Some("always");
        if always && !matches!(trigger, Trigger::Interval(_)) {
            return Err((
                CREATION,
                "`always` needs `snapshots_trigger: time_interval`: otherwise nothing ends".to_owned(),
            ));
        }
        let compacts = one_of(COMPACTION, &["enabled", "disabled"])? == Some("enabled");
        let retention = match option(RETENTION) {
            None => DEFAULT_RETENTION,
            Some(text) => {
                days(text).or_else(|| duration::parse(text)).filter(|time| !time.is_zero()).ok_or_else(|| {
                    (RETENTION, format!("`{text}` is not a length of time: write for example 28d or 12h"))
                })?
            }
        };
        let min_keep = match option(MIN_KEEP) {
            None => 2,
            Some(text) => text.parse::<usize>().ok().filter(|n| *n > 0).ok_or_else(|| {
                (MIN_KEEP, format!("`{text}` is not possible here: write a whole number of at least 1"))
            })?,
        };
        Ok(Self { creates, automatic: on.then_some(trigger), restores, always, compacts, retention, min_keep })
    }
}

fn trigger(given: Option<&str>, threshold: Option<&str>, has_source: bool) -> Result<Trigger, (&'static str, String)> {
    match given {
        Some("stream_batches") if has_source => Err((
            TRIGGER,
            "`stream_batches` counts the commits of a table that statements write to; a dataset is refreshed as a whole: write \
             `refresh_complete` or `time_interval`"
                .to_owned(),
        )),
        Some("refresh_complete") if !has_source => Err((
            TRIGGER,
            "`refresh_complete` is for datasets: write `time_interval` or `stream_batches`".to_owned(),
        )),
        Some("stream_batches") => match threshold.map(str::parse::<u64>) {
            Some(Ok(commits)) if commits > 0 => Ok(Trigger::Commits(commits)),
            _ => Err((THRESHOLD, "`stream_batches` needs a whole number of commits of at least 1".to_owned())),
        },
        Some("time_interval") => interval(threshold),
        None if !has_source => interval(threshold),
        _ => match threshold {
            None => Ok(Trigger::RefreshComplete),
            Some(_) => Err((THRESHOLD, "`refresh_complete` has no threshold: remove it, or write another trigger".to_owned())),
        },
    }
}

fn interval(threshold: Option<&str>) -> Result<Trigger, (&'static str, String)> {
    let Some(text) = threshold else { return Ok(Trigger::Interval(DEFAULT_PERIOD)) };
    let bare = text.parse::<u64>().is_ok();
    match duration::parse(text).filter(|period| !bare && *period >= SHORTEST_PERIOD) {
        Some(period) => Ok(Trigger::Interval(period)),
        None => Err((THRESHOLD, format!("`{text}` is not a period of at least 1s: write for example 10m"))),
    }
}

fn days(text: &str) -> Option<Duration> {
    let days: u64 = text.strip_suffix('d')?.trim().parse().ok()?;
    days.checked_mul(24 * 3600).map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(options: &[(&str, &str)], has_source: bool) -> Result<SnapshotPolicy, (&'static str, String)> {
        let params = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        SnapshotPolicy::of(&params, has_source)
    }

    #[test]
    fn modes_say_what_is_made_and_used() {
        let modes = |mode: &[(&str, &str)]| {
            let policy = of(mode, true).unwrap();
            (policy.creates, policy.automatic.is_some(), policy.restores)
        };
        assert_eq!(modes(&[]), (true, false, true));
        assert_eq!(modes(&[(MODE, "enabled")]), (true, true, true));
        assert_eq!(modes(&[(MODE, "create_only")]), (true, true, false));
        assert_eq!(modes(&[(MODE, "bootstrap_only")]), (false, false, true));
        assert_eq!(modes(&[(MODE, "disabled")]), (false, false, false));
    }

    #[test]
    fn triggers_have_their_defaults() {
        let trigger = |options: &[(&'static str, &str)], has_source| {
            let all: Vec<_> = [(MODE, "enabled")].into_iter().chain(options.iter().copied()).collect();
            of(&all, has_source).map(|policy| policy.automatic.unwrap()).map_err(|(name, _)| name)
        };
        assert_eq!(trigger(&[], true), Ok(Trigger::RefreshComplete));
        assert_eq!(trigger(&[], false), Ok(Trigger::Interval(Duration::from_secs(600))));
        assert_eq!(trigger(&[(TRIGGER, "time_interval")], true), Ok(Trigger::Interval(Duration::from_secs(600))));
        assert_eq!(trigger(&[(THRESHOLD, "90s")], false), Ok(Trigger::Interval(Duration::from_secs(90))));
        assert_eq!(trigger(&[(TRIGGER, "stream_batches"), (THRESHOLD, "7")], false), Ok(Trigger::Commits(7)));
        for (options, has_source, wrong) in [
            (vec![(TRIGGER, "stream_batches"), (THRESHOLD, "7")], true, TRIGGER),
            (vec![(TRIGGER, "refresh_complete")], false, TRIGGER),
            (vec![(TRIGGER, "stream_batches")], false, THRESHOLD),
            (vec![(TRIGGER, "stream_batches"), (THRESHOLD, "10m")], false, THRESHOLD),
            (vec![(TRIGGER, "time_interval"), (THRESHOLD, "10")], true, THRESHOLD),
            (vec![(TRIGGER, "time_interval"), (THRESHOLD, "10ms")], true, THRESHOLD),
            (vec![(THRESHOLD, "10m")], true, THRESHOLD),
            (vec![(TRIGGER, "hourly")], true, TRIGGER),
            (vec![(CREATION, "always")], true, CREATION),
            (vec![(CREATION, "sometimes")], true, CREATION),
            (vec![(RETENTION, "for ever")], true, RETENTION),
            (vec![(RETENTION, "0d")], true, RETENTION),
            (vec![(MIN_KEEP, "0")], true, MIN_KEEP),
            (vec![(COMPACTION, "true")], true, COMPACTION),
        ] {
            assert_eq!(trigger(&options, has_source), Err(wrong), "{options:?}");
        }
        let kept = of(&[(RETENTION, "2d"), (MIN_KEEP, "5"), (COMPACTION, "enabled")], true).unwrap();
        assert_eq!((kept.retention, kept.min_keep, kept.compacts), (Duration::from_secs(172_800), 5, true));
        assert_eq!(of(&[], true).unwrap().retention, Duration::from_secs(28 * 86_400));
    }
}
