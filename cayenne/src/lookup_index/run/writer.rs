//! Writes a run.

use std::io::{self, Write};

use xxhash_rust::xxh64::xxh64;

use super::{BLOCK, ENTRY, Entry, MAGIC, TRAILER};

/// Writes segments one after the other.
#[derive(Debug)]
pub(crate) struct RunWriter<W> {
    out: W,
    directory: Vec<u8>,
    segment: u32,
    entries: u64,
    bytes: u64,
}

impl<W: Write> RunWriter<W> {
    pub(crate) fn new(mut out: W) -> io::Result<Self> {
        out.write_all(MAGIC)?;
        Ok(Self { out, directory: Vec::new(), segment: 0, entries: 0, bytes: MAGIC.len() as u64 })
    }

    /// Writes entries in any order, and leaves none.
    pub(crate) fn segment(&mut self, entries: &mut Vec<Entry>) -> io::Result<()> {
        entries.sort_unstable();
        let mut block = Vec::with_capacity(BLOCK * ENTRY);
        for chunk in entries.chunks(BLOCK) {
            block.clear();
            chunk.iter().for_each(|(hash, _)| block.extend(hash.to_le_bytes()));
            chunk.iter().for_each(|(_, row)| block.extend(row.to_le_bytes()));
            self.out.write_all(&block)?;
            self.bytes += block.len() as u64;
            for hash in [chunk[0].0, chunk[chunk.len() - 1].0, xxh64(&block, 0)] {
                self.directory.extend(hash.to_le_bytes());
            }
            self.directory.extend((chunk.len() as u32).to_le_bytes());
            self.directory.extend(self.segment.to_le_bytes());
        }
        self.entries += entries.len() as u64;
        self.segment += 1;
        entries.clear();
        Ok(())
    }

    /// Ends the run, of a file with so many rows. Gives its length too.
    pub(crate) fn finish(mut self, rows: u64) -> io::Result<(W, u64)> {
        self.out.write_all(&self.directory)?;
        let checksum = xxh64(&self.directory, rows ^ self.entries.rotate_left(32));
        for number in [self.directory.len() as u64, self.entries, rows, checksum] {
            self.out.write_all(&number.to_le_bytes())?;
        }
        self.out.write_all(MAGIC)?;
        Ok((self.out, self.bytes + self.directory.len() as u64 + TRAILER as u64))
    }
}
