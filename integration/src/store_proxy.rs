//! A proxy in front of an S3 server that makes it fail in chosen ways. It speaks as much HTTP as the clients of these tests do: one
//! request per connection, bodies with a length.
use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, bail};
use futures::future::try_join;
use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// Longest head of a request.
const MAX_HEAD: usize = 64 << 10;

/// How the store behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// As it should.
    None,
    /// It hangs up.
    Down,
    /// Each request takes so much longer.
    Slow(Duration),
    /// It knows no conditional writes, and says so.
    RefusesConditions,
    /// It says that conditional writes were made whose condition did not hold.
    IgnoresConditions,
    /// It makes conditional writes and hangs up before it says so, until so many answers are lost.
    LosesAnswers(usize),
}

/// The proxy. Ends when dropped.
#[derive(Debug)]
pub struct StoreProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    serving: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    fault: Mutex<Fault>,
    lost: AtomicUsize,
    puts: AtomicUsize,
    server: String,
}

impl StoreProxy {
    /// In front of a server at `host:port`.
    ///
    /// # Errors
    /// No port is free.
    pub async fn start(server: &str) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("listen")?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            fault: Mutex::new(Fault::None),
            lost: AtomicUsize::new(0),
            puts: AtomicUsize::new(0),
            server: server.to_owned(),
        });
        let serve = Arc::clone(&shared);
        let serving = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let shared = Arc::clone(&serve);
                // A client that goes away, or is sent away, is what this is for.
                tokio::spawn(async move { drop(shared.handle(client).await) });
            }
        });
        Ok(Self { address, shared, serving })
    }

    /// Where clients find it.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// How the store behaves from now on.
    pub fn set(&self, fault: Fault) {
        self.shared.lost.store(0, Ordering::SeqCst);
        *self.shared.fault.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    }

    /// Answers that were lost since the fault was set.
    #[must_use]
    pub fn lost_answers(&self) -> usize {
        self.shared.lost.load(Ordering::SeqCst)
    }

    /// Objects that were written, or tried to be, so far.
    #[must_use]
    pub fn writes(&self) -> usize {
        self.shared.puts.load(Ordering::SeqCst)
    }
}

impl Drop for StoreProxy {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Shared {
    fn fault(&self) -> Fault {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn handle(&self, mut client: TcpStream) -> anyhow::Result<()> {
        let (head, rest) = read_head(&mut client).await?;
        let lower = head.to_ascii_lowercase();
        let is_write = head.starts_with("PUT ");
        let conditional = is_write && (lower.contains("\r\nif-match:") || lower.contains("\r\nif-none-match:"));
        if is_write {
            self.puts.fetch_add(1, Ordering::SeqCst);
        }
        let fault = self.fault();
        match fault {
            Fault::Down => return Ok(()),
            Fault::Slow(time) => tokio::time::sleep(time).await,
            Fault::RefusesConditions if conditional => {
                let answer = "HTTP/1.1 501 Not Implemented\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
                return Ok(client.write_all(answer.as_bytes()).await?);
            }
            _ => {}
        }
        let mut server = TcpStream::connect(&self.server).await?;
        // One request per connection: the server ends it, and thereby the answer.
        let (line, headers) = head.split_once("\r\n").context("a request line")?;
        let kept = headers.split("\r\n").filter(|header| !header.to_ascii_lowercase().starts_with("connection:"));
        let kept: Vec<&str> = kept.collect();
        let forwarded = format!("{line}\r\nConnection: close\r\n{}", kept.join("\r\n"));
        server.write_all(forwarded.as_bytes()).await?;
        server.write_all(&rest).await?;
        let length = header(&lower, "content-length").map_or(Ok(0), str::parse::<u64>)?;
        let missing = length.saturating_sub(rest.len() as u64);
        if conditional && matches!(fault, Fault::IgnoresConditions | Fault::LosesAnswers(_)) {
            copy(&mut (&mut client).take(missing), &mut server).await?;
            let mut answer = Vec::new();
            server.read_to_end(&mut answer).await?;
            let refused = [&b"HTTP/1.1 412"[..], b"HTTP/1.1 409"].iter().any(|start| answer.starts_with(start));
            match fault {
                Fault::LosesAnswers(most) if !refused && self.lost.load(Ordering::SeqCst) < most => {
                    self.lost.fetch_add(1, Ordering::SeqCst);
                    return Ok(());
                }
                Fault::IgnoresConditions if refused => {
                    let lie = "HTTP/1.1 200 OK\r\nETag: \"lie\"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
                    return Ok(client.write_all(lie.as_bytes()).await?);
                }
                _ => return Ok(client.write_all(&answer).await?),
            }
        }
        let (mut from_client, mut to_client) = client.split();
        let (mut from_server, mut to_server) = server.split();
        let mut body = (&mut from_client).take(missing);
        try_join(copy(&mut body, &mut to_server), copy(&mut from_server, &mut to_client)).await?;
        to_client.shutdown().await?;
        Ok(())
    }
}

/// Head of a request, without the empty line's first half, and what came behind it already.
async fn read_head(client: &mut TcpStream) -> anyhow::Result<(String, Vec<u8>)> {
    let mut read = Vec::new();
    loop {
        if let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") {
            let rest = read.split_off(end + 4);
            return Ok((String::from_utf8(read)?, rest));
        }
        let mut part = [0; 8192];
        let length = client.read(&mut part).await?;
        if length == 0 || read.len() > MAX_HEAD {
            bail!("no request");
        }
        read.extend_from_slice(&part[..length]);
    }
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.split("\r\n").find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::trim))
}
