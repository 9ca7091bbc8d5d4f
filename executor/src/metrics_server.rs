//! The metrics of the process over HTTP.
use std::net::SocketAddr;

use ancho_common::recorder::{self, UPKEEP_INTERVAL};
use axum::{Router, http::header::CONTENT_TYPE, routing::get};
use tokio_util::sync::CancellationToken;

use crate::{
    error::{Error, Result},
    metric, server,
};

/// Installs the recorder and serves `/metrics` until `stop`. Answers the address, which is needed for port 0.
pub(crate) async fn start(address: SocketAddr, stop: CancellationToken) -> Result<SocketAddr> {
    let recorder = recorder::install().map_err(|e| Error::Options(e.message))?;
    metric::describe();
    let (listener, bound) = server::listen(address).await?;
    let upkeep = recorder.clone();
    let stopped = stop.clone();
    tokio::spawn(stop.clone().run_until_cancelled_owned(async move {
        let mut interval = tokio::time::interval(UPKEEP_INTERVAL);
        loop {
            interval.tick().await;
            upkeep.run_upkeep();
        }
    }));
    let text = move || async move { ([(CONTENT_TYPE, "text/plain; version=0.0.4")], recorder.render()) };
    let router = Router::new().route("/metrics", get(text));
    tokio::spawn(async move {
        let serving = axum::serve(listener, router).with_graceful_shutdown(stopped.cancelled_owned());
        if let Err(error) = serving.await {
            tracing::warn!(%error, "metrics are not served any more");
        }
    });
    Ok(bound)
}
