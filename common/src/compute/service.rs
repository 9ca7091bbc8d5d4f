//! A gRPC service whose calls run on the compute runtime.
use std::{
    convert::Infallible,
    mem,
    task::{Context, Poll},
};

use futures::future::BoxFuture;
use tonic::{Status, body::Body, codegen::Service, server::NamedService};

use super::Compute;

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
        let work = self.compute.run(async move {
            let Ok(response) = ready.call(request).await;
            Ok(response)
        });
        Box::pin(async move { Ok(work.await.unwrap_or_else(|error| Status::from(error).into_http())) })
    }
}
