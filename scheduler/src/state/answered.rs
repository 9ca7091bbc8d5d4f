//! Answers of the latest requests: a request that is sent again after a lost reply is answered, not applied again.
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use ancho_common::ids::RequestId;
use serde::{Deserialize, Serialize};

use super::command::{Outcome, Response};

/// At least so many answers are kept, unless they are large.
const KEEP_ANSWERS: usize = 10_000;
/// Partitions named in all kept answers together, above which the oldest answers go early. Such answers are those of
/// writes and of new partitions, which recognise a repetition by themselves (write id, partition key).
const KEEP_PARTITIONS: usize = 1 << 20;
/// Answers per chunk.
const CHUNK: usize = 128;

/// A bounded map from request to answer, oldest out first. The state is copied on write, so all but the newest chunk
/// are shared between copies.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Answered {
    chunks: VecDeque<Arc<Chunk>>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Chunk {
    answers: BTreeMap<RequestId, Response>,
    /// Partitions named in `answers`.
    partitions: usize,
}

impl Answered {
    /// The answer given to this request, if it is still known.
    pub(crate) fn find(&self, request: &RequestId) -> Option<&Response> {
        self.chunks.iter().rev().find_map(|chunk| chunk.answers.get(request))
    }

    /// Remembers an answer and forgets the oldest ones beyond the bounds.
    pub(super) fn push(&mut self, request: RequestId, response: Response) {
        if self.chunks.back().is_none_or(|chunk| chunk.answers.len() >= CHUNK) {
            self.chunks.push_back(Arc::default());
        }
        if let Some(chunk) = self.chunks.back_mut().map(Arc::make_mut) {
            chunk.partitions += partitions_named(&response);
            chunk.answers.insert(request, response);
        }
        let mut answers = self.len();
        let mut partitions: usize = self.chunks.iter().map(|c| c.partitions).sum();
        while let Some(oldest) = self.chunks.front() {
            let spare = answers - oldest.answers.len() >= KEEP_ANSWERS;
            if self.chunks.len() == 1 || !(spare || partitions > KEEP_PARTITIONS) {
                break;
            }
            answers -= oldest.answers.len();
            partitions -= oldest.partitions;
            self.chunks.pop_front();
        }
    }

    /// Revision of the newest answer, 0 without any.
    pub(super) fn newest_revision(&self) -> u64 {
        self.chunks.iter().flat_map(|c| c.answers.values()).map(|r| r.revision).max().unwrap_or(0)
    }

    /// Answers kept.
    pub(super) fn len(&self) -> usize {
        self.chunks.iter().map(|c| c.answers.len()).sum()
    }
}

fn partitions_named(response: &Response) -> usize {
    match &response.outcome {
        Ok(Outcome::Partitions { partitions }) => partitions.len(),
        Ok(Outcome::Committed { parts } | Outcome::Outdated { parts }) => parts.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::CommittedPart;
    use ancho_common::ids::PartitionId;

    fn answer(revision: u64, parts: usize) -> Response {
        let parts = vec![CommittedPart { partition: PartitionId(1), version: 1 }; parts];
        Response { outcome: Ok(Outcome::Committed { parts }), revision }
    }

    #[test]
    fn the_latest_ten_thousand_are_known_and_memory_is_bounded() {
        let mut answered = Answered::default();
        let ids: Vec<RequestId> = (0..10_500u64)
            .map(|i| {
                let id = RequestId::new();
                answered.push(id, answer(i, 1));
                id
            })
            .collect();
        assert!(answered.len() < KEEP_ANSWERS + CHUNK);
        assert!(answered.find(&ids[0]).is_none());
        for (i, id) in ids.iter().enumerate().skip(500) {
            assert_eq!(answered.find(id).map(|r| r.revision), Some(i as u64));
        }
    }

    #[test]
    fn large_answers_go_early_but_the_newest_stay() {
        let mut answered = Answered::default();
        let mut last = RequestId::new();
        for i in 0..400 {
            last = RequestId::new();
            answered.push(last, answer(i, 20_000));
        }
        assert!(answered.len() <= 2 * CHUNK);
        assert!(answered.find(&last).is_some());
    }
}
