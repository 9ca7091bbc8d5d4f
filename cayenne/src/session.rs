//! The Vortex sessions of this process: registries of encodings plus the place where work runs.

use std::io;
use std::sync::{Arc, LazyLock};

use futures::future::BoxFuture;
use vortex::VortexSessionDefault;
use vortex::array::{ArrayRef, ExecutionCtx};
use vortex::compressor::BtrBlocksCompressorBuilder;
use vortex::file::WriteStrategyBuilder;
use vortex::io::runtime::{AbortHandleRef, Executor, Handle};
use vortex::io::session::RuntimeSessionExt;
use vortex::layout::LayoutStrategy;
use vortex::session::VortexSession;

use crate::options::Compression;

static READ: LazyLock<VortexSession> =
    LazyLock::new(|| <VortexSession as VortexSessionDefault>::default().with_tokio());

static ENCODER: LazyLock<Arc<dyn Executor>> = LazyLock::new(|| Arc::new(BlockingPoolEncoder));

static WRITE: LazyLock<VortexSession> = LazyLock::new(|| {
    <VortexSession as VortexSessionDefault>::default().with_handle(Handle::new(Arc::downgrade(&ENCODER)))
});

/// For reading: decoding runs where the query runs.
pub(crate) fn read_session() -> &'static VortexSession {
    &READ
}

/// For writing: encoding runs on the blocking pool of the current Tokio runtime.
pub(crate) fn write_session() -> &'static VortexSession {
    &WRITE
}

/// Called when a column is begun, by whoever encodes it.
pub(crate) type BeginColumn = Box<dyn Fn() -> io::Result<()> + Send + Sync>;

/// What turns rows into a file.
pub(crate) fn write_strategy(compression: Compression, begin: Option<BeginColumn>) -> Arc<dyn LayoutStrategy> {
    let session = write_session();
    let default = BtrBlocksCompressorBuilder::from_session(session);
    let compressor = match compression {
        Compression::Btrblocks => default,
        Compression::Zstd => default.with_compact(),
    };
    let builder = WriteStrategyBuilder::from_session(session).with_btrblocks_builder(compressor.clone());
    let Some(begin) = begin else { return builder.build() };
    // The first block of each column goes through this, to see whether a dictionary is worth while; as it would otherwise.
    let probe = compressor.build();
    let hooked = move |chunk: &ArrayRef, context: &mut ExecutionCtx| {
        begin()?;
        probe.compress(chunk, context)
    };
    builder.with_probe_compressor(hooked).build()
}

/// Compressing one block takes milliseconds, too long for a worker that also answers queries and
/// heartbeats; so that work goes to Tokio's blocking threads. Several blocks of several columns are
/// compressed at once, as many as Vortex hands out.
struct BlockingPoolEncoder;

impl Executor for BlockingPoolEncoder {
    fn spawn(&self, future: BoxFuture<'static, ()>) -> AbortHandleRef {
        Box::new(tokio::spawn(future).abort_handle())
    }

    fn spawn_cpu(&self, task: Box<dyn FnOnce() + Send + 'static>) -> AbortHandleRef {
        Box::new(tokio::task::spawn_blocking(task).abort_handle())
    }

    fn spawn_blocking_io(&self, task: Box<dyn FnOnce() + Send + 'static>) -> AbortHandleRef {
        Box::new(tokio::task::spawn_blocking(task).abort_handle())
    }
}
