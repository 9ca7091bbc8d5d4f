//! Rows named by a scan, deleted by a write, and what happens when two writes name the same row.
use ancho_common::{error::ErrorKind, plan::row_ids};
use arrow::{
    array::{AsArray, UInt32Array},
    compute::{concat_batches, take_record_batch},
    datatypes::{Int64Type, UInt64Type},
};

use super::*;

/// Names of all rows of partitions at a version, with the key of each row.
async fn named(node: &Node, partitions: &[(u64, u64, u64, Option<WriteId>)]) -> RecordBatch {
    let schema = row_ids::with_row_ids(&table_schema());
    // The names first, then the key, so that columns come in another order than they are stored in.
    let scan = LocalScan { schema, projection: Some(vec![4, 2, 3, 0]), ..scan_of(partitions) };
    let plan = node.host.scan(scan).await.unwrap();
    let schema = plan.schema();
    concat_batches(&schema, &collect(plan).await).unwrap()
}

/// The names of the rows with these keys, as a sender puts them into a message.
fn of_keys(named: &RecordBatch, keys: &[i64]) -> RecordBatch {
    let column = named.column_by_name("k").unwrap().as_primitive::<Int64Type>();
    let wanted: Vec<u32> = (0..).zip(column.values()).filter(|(_, k)| keys.contains(k)).map(|(row, _)| row).collect();
    let rows = take_record_batch(named, &UInt32Array::from(wanted)).unwrap();
    row_ids::in_partition(&rows).unwrap()
}

async fn stage(node: &Node, write: WriteId, added: &RecordBatch, deleted: &RecordBatch) -> Result<(u64, u64), Error> {
    let header = proto::StageHeader {
        write_id: write.to_string(),
        sender_id: "a".into(),
        table_id: TABLE,
        overwrite: false,
        key_rule: 0,
        schema_version: 0,
    };
    let batch = |rows: &RecordBatch, deletes| {
        Body::Batch(proto::StageBatch { partition_id: 1, epoch: 1, ipc: ipc(rows), deletes })
    };
    let rows = (added.num_rows() + deleted.num_rows()) as u64;
    let messages = [Body::Header(header), batch(added, false), batch(deleted, true)];
    let messages: Vec<_> =
        messages.map(|body| proto::StageRequest { body: Some(body) }).into_iter().chain([end(rows)]).collect();
    let reply = node.client.clone().stage(futures::stream::iter(messages)).await?.into_inner();
    Ok((reply.partitions[0].rows, reply.partitions[0].deletes))
}

async fn seal(node: &Node, write: WriteId, rows: u64, deletes: u64) -> Result<proto::SealedPartition, Error> {
    let part = proto::SealPartition {
        partition_id: 1,
        epoch: 1,
        expected_rows: rows,
        overwrite: false,
        expected_deletes: deletes,
        within: None,
    };
    let request =
        proto::SealRequest { write_id: write.to_string(), table_id: TABLE, partitions: vec![part], schema_version: 0 };
    Ok(node.client.clone().seal(request).await?.into_inner().partitions.remove(0))
}

async fn rebase(node: &Node, write: WriteId, version: u64, made_by: WriteId) -> Result<u64, Error> {
    let part = proto::RebasePartition { partition_id: 1, epoch: 1, version, version_write_id: made_by.to_string() };
    let request = proto::RebaseRequest { write_id: write.to_string(), partitions: vec![part] };
    Ok(node.client.clone().rebase(request).await?.into_inner().partitions[0].base_version)
}

/// A node with keys 0 to 9 in partition 1 and 10 to 14 in partition 2.
async fn filled(dir: &Path) -> (Node, WriteId) {
    let node = Node::start(dir).await;
    node.assign(1, vec![assignment(1, 1, 0, &[]), assignment(2, 1, 0, &[])]).await;
    let write = WriteId::new();
    node.stage(write, "a", false, &[(1, 1, rows(0..10)), (2, 1, rows(10..15))]).await.unwrap();
    node.seal(write, false, &[(1, 1, 10), (2, 1, 5)]).await.unwrap();
    node.publish(write, &[(1, 1, 1), (2, 1, 1)]).await.unwrap();
    (node, write)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scan_names_rows_and_a_write_deletes_them() {
    let dir = tempfile::tempdir().unwrap();
    let (node, _) = filled(dir.path()).await;
    let all = named(&node, &[(1, 1, 1, None), (2, 1, 1, None)]).await;
    let partitions = all.column_by_name(row_ids::PARTITION_COLUMN).unwrap().as_primitive::<UInt64Type>();
    let keys = all.column_by_name("k").unwrap().as_primitive::<Int64Type>();
    assert_eq!(all.num_rows(), 15);
    assert!(
        partitions.values().iter().zip(keys.values()).all(|(partition, k)| *partition == if *k < 10 { 1 } else { 2 })
    );

    let write = WriteId::new();
    assert_eq!(stage(&node, write, &rows(100..102), &of_keys(&all, &[3, 5, 7])).await.unwrap(), (2, 3));
    let sealed = seal(&node, write, 2, 3).await.unwrap();
    assert_eq!((sealed.rows, sealed.deletes, sealed.base_version), (2, 3, Some(1)));
    assert_eq!(node.keys(&[(1, 1, 1, None)]).await.unwrap(), (0..10).collect::<Vec<i64>>());
    node.publish(write, &[(1, 1, 2)]).await.unwrap();
    assert_eq!(node.keys(&[(1, 1, 2, None)]).await.unwrap(), [0, 1, 2, 4, 6, 8, 9, 100, 101]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_is_named_twice_or_miscounted_fails_the_write() {
    let dir = tempfile::tempdir().unwrap();
    let (node, _) = filled(dir.path()).await;
    let all = named(&node, &[(1, 1, 1, None)]).await;
    let one = of_keys(&all, &[3]);
    let twice = concat_batches(&one.schema(), [&one, &one]).unwrap();
    let write = WriteId::new();
    stage(&node, write, &rows(0..0), &twice).await.unwrap();
    let error = seal(&node, write, 0, 2).await.unwrap_err();
    assert!(error.kind == ErrorKind::Invalid && error.message.contains("more than one row of the source"), "{error}");
    let write = WriteId::new();
    stage(&node, write, &rows(0..0), &one).await.unwrap();
    let error = seal(&node, write, 0, 2).await.unwrap_err();
    assert!(error.message.contains("1 deletes, and its senders sent 0 and 2"), "{error}");
    assert_eq!(node.partition(1).staged, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_writes_that_name_one_row_the_later_one_conflicts() {
    let dir = tempfile::tempdir().unwrap();
    let (node, _) = filled(dir.path()).await;
    let all = named(&node, &[(1, 1, 1, None)]).await;
    let (first, same, other) = (WriteId::new(), WriteId::new(), WriteId::new());
    for (write, keys) in [(first, [1, 2]), (same, [2, 3]), (other, [4, 5])] {
        stage(&node, write, &rows(0..0), &of_keys(&all, &keys)).await.unwrap();
        assert_eq!(seal(&node, write, 0, 2).await.unwrap().base_version, Some(1));
    }
    // The commit that came between is published on the way.
    let error = rebase(&node, same, 2, first).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Conflict, "{error}");
    assert_eq!(rebase(&node, other, 2, first).await.unwrap(), 2);
    node.publish(other, &[(1, 1, 3)]).await.unwrap();
    assert_eq!(node.keys(&[(1, 1, 3, None)]).await.unwrap(), [0, 3, 6, 7, 8, 9]);
    // Its statement starts again: rows are named at the new version.
    let late = WriteId::new();
    let error = stage(&node, late, &rows(0..0), &of_keys(&all, &[2])).await.map(drop).err();
    let error = match error {
        Some(error) => error,
        None => seal(&node, late, 0, 1).await.unwrap_err(),
    };
    assert_eq!(error.kind, ErrorKind::Conflict, "{error}");
}
