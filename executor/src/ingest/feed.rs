//! The task that writes one partition's part of one write, and the bounded channel that leads to it.
use std::sync::Arc;

use ancho_common::error::{Error, Result};
use arrow::array::RecordBatch;
use cayenne::{DataSummary, Partition, WriteMode};
use tokio::{sync::mpsc, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use super::open_write::OpenWrite;
use crate::host::from_storage;

/// Batches that may wait for a writer. Senders wait when it is full.
const WAITING_BATCHES: usize = 4;

enum Message {
    Rows(RecordBatch),
    Finish,
}

/// A running writer. Without a finish it stops and removes what it wrote.
#[derive(Debug)]
pub(super) struct Feed {
    sender: mpsc::Sender<Message>,
    cancel: CancellationToken,
    task: JoinHandle<Result<DataSummary>>,
}

/// Where rows go.
#[derive(Debug, Clone)]
pub(super) struct FeedSender {
    sender: mpsc::Sender<Message>,
    cancel: CancellationToken,
}

impl Feed {
    pub(super) fn start(write: &Arc<OpenWrite>, partition: Partition) -> Self {
        let (sender, receiver) = mpsc::channel(WAITING_BATCHES);
        let cancel = write.cancel.clone();
        let write = Arc::clone(write);
        let task = tokio::spawn(async move {
            let mut receiver = receiver;
            let outcome = run(&write, &partition, &mut receiver).await;
            if let Err(error) = &outcome {
                // Before the channel closes: senders look for the reason when it does.
                write.poison(error.clone());
            }
            outcome
        });
        Self { sender, cancel, task }
    }

    pub(super) fn sender(&self) -> FeedSender {
        FeedSender { sender: self.sender.clone(), cancel: self.cancel.clone() }
    }

    /// Makes the rows durable.
    pub(super) async fn finish(self) -> Result<DataSummary> {
        // A closed channel means that the task has ended; its result says why.
        let _ = self.sender.send(Message::Finish).await;
        self.task.await.map_err(|e| Error::internal(format!("writing a partition stopped: {e}")))?
    }

    /// Waits for the end of a cancelled writer.
    pub(super) async fn stopped(self) {
        drop(self.sender);
        // Whatever it answers, it has let go of its files.
        let _ = self.task.await;
    }
}

impl FeedSender {
    /// Hands rows on; waits while the writer is behind. `false` when the writer has ended.
    pub(super) async fn send(&self, batch: RecordBatch) -> bool {
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => false,
            sent = self.sender.send(Message::Rows(batch)) => sent.is_ok(),
        }
    }
}

async fn run(write: &OpenWrite, partition: &Partition, receiver: &mut mpsc::Receiver<Message>) -> Result<DataSummary> {
    let mode = if write.overwrite { WriteMode::Overwrite } else { WriteMode::Append };
    let storage = |e| from_storage(&format!("staging write {}", write.id), e);
    let mut writer = partition.begin_write(write.id.0, mode).await.map_err(storage)?;
    loop {
        let message = tokio::select! {
            biased;
            () = write.cancel.cancelled() => None,
            message = receiver.recv() => message,
        };
        match message {
            Some(Message::Rows(batch)) => writer.write(batch).await.map_err(storage)?,
            Some(Message::Finish) => return writer.finish().await.map_err(storage),
            None => return Err(Error::conflict(format!("write {} was given up", write.id))),
        }
    }
}
