//! What an executor says of itself in one session, and what of it the replicated state does not know yet. Pure.
use std::collections::BTreeMap;

use ancho_common::ids::{ExecutorId, PartitionId};
use ancho_proto::v1::{Beat, Hello};

use crate::state::{ClusterState, Command, Executor, Liveness};

/// The claims of one start of an executor's process.
#[derive(Debug, Clone)]
pub struct Claims {
    /// Who it says it is.
    pub id: ExecutorId,
    /// How it introduced itself.
    pub hello: Hello,
    /// What it says it can serve; nothing before its first beat.
    loaded: Option<BTreeMap<PartitionId, u64>>,
    /// What it says it cannot serve: epoch and reason.
    hindered: BTreeMap<PartitionId, (u64, String)>,
}

/// How the state stands to the claims.
#[derive(Debug, Clone, PartialEq)]
pub enum Correction {
    /// It knows them.
    None,
    /// It knows them after this command.
    Write(Command),
    /// The executor must go, and is told why.
    Refuse(String),
    /// The state knows a later start of the process.
    StartedAnew,
}

impl Claims {
    /// Of an executor that has introduced itself.
    #[must_use]
    pub fn new(hello: Hello) -> Self {
        Self { id: ExecutorId(hello.executor_id.clone()), hello, loaded: None, hindered: BTreeMap::new() }
    }

    /// Takes in a beat.
    pub fn take(&mut self, beat: Beat) {
        self.loaded = Some(beat.loaded.iter().map(|l| (PartitionId(l.partition_id), l.epoch)).collect());
        self.hindered = beat.hindered.into_iter().map(|h| (PartitionId(h.partition_id), (h.epoch, h.reason))).collect();
    }

    /// The command that takes the executor in.
    #[must_use]
    pub fn registration(&self) -> Command {
        Command::RegisterExecutor {
            executor: self.id.clone(),
            incarnation: self.hello.incarnation.clone(),
            url: self.hello.url.clone(),
            version: self.hello.version.clone(),
            plan_key: self.hello.plan_key.clone(),
            streams: self.hello.streams.max(1),
        }
    }

    /// The command that says that the process has stopped.
    #[must_use]
    pub fn farewell(&self) -> Command {
        Command::ExecutorDown { executor: self.id.clone(), incarnation: self.hello.incarnation.clone() }
    }

    /// What brings the state in line with a session that is held.
    #[must_use]
    pub fn correction(&self, state: &ClusterState) -> Correction {
        let Some(known) = state.executors.get(&self.id) else {
            // An operator removed it; the next start of the process registers anew.
            return Correction::Refuse(format!("executor {} was removed from the cluster", self.id));
        };
        if known.incarnation != self.hello.incarnation {
            return Correction::StartedAnew;
        }
        if known.liveness == Liveness::Down {
            // A late verdict of this or an earlier leader, unless another executor took the address.
            let heir = |e: &&Executor| e.url == self.hello.url && e.id != self.id;
            return match state.live_executors().find(heir) {
                Some(heir) => Correction::Refuse(format!(
                    "executor {} registered at {}, the address of executor {}: give each executor its own",
                    heir.id, heir.url, self.id
                )),
                None => Correction::Write(self.registration()),
            };
        }
        let Some(loaded) = &self.loaded else { return Correction::None };
        let owned = state.owned_of(&self.id, loaded);
        let hindered = self.current_hindrances(state);
        if owned == known.loaded && hindered == known.hindered {
            return Correction::None;
        }
        Correction::Write(Command::ReportLoaded {
            executor: self.id.clone(),
            incarnation: self.hello.incarnation.clone(),
            loaded: owned,
            hindered,
        })
    }

    /// What the executor says hinders it, without what it said of earlier assignments.
    fn current_hindrances(&self, state: &ClusterState) -> BTreeMap<PartitionId, String> {
        if self.hindered.is_empty() {
            return BTreeMap::new();
        }
        let epochs: BTreeMap<PartitionId, u64> = self.hindered.iter().map(|(id, (epoch, _))| (*id, *epoch)).collect();
        let current = state.owned_of(&self.id, &epochs);
        let reasons = self.hindered.iter().filter(|(id, _)| current.contains_key(id));
        state.hindered_of(&self.id, reasons.map(|(id, (_, reason))| (*id, reason.clone())).collect())
    }
}
