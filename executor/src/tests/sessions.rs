//! Whole executors against a scheduler that says what the test wants it to say.
use std::{pin::Pin, sync::atomic::AtomicBool, sync::atomic::Ordering};

use ancho_proto::v1::{
    scheduler_server::{Scheduler, SchedulerServer},
    session_down::Body as Down,
    session_up::Body as Up,
};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_stream::{Stream, wrappers::ReceiverStream};
use tonic::{Request, Response, Status, Streaming};

use super::*;
use crate::{Executor, ExecutorHandle, ExecutorOptions, error};

/// Answers sessions: as the leader of `cluster`, or with the leader's URL.
#[derive(Clone)]
struct Voice {
    cluster: String,
    leader_elsewhere: Option<String>,
    acknowledges: Arc<AtomicBool>,
    said: Arc<Mutex<Vec<Up>>>,
    sessions: Arc<Mutex<Vec<mpsc::Sender<Result<proto::SessionDown, Status>>>>>,
}

const TTL: Duration = Duration::from_millis(1000);

impl Voice {
    async fn start(cluster: &str, leader_elsewhere: Option<String>) -> (Self, String, CancellationToken) {
        let voice = Self {
            cluster: cluster.into(),
            leader_elsewhere,
            acknowledges: Arc::new(AtomicBool::new(true)),
            said: Arc::default(),
            sessions: Arc::default(),
        };
        let (listener, address) = server::listen(([127, 0, 0, 1], 0).into()).await.unwrap();
        let stop = CancellationToken::new();
        let routes = Routes::new(SchedulerServer::new(voice.clone()));
        let serve = server::serve(listener, routes, stop.clone());
        tokio::spawn(async move { serve.await.unwrap() });
        (voice, format!("http://{address}"), stop)
    }

    async fn tell(&self, body: Down) {
        let session = self.sessions.lock().last().unwrap().clone();
        session.send(Ok(proto::SessionDown { body: Some(body) })).await.unwrap();
    }

    fn hellos(&self) -> Vec<proto::Hello> {
        let hello = |up: &Up| if let Up::Hello(hello) = up { Some(hello.clone()) } else { None };
        self.said.lock().iter().filter_map(hello).collect()
    }

    fn last_loaded(&self) -> Vec<(u64, u64, u64)> {
        let said = self.said.lock();
        let beat = said.iter().rev().find_map(|up| if let Up::Beat(beat) = up { Some(beat) } else { None });
        beat.map_or_else(Vec::new, |b| b.loaded.iter().map(|l| (l.partition_id, l.epoch, l.version)).collect())
    }
}

type Downs = Pin<Box<dyn Stream<Item = Result<proto::SessionDown, Status>> + Send>>;

#[tonic::async_trait]
impl Scheduler for Voice {
    type SessionStream = Downs;

    async fn session(&self, request: Request<Streaming<proto::SessionUp>>) -> Result<Response<Downs>, Status> {
        let (down, receiver) = mpsc::channel(64);
        let voice = self.clone();
        let mut inbound = request.into_inner();
        tokio::spawn(async move {
            let send = |body| down.send(Ok(proto::SessionDown { body: Some(body) }));
            while let Ok(Some(up)) = inbound.message().await {
                let body = up.body.unwrap();
                voice.said.lock().push(body.clone());
                match body {
                    Up::Hello(_) => {
                        if let Some(leader_url) = &voice.leader_elsewhere {
                            let elsewhere = proto::NotLeader { leader_id: 2, leader_url: leader_url.clone() };
                            let _ = send(Down::NotLeader(elsewhere)).await;
                            return;
                        }
                        voice.sessions.lock().push(down.clone());
                        let ttl_millis = u64::try_from(TTL.as_millis()).unwrap();
                        let welcome =
                            proto::Welcome { cluster_id: voice.cluster.clone(), ttl_millis, scheduler_urls: vec![] };
                        let _ = send(Down::Welcome(welcome)).await;
                    }
                    Up::Beat(beat) if voice.acknowledges.load(Ordering::Relaxed) => {
                        let _ = send(Down::Ack(proto::Ack { sequence: beat.sequence })).await;
                    }
                    Up::Beat(_) => {}
                    Up::Goodbye(_) => return,
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    async fn raft(&self, _: Request<proto::RaftMessage>) -> Result<Response<proto::RaftMessage>, Status> {
        Err(Status::unimplemented("not part of these tests"))
    }

    async fn probe(&self, _: Request<proto::ProbeRequest>) -> Result<Response<proto::ProbeReply>, Status> {
        Err(Status::unimplemented("not part of these tests"))
    }

    async fn propose(&self, _: Request<proto::ProposeRequest>) -> Result<Response<proto::ProposeReply>, Status> {
        Err(Status::unimplemented("not part of these tests"))
    }

    async fn read_index(&self, _: Request<proto::ReadIndexRequest>) -> Result<Response<proto::ReadIndexReply>, Status> {
        Err(Status::unimplemented("not part of these tests"))
    }

    async fn ensure_partitions(
        &self,
        _: Request<proto::EnsurePartitionsRequest>,
    ) -> Result<Response<proto::EnsurePartitionsReply>, Status> {
        Err(Status::unimplemented("not part of these tests"))
    }
}

async fn executor(dir: &Path, urls: &[&String]) -> ExecutorHandle {
    let urls = urls.iter().map(|u| (*u).clone()).collect();
    Executor::start(ExecutorOptions::new(dir, urls)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_executor_finds_the_leader_and_holds_what_it_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let (leader, leader_url, _stop) = Voice::start("one", None).await;
    let (_, follower_url, _stop2) = Voice::start("one", Some(leader_url.clone())).await;
    let nobody = "http://127.0.0.1:1".to_owned();
    let handle = executor(dir.path(), &[&nobody, &follower_url]).await;
    eventually("session", || handle.session().borrow().scheduler.as_ref() == Some(&leader_url)).await;
    let hello = leader.hellos().remove(0);
    assert_eq!(
        (hello.executor_id, hello.url, hello.cluster_id),
        (handle.id().0.clone(), handle.url().into(), "".into())
    );

    let set =
        proto::Assignments { state_index: 3, partitions: vec![assignment(1, 1, 0, &[]), assignment(2, 4, 0, &[])] };
    leader.tell(Down::Assignments(set)).await;
    eventually("report", || leader.last_loaded() == [(1, 1, 0), (2, 4, 0)]).await;
    assert!(handle.host().lease().is_held());

    // A leader that falls silent is left, and the lease ends by itself.
    leader.acknowledges.store(false, Ordering::Relaxed);
    leader.sessions.lock().clear();
    eventually("another attempt", || leader.hellos().len() > 1).await;
    let again = &leader.hellos()[1];
    assert_eq!((again.cluster_id.as_str(), again.incarnation.as_str()), ("one", handle.incarnation()));
    leader.acknowledges.store(true, Ordering::Relaxed);
    eventually("session", || handle.session().borrow().scheduler.is_some()).await;
    tokio::time::sleep(TTL * 2).await;
    assert!(handle.host().lease().is_held(), "beats prolong the lease");

    let refused = Executor::start(ExecutorOptions::new(dir.path(), vec![leader_url.clone()])).await.unwrap_err();
    assert!(matches!(refused, error::Error::InUse(_)), "{refused}");
    handle.shutdown().await;
    handle.wait().await.unwrap();
    assert!(!handle.host().lease().is_held());

    let handle = executor(dir.path(), &[&leader_url]).await;
    assert_eq!(handle.partitions().len(), 2);
    eventually("session", || handle.host().lease().is_held()).await;
    handle.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_ends_without_acknowledgements() {
    let dir = tempfile::tempdir().unwrap();
    let (leader, url, stop) = Voice::start("one", None).await;
    let handle = executor(dir.path(), &[&url]).await;
    eventually("session", || handle.host().lease().is_held()).await;
    leader.sessions.lock().clear();
    stop.cancel();
    leader.acknowledges.store(false, Ordering::Relaxed);
    eventually("lapse", || !handle.host().lease().is_held()).await;
    handle.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_of_another_cluster_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (_one, one_url, _stop) = Voice::start("one", None).await;
    let (_two, two_url, _stop2) = Voice::start("two", None).await;
    let handle = executor(dir.path(), &[&one_url]).await;
    eventually("session", || handle.host().lease().is_held()).await;
    handle.shutdown().await;
    let handle = executor(dir.path(), &[&two_url]).await;
    let error = handle.wait().await.unwrap_err().to_string();
    assert!(error.contains("cluster one") && error.contains("cluster two"), "{error}");
    assert!(!handle.host().lease().is_held());
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_are_served_where_they_are_asked_for() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let dir = tempfile::tempdir().unwrap();
    let (_leader, leader_url, _stop) = Voice::start("one", None).await;
    let mut options = ExecutorOptions::new(dir.path(), vec![leader_url]);
    options.metrics = Some(([127, 0, 0, 1], 0).into());
    let handle = Executor::start(options).await.unwrap();
    eventually("session", || handle.session().borrow().scheduler.is_some()).await;
    let address = handle.metrics_address().unwrap();
    let held = format!("ancho_executor_session_held{{executor=\"{}\"}} 1", handle.id());
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let mut connection = tokio::net::TcpStream::connect(address).await.unwrap();
        connection.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
        let mut text = String::new();
        connection.read_to_string(&mut text).await.unwrap();
        let engine = [
            "cayenne_compaction_passes_total 0",
            "cayenne_memory_account_bytes{kind=\"compaction\"} 0",
            "cayenne_memory_account_bytes{kind=\"footer_cache_limit\"} 134217728",
        ];
        let measured = engine.iter().all(|line| text.contains(line));
        if text.contains(&held) && text.contains("state=\"hindered\"} 0") && measured {
            break;
        }
        assert!(Instant::now() < deadline, "{text}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    handle.shutdown().await;
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}
