//! Keeps operators from holding a thread for long, so that a query that nobody waits for any more ends soon, and others
//! get their turn.
//!
//! A task can be ended, or make room for another one, only when it returns to its runtime. The library makes it return
//! after a number of batches from its *leaves*, which says nothing about joins: one batch can meet millions of rows, and a
//! filter over the pairs can swallow all of them. So there are two kinds of [`PacedExec`]:
//!
//! * [`Pace::Turns`] stands above an operator that works long, and above leaves, and returns to the runtime after
//!   [`TURN`]. When its task has ended it ends with an error and lets go of its input, whether it is polled or not: the
//!   library keeps a task's plan a while longer, and with it the feeders of shuffles, build sides that were never
//!   finished, and streams of other tasks. It turns a panic below it into an error, too: to the library a task that ends
//!   by one looks like the end of its rows. So one stands at the head of every stage, or just below what deals its rows
//!   out to other tasks;
//! * [`Pace::Slices`] stands below such an operator (at the probe side of a join) and hands rows on in slices, as many at
//!   a time as it works off in about [`SLICE`]. How long it took is measured: the node above the operator counts the time that
//!   it spends inside, so that waiting for a slow consumer does not look like work. It returns to the runtime, too, since
//!   a join may swallow slice after slice.
use std::{
    any::Any,
    cell::Cell,
    fmt::{self, Formatter},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use datafusion::{
    common::{Statistics, tree_node::TreeNodeRecursion},
    error::{DataFusionError, Result},
    execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext},
    physical_expr::PhysicalExpr,
    physical_plan::{
        DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
        execution_plan::{CardinalityEffect, SchedulingType},
        metrics::{ExecutionPlanMetricsSet, MetricsSet},
        statistics::{ChildStats, StatisticsArgs},
    },
};
use futures::{Stream, StreamExt};
use metrics::gauge;
use parking_lot::Mutex;
use tokio_util::{
    sync::{CancellationToken, WaitForCancellationFutureOwned},
    task::AbortOnDropHandle,
};

use super::figures::{Figures, counted};
use crate::error::{Error, ErrorKind, panic_text};

/// Longest time between two returns to the runtime, as far as the operators below let it.
const TURN: Duration = Duration::from_millis(10);

/// Time that a join should take for one slice.
const SLICE: Duration = Duration::from_millis(20);

/// Rows of the first slice, before anything was measured: a row may meet millions of others. The work on one row is what
/// cannot be broken up.
const FIRST_ROWS: usize = 1;

/// Most rows of a slice; no operator makes larger batches.
const MOST_ROWS: usize = 1 << 20;

/// Gauge of the paced streams that are open in this process: 0 when no part of a query runs here.
pub const OPEN_STREAMS: &str = "ancho_plan_streams";

/// What a [`PacedExec`] does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// Returns to the runtime in time.
    Turns,
    /// Hands rows on in slices that do not take the consumer long.
    Slices,
}

/// Passes rows through, at a pace.
#[derive(Debug)]
pub struct PacedExec {
    input: Arc<dyn ExecutionPlan>,
    pace: Pace,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl PacedExec {
    /// Over `input`.
    #[must_use]
    pub fn new(input: Arc<dyn ExecutionPlan>, pace: Pace) -> Self {
        let properties =
            Arc::new(PlanProperties::clone(input.properties()).with_scheduling_type(SchedulingType::Cooperative));
        Self { input, pace, properties, metrics: ExecutionPlanMetricsSet::new() }
    }

    /// What it does.
    #[must_use]
    pub fn pace(&self) -> Pace {
        self.pace
    }
}

impl DisplayAs for PacedExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        match self.pace {
            Pace::Turns => f.write_str("PacedExec: turns"),
            Pace::Slices => f.write_str("PacedExec: slices"),
        }
    }
}

impl ExecutionPlan for PacedExec {
    fn name(&self) -> &'static str {
        "PacedExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let input = children.pop().ok_or_else(|| DataFusionError::Internal("a pace needs one input".into()))?;
        Ok(Arc::new(Self::new(input, self.pace)))
    }

    fn execute(&self, stream: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.input.execute(stream, Arc::clone(&context))?;
        let rows = counted(rows, Figures::of_passage(&self.metrics, stream));
        Ok(match self.pace {
            Pace::Turns => {
                let end = context.session_config().get_extension::<EndOfTask>();
                in_turns(rows, end.map(|end| end.0.clone()))
            }
            Pace::Slices => Box::pin(InSlices { rows, rest: None, size: FIRST_ROWS, sent: None }),
        })
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], _: &StatisticsArgs) -> Result<Arc<Statistics>> {
        Ok(Arc::clone(&inputs[0]))
    }

    fn supports_limit_pushdown(&self) -> bool {
        true
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }
}

/// In the session of a task: cancelled when nobody waits for the task any more.
#[derive(Debug)]
pub struct EndOfTask(pub CancellationToken);

fn in_turns(rows: SendableRecordBatchStream, end: Option<CancellationToken>) -> SendableRecordBatchStream {
    let schema = rows.schema();
    let input = Arc::new(Input(Mutex::new(Some(Held { rows, open: None }))));
    let end = end.map(|end| End::new(end, &input));
    Box::pin(InTurns { schema, input, turn: None, worked: Duration::ZERO, end })
}

/// What is below an [`InTurns`], until it is exhausted or its task has ended.
struct Input(Mutex<Option<Held>>);

struct Held {
    rows: SendableRecordBatchStream,
    /// From the first poll on.
    open: Option<Open>,
}

impl Input {
    /// Drops the stream, unless it is just being polled: then that is for the one who polls to do.
    fn release(&self) {
        // The lock is free again before the stream is dropped, which may take a while.
        let held = self.0.try_lock().and_then(|mut held| held.take());
        drop(held);
    }
}

/// The end of a stream's task.
struct End {
    token: CancellationToken,
    /// Wakes the one who polls.
    reached: Pin<Box<WaitForCancellationFutureOwned>>,
    /// Releases the input of a stream that nobody polls.
    _release: AbortOnDropHandle<()>,
}

impl End {
    fn new(token: CancellationToken, input: &Arc<Input>) -> Self {
        let reached = || Box::pin(token.clone().cancelled_owned());
        // It must not keep the input of a stream that is dropped.
        let (end, input) = (reached(), Arc::downgrade(input));
        let release = tokio::spawn(async move {
            end.await;
            if let Some(input) = input.upgrade() {
                input.release();
            }
        });
        Self { reached: reached(), _release: AbortOnDropHandle::new(release), token }
    }
}

/// Counts in [`OPEN_STREAMS`] for as long as it lives.
struct Open;

impl Open {
    fn new() -> Self {
        gauge!(OPEN_STREAMS).increment(1.0);
        Self
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        gauge!(OPEN_STREAMS).decrement(1.0);
    }
}

thread_local! {
    /// The work of the innermost [`InTurns`] that is being polled on this thread.
    static WORK: Cell<Option<Work>> = const { Cell::new(None) };
}

/// Time spent inside a stream: before this poll, and since its start.
#[derive(Debug, Clone, Copy)]
struct Work {
    before: Duration,
    since: Instant,
}

impl Work {
    /// Time since the poll began.
    fn turn() -> Option<Duration> {
        WORK.get().map(|work| work.since.elapsed())
    }

    /// Time spent inside.
    fn so_far() -> Option<Duration> {
        WORK.get().map(|work| work.before + work.since.elapsed())
    }
}

struct InTurns {
    schema: SchemaRef,
    input: Arc<Input>,
    /// When this turn began.
    turn: Option<Instant>,
    /// Time spent inside so far.
    worked: Duration,
    /// The end of the task, if it has one that is known.
    end: Option<End>,
}

impl InTurns {
    /// Polls the input, which is gone when it is exhausted.
    fn poll_input(&mut self, since: Instant, context: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        let mut input = self.input.0.lock();
        let Some(held) = input.as_mut() else { return Poll::Ready(None) };
        held.open.get_or_insert_with(Open::new);
        let outer = WORK.replace(Some(Work { before: self.worked, since }));
        let polled = catch_unwind(AssertUnwindSafe(|| held.rows.poll_next_unpin(context)));
        WORK.set(outer);
        self.worked += since.elapsed();
        // A task that ends by a panic looks like the end of its rows to the library that sends them.
        let polled = polled.unwrap_or_else(|panic| Poll::Ready(Some(Err(broken(panic.as_ref())))));
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            *input = None;
        }
        polled
    }
}

impl Stream for InTurns {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let now = Instant::now();
        match self.turn {
            Some(begun) if now.duration_since(begun) >= TURN => {
                self.turn = None;
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            Some(_) => {}
            None => self.turn = Some(now),
        }
        if let Some(end) = &mut self.end
            && end.reached.as_mut().poll(context).is_ready()
        {
            self.input.release();
            return Poll::Ready(Some(Err(abandoned())));
        }
        let polled = self.poll_input(now, context);
        if polled.is_pending() {
            self.turn = None;
        }
        if self.end.as_ref().is_some_and(|end| end.token.is_cancelled()) {
            // The end came while the input was locked, and perhaps nobody polls this stream again.
            self.input.release();
            // An input that was released is not one that is exhausted.
            if matches!(polled, Poll::Ready(None)) {
                return Poll::Ready(Some(Err(abandoned())));
            }
        }
        polled
    }
}

impl RecordBatchStream for InTurns {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

fn broken(panic: &(dyn Any + Send)) -> DataFusionError {
    Error::internal(format!("a part of the plan ended abnormally: {}", panic_text(panic))).into()
}

fn abandoned() -> DataFusionError {
    Error::new(ErrorKind::Cancelled, "the statement has ended").into()
}

struct InSlices {
    rows: SendableRecordBatchStream,
    /// What is left of a batch.
    rest: Option<RecordBatch>,
    /// Rows of the next slice.
    size: usize,
    /// Rows of the last slice, and the consumer's work before it.
    sent: Option<(usize, Duration)>,
}

/// Rows of the next slice, when one of `rows`, of at most `size`, has taken `took`.
fn next_size(size: usize, rows: usize, took: Duration) -> usize {
    if took > SLICE {
        let fits = rows as u128 * SLICE.as_micros() / took.as_micros();
        usize::try_from(fits).unwrap_or(MOST_ROWS).max(1)
    } else if rows < size {
        // The batch ended before the slice was full: little was learned.
        size
    } else if took < SLICE / 8 {
        (size * 4).min(MOST_ROWS)
    } else if took < SLICE / 2 {
        (size * 2).min(MOST_ROWS)
    } else {
        size
    }
}

impl Stream for InSlices {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some((rows, before)) = self.sent.take()
            && let Some(now) = Work::so_far()
        {
            self.size = next_size(self.size, rows, now.saturating_sub(before));
        }
        // A join that finds no pair asks for the next slice without handing anything on.
        if Work::turn().is_some_and(|turn| turn >= TURN) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let batch = match self.rest.take() {
            Some(batch) => batch,
            None => match ready!(self.rows.poll_next_unpin(context)) {
                Some(Ok(batch)) => batch,
                other => return Poll::Ready(other),
            },
        };
        // Without a measure, in a task of its own, nothing is known of the consumer.
        let measured = Work::so_far();
        let slice = if measured.is_some() && batch.num_rows() > self.size {
            self.rest = Some(batch.slice(self.size, batch.num_rows() - self.size));
            batch.slice(0, self.size)
        } else {
            batch
        };
        self.sent = measured.map(|before| (slice.num_rows(), before));
        Poll::Ready(Some(Ok(slice)))
    }
}

impl RecordBatchStream for InSlices {
    fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }
}

#[cfg(test)]
mod tests {
    use arrow::{
        array::{AsArray, Int64Array},
        datatypes::{DataType, Field, Int64Type, Schema},
    };
    use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
    use futures::{FutureExt, TryStreamExt, stream};

    use super::*;

    fn numbers(batches: &[usize]) -> SendableRecordBatchStream {
        let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
        let mut next = 0;
        let batches: Vec<_> = batches
            .iter()
            .map(|rows| {
                let values = Int64Array::from_iter_values((next..).take(*rows));
                next += *rows as i64;
                RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(values)]).map_err(DataFusionError::from)
            })
            .collect();
        Box::pin(RecordBatchStreamAdapter::new(schema, stream::iter(batches)))
    }

    fn values(batches: &[RecordBatch]) -> Vec<i64> {
        batches.iter().flat_map(|b| b.column(0).as_primitive::<Int64Type>().values().to_vec()).collect()
    }

    /// Works on each row for a while within a poll, as a join does.
    fn slow(rows: SendableRecordBatchStream, per_row: Duration) -> SendableRecordBatchStream {
        let worked = rows.map(move |batch| {
            if let Ok(batch) = &batch {
                std::thread::sleep(per_row * u32::try_from(batch.num_rows()).unwrap());
            }
            batch
        });
        Box::pin(RecordBatchStreamAdapter::new(numbers(&[]).schema(), worked))
    }

    fn sliced(rows: SendableRecordBatchStream) -> SendableRecordBatchStream {
        Box::pin(InSlices { rows, rest: None, size: FIRST_ROWS, sent: None })
    }

    #[tokio::test]
    async fn a_panic_below_is_an_error_and_no_end_of_rows() {
        let rows = numbers(&[3, 4, 5]).map(|batch| match batch {
            Ok(batch) if batch.num_rows() == 4 => panic!("no such bit"),
            other => other,
        });
        let rows = Box::pin(RecordBatchStreamAdapter::new(numbers(&[]).schema(), rows));
        let mut rows = in_turns(rows, None);
        assert_eq!(rows.next().await.unwrap().unwrap().num_rows(), 3);
        let error = rows.next().await.unwrap().unwrap_err();
        assert!(error.to_string().contains("no such bit"), "{error}");
        assert!(rows.next().await.is_none());
    }

    #[tokio::test]
    async fn slices_shrink_for_a_slow_consumer_and_nothing_is_lost() {
        let rows = in_turns(slow(sliced(numbers(&[100, 0, 100])), Duration::from_millis(4)), None);
        let batches: Vec<RecordBatch> = rows.try_collect().await.unwrap();
        assert_eq!(values(&batches), (0..200).collect::<Vec<_>>());
        let sizes: Vec<usize> = batches.iter().map(RecordBatch::num_rows).collect();
        assert_eq!(sizes[0], FIRST_ROWS);
        assert!(sizes[1..].iter().all(|n| *n <= 10), "{sizes:?}");
    }

    #[tokio::test]
    async fn slices_grow_for_a_fast_consumer_and_time_outside_of_it_does_not_count() {
        let mut rows = in_turns(sliced(numbers(&[100_000, 8192, 8192])), None);
        let mut sizes = Vec::new();
        while let Some(batch) = rows.try_next().await.unwrap() {
            sizes.push(batch.num_rows());
            // Whoever takes the rows is slow, not the operator that is paced.
            std::thread::sleep(SLICE * 2);
        }
        assert_eq!(sizes.iter().sum::<usize>(), 100_000 + 2 * 8192);
        assert_eq!(sizes[..4], [1, 4, 16, 64]);
        assert_eq!(sizes[sizes.len() - 2..], [8192, 8192]);
    }

    #[tokio::test]
    async fn a_turn_ends_although_rows_are_always_ready() {
        let mut rows = in_turns(slow(numbers(&[1; 50]), TURN / 2), None);
        let mut returned = 0;
        let mut received = 0;
        loop {
            match rows.next().now_or_never() {
                None => returned += 1,
                Some(Some(batch)) => received += batch.unwrap().num_rows(),
                Some(None) => break,
            }
        }
        assert_eq!(received, 50);
        assert!(returned >= 15, "{returned}");
    }

    #[tokio::test]
    async fn a_turn_ends_although_the_consumer_swallows_every_row() {
        let swallowed = slow(sliced(numbers(&[200])), TURN / 50).try_filter(|_| std::future::ready(false));
        let mut rows = in_turns(Box::pin(RecordBatchStreamAdapter::new(numbers(&[]).schema(), swallowed)), None);
        let mut returned = 0;
        while rows.next().now_or_never().is_none() {
            returned += 1;
        }
        assert!(returned >= 2, "{returned}");
    }

    #[tokio::test]
    async fn the_end_of_a_task_ends_what_waits_and_what_has_rows() {
        let end = CancellationToken::new();
        let waiting = RecordBatchStreamAdapter::new(numbers(&[]).schema(), stream::pending());
        let mut rows = in_turns(Box::pin(waiting), Some(end.clone()));
        let last = tokio::spawn(async move { rows.next().await });
        tokio::task::yield_now().await;
        end.cancel();
        let error = Error::from(last.await.unwrap().unwrap().unwrap_err());
        assert_eq!(error.kind, ErrorKind::Cancelled);
        let mut rows = in_turns(numbers(&[1; 1000]), Some(end));
        assert!(rows.next().await.unwrap().is_err());
    }

    /// Rows that never end, and whether they were dropped.
    fn held() -> (SendableRecordBatchStream, CancellationToken) {
        let dropped = CancellationToken::new();
        let guard = dropped.clone().drop_guard();
        let batch = numbers(&[1]).next().now_or_never().unwrap().unwrap().unwrap();
        let rows = stream::repeat_with(move || {
            let _ = &guard;
            Ok(batch.clone())
        });
        (Box::pin(RecordBatchStreamAdapter::new(numbers(&[]).schema(), rows)), dropped)
    }

    #[tokio::test]
    async fn the_end_of_a_task_takes_the_input_of_streams_that_nobody_polls() {
        for polls in [0, 1] {
            let end = CancellationToken::new();
            let (rows, dropped) = held();
            let mut rows = in_turns(rows, Some(end.clone()));
            for _ in 0..polls {
                rows.next().await.unwrap().unwrap();
            }
            tokio::task::yield_now().await;
            assert!(!dropped.is_cancelled());
            end.cancel();
            tokio::time::timeout(Duration::from_secs(10), dropped.cancelled()).await.unwrap();
            // Whoever comes back to it must not take what it had for everything.
            assert!(rows.next().await.unwrap().is_err());
        }
    }

    #[tokio::test]
    async fn a_task_that_ends_during_a_poll_takes_the_input_after_it() {
        let end = CancellationToken::new();
        let (rows, dropped) = held();
        let ending = end.clone();
        let rows = RecordBatchStreamAdapter::new(rows.schema(), rows.inspect(move |_| ending.cancel()));
        let mut rows = in_turns(Box::pin(rows), Some(end));
        rows.next().await.unwrap().unwrap();
        assert!(dropped.is_cancelled());
        assert!(rows.next().await.unwrap().is_err());
    }

    #[test]
    fn sizes_follow_what_was_measured() {
        assert_eq!(next_size(1000, 1000, SLICE * 10), 100);
        assert_eq!(next_size(1000, 10, SLICE * 1000), 1);
        assert_eq!(next_size(1000, 1000, SLICE), 1000);
        assert_eq!(next_size(1000, 1000, Duration::ZERO), 4000);
        assert_eq!(next_size(1000, 999, Duration::ZERO), 1000);
        assert_eq!(next_size(MOST_ROWS, MOST_ROWS, Duration::ZERO), MOST_ROWS);
    }
}
