//! Events in the order of time.
use crate::{
    clock::Time,
    context::Timer,
    message::{Message, Node},
};

/// Something that is due.
pub(super) enum Event {
    Deliver { from: Node, to: Node, start: u64, message: Message },
    Remind { node: Node, start: u64, timer: Timer },
    Start(Node),
    Open(Vec<(Node, Node)>),
    Clear,
}

/// An event and its time; of two at the same time the one that was put first comes first.
pub(super) struct Due {
    pub(super) at: Time,
    pub(super) order: u64,
    pub(super) event: Event,
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}
