//! A gRPC service whose calls run on the compute runtime.
use std::{
    convert::Infallible,
    mem,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures::future::BoxFuture;
use http_body::{Body as HttpBody, Frame};
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::{Status, body::Body, codegen::Service, server::NamedService};

use super::Compute;

tokio::task_local! {
    static CALL: CancellationToken;
}

/// Cancelled when the call that this task handles is over: its answer was sent whole, or is not wanted any more.
#[must_use]
pub fn end_of_call() -> Option<CancellationToken> {
    CALL.try_with(Clone::clone).ok()
}

/// Runs the calls of `S` on the compute runtime, and with them whatever tasks they start. Messages are read from and
/// written to the connection on the network runtime. A call whose client goes away is ended.
#[derive(Debug, Clone)]
pub struct OnCompute<S> {
    inner: S,
    compute: Compute,
}

impl<S> OnCompute<S> {
    /// The service, there.
    pub fn new(inner: S, compute: Compute) -> Self {
        Self { inner, compute }
    }
}

impl<S: NamedService> NamedService for OnCompute<S> {
    const NAME: &'static str = S::NAME;
}

impl<S, B> Service<http::Request<B>> for OnCompute<S>
where
    S: Service<http::Request<B>, Response = http::Response<Body>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send + 'static,
    B: Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        // The one that was polled ready is the one to call.
        let other = self.inner.clone();
        let mut ready = mem::replace(&mut self.inner, other);
        let over = CancellationToken::new();
        let guard = over.clone().drop_guard();
        let work = self.compute.run(CALL.scope(over, async move {
            let Ok(response) = ready.call(request).await;
            Ok(response)
        }));
        Box::pin(async move {
            Ok(match work.await {
                Ok(response) => response.map(|body| Body::new(Answer { body, _guard: guard })),
                Err(error) => Status::from(error).into_http(),
            })
        })
    }
}

/// The answer to a call, which is over when this is dropped.
struct Answer {
    body: Body,
    _guard: DropGuard,
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}
