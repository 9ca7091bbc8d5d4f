//! Random sequences of commands: sound after each, the same on every replica, and the same from a stored copy.
use ancho_common::fingerprint::Fingerprint;
use proptest::prelude::*;
use uuid::Uuid;

use super::*;

/// A command in terms of positions, so that most of them hit something that exists.
#[derive(Debug, Clone)]
enum Step {
    Register {
        executor: u8,
        incarnation: u8,
        shared_url: bool,
    },
    Down {
        executor: u8,
        incarnation: u8,
    },
    /// Everything up to a position, each at its current epoch or a stale one, owned or not.
    Loaded {
        executor: u8,
        stale: bool,
        epochs: Vec<bool>,
    },
    Remove {
        executor: u8,
    },
    Create {
        name: u8,
        buckets: u8,
        owner: u8,
        replace: bool,
        dataset: bool,
        loading: bool,
    },
    Drop {
        name: u8,
    },
    Renew {
        name: u8,
    },
    /// With the current count of renewals, an earlier one, or none.
    Abandon {
        name: u8,
        seen: Option<bool>,
    },
    Rename {
        name: u8,
        to: u8,
    },
    Ensure {
        name: u8,
        keys: Vec<u8>,
        owner: u8,
    },
    Place {
        partitions: Vec<(u8, bool)>,
        owner: u8,
    },
    Commit {
        name: u8,
        write: u8,
        overwrite: bool,
        refreshed: bool,
        stale_base: Option<bool>,
        parts: Vec<Part>,
    },
    /// Those at these positions, at the current epoch or another.
    Move {
        partitions: Vec<(u8, bool)>,
        to: u8,
    },
    /// An action for every partition that moves.
    Advance {
        actions: Vec<u8>,
    },
    Drain {
        executor: u8,
        draining: bool,
    },
    Repeat {
        request: u8,
    },
}

/// A part of a write, in terms of positions.
#[derive(Debug, Clone)]
struct Part {
    partition: u8,
    rows: u8,
    stale: bool,
    deleted: u8,
    /// How far the version it builds on is behind.
    behind: Option<u8>,
}

fn part() -> impl Strategy<Value = Part> {
    let behind = prop::option::weighted(0.5, prop_oneof![9 => Just(0u8), 1 => Just(1u8)]);
    (0..5u8, 0..9u8, prop::bool::weighted(0.1), prop_oneof![Just(0u8), 0..4u8], behind)
        .prop_map(|(partition, rows, stale, deleted, behind)| Part { partition, rows, stale, deleted, behind })
}

fn step() -> impl Strategy<Value = Step> {
    let small = 0..4u8;
    prop_oneof![
        3 => (small.clone(), 0..3u8, prop::bool::weighted(0.1))
            .prop_map(|(executor, incarnation, shared_url)| Step::Register { executor, incarnation, shared_url }),
        1 => (small.clone(), 0..3u8).prop_map(|(executor, incarnation)| Step::Down { executor, incarnation }),
        2 => (small.clone(), prop::bool::weighted(0.1), prop::collection::vec(prop::bool::weighted(0.9), 0..12))
            .prop_map(|(executor, stale, epochs)| Step::Loaded { executor, stale, epochs }),
        1 => small.clone().prop_map(|executor| Step::Remove { executor }),
        4 => (small.clone(), 1..4u8, small.clone(), any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
            |(name, buckets, owner, replace, dataset, loading)| Step::Create { name, buckets, owner, replace, dataset, loading }
        ),
        1 => small.clone().prop_map(|name| Step::Drop { name }),
        1 => small.clone().prop_map(|name| Step::Renew { name }),
        1 => (small.clone(), any::<Option<bool>>()).prop_map(|(name, seen)| Step::Abandon { name, seen }),
        1 => (small.clone(), small.clone()).prop_map(|(name, to)| Step::Rename { name, to }),
        2 => (small.clone(), prop::collection::vec(0..6u8, 0..4), small.clone())
            .prop_map(|(name, keys, owner)| Step::Ensure { name, keys, owner }),
        1 => (prop::collection::vec((0..12u8, prop::bool::weighted(0.9)), 0..4), small.clone())
            .prop_map(|(partitions, owner)| Step::Place { partitions, owner }),
        6 => (small.clone(), 0..20u8, prop::bool::weighted(0.3), any::<bool>(), prop::option::weighted(0.2, any::<bool>()), prop::collection::vec(part(), 0..4))
            .prop_map(|(name, write, overwrite, refreshed, stale_base, parts)| Step::Commit { name, write, overwrite, refreshed, stale_base, parts }),
        2 => (prop::collection::vec((0..12u8, prop::bool::weighted(0.9)), 0..6), small.clone())
            .prop_map(|(partitions, to)| Step::Move { partitions, to }),
        4 => prop::collection::vec(0..9u8, 0..6).prop_map(|actions| Step::Advance { actions }),
        1 => (small.clone(), any::<bool>()).prop_map(|(executor, draining)| Step::Drain { executor, draining }),
        1 => any::<u8>().prop_map(|request| Step::Repeat { request }),
    ]
}

fn named(state: &ClusterState, name: u8) -> Option<Arc<Table>> {
    state.table(&TableName::public(format!("t{name}"))).cloned()
}

/// The table that waits to take the name, or the one that has it.
fn target(state: &ClusterState, name: u8) -> Option<Arc<Table>> {
    let wanted = TableName::public(format!("t{name}"));
    let hidden = state.tables.values().find(|t| t.is_hidden() && t.name == wanted);
    hidden.cloned().or_else(|| named(state, name))
}

fn all_partitions(state: &ClusterState) -> Vec<(PartitionId, u64)> {
    state.tables.values().flat_map(|t| t.partitions.values().map(|p| (p.id, p.epoch))).collect()
}

fn staged(state: &ClusterState, table: &Table, part: &Part) -> Option<StagedPart> {
    let Part { partition: position, rows, stale, deleted, behind } = *part;
    let partition = table.partitions.values().nth(position.into())?;
    let owner = state.executors.get(partition.owners.first()?)?;
    let column = |min: u8| ColumnSummary {
        nulls: (rows % 3 != 0).then_some(u64::from(rows / 2)),
        min: (rows % 2 == 0).then(|| min.to_string()),
        max: Some((min + rows).to_string()),
    };
    Some(StagedPart {
        partition: partition.id,
        epoch: partition.epoch + u64::from(stale),
        executor: owner.id.clone(),
        incarnation: owner.incarnation.clone(),
        rows: rows.into(),
        bytes: u64::from(rows) * 8,
        columns: vec![column(rows), column(position)],
        deleted: deleted.into(),
        base: behind.map(|n| partition.version.saturating_sub(n.into())),
    })
}

/// Mostly what fits.
fn action_of(state: &ClusterState, partition: PartitionId, known: &Move, action: u8) -> MoveAction {
    let version = state.find_partition(partition).map_or(0, |(_, p)| p.version);
    let incarnation = state.executors.get(&known.to).map_or(String::new(), |e| e.incarnation.clone());
    match action {
        0 => MoveAction::Copy,
        1 => MoveAction::Close,
        2 => MoveAction::Reopen,
        3 => MoveAction::Switch { version: version.saturating_sub(1), incarnation },
        4 => MoveAction::Finish,
        5 => MoveAction::Abandon,
        6 => MoveAction::Return,
        _ if known.phase == MovePhase::Waiting => MoveAction::Copy,
        _ => MoveAction::Switch { version, incarnation },
    }
}

fn command(state: &ClusterState, step: &Step) -> Command {
    let executor = |n: &u8| id(&format!("e{n}"));
    let new_partition = |key: u8, owner: &u8| NewPartition { key: bucket(key.into()), owners: vec![executor(owner)] };
    let source = Dataset {
        definition: "{}".into(),
        from: "file:///d".into(),
        refresh_mode: "full".into(),
        refreshed_at_ms: None,
        served: None,
    };
    match step {
        Step::Register { executor: n, incarnation, shared_url } => Command::RegisterExecutor {
            executor: executor(n),
            incarnation: incarnation.to_string(),
            url: if *shared_url { "http://shared".into() } else { format!("http://e{n}") },
            version: "1".into(),
            plan_key: "1".into(),
            streams: 1,
        },
        Step::Down { executor: n, incarnation } => {
            Command::ExecutorDown { executor: executor(n), incarnation: incarnation.to_string() }
        }
        Step::Loaded { executor: n, stale, epochs } => {
            let incarnation = state.executors.get(&executor(n)).map_or("0", |e| e.incarnation.as_str());
            let loaded = all_partitions(state).into_iter().zip(epochs);
            Command::ReportLoaded {
                executor: executor(n),
                incarnation: if *stale { "old".into() } else { incarnation.into() },
                loaded: loaded.map(|((id, epoch), current)| (id, if *current { epoch } else { 7 })).collect(),
                hindered: all_partitions(state).into_iter().map(|(id, _)| (id, "hindered".to_owned())).collect(),
            }
        }
        Step::Remove { executor: n } => Command::RemoveExecutor { executor: executor(n) },
        Step::Create { name, buckets, owner, replace, dataset, loading } => Command::CreateTable(Box::new(NewTable {
            or_replace: *replace,
            loading: *loading,
            dataset: dataset.then_some(source),
            partitions: (0..*buckets).map(|b| new_partition(b, owner)).collect(),
            ..new_table(&format!("t{name}"), 0, &[])
        })),
        Step::Drop { name } => Command::DropTable { name: TableName::public(format!("t{name}")), if_exists: true },
        Step::Renew { name } => Command::RenewLoad { table: target(state, *name).map_or(TableId(0), |t| t.id) },
        Step::Abandon { name, seen } => {
            let table = target(state, *name);
            let renewals = table.as_ref().and_then(|t| t.load).map_or(0, |load| load.renewals);
            Command::AbandonLoad {
                table: table.map_or(TableId(0), |t| t.id),
                renewals: seen.map(|current| if current { renewals } else { renewals + 1 }),
            }
        }
        Step::Rename { name, to } => Command::RenameTable {
            name: TableName::public(format!("t{name}")),
            to: TableName::public(format!("t{to}")),
            if_exists: true,
        },
        Step::Ensure { name, keys, owner } => Command::EnsurePartitions {
            table: target(state, *name).map_or(TableId(0), |t| t.id),
            partitions: keys.iter().map(|k| new_partition(*k, owner)).collect(),
        },
        Step::Place { partitions, owner } => Command::Place {
            placements: partitions
                .iter()
                .filter_map(|(position, current)| {
                    let (partition, epoch) = *all_partitions(state).get(usize::from(*position))?;
                    let epoch = if *current { epoch } else { epoch + 1 };
                    Some(Placement { partition, epoch, owners: vec![executor(owner)] })
                })
                .collect(),
        },
        Step::Move { partitions, to } => Command::StartMoves {
            moves: partitions
                .iter()
                .filter_map(|(position, current)| {
                    let (partition, epoch) = *all_partitions(state).get(usize::from(*position))?;
                    Some(NewMove { partition, epoch: if *current { epoch } else { epoch + 1 }, to: executor(to) })
                })
                .collect(),
        },
        Step::Advance { actions } => Command::AdvanceMoves {
            steps: state
                .moves
                .iter()
                .zip(actions)
                .map(|((partition, known), action)| MoveStep {
                    partition: *partition,
                    epoch: known.epoch,
                    action: action_of(state, *partition, known, *action),
                })
                .collect(),
        },
        Step::Drain { executor: n, draining } => Command::SetDraining { executor: executor(n), draining: *draining },
        Step::Commit { name, write, overwrite, refreshed, stale_base, parts } => {
            let table = target(state, *name);
            let base = named(state, *name).map(|t| (t.id, t.version));
            Command::CommitWrite {
                table: table.as_ref().map_or(TableId(0), |t| t.id),
                write_id: WriteId(Uuid::from_u128((*write).into())),
                overwrite: *overwrite,
                parts: table.iter().flat_map(|t| parts.iter().filter_map(|p| staged(state, t, p))).collect(),
                refreshed: refreshed.then_some(source),
                based_on: base.zip(*stale_base).map(|((id, version), stale)| (id, version + u64::from(stale))),
                request: (write % 3 != 0).then(|| WriteRequest {
                    id: (write % 5).to_string(),
                    rows: 1,
                    statement: (write % 2 == 0).then(|| Fingerprint::of(&write.to_string(), None).ok()).flatten(),
                }),
                schema_version: 0,
            }
        }
        Step::Repeat { .. } => Command::InitCluster { cluster_id: "c".into() },
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_sequence_is_sound_deterministic_and_storable(steps in prop::collection::vec(step(), 1..60)) {
        let mut state = ClusterState::default();
        let mut replica = ClusterState::default();
        let mut log: Vec<(Request, Response)> = Vec::new();
        for (number, step) in steps.iter().enumerate() {
            if let Step::Repeat { request } = step
                && !log.is_empty()
            {
                let (request, answer) = log[usize::from(*request) % log.len()].clone();
                let before = state.clone();
                prop_assert_eq!(state.apply(request), answer);
                prop_assert_eq!(&state, &before, "a repeated request changed the state");
                continue;
            }
            let request = Request {
                id: RequestId(Uuid::from_u128(number as u128 + 1)),
                now_ms: number as u64,
                command: command(&state, step),
            };
            let before = state.clone();
            let response = state.apply(request.clone());
            prop_assert_eq!(violations(&state), Vec::<String>::new(), "after {:?}", request);
            for (id, known) in before.moves.iter().filter(|(_, known)| known.phase == MovePhase::Closing) {
                let version = |state: &ClusterState| state.find_partition(*id).map(|(_, p)| p.version);
                let gone = version(&state).is_none();
                prop_assert!(gone || version(&state) == version(&before), "a commit while {:?} was closing", known);
            }
            if response.outcome.is_err() {
                prop_assert_eq!(&state.tables, &before.tables, "a refused command changed tables");
                prop_assert_eq!(&state.executors, &before.executors, "a refused command changed executors");
            }
            for (id, table) in &before.tables {
                let dropped = !state.tables.contains_key(id);
                let ordered = matches!(&request.command,
                    Command::DropTable { name, .. } if *name == table.name);
                let given_up = matches!(request.command,
                    Command::AbandonLoad { table: abandoned, .. } if abandoned == *id && table.load.is_some());
                let replaced = state.table(&table.name).is_some_and(|t| t.id != *id);
                prop_assert!(!dropped || ordered || given_up || replaced, "{:?} lost table {}", request, table.name);
            }
            // The replica reads the request from its log and restarts from a snapshot now and then.
            let logged: Request = serde_json::from_slice(&serde_json::to_vec(&request).unwrap()).unwrap();
            prop_assert_eq!(&logged, &request);
            prop_assert_eq!(&replica.apply(logged), &response);
            if number % 7 == 0 {
                replica = serde_json::from_slice(&serde_json::to_vec(&replica).unwrap()).unwrap();
            }
            prop_assert_eq!(&replica, &state);
            log.push((request, response));
        }
    }
}
