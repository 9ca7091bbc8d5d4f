//! Reads a run, and checks whatever it reads.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use xxhash_rust::xxh64::xxh64;

use super::{ENTRY, MAGIC, NAMED, Place, TRAILER};

/// The blocks of a run, by segment.
#[derive(Debug, Default)]
pub(super) struct Directory {
    pub(super) segments: Vec<Vec<Block>>,
}

impl Directory {
    /// Bytes in memory.
    pub(super) fn memory(&self) -> usize {
        self.segments.iter().map(Vec::len).sum::<usize>() * size_of::<Block>()
    }
}

/// A block as the directory names it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block {
    pub(super) first: u64,
    pub(super) last: u64,
    checksum: u64,
    offset: u64,
    entries: usize,
}

impl Block {
    /// Calls `found` with the position of each row in the bytes of this block that has the hash.
    pub(super) fn rows_of(&self, bytes: &[u8], hash: u64, found: &mut impl FnMut(u32)) {
        let (hashes, rows) = bytes.split_at(self.entries * 8);
        let hash_at = |index: usize| number::<8>(hashes, index * 8).map(u64::from_le_bytes);
        let (mut low, mut high) = (0, self.entries);
        while low < high {
            let middle = low + (high - low) / 2;
            if hash_at(middle).is_some_and(|found| found < hash) { low = middle + 1 } else { high = middle }
        }
        for index in (low..self.entries).take_while(|index| hash_at(*index) == Some(hash)) {
            if let Some(row) = number::<4>(rows, index * 4) {
                found(u32::from_le_bytes(row));
            }
        }
    }
}

/// The bytes of a run.
pub(super) enum Reader<'a> {
    File(File, u64),
    Inline(&'a [u8]),
}

impl<'a> Reader<'a> {
    /// Checks the length.
    pub(super) fn open(place: &'a Place) -> io::Result<Self> {
        match place {
            Place::Inline(bytes) => Ok(Reader::Inline(bytes)),
            Place::File { path, bytes, .. } => {
                let file = File::open(path)?;
                let length = file.metadata()?.len();
                if length != *bytes {
                    return Err(damaged(format!("it has {length} bytes instead of {bytes}")));
                }
                Ok(Reader::File(file, length))
            }
        }
    }

    fn length(&self) -> u64 {
        match self {
            Reader::File(_, length) => *length,
            Reader::Inline(bytes) => bytes.len() as u64,
        }
    }

    fn read(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        match self {
            Reader::File(file, _) => {
                let mut bytes = vec![0; length];
                file.read_exact_at(&mut bytes, offset)?;
                Ok(bytes)
            }
            Reader::Inline(bytes) => {
                let start = usize::try_from(offset).map_err(io::Error::other)?;
                let end = start.saturating_add(length);
                bytes.get(start..end).map(<[u8]>::to_vec).ok_or_else(|| damaged("it ends early".to_owned()))
            }
        }
    }

    /// The directory of the run, which must be of a file with so many rows.
    pub(super) fn directory(&self, rows: u64) -> io::Result<Directory> {
        let least = (MAGIC.len() + TRAILER) as u64;
        let Some(end) = self.length().checked_sub(TRAILER as u64).filter(|_| self.length() >= least) else {
            return Err(damaged("it is too short".to_owned()));
        };
        let trailer = self.read(end, TRAILER)?;
        let part = |index: usize| number::<8>(&trailer, index * 8).map_or(0, u64::from_le_bytes);
        let (length, entries, counted, checksum) = (part(0), part(1), part(2), part(3));
        if trailer[TRAILER - MAGIC.len()..] != *MAGIC {
            return Err(damaged("it ends in something else".to_owned()));
        }
        if counted != rows {
            return Err(damaged(format!("it is of a file with {counted} rows instead of {rows}")));
        }
        let begin = end.checked_sub(length).filter(|begin| *begin >= MAGIC.len() as u64);
        let Some(begin) = begin else { return Err(damaged("its directory is longer than itself".to_owned())) };
        let bytes = self.read(begin, usize::try_from(length).map_err(io::Error::other)?)?;
        if xxh64(&bytes, rows ^ entries.rotate_left(32)) != checksum {
            return Err(damaged("its directory differs from its checksum".to_owned()));
        }
        let mut segments: Vec<Vec<Block>> = Vec::new();
        let mut current = None;
        let mut offset = MAGIC.len() as u64;
        for named in bytes.chunks_exact(NAMED) {
            let long = |index: usize| number::<8>(named, index * 8).map_or(0, u64::from_le_bytes);
            let short = |at: usize| number::<4>(named, at).map_or(0, u32::from_le_bytes) as usize;
            let (entries, segment) = (short(24), short(28));
            if current != Some(segment) {
                current = Some(segment);
                segments.push(Vec::new());
            }
            if let Some(blocks) = segments.last_mut() {
                blocks.push(Block { first: long(0), last: long(1), checksum: long(2), offset, entries });
            }
            offset += (entries * ENTRY) as u64;
        }
        if offset != begin {
            return Err(damaged("its blocks have another length".to_owned()));
        }
        Ok(Directory { segments })
    }

    /// The bytes of a block.
    pub(super) fn block(&self, block: &Block) -> io::Result<Vec<u8>> {
        let bytes = self.read(block.offset, block.entries * ENTRY)?;
        if xxh64(&bytes, 0) != block.checksum {
            return Err(damaged("a block differs from its checksum".to_owned()));
        }
        Ok(bytes)
    }
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

fn damaged(detail: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, detail)
}
