//! Free ports of the loopback address.
use std::{
    collections::BTreeSet,
    hash::{BuildHasher, RandomState},
    net::{Ipv4Addr, SocketAddr, TcpListener},
};

use anyhow::Context;

/// Below the range from which systems take ports for outgoing connections, so that a stopped cluster finds its ports
/// free when it is started again.
const RANGE: std::ops::Range<u16> = 20_000..32_000;

/// Gives out ports: free ones, or a row of them from a given start.
pub(super) struct Ports {
    next: u16,
    wrap: bool,
    taken: BTreeSet<u16>,
}

impl Ports {
    pub(super) fn new(base: Option<u16>, taken: impl IntoIterator<Item = u16>) -> Self {
        let width = u64::from(RANGE.end - RANGE.start);
        let offset = u16::try_from(RandomState::new().hash_one(std::process::id()) % width).unwrap_or(0);
        Self { next: base.unwrap_or(RANGE.start + offset), wrap: base.is_none(), taken: taken.into_iter().collect() }
    }

    /// The next port that nobody listens on.
    pub(super) fn take(&mut self) -> anyhow::Result<SocketAddr> {
        for _ in 0..RANGE.len() {
            let port = self.next;
            self.next = self.next.checked_add(1).context("no port is left above the base port")?;
            if self.wrap && self.next >= RANGE.end {
                self.next = RANGE.start;
            }
            if !self.taken.contains(&port) && is_free(loopback(port)) {
                self.taken.insert(port);
                return Ok(loopback(port));
            }
        }
        anyhow::bail!("no port is free between {} and {}", RANGE.start, RANGE.end)
    }
}

pub(super) fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

/// Whether a server could listen here now.
pub(super) fn is_free(address: SocketAddr) -> bool {
    TcpListener::bind(address).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taken_ports_are_passed_over() {
        let mut ports = Ports::new(None, []);
        let held = TcpListener::bind(ports.take().expect("a port")).expect("free");
        let base = held.local_addr().expect("an address").port();
        let mut from_base = Ports::new(Some(base), [base + 1]);
        let next = from_base.take().expect("a port").port();
        assert!(next > base + 1, "{base} {next}");
        assert_ne!(from_base.take().expect("a port").port(), next);
    }
}
