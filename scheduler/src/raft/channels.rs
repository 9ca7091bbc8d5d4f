//! Connections to the other schedulers: one per use and URL, opened when first needed and again after a failure.
use std::{collections::HashMap, sync::Arc, time::Duration};

use ancho_proto::v1::scheduler_client::SchedulerClient;
use parking_lot::Mutex;
use tonic::{
    Status,
    transport::{Channel, Endpoint},
};

use super::{
    error::{Error, Result},
    service::MAX_MESSAGE_BYTES,
};

/// Longest wait for a TCP connection.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(5);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(3);

/// What a connection carries. Large transfers get their own, so that they do not delay signs of life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Use {
    Consensus,
    Heartbeat,
    Snapshot,
    Metadata,
}

/// The connections of a node. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct Channels {
    open: Arc<Mutex<HashMap<(Use, String), Channel>>>,
}

impl Channels {
    /// A client for the scheduler at `url`. Does not connect yet.
    pub(super) fn client(&self, purpose: Use, url: &str) -> Result<SchedulerClient<Channel>> {
        let channel = self.channel(purpose, url)?;
        Ok(SchedulerClient::new(channel)
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES))
    }

    fn channel(&self, purpose: Use, url: &str) -> Result<Channel> {
        let mut open = self.open.lock();
        if let Some(channel) = open.get(&(purpose, url.to_owned())) {
            return Ok(channel.clone());
        }
        let endpoint = Endpoint::from_shared(http_url(url))
            .map_err(|e| Error::Config(format!("scheduler url `{url}`: {e}; write http://host:port")))?
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(KEEP_ALIVE_EVERY)
            .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
            .keep_alive_while_idle(true);
        let channel = endpoint.connect_lazy();
        open.insert((purpose, url.to_owned()), channel.clone());
        Ok(channel)
    }
}

/// gRPC URLs are also written `grpc://host:port` and `host:port`.
fn http_url(url: &str) -> String {
    match url.split_once("://") {
        Some(("grpc" | "grpc+tcp", rest)) => format!("http://{rest}"),
        Some(_) => url.to_owned(),
        None => format!("http://{url}"),
    }
}

/// Whether a call failed before its request left this process: no connection could be opened.
pub(super) fn was_not_sent(status: &Status) -> bool {
    let mut source = std::error::Error::source(status);
    while let Some(error) = source {
        if error.is::<tonic::ConnectError>() {
            return true;
        }
        source = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use ancho_proto::v1::ProbeRequest;

    use super::*;

    #[test]
    fn urls_are_taken_in_every_usual_form() {
        assert_eq!(http_url("10.0.0.1:50052"), "http://10.0.0.1:50052");
        assert_eq!(http_url("grpc://a:1"), "http://a:1");
        assert_eq!(http_url("https://a:1"), "https://a:1");
    }

    #[tokio::test]
    async fn a_refused_connection_is_known_not_to_have_sent_anything() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("port").local_addr().expect("address");
        let mut client = Channels::default().client(Use::Metadata, &free.to_string()).expect("client");
        let status = client.probe(ProbeRequest {}).await.expect_err("nobody listens");
        assert!(was_not_sent(&status), "{status:?}");
    }
}
