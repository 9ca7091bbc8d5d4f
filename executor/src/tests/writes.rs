//! Stage, seal, publish, discard.
use ancho_common::error::ErrorKind;
use tokio_stream::wrappers::ReceiverStream;

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_two_senders_become_visible_with_the_commit() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path()).await;
    node.assign(1, vec![assignment(1, 1, 0, &[]), assignment(2, 1, 0, &[])]).await;
    assert_eq!(node.loaded(), [(1, 1, 0), (2, 1, 0)]);

    let write = WriteId::new();
    let of_a = [(1, 1, rows(0..10)), (2, 1, rows(10..15)), (1, 1, rows(15..20))];
    let of_b = [(1, 1, rows(20..40_000))];
    let (first, second) = tokio::join!(node.stage(write, "a", false, &of_a), node.stage(write, "b", false, &of_b));
    assert_eq!(first.unwrap(), BTreeMap::from([(1, 15), (2, 5)]));
    assert_eq!(second.unwrap(), BTreeMap::from([(1, 39_980)]));

    let seal = [(1, 1, 39_995), (2, 1, 5)];
    let sealed = node.seal(write, false, &seal).await.unwrap();
    assert_eq!(sealed.iter().map(|s| s.rows).collect::<Vec<_>>(), [39_995, 5]);
    assert!(sealed[0].bytes > 0);
    assert_eq!(sealed[1].columns, r#"[{"nulls":0,"min":"10","max":"14"},{"nulls":1,"min":"v10","max":"v14"}]"#);
    assert_eq!(node.seal(write, false, &seal).await.unwrap(), sealed, "sealing again answers the same");
    assert_eq!(node.keys(&[(1, 1, 0, None), (2, 1, 0, None)]).await.unwrap(), [0i64; 0]);

    node.publish(write, &[(1, 1, 1), (2, 1, 1)]).await.unwrap();
    node.publish(write, &[(1, 1, 1), (2, 1, 1)]).await.unwrap();
    let all = node.keys(&[(1, 1, 1, None), (2, 1, 1, None)]).await.unwrap();
    assert_eq!(all, (0..40_000).collect::<Vec<i64>>());
    assert_eq!(node.loaded(), [(1, 1, 1), (2, 1, 1)]);
    assert_eq!(node.partition(1).staged, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_count_drops_the_write() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path()).await;
    node.assign(1, vec![assignment(1, 1, 0, &[]), assignment(2, 1, 0, &[])]).await;
    let write = WriteId::new();
    node.stage(write, "a", false, &[(1, 1, rows(0..10)), (2, 1, rows(0..5))]).await.unwrap();
    let error = node.seal(write, false, &[(2, 1, 5), (1, 1, 11)]).await.unwrap_err();
    assert!(error.message.contains("table orders, partition bucket 1 (id 1)"), "{error}");
    assert!(error.message.contains("10 rows") && error.message.contains("sent 11"), "{error}");
    assert_eq!((node.partition(1).staged, node.partition(2).staged), (0, 0));
    let late = node.stage(write, "a", false, &[(1, 1, rows(0..1))]).await.unwrap_err();
    assert_eq!(late.kind, ErrorKind::Conflict, "{late}");
    // A partition with rows that the seal leaves out would lose them silently.
    let write = WriteId::new();
    node.stage(write, "a", false, &[(1, 1, rows(0..10)), (2, 1, rows(0..5))]).await.unwrap();
    let error = node.seal(write, false, &[(1, 1, 10)]).await.unwrap_err();
    assert!(error.message.contains("bucket 2") && error.message.contains("5 rows"), "{error}");
    let files = std::fs::read_dir(dir.path().join("partitions/1/files")).unwrap().count();
    assert_eq!(files, 0, "files of dropped writes are removed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sender_that_breaks_off_poisons_the_write() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path()).await;
    node.assign(1, vec![assignment(1, 1, 0, &[])]).await;
    let write = WriteId::new();
    node.stage(write, "whole", false, &[(1, 1, rows(0..10))]).await.unwrap();

    let (messages, receiver) = tokio::sync::mpsc::channel(4);
    let mut client = node.client.clone();
    let call = tokio::spawn(async move { client.stage(ReceiverStream::new(receiver)).await });
    let header = proto::StageHeader {
        write_id: write.to_string(),
        sender_id: "broken".into(),
        table_id: TABLE,
        overwrite: false,
        key_rule: 0,
        schema_version: 0,
    };
    messages.send(proto::StageRequest { body: Some(Body::Header(header)) }).await.unwrap();
    let batch = proto::StageBatch { partition_id: 1, epoch: 1, ipc: ipc(&rows(10..20)), deletes: false };
    messages.send(proto::StageRequest { body: Some(Body::Batch(batch)) }).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let early = node.seal(write, false, &[(1, 1, 20)]).await.unwrap_err();
    assert!(early.message.contains("broken is still sending"), "{early}");
    call.abort();

    let write = WriteId::new();
    let cut = rows(0..5000);
    let whole = ipc(&cut);
    let header = proto::StageHeader {
        write_id: write.to_string(),
        sender_id: "cut".into(),
        table_id: TABLE,
        overwrite: false,
        key_rule: 0,
        schema_version: 0,
    };
    let batch = proto::StageBatch { partition_id: 1, epoch: 1, ipc: whole.slice(..whole.len() / 2), deletes: false };
    let messages = [Body::Header(header), Body::Batch(batch)].map(|body| proto::StageRequest { body: Some(body) });
    let cut = node.client.clone().stage(futures::stream::iter(messages)).await.unwrap_err();
    assert!(cut.message().contains("not a whole Arrow IPC stream"), "{cut}");
    let error = node.seal(write, false, &[(1, 1, 0)]).await.unwrap_err();
    assert!(error.message.contains("not a whole Arrow IPC stream"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_without_its_end_mark_poisons_the_write() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path()).await;
    node.assign(1, vec![assignment(1, 1, 0, &[])]).await;
    let attempt = |tail: Vec<proto::StageRequest>| {
        let node = &node;
        async move {
            let write = WriteId::new();
            let header = Body::Header(proto::StageHeader {
                write_id: write.to_string(),
                sender_id: "a".into(),
                table_id: TABLE,
                overwrite: false,
                key_rule: 0,
                schema_version: 0,
            });
            let batch =
                Body::Batch(proto::StageBatch { partition_id: 1, epoch: 1, ipc: ipc(&rows(0..10)), deletes: false });
            let mut messages: Vec<_> =
                [header, batch].map(|body| proto::StageRequest { body: Some(body) }).into_iter().collect();
            messages.extend(tail);
            let staged = node.client.clone().stage(futures::stream::iter(messages)).await;
            let sealed = node.seal(write, false, &[(1, 1, 10)]).await;
            (staged.map_err(Error::from), sealed)
        }
    };
    let (staged, sealed) = attempt(vec![end(10)]).await;
    assert!(staged.is_ok() && sealed.is_ok());
    for (tail, reason) in [
        (vec![], "before its end mark"),
        (vec![end(11)], "10 rows arrived of the 11"),
        (vec![end(10), end(10)], "nothing may follow"),
    ] {
        let (staged, sealed) = attempt(tail).await;
        for error in [staged.unwrap_err(), sealed.unwrap_err()] {
            assert!(error.message.contains(reason), "{error}");
        }
    }
}

/// More partitions than files may be open, fed in turn by two senders each: whoever holds a file must give it back.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn few_encoders_serve_many_partitions() {
    const PARTITIONS: u64 = 12;
    let dir = tempfile::tempdir().unwrap();
    // One column's worth of encoders, so one file at a time; a part may hold back 1 MiB.
    let node = Node::start_with_memory(dir.path(), 1 << 20).await;
    node.assign(1, (1..=PARTITIONS).map(|id| assignment(id, 1, 0, &[])).collect()).await;
    let write = WriteId::new();
    let senders = (0..2i64).map(|sender| {
        let node = &node;
        async move {
            let parts: Vec<_> = (0..4 * PARTITIONS as i64)
                .map(|i| {
                    let first = (sender * 4 * PARTITIONS as i64 + i) * 20_000;
                    (i as u64 % PARTITIONS + 1, 1, rows(first..first + 20_000))
                })
                .collect();
            node.stage(write, &sender.to_string(), false, &parts).await.unwrap();
        }
    });
    let staging = async {
        futures::future::join_all(senders).await;
        let parts: Vec<_> = (1..=PARTITIONS).map(|id| (id, 1, 160_000)).collect();
        node.seal(write, false, &parts).await.unwrap();
    };
    tokio::time::timeout(Duration::from_secs(120), staging).await.expect("nobody waits for ever");
    node.publish(write, &(1..=PARTITIONS).map(|id| (id, 1, 1)).collect::<Vec<_>>()).await.unwrap();
    let all: Vec<_> = (1..=PARTITIONS).map(|id| (id, 1, 1, None)).collect();
    assert_eq!(node.keys(&all).await.unwrap(), (0..2 * 4 * PARTITIONS as i64 * 20_000).collect::<Vec<i64>>());
    let files = |id: u64| std::fs::read_dir(dir.path().join(format!("partitions/{id}/files"))).unwrap().count();
    assert!((1..=PARTITIONS).any(|id| files(id) > 1), "files were given back before their end");
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_of_a_table_reach_its_files() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path()).await;
    let with = |id, params: &str| proto::Assignment { params: params.into(), ..assignment(id, 1, 0, &[]) };
    let parts = vec![
        with(1, ""),
        with(2, r#"{"cayenne_compression_strategy":"zstd"}"#),
        with(3, r#"{"cayenne_target_file_size_mb":"1"}"#),
    ];
    node.assign(1, parts).await;
    let write = WriteId::new();
    let texts = rows(0..50_000);
    let parts: Vec<_> = (1..=3).map(|id| (id, 1, texts.clone())).collect();
    node.stage(write, "a", false, &parts).await.unwrap();
    let sealed = node.seal(write, false, &[(1, 1, 50_000), (2, 1, 50_000), (3, 1, 50_000)]).await.unwrap();
    assert_ne!(sealed[0].bytes, sealed[1].bytes, "another encoding");
    node.publish(write, &[(1, 1, 1), (2, 1, 1), (3, 1, 1)]).await.unwrap();
    assert_eq!(node.keys(&[(2, 1, 1, None)]).await.unwrap().len(), 50_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vanished_sender_is_a_fault_of_the_write() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path()).await;
    node.assign(1, vec![assignment(1, 1, 0, &[])]).await;
    let write = WriteId::new();
    let header = proto::StageHeader {
        write_id: write.to_string(),
        sender_id: "gone".into(),
        table_id: TABLE,
        overwrite: false,
        key_rule: 0,
        schema_version: 0,
    };
    let batch = proto::StageBatch { partition_id: 1, epoch: 1, ipc: ipc(&rows(0..10)), deletes: false };
    let messages = [Body::Header(header), Body::Batch(batch)].map(|body| proto::StageRequest { body: Some(body) });
    // A runtime of its own stands for the sender's process: with it, the connection breaks in the middle of the stream.
    let sender = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let url = node.url.clone();
    sender.spawn(async move {
        let mut client = ExecutorClient::connect(url).await.unwrap();
        let endless = futures::stream::iter(messages).chain(futures::stream::pending());
        client.stage(endless).await
    });
    eventually("a sender", || node.ingest.is_busy()).await;
    sender.shutdown_background();
    tokio::time::sleep(Duration::from_millis(200)).await;
    let error = node.seal(write, false, &[(1, 1, 10)]).await.unwrap_err();
    assert!(error.message.contains("gone"), "{error}");
    assert_eq!(node.partition(1).staged, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn overwriting_with_no_rows_empties() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path()).await;
    node.assign(1, vec![assignment(1, 1, 0, &[]), assignment(2, 1, 0, &[])]).await;
    let append = WriteId::new();
    node.stage(append, "a", false, &[(1, 1, rows(0..10)), (2, 1, rows(10..20))]).await.unwrap();
    node.seal(append, false, &[(1, 1, 10), (2, 1, 10)]).await.unwrap();
    node.publish(append, &[(1, 1, 1), (2, 1, 1)]).await.unwrap();

    let overwrite = WriteId::new();
    node.stage(overwrite, "a", true, &[(2, 1, rows(100..103))]).await.unwrap();
    let sealed = node.seal(overwrite, true, &[(1, 1, 0), (2, 1, 3)]).await.unwrap();
    assert_eq!((sealed[0].rows, sealed[1].rows), (0, 3));
    node.publish(overwrite, &[(1, 1, 2), (2, 1, 2)]).await.unwrap();
    assert_eq!(node.keys(&[(1, 1, 2, None), (2, 1, 2, None)]).await.unwrap(), [100, 101, 102]);
    assert_eq!(
        node.keys(&[(1, 1, 1, None), (2, 1, 1, None)]).await.unwrap().len(),
        20,
        "the former version is readable"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_discarded_write_is_gone_and_a_committed_one_stays() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path()).await;
    node.assign(1, vec![assignment(1, 1, 0, &[])]).await;
    let (open, sealed, committed) = (WriteId::new(), WriteId::new(), WriteId::new());
    node.stage(open, "a", false, &[(1, 1, rows(0..10))]).await.unwrap();
    for write in [sealed, committed] {
        node.stage(write, "a", false, &[(1, 1, rows(0..10))]).await.unwrap();
        node.seal(write, false, &[(1, 1, 10)]).await.unwrap();
    }
    assert_eq!(node.partition(1).staged, 2);
    for write in [open, sealed, sealed, WriteId::new()] {
        node.discard(write).await.unwrap();
    }
    assert_eq!(node.partition(1).staged, 1);
    assert!(node.seal(open, false, &[(1, 1, 10)]).await.unwrap_err().message.contains("was dropped"));
    node.publish(committed, &[(1, 1, 1)]).await.unwrap();
    assert_eq!(node.discard(committed).await.unwrap_err().kind, ErrorKind::Conflict);
    assert_eq!(node.keys(&[(1, 1, 1, None)]).await.unwrap().len(), 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_epochs_and_lapsed_sessions_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path()).await;
    node.assign(1, vec![assignment(1, 2, 0, &[])]).await;
    for epoch in [1, 3] {
        let staged = node.stage(WriteId::new(), "a", false, &[(1, epoch, rows(0..3))]).await.unwrap_err();
        assert_eq!(staged.kind, ErrorKind::StaleRoute, "{staged}");
        let sealed = node.seal(WriteId::new(), false, &[(1, epoch, 0)]).await.unwrap_err();
        assert_eq!(sealed.kind, ErrorKind::StaleRoute, "{sealed}");
        let read = node.keys(&[(1, epoch, 0, None)]).await.unwrap_err();
        assert_eq!(read.kind, ErrorKind::StaleRoute, "{read}");
    }
    assert_eq!(node.keys(&[(9, 1, 0, None)]).await.unwrap_err().kind, ErrorKind::StaleRoute);
    assert_eq!(node.keys(&[(1, 2, 1, None)]).await.unwrap_err().kind, ErrorKind::StaleRoute);

    // Staged under an epoch that ends before the seal.
    let write = WriteId::new();
    node.stage(write, "a", false, &[(1, 2, rows(0..3))]).await.unwrap();
    node.assign(2, vec![assignment(1, 3, 0, &[])]).await;
    for epoch in [2, 3] {
        let error = node.seal(write, false, &[(1, epoch, 3)]).await.unwrap_err();
        assert!(matches!(error.kind, ErrorKind::StaleRoute | ErrorKind::Conflict), "{error}");
    }

    node.lease.end();
    for error in [
        node.stage(WriteId::new(), "a", false, &[(1, 3, rows(0..3))]).await.unwrap_err(),
        node.seal(WriteId::new(), false, &[(1, 3, 0)]).await.unwrap_err(),
        node.keys(&[(1, 3, 0, None)]).await.unwrap_err(),
    ] {
        assert_eq!(error.kind, ErrorKind::Unavailable, "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_for_a_partition_on_its_way_wait_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path()).await;
    let write = WriteId::new();
    let parts = [(1, 1, rows(0..10))];
    let (staged, ()) = tokio::join!(node.stage(write, "a", false, &parts), async {
        tokio::time::sleep(Duration::from_millis(150)).await;
        node.assign(1, vec![assignment(1, 1, 0, &[])]).await;
    });
    assert_eq!(staged.unwrap(), BTreeMap::from([(1, 10)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_do_not_fit_the_table_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path()).await;
    node.assign(1, vec![assignment(1, 1, 0, &[])]).await;
    let schema = Arc::new(Schema::new(vec![Field::new("other", DataType::Int64, true)]));
    let batch = RecordBatch::try_new(schema, vec![Arc::new(Int64Array::from(vec![1]))]).unwrap();
    let write = WriteId::new();
    // The writer meets it after the sender handed it over, so it may show only at the seal.
    let staged = node.stage(write, "a", false, &[(1, 1, batch)]).await.err();
    let error = match staged {
        Some(error) => error,
        None => node.seal(write, false, &[(1, 1, 1)]).await.unwrap_err(),
    };
    // The sender's columns may be out of date, so it is to look again.
    assert_eq!(error.kind, ErrorKind::StaleRoute, "{error}");
    assert!(error.message.contains("table orders"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_writes_at_once_lose_and_double_nothing() {
    const PARTITIONS: u64 = 6;
    const WRITES: i64 = 8;
    const SENDERS: i64 = 3;
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path()).await;
    node.assign(1, (1..=PARTITIONS).map(|id| assignment(id, 1, 0, &[])).collect()).await;
    let every = |version| (1..=PARTITIONS).map(|id| (id, 1, version)).collect::<Vec<(u64, u64, u64)>>();

    // Keys are numbered through, so that a lost or doubled row shows.
    let write = |number: i64| {
        let node = &node;
        let every = &every;
        async move {
            let id = WriteId::new();
            let staged = (0..SENDERS).map(|sender| async move {
                let first = (number * SENDERS + sender) * 6000;
                let parts: Vec<_> = (0..12)
                    .map(|i| (i % PARTITIONS + 1, 1, rows(first + i as i64 * 500..first + i as i64 * 500 + 500)))
                    .collect();
                node.stage(id, &sender.to_string(), false, &parts).await.unwrap();
            });
            futures::future::join_all(staged).await;
            node.seal(id, false, &every(1000 * SENDERS as u64)).await.unwrap();
            id
        }
    };
    let writes = futures::future::join_all((0..WRITES).map(write)).await;
    // The news of the commits arrive all at once and in the wrong order, while readers ask for the last version.
    let publishing = writes.iter().enumerate().rev().map(|(i, id)| {
        let parts = every(i as u64 + 1);
        let node = &node;
        async move { node.publish(*id, &parts).await.unwrap() }
    });
    let last: Vec<_> = (1..=PARTITIONS).map(|id| (id, 1, WRITES as u64, writes.last().copied())).collect();
    let (_, keys) = tokio::join!(futures::future::join_all(publishing), node.keys(&last));
    assert_eq!(keys.unwrap(), (0..WRITES * SENDERS * 6000).collect::<Vec<i64>>());
    assert_eq!(node.loaded(), every(WRITES as u64));
}
