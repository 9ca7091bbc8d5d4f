//! Queries of this process, so that the stages which run in the process itself learn when nobody waits for them any more:
//! no call is made to them whose end would tell.
use std::{collections::HashMap, sync::Arc};

use http::{HeaderMap, HeaderName, HeaderValue};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Header that names a query in all its tasks.
const QUERY_HEADER: HeaderName = HeaderName::from_static("x-ancho-query");

/// The queries that run. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct RunningQueries(Arc<Mutex<HashMap<String, CancellationToken>>>);

impl RunningQueries {
    /// One more, until the last clone of what is returned is dropped.
    #[must_use]
    pub fn begin(&self) -> RunningQuery {
        let (id, end) = (Uuid::new_v4().to_string(), CancellationToken::new());
        self.0.lock().insert(id.clone(), end.clone());
        RunningQuery(Arc::new(Running { id, end, all: self.clone() }))
    }

    /// The end of the query that a task with these headers belongs to, if it is one of this process.
    #[must_use]
    pub fn end_of(&self, headers: &HeaderMap) -> Option<CancellationToken> {
        let id = headers.get(QUERY_HEADER)?.to_str().ok()?;
        self.0.lock().get(id).cloned()
    }
}

/// A query that runs. Its stages here end when the last clone is dropped.
#[derive(Debug, Clone)]
pub struct RunningQuery(Arc<Running>);

#[derive(Debug)]
struct Running {
    id: String,
    end: CancellationToken,
    all: RunningQueries,
}

impl RunningQuery {
    /// Cancelled at its end.
    #[must_use]
    pub fn end(&self) -> CancellationToken {
        self.0.end.clone()
    }

    /// Names it in the headers of its tasks.
    pub fn name_in(&self, headers: &mut HeaderMap) {
        // A UUID is a header value.
        if let Ok(id) = HeaderValue::from_str(&self.0.id) {
            headers.insert(QUERY_HEADER, id);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.all.0.lock().remove(&self.id);
        self.end.cancel();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_ends_with_its_last_owner_and_is_known_to_its_own_process_only() {
        let (here, elsewhere) = (RunningQueries::default(), RunningQueries::default());
        let (query, other) = (here.begin(), here.begin());
        let mut headers = HeaderMap::new();
        assert!(here.end_of(&headers).is_none());
        query.name_in(&mut headers);
        assert!(elsewhere.end_of(&headers).is_none());
        let end = here.end_of(&headers).unwrap();
        let clone = query.clone();
        drop(query);
        assert!(!end.is_cancelled());
        drop(clone);
        assert!(end.is_cancelled() && !other.end().is_cancelled());
        assert!(here.end_of(&headers).is_none());
    }
}
