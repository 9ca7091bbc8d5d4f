//! Who asks for a statement: whether they still wait for it, and by which id they know it.
use std::sync::Arc;

use ancho_common::{
    error::{Error, ErrorKind, Result},
    fingerprint::Fingerprint,
};
use arrow::array::RecordBatch;
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::metadata::MetadataMap;

/// Header by which a client names its request. A statement with an id that was applied before is not applied again, and
/// another one with that id is refused.
pub const REQUEST_ID_HEADER: &str = "x-ancho-request-id";
/// Longest id.
const MAX_REQUEST_ID: usize = 128;

/// The one who waits for an update. Clones are the same.
///
/// An update runs in a task of its own, so that nobody leaves it half done by going away. What it does before its commit
/// is given up all the same: nobody wants it any more.
#[derive(Debug, Clone)]
pub struct Caller {
    gone: CancellationToken,
    request: RequestId,
}

/// The id of a client's request.
#[derive(Debug, Clone)]
pub struct RequestId {
    id: Arc<str>,
    chosen: bool,
    /// What is asked for, where the id was chosen.
    statement: Option<Fingerprint>,
}

impl Default for RequestId {
    fn default() -> Self {
        Self { id: uuid::Uuid::now_v7().to_string().into(), chosen: false, statement: None }
    }
}

impl RequestId {
    /// The id that a client chose, or a new one.
    ///
    /// # Errors
    /// `Invalid` for an id that is empty, long, or not made of visible ASCII characters.
    pub fn chosen(id: Option<&[u8]>) -> Result<Self> {
        let Some(id) = id else { return Ok(Self::default()) };
        let visible = std::str::from_utf8(id).ok().filter(|id| id.bytes().all(|b| b.is_ascii_graphic()));
        match visible.filter(|id| !id.is_empty() && id.len() <= MAX_REQUEST_ID) {
            Some(id) => Ok(Self { id: id.into(), chosen: true, statement: None }),
            None => Err(Error::invalid(format!(
                "{REQUEST_ID_HEADER} must be 1 to {MAX_REQUEST_ID} visible ASCII characters"
            ))),
        }
    }

    /// The same id with what is asked for by it.
    ///
    /// # Errors
    /// As [`Fingerprint::of`].
    pub fn asking(self, text: &str, parameters: Option<&RecordBatch>) -> Result<Self> {
        let statement = self.chosen.then(|| Fingerprint::of(text, parameters)).transpose()?;
        Ok(Self { statement, ..self })
    }

    /// From the metadata of a gRPC call.
    ///
    /// # Errors
    /// As [`chosen`](Self::chosen).
    pub fn of_call(metadata: &MetadataMap) -> Result<Self> {
        Self::chosen(metadata.get(REQUEST_ID_HEADER).map(tonic::metadata::MetadataValue::as_bytes))
    }
}

impl Default for Caller {
    /// One who never goes.
    fn default() -> Self {
        Self { gone: CancellationToken::new(), request: RequestId::default() }
    }
}

impl Caller {
    /// A caller who is there until the guard is dropped.
    #[must_use]
    pub fn while_held(request: RequestId) -> (Self, DropGuard) {
        let caller = Self { request, ..Self::default() };
        let guard = caller.gone.clone().drop_guard();
        (caller, guard)
    }

    /// By what they know the request.
    #[must_use]
    pub fn request(&self) -> &str {
        &self.request.id
    }

    /// The id is their own choice: the request may have been made before.
    #[must_use]
    pub fn may_repeat(&self) -> bool {
        self.request.chosen
    }

    /// What they ask for, if the id is their own choice.
    #[must_use]
    pub fn statement(&self) -> Option<Fingerprint> {
        self.request.statement
    }

    /// The same caller with a request of which they do not know the id.
    #[must_use]
    pub fn unnamed(&self) -> Self {
        Self { request: RequestId::default(), ..self.clone() }
    }

    /// The same caller with a part of a request that is applied in several. The first one goes by the id itself, so that
    /// another statement with that id is told from this one, however many parts it has.
    #[must_use]
    pub fn with_part(&self, number: usize) -> Self {
        if number == 0 {
            return self.clone();
        }
        let request = RequestId { id: format!("{}/{number}", self.request.id).into(), ..self.request.clone() };
        Self { request, ..self.clone() }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_short_and_visible() {
        let long = vec![b'x'; MAX_REQUEST_ID + 1];
        for wrong in [&b""[..], b"a b", "ä".as_bytes(), &long] {
            assert_eq!(RequestId::chosen(Some(wrong)).unwrap_err().kind, ErrorKind::Invalid);
        }
        let (caller, _here) = Caller::while_held(RequestId::chosen(Some(b"order-7")).unwrap());
        assert!(caller.may_repeat() && caller.with_part(2).may_repeat());
        assert_eq!((caller.request(), caller.with_part(2).request()), ("order-7", "order-7/2"));
        assert_eq!(caller.with_part(0).request(), "order-7");
        let (a, b) = (Caller::default(), Caller::default());
        assert!(!a.may_repeat() && a.request() != b.request());
    }
}
