//! How much memory rows on their way to disk may take.
//!
//! The encoder of an open file keeps back blocks of up to a few MiB per column. Files of all partitions at once would
//! need as much memory as there are partitions. So rows of a partition wait in memory until there are enough of them for
//! a file, and only so many files are open at a time: both in proportion to the memory that the executor is given.
//!
//! Nobody waits for ever. A sender feeds many partitions in turn, so a part of a write may hold an open file while its
//! next rows are stuck behind those of a part that waits for one. Therefore a part that has no rows to write ends its
//! file as soon as another one waits: whoever holds an open file is either at work or about to give it back.
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use ancho_common::error::{Error, Result};
use arrow::datatypes::{DataType, Fields};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::metric;

/// Memory where none is set; as for queries.
const DEFAULT_MEMORY: u64 = 4 << 30;
/// Share of the memory that encoders may take.
const ENCODER_SHARE: u64 = 4;
/// Share of the memory that rows waiting for their file may take.
const BUFFER_SHARE: u64 = 8;
/// What an encoder keeps back for a column at most, about.
const COLUMN_BYTES: u64 = 4 << 20;
/// A part waits with its file until it has at least this many bytes of rows …
const LEAST_BUFFER: usize = 1 << 20;
/// … and never with more than these.
const LARGEST_BUFFER: usize = 32 << 20;

/// The open files of all writes of this executor, and the rows that wait for one.
#[derive(Debug)]
pub(super) struct Encoders {
    columns: Arc<Semaphore>,
    total: u32,
    waiting: watch::Sender<usize>,
    buffer_bytes: usize,
    parts: AtomicUsize,
    buffered: AtomicUsize,
    pool: Option<Arc<dyn MemoryPool>>,
}

/// The right to have one file open.
#[derive(Debug)]
pub(super) struct EncoderPermit {
    _columns: OwnedSemaphorePermit,
}

/// Bytes of rows that wait; they are counted until it is dropped.
#[derive(Debug)]
pub(super) struct Buffered {
    encoders: Arc<Encoders>,
    bytes: usize,
    reservation: Option<MemoryReservation>,
}

/// One part of a write that is open. The more there are, the fewer rows each may hold back.
#[derive(Debug)]
pub(super) struct OpenPart(Arc<Encoders>);

/// Counts a waiting part until it is dropped.
struct Waiting<'a>(&'a watch::Sender<usize>);

impl Encoders {
    /// For an executor with so much memory, of which 0 stands for 4 GiB; rows that wait are told to the pool.
    pub(super) fn new(memory_bytes: u64, pool: Option<Arc<dyn MemoryPool>>) -> Arc<Self> {
        let memory = if memory_bytes == 0 { DEFAULT_MEMORY } else { memory_bytes };
        let columns = (memory / ENCODER_SHARE / COLUMN_BYTES).clamp(1, 1 << 20);
        // Both fit: the clamp says so, and a share of the memory of this machine is addressable.
        let total = u32::try_from(columns).unwrap_or(1 << 20);
        Arc::new(Self {
            columns: Arc::new(Semaphore::new(total as usize)),
            total,
            waiting: watch::Sender::new(0),
            buffer_bytes: usize::try_from(memory / BUFFER_SHARE).unwrap_or(usize::MAX),
            parts: AtomicUsize::new(0),
            buffered: AtomicUsize::new(0),
            pool,
        })
    }

    /// Waits until a file with so many columns may be opened. A table with more columns than all permits gets all.
    pub(super) async fn acquire(&self, columns: u32) -> Result<EncoderPermit> {
        let wanted = columns.clamp(1, self.total);
        let closed = |_| Error::unavailable("the executor is stopping and writes no more rows; try again");
        if let Ok(permit) = Arc::clone(&self.columns).try_acquire_many_owned(wanted) {
            return Ok(EncoderPermit { _columns: permit });
        }
        self.waiting.send_modify(|n| *n += 1);
        let _waiting = Waiting(&self.waiting);
        let permit = Arc::clone(&self.columns).acquire_many_owned(wanted).await.map_err(closed)?;
        Ok(EncoderPermit { _columns: permit })
    }

    /// Whether a part waits for an open file to be given back.
    pub(super) fn is_wanted(&self) -> bool {
        *self.waiting.borrow() > 0
    }

    /// Waits until a part waits.
    pub(super) async fn wanted(&self) {
        let mut waiting = self.waiting.subscribe();
        // The sender lives as long as `self`.
        let _ = waiting.wait_for(|n| *n > 0).await;
    }

    /// A part begins.
    pub(super) fn open_part(self: &Arc<Self>) -> OpenPart {
        self.parts.fetch_add(1, Ordering::Relaxed);
        OpenPart(Arc::clone(self))
    }

    /// Bytes that a part may hold back now.
    pub(super) fn buffer_limit(&self) -> usize {
        let parts = self.parts.load(Ordering::Relaxed).max(1);
        (self.buffer_bytes / parts).clamp(LEAST_BUFFER, LARGEST_BUFFER)
    }

    fn count(&self, change: impl FnOnce(&AtomicUsize)) {
        change(&self.buffered);
        metric::write_buffer(self.buffered.load(Ordering::Relaxed));
    }
}

impl Buffered {
    pub(super) fn none(encoders: &Arc<Encoders>) -> Self {
        let consumer = || MemoryConsumer::new("rows waiting for their file");
        let reservation = encoders.pool.as_ref().map(|pool| consumer().register(pool));
        Self { encoders: Arc::clone(encoders), bytes: 0, reservation }
    }

    /// Counts more rows. Answers whether there is room for them to wait.
    pub(super) fn add(&mut self, bytes: usize) -> bool {
        self.bytes += bytes;
        self.encoders.count(|all| {
            all.fetch_add(bytes, Ordering::Relaxed);
        });
        self.reservation.as_ref().is_none_or(|reservation| reservation.try_grow(bytes).is_ok())
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn clear(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        if let Some(reservation) = &self.reservation {
            reservation.free();
        }
        self.encoders.count(|all| {
            all.fetch_sub(bytes, Ordering::Relaxed);
        });
    }
}

impl Drop for Buffered {
    fn drop(&mut self) {
        self.clear();
    }
}

impl Drop for OpenPart {
    fn drop(&mut self) {
        self.0.parts.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|n| *n -= 1);
    }
}

/// Columns that an encoder keeps apart, those inside structs and lists included.
pub(super) fn leaf_columns(fields: &Fields) -> u32 {
    fields
        .iter()
        .map(|field| match field.data_type() {
            DataType::Struct(children) => leaf_columns(children).max(1),
            DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
                leaf_columns(&Fields::from(vec![Arc::clone(item)])).saturating_add(1)
            }
            _ => 1,
        })
        .fold(0, u32::saturating_add)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use arrow::datatypes::Field;

    use super::*;

    #[tokio::test]
    async fn wide_tables_take_turns_and_the_waiting_are_seen() {
        let encoders = Encoders::new(64 << 20, None);
        assert_eq!(encoders.total, 4);
        let wide = encoders.acquire(1000).await.unwrap();
        assert!(!encoders.is_wanted());
        let other = Arc::clone(&encoders);
        let waiting = tokio::spawn(async move { other.acquire(1).await });
        tokio::time::timeout(Duration::from_secs(5), encoders.wanted()).await.unwrap();
        drop(wide);
        let one = waiting.await.unwrap().unwrap();
        assert!(!encoders.is_wanted());
        // Whoever stops waiting is not counted any more.
        assert!(tokio::time::timeout(Duration::from_millis(10), encoders.acquire(4)).await.is_err());
        assert!(!encoders.is_wanted());
        drop(one);
        encoders.acquire(4).await.unwrap();
    }

    #[test]
    fn many_parts_hold_back_less() {
        let encoders = Encoders::new(0, None);
        let one = encoders.open_part();
        assert_eq!(encoders.buffer_limit(), 32 << 20);
        let more: Vec<OpenPart> = (0..63).map(|_| encoders.open_part()).collect();
        assert_eq!(encoders.buffer_limit(), 8 << 20);
        let most: Vec<OpenPart> = (0..5000).map(|_| encoders.open_part()).collect();
        assert_eq!(encoders.buffer_limit(), LEAST_BUFFER);
        drop((one, more, most));
        assert_eq!(encoders.parts.load(Ordering::Relaxed), 0);
        let mut rows = Buffered::none(&encoders);
        assert!(rows.add(7));
        assert_eq!((rows.bytes(), encoders.buffered.load(Ordering::Relaxed)), (7, 7));
        drop(rows);
        assert_eq!(encoders.buffered.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn nested_columns_count() {
        let pair =
            DataType::Struct(vec![Field::new("a", DataType::Int8, true), Field::new("b", DataType::Utf8, true)].into());
        let fields = Fields::from(vec![
            Field::new("k", DataType::Int64, true),
            Field::new_list("l", Field::new("item", pair, true), true),
        ]);
        assert_eq!(leaf_columns(&fields), 4);
    }
}
