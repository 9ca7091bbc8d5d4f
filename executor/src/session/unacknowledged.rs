//! Which beats wait for their acknowledgement. Pure: times come from the caller.
use std::{collections::VecDeque, time::Instant};

/// Beats that were sent and not acknowledged yet, oldest first.
#[derive(Debug, Default)]
pub struct Unacknowledged(VecDeque<(u64, Instant)>);

impl Unacknowledged {
    /// A beat was sent.
    pub fn sent(&mut self, sequence: u64, at: Instant) {
        self.0.push_back((sequence, at));
    }

    /// When the acknowledged beat was sent; earlier ones are settled with it.
    pub fn acknowledged(&mut self, sequence: u64) -> Option<Instant> {
        let mut found = None;
        while let Some((first, at)) = self.0.front().copied() {
            if first > sequence {
                break;
            }
            found = (first == sequence).then_some(at);
            self.0.pop_front();
        }
        found
    }

    /// When the oldest one was sent.
    #[must_use]
    pub fn oldest(&self) -> Option<Instant> {
        self.0.front().map(|(_, at)| *at)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_acknowledgement_settles_earlier_beats_and_answers_for_its_own() {
        let mut waiting = Unacknowledged::default();
        let start = Instant::now();
        for i in 1..=3u64 {
            waiting.sent(i, start + Duration::from_secs(i));
        }
        assert_eq!(waiting.acknowledged(2), Some(start + Duration::from_secs(2)));
        assert_eq!(waiting.acknowledged(1), None);
        assert_eq!(waiting.oldest(), Some(start + Duration::from_secs(3)));
        assert_eq!(waiting.acknowledged(9), None);
        assert_eq!(waiting.oldest(), None);
    }
}
