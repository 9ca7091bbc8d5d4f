//! Which files are worth rewriting together: a pure function of what is known about them.
//!
//! Rewriting is paid for in bytes, so files are merged with files of about their own size: a pick never
//! takes in a file that is much larger than all smaller ones in it. So each row is rewritten about as often as
//! its file can grow by that factor until it is no longer small, and never again unless its rows are deleted.

use std::collections::HashSet;

use super::options::CompactionOptions;

/// A pick takes in a file of at most this many times the bytes that it has so far.
const MAX_GROWTH: u64 = 4;
/// A pick reads about this many target sizes at most, so that a pass ends in reasonable time.
const MAX_TARGETS: u64 = 4;

/// What the policy needs to know about one visible file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileFacts {
    pub(crate) bytes: u64,
    pub(crate) rows: u64,
    /// Rows that a deletion vector hides.
    pub(crate) deleted_rows: u64,
    /// Key tombstones that may hide rows of this file.
    pub(crate) tombstones: u64,
    /// The generation in which it became visible.
    pub(crate) generation: u64,
    /// When it became visible, in milliseconds since 1970.
    pub(crate) since_ms: u64,
    /// Whether a compaction wrote it.
    pub(crate) settled: bool,
    /// Whether a sealed write that is not published refers to rows of it.
    pub(crate) busy: bool,
}

impl FileFacts {
    fn hides_rows(&self) -> bool {
        self.deleted_rows > 0 || self.tombstones > 0
    }
}

/// What the policy needs to know about the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TableFacts {
    pub(crate) keyless: bool,
    /// Whether compaction puts rows in an order, so that a file gains by being rewritten alone.
    pub(crate) ordered: bool,
    /// How large rewritten files become. A file under a quarter of it is small.
    pub(crate) target_bytes: u64,
    pub(crate) now_ms: u64,
}

/// Why files are rewritten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CompactionTrigger {
    /// Somebody asked for it.
    Asked,
    /// Too many key tombstones.
    Tombstones,
    /// Too many deleted rows in a file.
    DeletedRows,
    /// Too many small files.
    SmallFiles,
    /// Too many commits whose files were never rewritten.
    Commits,
    /// A file waited for too long.
    Age,
}

/// Files to rewrite as one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pick {
    /// Indexes into the files, ascending: the rewritten rows keep the order of their files.
    pub(crate) files: Vec<usize>,
    pub(crate) trigger: CompactionTrigger,
}

/// What to rewrite now, if anything is worth it.
pub(crate) fn pick(files: &[FileFacts], table: TableFacts, options: &CompactionOptions) -> Option<Pick> {
    let policy = Policy { files, table, options };
    policy
        .by_tombstones()
        .or_else(|| policy.by_deleted_rows())
        .or_else(|| policy.by_small_files())
        .or_else(|| policy.by_commits())
        .or_else(|| policy.by_age())
}

/// Everything that may be rewritten at all.
pub(crate) fn pick_all(files: &[FileFacts], ordered: bool) -> Option<Pick> {
    let free: Vec<usize> = (0..files.len()).filter(|index| !files[*index].busy).collect();
    let gains = free.len() > 1 || ordered || free.iter().any(|index| files[*index].hides_rows());
    (gains && !free.is_empty()).then_some(Pick { files: free, trigger: CompactionTrigger::Asked })
}

struct Policy<'a> {
    files: &'a [FileFacts],
    table: TableFacts,
    options: &'a CompactionOptions,
}

impl Policy<'_> {
    fn free(&self, wanted: impl Fn(&FileFacts) -> bool) -> Vec<usize> {
        (0..self.files.len()).filter(|index| !self.files[*index].busy && wanted(&self.files[*index])).collect()
    }

    fn bytes(&self, index: usize) -> u64 {
        self.files[index].bytes.max(1)
    }

    fn small(&self, file: &FileFacts) -> bool {
        file.bytes < (self.table.target_bytes / 4).max(1)
    }

    /// A file that no compaction has seen and that is better for one.
    fn unsettled(&self, file: &FileFacts) -> bool {
        !file.settled && (self.small(file) || self.table.ordered || file.hides_rows())
    }

    fn by_tombstones(&self) -> Option<Pick> {
        let mut hit = self.free(|file| file.tombstones > 0);
        let most = hit.iter().map(|index| self.files[*index].tombstones).max()?;
        if most < self.options.trigger_tombstones {
            return None;
        }
        hit.sort_by_key(|index| std::cmp::Reverse(self.files[*index].tombstones));
        Some(self.done(self.within_bounds(hit), CompactionTrigger::Tombstones))
    }

    fn by_deleted_rows(&self) -> Option<Pick> {
        let share = |file: &FileFacts| file.deleted_rows as f64 / file.rows.max(1) as f64;
        let mut hit = self.free(|file| file.deleted_rows > 0 && share(file) >= self.options.trigger_deleted_share);
        if hit.is_empty() {
            return None;
        }
        hit.sort_by(|a, b| share(&self.files[*b]).total_cmp(&share(&self.files[*a])));
        Some(self.done(self.within_bounds(hit), CompactionTrigger::DeletedRows))
    }

    fn by_small_files(&self) -> Option<Pick> {
        let mut small = self.free(|file| self.small(file));
        if small.len() < self.options.trigger_files {
            return None;
        }
        self.sort_by_size(&mut small);
        let tier = match self.tier(&small) {
            tier if tier.len() < 2 => small[..2].to_vec(),
            tier => tier,
        };
        Some(self.done(tier, CompactionTrigger::SmallFiles))
    }

    fn by_commits(&self) -> Option<Pick> {
        let unsettled = self.free(|file| self.unsettled(file));
        let commits: HashSet<u64> = unsettled.iter().map(|index| self.files[*index].generation).collect();
        if commits.len() < self.options.trigger_commits {
            return None;
        }
        self.merge(unsettled, CompactionTrigger::Commits)
    }

    fn by_age(&self) -> Option<Pick> {
        let age_ms = u64::try_from(self.options.trigger_age?.as_millis()).unwrap_or(u64::MAX);
        let unsettled = self.free(|file| self.unsettled(file));
        let oldest = unsettled.iter().map(|index| self.files[*index].since_ms).min()?;
        if self.table.now_ms < oldest.saturating_add(age_ms) {
            return None;
        }
        self.merge(unsettled, CompactionTrigger::Age)
    }

    /// Merges files that were never rewritten with each other and with small ones; alone if that helps, too.
    fn merge(&self, unsettled: Vec<usize>, trigger: CompactionTrigger) -> Option<Pick> {
        let alone = |index: &usize| self.table.ordered || self.files[*index].hides_rows();
        let mut candidates = self.free(|file| self.unsettled(file) || self.small(file));
        self.sort_by_size(&mut candidates);
        let tier = self.tier(&candidates);
        let helps = tier.len() > 1 && tier.iter().any(|index| unsettled.contains(index));
        if helps {
            return Some(self.done(tier, trigger));
        }
        let mut single: Vec<usize> = unsettled.into_iter().filter(alone).collect();
        self.sort_by_size(&mut single);
        (!single.is_empty()).then(|| self.done(self.within_bounds(single), trigger))
    }

    fn sort_by_size(&self, files: &mut [usize]) {
        files.sort_by_key(|index| (self.files[*index].bytes, *index));
    }

    /// The longest run of files, ascending by size, of which none is much larger than those before it.
    fn tier(&self, ascending: &[usize]) -> Vec<usize> {
        let mut best = 0..0;
        for start in 0..ascending.len() {
            let mut end = start;
            let mut sum = 0u64;
            while end < ascending.len() && end - start < self.options.max_files_per_pick {
                let bytes = self.bytes(ascending[end]);
                let fits = sum == 0 || sum < self.table.target_bytes && bytes <= sum.saturating_mul(MAX_GROWTH);
                if !fits {
                    break;
                }
                sum = sum.saturating_add(bytes);
                end += 1;
            }
            if end - start > best.len() {
                best = start..end;
            }
        }
        ascending[best].to_vec()
    }

    /// The first files that a pass can take, at least one.
    fn within_bounds(&self, mut files: Vec<usize>) -> Vec<usize> {
        files.truncate(self.options.max_files_per_pick);
        let limit = self.table.target_bytes.saturating_mul(MAX_TARGETS);
        let mut sum = 0u64;
        let fitting = files
            .iter()
            .take_while(|index| {
                sum = sum.saturating_add(self.bytes(**index));
                sum <= limit
            })
            .count();
        files.truncate(fitting.max(1));
        files
    }

    fn done(&self, mut files: Vec<usize>, trigger: CompactionTrigger) -> Pick {
        if self.table.keyless {
            self.extend(&mut files);
        }
        files.sort_unstable();
        Pick { files, trigger }
    }

    /// Files this small cost so little that their number counts more than their sizes.
    fn extend(&self, files: &mut Vec<usize>) {
        let limit = self.table.target_bytes / 16;
        let mut sum: u64 = files.iter().map(|index| self.bytes(*index)).sum();
        let mut others = self.free(|file| self.small(file));
        others.retain(|index| !files.contains(index));
        self.sort_by_size(&mut others);
        for index in others {
            sum = sum.saturating_add(self.bytes(index));
            if sum > limit || files.len() >= self.options.max_files_per_pick {
                return;
            }
            files.push(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    const TARGET: u64 = 256 << 20;

    fn file(bytes: u64) -> FileFacts {
        FileFacts {
            bytes,
            rows: 1_000,
            deleted_rows: 0,
            tombstones: 0,
            generation: 1,
            since_ms: 0,
            settled: false,
            busy: false,
        }
    }

    fn table(keyless: bool) -> TableFacts {
        TableFacts { keyless, ordered: false, target_bytes: TARGET, now_ms: 1_000 }
    }

    fn quiet() -> CompactionOptions {
        CompactionOptions { trigger_commits: usize::MAX, trigger_age: None, ..CompactionOptions::default() }
    }

    #[test]
    fn small_files_are_merged_at_the_trigger_and_large_ones_are_left() {
        let mut files = vec![file(TARGET); 3];
        files.extend(vec![file(1 << 20); 7]);
        assert_eq!(pick(&files, table(true), &quiet()), None);
        files.push(file(1 << 20));
        let found = pick(&files, table(true), &quiet()).unwrap();
        assert_eq!(found, Pick { files: (3..11).collect(), trigger: CompactionTrigger::SmallFiles });
        // One of 60 MiB is small, too, but too large for the company; a quarter of the target is not small.
        files.extend([file(60 << 20), file(64 << 20)]);
        assert_eq!(pick(&files, table(true), &quiet()).unwrap().files, (3..11).collect::<Vec<_>>());
    }

    #[test]
    fn keyless_tables_take_in_more_up_to_a_sixteenth() {
        let mut files = vec![file(1 << 10); 8];
        files.extend([file(1 << 20), file(14 << 20), file(14 << 20)]);
        assert_eq!(pick(&files, table(false), &quiet()).unwrap().files, (0..8).collect::<Vec<_>>());
        assert_eq!(pick(&files, table(true), &quiet()).unwrap().files, (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn a_file_with_many_deleted_rows_is_rewritten_alone() {
        let mut files = vec![file(TARGET), file(TARGET)];
        files[1].deleted_rows = 199;
        assert_eq!(pick(&files, table(true), &quiet()), None);
        files[1].deleted_rows = 200;
        let found = pick(&files, table(true), &quiet()).unwrap();
        assert_eq!(found, Pick { files: vec![1], trigger: CompactionTrigger::DeletedRows });
        files[1].busy = true;
        assert_eq!(pick(&files, table(true), &quiet()), None);
    }

    #[test]
    fn tombstones_commits_and_age_have_their_triggers() {
        let mut files = vec![file(TARGET), file(TARGET)];
        files[0].tombstones = 49_999;
        assert_eq!(pick(&files, table(false), &quiet()), None);
        files[0].tombstones = 50_000;
        let found = pick(&files, table(false), &quiet()).unwrap();
        assert_eq!(found, Pick { files: vec![0], trigger: CompactionTrigger::Tombstones });

        let commits = CompactionOptions { trigger_commits: 4, ..quiet() };
        let mut files: Vec<FileFacts> =
            (0..4).map(|generation| FileFacts { generation, ..file(1 << 20) }).chain([file(TARGET)]).collect();
        let found = pick(&files, table(true), &commits).unwrap();
        assert_eq!(found, Pick { files: vec![0, 1, 2, 3], trigger: CompactionTrigger::Commits });
        files[3].generation = 2;
        assert_eq!(pick(&files, table(true), &commits), None, "three commits");

        let age = CompactionOptions { trigger_age: Some(Duration::from_millis(900)), ..quiet() };
        let mut files =
            vec![FileFacts { since_ms: 101, ..file(1 << 20) }, FileFacts { since_ms: 500, ..file(1 << 20) }];
        assert_eq!(pick(&files, table(true), &age), None);
        files[0].since_ms = 100;
        assert_eq!(pick(&files, table(true), &age).unwrap().trigger, CompactionTrigger::Age);
        // Alone it gains nothing, unless its rows are put in order.
        files.truncate(1);
        assert_eq!(pick(&files, table(true), &age), None);
        let ordered = TableFacts { ordered: true, ..table(true) };
        assert_eq!(pick(&files, ordered, &age).unwrap().files, vec![0]);
    }

    fn any_file() -> impl Strategy<Value = FileFacts> {
        let bytes = (0u32..30).prop_flat_map(|bits| 0..(2u64 << bits));
        (
            bytes,
            1..1_000u64,
            0..1_000u64,
            prop_oneof![9 => Just(0u64), 1 => 0..100_000u64],
            0..20u64,
            any::<bool>(),
            0..10u8,
        )
            .prop_map(|(bytes, rows, deleted, tombstones, generation, settled, busy)| FileFacts {
                bytes,
                rows,
                deleted_rows: deleted.saturating_sub(700).min(rows),
                tombstones,
                generation,
                since_ms: generation * 50,
                settled,
                busy: busy == 0,
            })
    }

    proptest! {
        #[test]
        fn a_pick_is_within_its_bounds(
            files in prop::collection::vec(any_file(), 0..60),
            keyless: bool,
            ordered: bool,
            max_files in 2..10usize,
        ) {
            let options = CompactionOptions {
                max_files_per_pick: max_files,
                trigger_age: Some(Duration::from_millis(300)),
                ..CompactionOptions::default()
            };
            let facts = TableFacts { keyless, ordered, target_bytes: TARGET, now_ms: 1_000 };
            if let Some(pick) = pick(&files, facts, &options) {
                prop_assert!(!pick.files.is_empty() && pick.files.len() <= max_files);
                prop_assert!(pick.files.windows(2).all(|pair| pair[0] < pair[1]), "ascending, none twice");
                prop_assert!(pick.files.iter().all(|index| !files[*index].busy));
                let gains = pick.files.len() > 1 || ordered || files[pick.files[0]].hides_rows();
                prop_assert!(gains, "rewriting {:?} changes nothing", pick);
            }
        }

        /// Rewriting by the policy comes to an end, and then nothing is left that a trigger would start on.
        #[test]
        fn compaction_comes_to_rest(
            files in prop::collection::vec(any_file(), 0..60),
            keyless: bool,
            ordered: bool,
        ) {
            let mut files: Vec<FileFacts> = files.into_iter().map(|file| FileFacts { busy: false, ..file }).collect();
            let options = CompactionOptions {
                trigger_age: Some(Duration::from_millis(300)),
                ..CompactionOptions::default()
            };
            let facts = TableFacts { keyless, ordered, target_bytes: TARGET, now_ms: 1_000_000 };
            for pass in 0.. {
                prop_assert!(pass < 200, "no end");
                let Some(pick) = pick(&files, facts, &options) else { break };
                rewrite(&mut files, &pick);
            }
            prop_assert!(files.iter().filter(|file| file.bytes < TARGET / 4).count() < options.trigger_files);
            prop_assert!(files.iter().all(|file| (file.deleted_rows as f64) < 0.2 * file.rows as f64 || file.deleted_rows == 0));
        }
    }

    fn rewrite(files: &mut Vec<FileFacts>, pick: &Pick) -> u64 {
        let mut merged = FileFacts { settled: true, rows: 0, ..file(0) };
        let mut read = 0;
        for index in pick.files.iter().rev() {
            let old = files.remove(*index);
            read += old.bytes;
            merged.bytes += old.bytes * (old.rows - old.deleted_rows) / old.rows.max(1);
            merged.rows += old.rows - old.deleted_rows;
        }
        while merged.bytes > TARGET {
            files.push(FileFacts { bytes: TARGET, rows: 1, ..merged.clone() });
            merged.bytes -= TARGET;
        }
        if merged.rows > 0 {
            files.push(merged);
        }
        read
    }

    #[test]
    fn a_stream_of_small_commits_is_rewritten_a_few_times_only() {
        let options = CompactionOptions { trigger_age: None, ..CompactionOptions::default() };
        let mut files = Vec::new();
        let (mut written, mut rewritten) = (0u64, 0u64);
        let mut most = 0;
        for generation in 0..20_000u64 {
            let bytes = 40_000 + generation * 7_919 % 30_000;
            written += bytes;
            files.push(FileFacts { generation, ..file(bytes) });
            for _ in 0..options.max_levels {
                let Some(pick) = pick(&files, table(false), &options) else { break };
                rewritten += rewrite(&mut files, &pick);
            }
            most = most.max(files.len());
        }
        assert!(rewritten < written * 10, "{:.1} times", rewritten as f64 / written as f64);
        assert!(most < 40, "{most} files");
    }
}
