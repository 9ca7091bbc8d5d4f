//! All processes, the network between them and the one queue of events that drives them. The seed decides everything, so a run
//! can be repeated exactly.
mod event;
mod trouble;

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    fmt::Write as _,
    time::{Duration, Instant},
};

use ancho_common::ids::ExecutorId;
use rand::{Rng, SeedableRng, rngs::StdRng};

use self::event::{Due, Event};
use crate::{
    client::Client,
    clock::{Clock, Time},
    context::{Context, Output},
    disk::ExecutorDisk,
    executor::Executor,
    fault::{self, Weights},
    message::{Down, Message, Node},
    network::{Fate, Network},
    oracle::Oracle,
    raft::Stored,
    scheduler::Scheduler,
};

/// Lines of a trace that are kept.
const TRACE_LINES: usize = 4_000;

/// A process: running or not, with its clocks.
struct Process<T> {
    running: Option<T>,
    /// Counts the starts; what was meant for an earlier one does not reach a later one.
    start: u64,
    paused_until: Time,
    clock: Clock,
}

/// See the module's description.
pub struct World {
    /// Now, by nobody's clock.
    pub now: Time,
    queue: BinaryHeap<Reverse<Due>>,
    order: u64,
    numbers: u64,
    rng: StdRng,
    zero: Instant,
    network: Network,
    schedulers: Vec<Process<Scheduler>>,
    logs: Vec<Stored>,
    executors: Vec<Process<Executor>>,
    clients: Vec<Process<Client>>,
    /// The disks of the executors.
    pub disks: Vec<ExecutorDisk>,
    /// Knows everything.
    pub oracle: Oracle,
    weights: Weights,
    trace: Option<Vec<String>>,
}

impl World {
    /// The world of a seed; with a trace of what happens, if it is wanted.
    #[must_use]
    pub fn new(seed: u64, traced: bool) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let members = [1, 3, 3, 3, 5][rng.random_range(0..5)];
        let executors = rng.random_range(1..=4);
        let clients = rng.random_range(2..=4);
        // `Instant`s cannot lie before the first one of this machine.
        let zero = Instant::now();
        let weights = Weights::draw(&mut rng);
        let mut world = Self {
            now: Time::ZERO,
            queue: BinaryHeap::new(),
            order: 0,
            numbers: 0,
            rng,
            zero,
            network: Network::default(),
            schedulers: Vec::new(),
            logs: vec![Stored::default(); members],
            executors: Vec::new(),
            clients: Vec::new(),
            disks: (0..executors)
                .map(|n| ExecutorDisk {
                    id: ExecutorId(format!("e{n}")),
                    partitions: Default::default(),
                    copies: Default::default(),
                })
                .collect(),
            oracle: Oracle::default(),
            weights,
            trace: traced.then(Vec::new),
        };
        for _ in 0..members {
            let process = world.process();
            world.schedulers.push(process);
        }
        for _ in 0..executors {
            let process = world.process();
            world.executors.push(process);
        }
        for _ in 0..clients {
            let process = world.process();
            world.clients.push(process);
        }
        let all: Vec<Node> = (0..members)
            .map(Node::Scheduler)
            .chain((0..executors).map(Node::Executor))
            .chain((0..clients).map(Node::Client))
            .collect();
        for node in all {
            world.start(node);
        }
        world.say(|| format!("{members} schedulers, {executors} executors, {clients} clients, {weights:?}"));
        world
    }

    fn process<T>(&mut self) -> Process<T> {
        // Clocks of up to 4 % difference; the margin of a session allows for more.
        let clock = Clock::new(self.zero, self.rng.random_range(0.96..1.04));
        Process { running: None, start: 0, paused_until: Time::ZERO, clock }
    }

    fn say(&mut self, line: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            let mut text = format!("{:>10.4} ", self.now.as_secs_f64());
            let _ = write!(text, "{}", line());
            trace.push(text);
            if trace.len() > 2 * TRACE_LINES {
                trace.drain(..TRACE_LINES);
            }
        }
    }

    /// The last lines of the trace.
    #[must_use]
    pub fn trace(&self) -> &[String] {
        let lines = self.trace.as_deref().unwrap_or_default();
        lines.get(lines.len().saturating_sub(TRACE_LINES)..).unwrap_or_default()
    }

    fn push(&mut self, at: Time, event: Event) {
        self.order += 1;
        self.queue.push(Reverse(Due { at, order: self.order, event }));
    }

    /// Runs until a time, or until something is broken.
    pub fn run_until(&mut self, end: Time) {
        while self.oracle.broken.is_none() {
            if self.queue.peek().is_none_or(|Reverse(due)| due.at > end) {
                break;
            }
            let Some(Reverse(due)) = self.queue.pop() else { break };
            self.now = due.at;
            self.handle(due.event);
        }
        self.now = self.now.max(end);
    }

    /// Runs until a time while things go wrong.
    pub fn run_with_faults_until(&mut self, end: Time) {
        while self.now < end && self.oracle.broken.is_none() {
            let wait = Duration::from_millis(self.rng.random_range(200..6_000));
            self.run_until((self.now + wait).min(end));
            let leader = self.leader();
            let fault = fault::draw(&self.weights, self.schedulers.len(), self.executors.len(), leader, &mut self.rng);
            if let Some(fault) = fault {
                self.say(|| format!("--- {fault:?}"));
                self.strike(fault);
            }
        }
    }

    /// The scheduler that leads in the newest term, as far as one does.
    #[must_use]
    pub fn leader(&self) -> Option<usize> {
        self.schedulers.iter().position(|p| p.running.as_ref().is_some_and(Scheduler::leads))
    }

    fn paused(&mut self, node: Node) -> &mut Time {
        match node {
            Node::Scheduler(at) => &mut self.schedulers[at].paused_until,
            Node::Executor(at) => &mut self.executors[at].paused_until,
            Node::Client(at) => &mut self.clients[at].paused_until,
        }
    }

    fn start_of(&self, node: Node) -> u64 {
        match node {
            Node::Scheduler(at) => self.schedulers[at].start,
            Node::Executor(at) => self.executors[at].start,
            Node::Client(at) => self.clients[at].start,
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Start(node) => self.start(node),
            Event::Open(ways) => {
                for way in ways {
                    self.network.cut.remove(&way);
                }
            }
            Event::Clear => self.network.clear(),
            Event::Deliver { from, to, start, message } => {
                if self.is_late(to, start) {
                    return;
                }
                let until = *self.paused(to);
                if until > self.now {
                    return self.push(until, Event::Deliver { from, to, start, message });
                }
                if self.trace.is_some() && worth_telling(&message) {
                    self.say(|| format!("{from:?} → {to:?}: {}", shortened(&message)));
                }
                self.with(to, |node, context| match node {
                    Running::Scheduler(scheduler) => scheduler.receive(from, message, context),
                    Running::Executor(executor) => executor.receive(from, message, context),
                    Running::Client(client) => client.receive(message, context),
                });
            }
            Event::Remind { node, start, timer } => {
                if self.is_late(node, start) {
                    return;
                }
                let until = *self.paused(node);
                if until > self.now {
                    return self.push(until, Event::Remind { node, start, timer });
                }
                self.with(node, |node, context| match node {
                    Running::Scheduler(scheduler) => scheduler.remind(timer, context),
                    Running::Executor(executor) => executor.remind(timer, context),
                    Running::Client(client) => client.remind(timer, context),
                });
            }
        }
    }

    fn is_late(&self, node: Node, start: u64) -> bool {
        self.start_of(node) != start
    }

    fn start(&mut self, node: Node) {
        let is_up = match node {
            Node::Scheduler(at) => self.schedulers[at].running.is_some(),
            Node::Executor(at) => self.executors[at].running.is_some(),
            Node::Client(at) => self.clients[at].running.is_some(),
        };
        if is_up {
            return;
        }
        self.say(|| format!("{node:?} starts"));
        let (schedulers, start) = (self.schedulers.len(), self.start_of(node));
        let clock = match node {
            Node::Scheduler(at) => &self.schedulers[at].clock,
            Node::Executor(at) => &self.executors[at].clock,
            Node::Client(at) => &self.clients[at].clock,
        }
        .clone();
        let mut context = self.context(node, &clock);
        let mut out = Vec::new();
        match node {
            Node::Scheduler(at) => {
                let mut stored = std::mem::take(&mut context.1[at]);
                let scheduler = Scheduler::start(at, schedulers, std::mem::take(&mut stored), &mut context.0);
                out.append(&mut context.0.out);
                self.schedulers[at].running = Some(scheduler);
            }
            Node::Executor(at) => {
                let executor = Executor::start(at, schedulers, start, &clock, &mut context.0);
                out.append(&mut context.0.out);
                self.executors[at].running = Some(executor);
            }
            Node::Client(at) => {
                let client = Client::start(schedulers, &mut context.0);
                out.append(&mut context.0.out);
                self.clients[at].running = Some(client);
            }
        }
        self.carry_out(node, &clock, out);
    }

    /// The context of a process, and beside it the logs of all schedulers.
    fn context(&mut self, me: Node, clock: &Clock) -> (Context<'_>, &mut Vec<Stored>) {
        let context = Context {
            me,
            time: self.now,
            now: clock.at(self.now),
            wall_ms: clock.wall_ms(self.now),
            rng: &mut self.rng,
            oracle: &mut self.oracle,
            disks: &mut self.disks,
            out: Vec::new(),
            numbers: &mut self.numbers,
        };
        (context, &mut self.logs)
    }

    /// Lets a process handle something, and carries out what it wants.
    fn with(&mut self, node: Node, handle: impl FnOnce(Running<'_>, &mut Context<'_>)) {
        macro_rules! handled {
            ($kind:ident, $processes:ident, $at:expr) => {{
                let Some(mut running) = self.$processes[$at].running.take() else { return };
                let clock = self.$processes[$at].clock.clone();
                let (mut context, _) = self.context(node, &clock);
                handle(Running::$kind(&mut running), &mut context);
                let out = context.out;
                self.$processes[$at].running = Some(running);
                (clock, out)
            }};
        }
        let (clock, out) = match node {
            Node::Scheduler(at) => handled!(Scheduler, schedulers, at),
            Node::Executor(at) => handled!(Executor, executors, at),
            Node::Client(at) => handled!(Client, clients, at),
        };
        self.carry_out(node, &clock, out);
    }

    fn carry_out(&mut self, node: Node, clock: &Clock, out: Vec<Output>) {
        let start = self.start_of(node);
        for output in out {
            match output {
                Output::After(wait, timer) => {
                    let at = self.now + clock.time_of(wait);
                    self.push(at, Event::Remind { node, start, timer });
                }
                Output::Exit => self.kill(node),
                Output::Send(to, message) => self.send(node, to, message),
            }
        }
    }

    fn send(&mut self, from: Node, to: Node, message: Message) {
        if let Message::Up(connection, up) = &message
            && !matches!(up, crate::message::Up::Hello(_))
            && !self.network.is_open(*connection)
        {
            return;
        }
        if let Message::Down(connection, _) = &message
            && !self.network.is_open(*connection)
        {
            return;
        }
        let start = self.start_of(to);
        match self.network.send(from, to, &message, self.now, &mut self.rng) {
            Fate::Lost => {}
            Fate::Breaks(connection) => {
                self.break_connection(connection, Duration::from_secs(1), Duration::from_secs(6));
            }
            Fate::Arrives(at, twice) => {
                if let Some(again) = twice {
                    let message = message.clone();
                    self.push(again, Event::Deliver { from, to, start, message });
                }
                self.push(at, Event::Deliver { from, to, start, message });
            }
        }
    }
}

/// A process that handles something.
enum Running<'a> {
    Scheduler(&'a mut Scheduler),
    Executor(&'a mut Executor),
    Client(&'a mut Client),
}

fn worth_telling(message: &Message) -> bool {
    !matches!(message, Message::Raft(_) | Message::Up(_, crate::message::Up::Beat(_)) | Message::Down(_, Down::Ack(_)))
}

fn shortened(message: &Message) -> String {
    if let Message::Down(connection, Down::Assignments(assignments)) = message {
        let held = assignments.partitions.iter().map(|p| (p.partition_id, p.epoch, p.version));
        let held: Vec<_> = held.collect();
        return format!("Down({connection}, Assignments({}, {held:?}))", assignments.state_index);
    }
    let mut text = format!("{message:?}");
    text.truncate(text.floor_char_boundary(400));
    text
}
