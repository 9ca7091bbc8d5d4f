//! Ports that stay free until the cluster under test binds them, and again while one of its nodes is down.
//!
//! A port that the system picks can be picked again for an outgoing connection the moment it is let go. So ports are
//! taken from below the range of those, and a lock on a file keeps other test processes away.
use std::{
    fs::File,
    net::{Ipv4Addr, TcpListener},
    process,
    sync::Mutex,
};

use anyhow::{Context, bail};

use crate::turns::scratch_dir;

const FIRST: u16 = 15_000;
const COUNT: u16 = 15_000;

/// Where to look next, and the locks of the ports given out.
static TAKEN: Mutex<(u16, Vec<File>)> = Mutex::new((0, Vec::new()));

/// A free port of the loopback address, for this process until it ends.
///
/// # Errors
/// None is free, or a lock file cannot be made.
pub fn free_port() -> anyhow::Result<u16> {
    let dir = scratch_dir()?.join("ports");
    std::fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
    let mut taken = TAKEN.lock().unwrap_or_else(|e| e.into_inner());
    let start = u16::try_from(process::id() % u32::from(COUNT)).unwrap_or_default();
    for _ in 0..COUNT {
        let offset = (u32::from(start) * 31 + u32::from(taken.0)) % u32::from(COUNT);
        taken.0 = taken.0.wrapping_add(1);
        let port = FIRST + u16::try_from(offset).unwrap_or_default();
        let path = dir.join(port.to_string());
        let file = File::create(&path).with_context(|| format!("create {}", path.display()))?;
        if file.try_lock().is_ok() && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            taken.1.push(file);
            return Ok(port);
        }
    }
    bail!("no port between {FIRST} and {} is free", FIRST + COUNT)
}
