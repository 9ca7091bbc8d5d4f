//! One run: the positions of one data file's rows by the hashes of their values.
//!
//! ```text
//! magic │ block │ block │ …  │ directory │ trailer
//! ```
//!
//! A block has up to 256 hashes and as many positions, sorted by both. Blocks of one *segment* are in order; there are as many segments as
//! it took to hold the rows in memory. The directory names for each block its first and last hash, its length and a checksum; the
//! trailer has a checksum of the directory. Whatever is read is checked: a damaged run is noticed, and never taken for one that
//! has no such rows.

mod reader;
mod writer;

use std::io;
use std::path::PathBuf;
use std::sync::OnceLock;

use bytes::Bytes;
use datafusion::execution::memory_pool::MemoryReservation;

use reader::{Directory, Reader};
pub(crate) use writer::RunWriter;

/// Begins and ends a run of this format.
const MAGIC: &[u8; 8] = b"ANCHOIX1";
/// Rows of a block.
const BLOCK: usize = 256;
const ENTRY: usize = 12;
/// Bytes of a block in the directory.
const NAMED: usize = 32;
/// Bytes behind the directory.
const TRAILER: usize = 8 + 8 + 8 + 8 + MAGIC.len();

/// A row: the hash of its values, and its position.
pub(crate) type Entry = (u64, u32);

/// Where the bytes of a run are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// A file in the partition directory, by its path there and as a whole.
    File { name: String, path: PathBuf, bytes: u64 },
    /// In the metastore, and in memory.
    Inline(Bytes),
}

impl Place {
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Place::File { bytes, .. } => *bytes,
            Place::Inline(bytes) => bytes.len() as u64,
        }
    }
}

/// A run that can be searched.
#[derive(Debug)]
pub(crate) struct Run {
    place: Place,
    /// Rows of the data file.
    rows: u64,
    directory: OnceLock<Directory>,
    /// Of what it holds in memory.
    memory: Option<MemoryReservation>,
}

/// A directory that is kept, or one that is read for this time only.
enum Kept<'a> {
    Always(&'a Directory),
    Once(Directory),
}

impl Kept<'_> {
    fn get(&self) -> &Directory {
        match self {
            Kept::Always(directory) => directory,
            Kept::Once(directory) => directory,
        }
    }
}

impl Run {
    /// Of a data file with so many rows. Nothing is read yet. What is in memory is told to the reservation.
    pub(crate) fn new(place: Place, rows: u64, memory: Option<MemoryReservation>) -> Self {
        if let (Place::Inline(bytes), Some(memory)) = (&place, &memory) {
            // It is there already, and small.
            memory.grow(bytes.len());
        }
        Self { place, rows, directory: OnceLock::new(), memory }
    }

    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// Bytes that it holds in memory.
    pub(crate) fn memory(&self) -> usize {
        let inline = match &self.place {
            Place::Inline(bytes) => bytes.len(),
            Place::File { .. } => 0,
        };
        inline + self.directory.get().map_or(0, Directory::memory)
    }

    /// Keeps the directory for the next time if there is memory for it.
    fn keep(&self, directory: Directory) -> Kept<'_> {
        let bytes = directory.memory();
        if self.memory.as_ref().is_some_and(|memory| memory.try_grow(bytes).is_err()) {
            return Kept::Once(directory);
        }
        let mut own = Some(directory);
        let kept = self.directory.get_or_init(|| own.take().unwrap_or_default());
        if let (Some(_), Some(memory)) = (own, &self.memory) {
            // Somebody else was faster.
            memory.shrink(bytes);
        }
        Kept::Always(kept)
    }

    /// Calls `found` with the position of every row that has one of these hashes, which are sorted; a position may come twice.
    ///
    /// # Errors
    /// The run is missing or damaged. Nothing that was found before counts then.
    pub(crate) fn find(&self, hashes: &[u64], mut found: impl FnMut(u32)) -> io::Result<()> {
        let reader = Reader::open(&self.place)?;
        let directory = match self.directory.get() {
            Some(directory) => Kept::Always(directory),
            None => self.keep(reader.directory(self.rows)?),
        };
        for blocks in &directory.get().segments {
            let mut at: Option<(usize, Vec<u8>)> = None;
            for &hash in hashes {
                let begin = blocks.partition_point(|block| block.last < hash);
                for (number, block) in
                    blocks.iter().enumerate().skip(begin).take_while(|(_, block)| block.first <= hash)
                {
                    if at.as_ref().is_none_or(|(held, _)| *held != number) {
                        at = Some((number, reader.block(block)?));
                    }
                    if let Some((_, bytes)) = &at {
                        block.rows_of(bytes, hash, &mut found);
                    }
                }
            }
        }
        Ok(())
    }

    /// Reads everything and checks it.
    ///
    /// # Errors
    /// As [`find`](Self::find).
    pub(crate) fn verify(&self) -> io::Result<()> {
        let reader = Reader::open(&self.place)?;
        for block in reader.directory(self.rows)?.segments.iter().flatten() {
            reader.block(block)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(segments: Vec<Vec<Entry>>, rows: u64) -> Vec<u8> {
        let mut writer = RunWriter::new(Vec::new()).unwrap();
        for mut segment in segments {
            writer.segment(&mut segment).unwrap();
        }
        let (bytes, length) = writer.finish(rows).unwrap();
        assert_eq!(bytes.len() as u64, length);
        bytes
    }

    fn find(run: &Run, hashes: &[u64]) -> io::Result<Vec<u32>> {
        let mut found = Vec::new();
        run.find(hashes, |row| found.push(row))?;
        found.sort_unstable();
        Ok(found)
    }

    proptest! {
        #[test]
        fn every_row_is_found_by_its_hash_and_no_other(
            segments in prop::collection::vec(prop::collection::vec((0u64..60, any::<u32>()), 0..900), 0..4),
            asked in prop::collection::btree_set(0u64..70, 0..9),
        ) {
            let asked: Vec<u64> = asked.into_iter().collect();
            let mut expected: Vec<u32> =
                segments.iter().flatten().filter(|(hash, _)| asked.contains(hash)).map(|(_, row)| *row).collect();
            expected.sort_unstable();
            let bytes = written(segments, 7);
            let run = Run::new(Place::Inline(bytes.clone().into()), 7, None);
            prop_assert_eq!(find(&run, &asked).unwrap(), expected.clone());
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("x.idx");
            std::fs::write(&path, &bytes).unwrap();
            let run = Run::new(Place::File { name: "x".to_owned(), path, bytes: bytes.len() as u64 }, 7, None);
            prop_assert_eq!(find(&run, &asked).unwrap(), expected);
            run.verify().unwrap();
        }
    }

    #[test]
    fn whatever_is_changed_or_cut_is_noticed() {
        let segment: Vec<Entry> = (0..600u32).map(|row| (u64::from(row % 40), row)).collect();
        let bytes = written(vec![segment.clone(), segment], 1200);
        let all: Vec<u64> = (0..40).collect();
        let run = |bytes: Vec<u8>, rows| Run::new(Place::Inline(bytes.into()), rows, None);
        assert_eq!(find(&run(bytes.clone(), 1200), &all).unwrap().len(), 1200);
        assert!(find(&run(bytes.clone(), 1201), &all).is_err(), "of another file");
        for at in (MAGIC.len()..bytes.len()).step_by(7) {
            let mut changed = bytes.clone();
            changed[at] ^= 4;
            assert!(find(&run(changed.clone(), 1200), &all).is_err(), "byte {at}");
            assert!(run(changed, 1200).verify().is_err(), "byte {at}");
        }
        for length in [0, 7, 40, bytes.len() / 2, bytes.len() - 1] {
            assert!(find(&run(bytes[..length].to_vec(), 1200), &all).is_err(), "{length} bytes");
        }
        let none = run(written(Vec::new(), 0), 0);
        assert_eq!(find(&none, &all).unwrap(), Vec::<u32>::new());
    }
}
