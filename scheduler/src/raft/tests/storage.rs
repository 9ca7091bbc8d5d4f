//! The store under openraft's own suite, and what the suite does not look at.
use std::sync::mpsc;

use openraft::{
    StorageError,
    testing::log::{StoreBuilder, Suite},
};
use tempfile::TempDir;

use crate::raft::{
    Error, database::Database, identity::Identity, log_store::LogStore, state_machine::StateMachine, types::TypeConfig,
};

struct Builder;

impl StoreBuilder<TypeConfig, LogStore, StateMachine, TempDir> for Builder {
    async fn build(&self) -> Result<(TempDir, LogStore, StateMachine), StorageError<TypeConfig>> {
        let dir = tempfile::tempdir().expect("directory");
        let (db, identity) = Database::open(dir.path()).expect("open");
        assert_eq!(identity, None);
        let log = LogStore::open(db.clone()).await.expect("log");
        let (machine, _published) = StateMachine::new(db, Identity::new(0, "test", dir.path().into(), None));
        Ok((dir, log, machine))
    }
}

#[tokio::test]
async fn the_store_passes_the_suite_of_openraft() {
    Suite::test_all(Builder).await.expect("suite");
}

#[tokio::test]
async fn what_was_acknowledged_is_there_after_the_file_is_opened_again() {
    let dir = tempfile::tempdir().expect("directory");
    let (db, _) = Database::open(dir.path()).expect("open");
    let (sender, receiver) = mpsc::channel();
    for index in 0..100 {
        let sender = sender.clone();
        let rows = vec![(index, format!("entry {index}"))];
        db.append(rows, Box::new(move |result| sender.send(result.is_ok()).unwrap_or_default())).expect("queued");
    }
    assert!((0..100).all(|_| receiver.recv().expect("answer")));
    db.set_committed("7".into()).expect("queued");
    db.close().await;

    let (db, _) = Database::open(dir.path()).expect("open again");
    let rows: i64 = db.run(|c| c.query_row("SELECT count(*) FROM log", [], |r| r.get(0))).await.expect("count");
    assert_eq!(rows, 100);
    assert_eq!(db.committed().await.expect("read"), Some("7".into()));
}

#[tokio::test]
async fn nothing_is_acknowledged_after_a_failed_append() {
    let dir = tempfile::tempdir().expect("directory");
    let (db, _) = Database::open(dir.path()).expect("open");
    let (sender, receiver) = mpsc::channel();
    // The second append clashes with the first and stands for any failed write.
    for index in [1, 1, 2] {
        let sender = sender.clone();
        db.append(
            vec![(index, "entry".into())],
            Box::new(move |result| sender.send(result.is_ok()).unwrap_or_default()),
        )
        .expect("queued");
        db.get("a round trip, so that the appends are not one transaction").await.expect("read");
    }
    let answers: Vec<bool> = (0..3).map(|_| receiver.recv().expect("answer")).collect();
    assert_eq!(answers, [true, false, false]);
}

#[tokio::test]
async fn a_file_in_use_or_of_another_format_is_refused() {
    let dir = tempfile::tempdir().expect("directory");
    let (db, _) = Database::open(dir.path()).expect("open");
    let path = dir.path().to_owned();
    let error = tokio::task::spawn_blocking(move || Database::open(&path)).await.expect("task").expect_err("held");
    assert!(error.to_string().contains("another scheduler process"), "{error}");

    db.run(|c| c.pragma_update(None, "user_version", 99)).await.expect("write");
    db.close().await;
    let error = Database::open(dir.path()).expect_err("newer format");
    assert!(matches!(&error, Error::Storage { reason, .. } if reason.contains("format is 99")), "{error}");
}
