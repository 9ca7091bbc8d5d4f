//! The runtime of a test: deep stacks, since planning recurses deeply, above all in a debug build.
use std::{future::Future, panic::resume_unwind, time::Duration};

use tokio::runtime::Builder;
use tracing_subscriber::EnvFilter;

/// Stack of every thread, in bytes.
const STACK: usize = 16 << 20;

/// Runs a test to its end and panics with its error.
///
/// # Panics
/// When the test fails or panics.
pub fn run<F>(test: F)
where
    F: Future<Output = anyhow::Result<()>> + Send + 'static,
{
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("error"));
    // A second test of the same process finds the subscriber set already.
    let _ = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).try_init();
    let runtime = Builder::new_multi_thread().enable_all().thread_stack_size(STACK).build();
    let runtime = runtime.unwrap_or_else(|e| panic!("start a runtime: {e}"));
    // On a worker thread, because only those have the deep stack.
    let result = runtime.block_on(runtime.spawn(test));
    runtime.shutdown_timeout(Duration::from_secs(5));
    match result {
        Ok(Ok(())) => {}
        Ok(Err(error)) => panic!("{error:?}"),
        Err(join) => match join.try_into_panic() {
            Ok(payload) => resume_unwind(payload),
            Err(join) => panic!("the test was cancelled: {join}"),
        },
    }
}
