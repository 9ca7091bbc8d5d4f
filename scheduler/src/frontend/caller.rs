//! Whether somebody still waits for a statement.
use ancho_common::error::{Error, ErrorKind, Result};
use tokio_util::sync::{CancellationToken, DropGuard};

/// The one who waits for an update. Clones are the same.
///
/// An update runs in a task of its own, so that nobody leaves it half done by going away. What it does before its commit
/// is given up all the same: nobody wants it any more.
#[derive(Debug, Clone, Default)]
pub struct Caller {
    gone: CancellationToken,
}

impl Caller {
    /// A caller who is there until the guard is dropped. The default one never goes.
    #[must_use]
    pub fn while_held() -> (Self, DropGuard) {
        let caller = Self::default();
        let guard = caller.gone.clone().drop_guard();
        (caller, guard)
    }

    /// The outcome of `work`, which is dropped as soon as the caller has gone.
    ///
    /// # Errors
    /// `Cancelled` if the caller has gone, else those of `work`.
    pub async fn unless_gone<T, E: From<Error>>(&self, work: impl Future<Output = Result<T, E>>) -> Result<T, E> {
        self.gone.run_until_cancelled(work).await.unwrap_or_else(|| {
            let text = "the client went away or its time ran out; nothing was changed";
            Err(Error::new(ErrorKind::Cancelled, text).into())
        })
    }
}
