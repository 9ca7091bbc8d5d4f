//! What goes wrong in a run, drawn from its seed.
use std::time::Duration;

use rand::{Rng, rngs::StdRng, seq::IndexedRandom};

use crate::message::Node;

/// One thing that goes wrong, for a while where it has a duration.
#[derive(Debug, Clone)]
pub enum Fault {
    /// Killed, and started again later.
    Crash(Vec<Node>, Duration),
    /// Stopped (not killed), and continued later.
    Pause(Node, Duration),
    /// Nothing passes from the first to the second.
    Cut(Vec<(Node, Node)>, Duration),
    /// Messages are lost, late and doubled.
    Weather { loss: f64, twice: f64, delay: Duration, lasts: Duration },
    /// A wall clock is set by so many milliseconds.
    ClockJump(usize, i64),
    /// An executor is asked to stop, and started again later.
    Stop(usize, Duration),
    /// An executor's directory is lost while it is down; the identity in it, too, or not.
    Wipe { executor: usize, identity: bool, down: Duration },
}

/// What kinds of faults a run has.
#[derive(Debug, Clone, Copy)]
pub struct Weights {
    crash: u32,
    pause: u32,
    cut: u32,
    weather: u32,
    clock: u32,
    stop: u32,
    wipe: u32,
}

impl Weights {
    /// Some runs have everything, others few kinds, which meet each other more often.
    pub fn draw(rng: &mut StdRng) -> Self {
        let mut some = |most: u32| if rng.random_bool(0.7) { rng.random_range(1..=most) } else { 0 };
        Self { crash: some(4), pause: some(3), cut: some(4), weather: some(3), clock: some(1), stop: some(2), wipe: 0 }
            .with_wipe(rng)
    }

    fn with_wipe(self, rng: &mut StdRng) -> Self {
        Self { wipe: u32::from(rng.random_bool(0.15)), ..self }
    }
}

/// Draws the next fault of a cluster whose leader is known. None: nothing this time.
pub fn draw(
    weights: &Weights,
    schedulers: usize,
    executors: usize,
    leader: Option<usize>,
    rng: &mut StdRng,
) -> Option<Fault> {
    let Weights { crash, pause, cut, weather, clock, stop, wipe } = *weights;
    let kinds = [crash, pause, cut, weather, clock, stop, wipe];
    let total: u32 = kinds.iter().sum();
    if total == 0 {
        return None;
    }
    let mut drawn = rng.random_range(0..total);
    let kind = kinds.iter().position(|weight| {
        let here = drawn < *weight;
        drawn = drawn.saturating_sub(*weight);
        here
    })?;
    let lasts = Duration::from_millis(match rng.random_range(0..3) {
        0 => rng.random_range(50..1_500),
        1 => rng.random_range(1_000..9_000),
        _ => rng.random_range(8_000..26_000),
    });
    let node = |rng: &mut StdRng| match leader {
        Some(leader) if rng.random_bool(0.3) => Node::Scheduler(leader),
        _ if rng.random_bool(0.5) => Node::Scheduler(rng.random_range(0..schedulers)),
        _ => Node::Executor(rng.random_range(0..executors)),
    };
    Some(match kind {
        0 if rng.random_bool(0.15) => Fault::Crash((0..executors).map(Node::Executor).collect(), lasts),
        0 if rng.random_bool(0.1) => Fault::Crash((0..schedulers).map(Node::Scheduler).collect(), lasts),
        // While no leader takes commits, an executor that holds their rows starts anew.
        0 if rng.random_bool(0.25) => {
            let executor = Node::Executor(rng.random_range(0..executors));
            let leader = leader.map(Node::Scheduler);
            Fault::Crash(leader.into_iter().chain([executor]).collect(), lasts.min(Duration::from_secs(2)))
        }
        0 => Fault::Crash(vec![node(rng)], lasts),
        1 => Fault::Pause(node(rng), lasts),
        2 => Fault::Cut(ways(node(rng), schedulers, executors, rng), lasts),
        3 => Fault::Weather {
            loss: rng.random_range(0.0..0.3),
            twice: rng.random_range(0.0..0.5),
            delay: Duration::from_millis(rng.random_range(5..1_500)),
            lasts,
        },
        4 => {
            let hour = 3_600_000;
            Fault::ClockJump(rng.random_range(0..schedulers), *[-hour, -1_000, 1_000, hour].choose(rng)?)
        }
        5 => Fault::Stop(rng.random_range(0..executors), lasts),
        _ => Fault::Wipe { executor: rng.random_range(0..executors), identity: rng.random_bool(0.5), down: lasts },
    })
}

/// Cuts off a node from some or all others, both ways or one way.
fn ways(node: Node, schedulers: usize, executors: usize, rng: &mut StdRng) -> Vec<(Node, Node)> {
    let others = (0..schedulers).map(Node::Scheduler).chain((0..executors).map(Node::Executor));
    let mut others: Vec<Node> = others.filter(|other| *other != node).collect();
    if rng.random_bool(0.5) && !others.is_empty() {
        others = vec![others[rng.random_range(0..others.len())]];
    }
    let kind = rng.random_range(0..3);
    let mut ways = Vec::new();
    for other in others {
        if kind != 1 {
            ways.push((node, other));
        }
        if kind != 0 {
            ways.push((other, node));
        }
    }
    ways
}
