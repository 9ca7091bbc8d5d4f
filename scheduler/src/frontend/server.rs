//! Opens the sockets of the front ends and closes them in order.
use std::{net::SocketAddr, time::Duration};

use ancho_common::error::{Error, Result};
use axum::{Router, routing::get};
use http::header;
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::CancellationToken;
use tonic::transport::{Server, server::TcpIncoming};

use super::{
    flight::FlightFrontend,
    http::router,
    metrics::{UPKEEP_INTERVAL, install_recorder},
    service::SharedService,
};

/// Interval of HTTP/2 pings on an idle connection, which keep it through load balancers and find dead peers.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);

/// A peer that does not answer a ping for so long is gone, and its queries with it.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// Largest block of request headers: clients with long tokens or many session headers.
const MAX_HEADER_LIST_BYTES: u32 = 64 * 1024;

/// How long open calls may go on after a shutdown began.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(10);

/// Where to listen. Port 0 takes a free one.
#[derive(Debug, Clone)]
pub struct FrontendOptions {
    /// Flight SQL; by convention port 50051.
    pub flight: SocketAddr,
    /// HTTP, by convention port 8090; `None` leaves it out.
    pub http: Option<SocketAddr>,
    /// Prometheus, by convention port 9090; `None` leaves it out.
    pub metrics: Option<SocketAddr>,
}

/// Starts front ends.
pub struct Frontends;

impl Frontends {
    /// Opens all sockets, then serves until the handle is shut down or dropped.
    ///
    /// # Errors
    /// A socket cannot be opened, or the metrics recorder cannot be installed.
    pub async fn start(service: SharedService, options: FrontendOptions) -> Result<FrontendsHandle> {
        let (flight, flight_addr) = listen("flight", options.flight).await?;
        let http = listen_if("http", options.http).await?;
        let metrics = listen_if("metrics", options.metrics).await?;
        let stop = CancellationToken::new();
        let mut tasks = vec![serve_flight(flight, service.clone(), stop.clone())];
        let mut handle = FrontendsHandle { flight_addr, http_addr: None, metrics_addr: None, stop, tasks: Vec::new() };
        if let Some((listener, addr)) = http {
            handle.http_addr = Some(addr);
            tasks.push(serve_http("http", listener, router(service), handle.stop.clone()));
        }
        if let Some((listener, addr)) = metrics {
            handle.metrics_addr = Some(addr);
            tasks.push(serve_http("metrics", listener, metrics_router(handle.stop.clone())?, handle.stop.clone()));
        }
        handle.tasks = tasks;
        Ok(handle)
    }
}

/// Running front ends. Dropping it stops them without waiting for open calls.
#[derive(Debug)]
pub struct FrontendsHandle {
    /// Where Flight SQL listens.
    pub flight_addr: SocketAddr,
    /// Where HTTP listens.
    pub http_addr: Option<SocketAddr>,
    /// Where Prometheus can scrape.
    pub metrics_addr: Option<SocketAddr>,
    stop: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
}

impl FrontendsHandle {
    /// Takes no more calls, lets open ones end for up to ten seconds, then cuts them off.
    pub async fn shutdown(mut self) {
        self.stop.cancel();
        let tasks = std::mem::take(&mut self.tasks);
        let aborts: Vec<_> = tasks.iter().map(JoinHandle::abort_handle).collect();
        if tokio::time::timeout(SHUTDOWN_GRACE, futures::future::join_all(tasks)).await.is_err() {
            tracing::warn!("front ends still had open calls after {SHUTDOWN_GRACE:?}; they are cut off");
            aborts.iter().for_each(tokio::task::AbortHandle::abort);
        }
    }
}

impl Drop for FrontendsHandle {
    fn drop(&mut self) {
        self.stop.cancel();
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

async fn listen(name: &str, addr: SocketAddr) -> Result<(TcpListener, SocketAddr)> {
    let open = async {
        let listener = TcpListener::bind(addr).await?;
        let addr = listener.local_addr()?;
        Ok::<_, std::io::Error>((listener, addr))
    };
    open.await.map_err(|e| {
        Error::unavailable(format!("{name} cannot listen on {addr}: {e}; free the port or choose another"))
    })
}

async fn listen_if(name: &str, addr: Option<SocketAddr>) -> Result<Option<(TcpListener, SocketAddr)>> {
    match addr {
        Some(addr) => listen(name, addr).await.map(Some),
        None => Ok(None),
    }
}

fn serve_flight(listener: TcpListener, service: SharedService, stop: CancellationToken) -> JoinHandle<()> {
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true)).with_keepalive(Some(KEEPALIVE_INTERVAL));
    let server = Server::builder()
        .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
        .http2_max_header_list_size(MAX_HEADER_LIST_BYTES)
        .add_service(FlightFrontend::new(service).into_server())
        .serve_with_incoming_shutdown(incoming, stop.cancelled_owned());
    tokio::spawn(async move {
        if let Err(error) = server.await {
            tracing::error!(%error, "flight front end ended");
        }
    })
}

fn serve_http(name: &'static str, listener: TcpListener, router: Router, stop: CancellationToken) -> JoinHandle<()> {
    tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned()).await {
            tracing::error!(%error, "{name} front end ended");
        }
    })
}

fn metrics_router(stop: CancellationToken) -> Result<Router> {
    let recorder = install_recorder()?;
    let upkeep = recorder.clone();
    tokio::spawn(async move {
        let mut interval = tokio::time::interval(UPKEEP_INTERVAL);
        while stop.run_until_cancelled(interval.tick()).await.is_some() {
            upkeep.run_upkeep();
        }
    });
    let render =
        async move || ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], recorder.render());
    Ok(Router::new().route("/metrics", get(render)))
}
