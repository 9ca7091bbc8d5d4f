//! The one gRPC server of an executor.
use std::net::SocketAddr;

use ancho_common::plan::channels::{
    CONNECTION_WINDOW, KEEP_ALIVE_INTERVAL, KEEP_ALIVE_TIMEOUT, MAX_FRAME, MAX_HEADER_LIST, STREAM_WINDOW,
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::{
    service::Routes,
    transport::{Server, server::TcpIncoming},
};

use crate::error::{Error, Result};

/// Many tasks of many queries share a connection.
const MAX_STREAMS: u32 = 16 << 10;

/// Listens now, so that the address is known before anything else starts.
pub(crate) async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr)> {
    let bind = |source| Error::Bind { address, source };
    let listener = TcpListener::bind(address).await.map_err(bind)?;
    let bound = listener.local_addr().map_err(bind)?;
    Ok((listener, bound))
}

/// Serves until `stop`, then lets running requests end.
pub(crate) async fn serve(
    listener: TcpListener,
    routes: Routes,
    stop: CancellationToken,
) -> Result<(), tonic::transport::Error> {
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    Server::builder()
        .http2_keepalive_interval(Some(KEEP_ALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEP_ALIVE_TIMEOUT))
        .http2_max_header_list_size(MAX_HEADER_LIST)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(MAX_FRAME)
        .max_concurrent_streams(MAX_STREAMS)
        .add_routes(routes)
        .serve_with_incoming_shutdown(incoming, stop.cancelled_owned())
        .await
}
