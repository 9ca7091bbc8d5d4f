//! The task that writes one partition's part of one write, and the bounded channel that leads to it.
use std::sync::Arc;

use ancho_common::error::{Error, Result};
use arrow::array::RecordBatch;
use cayenne::{Partition, TransactionPart};
use tokio::{sync::mpsc, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use super::{
    encoders::Encoders,
    open_write::{OpenWrite, WriteForm},
    part_writer::{PartWriter, Staged},
};

/// Batches that may wait for a writer. Senders wait when it is full. There is a channel per partition, so it is short.
const WAITING_BATCHES: usize = 1;

enum Message {
    Rows { batch: RecordBatch, bytes: usize },
    Deletes(RecordBatch),
    Finish(Option<TransactionPart>),
}

/// A running writer. Without a finish it stops and removes what it wrote.
#[derive(Debug)]
pub(super) struct Feed {
    sender: mpsc::Sender<Message>,
    cancel: CancellationToken,
    task: JoinHandle<Result<Staged>>,
}

/// Where rows go.
#[derive(Debug, Clone)]
pub(super) struct FeedSender {
    sender: mpsc::Sender<Message>,
    cancel: CancellationToken,
}

impl Feed {
    pub(super) fn start(
        write: &Arc<OpenWrite>,
        partition: Partition,
        form: WriteForm,
        encoders: &Arc<Encoders>,
    ) -> Self {
        let (sender, receiver) = mpsc::channel(WAITING_BATCHES);
        let cancel = write.cancel.clone();
        let (write, encoders) = (Arc::clone(write), Arc::clone(encoders));
        let task = tokio::spawn(async move {
            let mut receiver = receiver;
            let outcome = run(&write, &partition, &form, &encoders, &mut receiver).await;
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

    /// Makes the rows durable, perhaps as a part of a transaction.
    pub(super) async fn finish(self, within: Option<TransactionPart>) -> Result<Staged> {
        // A closed channel means that the task has ended; its result says why.
        let _ = self.sender.send(Message::Finish(within)).await;
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
    /// Hands names of rows to delete on; waits while the writer is behind. `false` when the writer has ended.
    pub(super) async fn delete(&self, names: RecordBatch) -> bool {
        self.hand_on(Message::Deletes(names)).await
    }

    /// Hands rows of about `bytes` on; waits while the writer is behind. `false` when the writer has ended.
    pub(super) async fn send(&self, batch: RecordBatch, bytes: usize) -> bool {
        self.hand_on(Message::Rows { batch, bytes }).await
    }

    async fn hand_on(&self, message: Message) -> bool {
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => false,
            sent = self.sender.send(message) => sent.is_ok(),
        }
    }
}

async fn run(
    write: &OpenWrite,
    partition: &Partition,
    form: &WriteForm,
    encoders: &Arc<Encoders>,
    receiver: &mut mpsc::Receiver<Message>,
) -> Result<Staged> {
    let given_up = || Err(Error::conflict(format!("write {} was given up", write.id)));
    let mut part = PartWriter::begin(partition, form, encoders).await?;
    loop {
        let message = tokio::select! {
            biased;
            () = write.cancel.cancelled() => None,
            message = receiver.recv() => message,
            // Nothing to do here, and another part waits for a file.
            () = encoders.wanted(), if part.has_file() => {
                part.end_file().await?;
                continue;
            }
        };
        match message {
            Some(Message::Rows { batch, bytes }) => tokio::select! {
                biased;
                () = write.cancel.cancelled() => return given_up(),
                taken = part.take_in(batch, bytes) => taken?,
            },
            Some(Message::Deletes(names)) => part.delete(&names)?,
            Some(Message::Finish(within)) => return part.finish(within).await,
            None => return given_up(),
        }
    }
}
