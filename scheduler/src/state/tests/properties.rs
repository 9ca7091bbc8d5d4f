//! Random sequences of commands: sound after each, the same on every replica, and the same from a stored copy.
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
    },
    Drop {
        name: u8,
    },
    Alter {
        name: u8,
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
        parts: Vec<(u8, u8, bool)>,
    },
    Repeat {
        request: u8,
    },
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
        3 => (small.clone(), 1..4u8, small.clone(), any::<bool>(), any::<bool>()).prop_map(
            |(name, buckets, owner, replace, dataset)| Step::Create { name, buckets, owner, replace, dataset }
        ),
        1 => small.clone().prop_map(|name| Step::Drop { name }),
        1 => small.clone().prop_map(|name| Step::Alter { name }),
        2 => (small.clone(), prop::collection::vec(0..6u8, 0..4), small.clone())
            .prop_map(|(name, keys, owner)| Step::Ensure { name, keys, owner }),
        1 => (prop::collection::vec((0..12u8, prop::bool::weighted(0.9)), 0..4), small.clone())
            .prop_map(|(partitions, owner)| Step::Place { partitions, owner }),
        6 => (small.clone(), 0..20u8, prop::bool::weighted(0.3), any::<bool>(), prop::collection::vec((0..5u8, 0..9u8, prop::bool::weighted(0.1)), 0..4))
            .prop_map(|(name, write, overwrite, refreshed, parts)| Step::Commit { name, write, overwrite, refreshed, parts }),
        1 => any::<u8>().prop_map(|request| Step::Repeat { request }),
    ]
}

fn named(state: &ClusterState, name: u8) -> Option<Arc<Table>> {
    state.table(&TableName::public(format!("t{name}"))).cloned()
}

fn all_partitions(state: &ClusterState) -> Vec<(PartitionId, u64)> {
    state.tables.values().flat_map(|t| t.partitions.values().map(|p| (p.id, p.epoch))).collect()
}

fn staged(state: &ClusterState, table: &Table, part: &(u8, u8, bool)) -> Option<StagedPart> {
    let (position, rows, stale) = *part;
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
    })
}

fn command(state: &ClusterState, step: &Step) -> Command {
    let executor = |n: &u8| id(&format!("e{n}"));
    let new_partition = |key: u8, owner: &u8| NewPartition { key: bucket(key.into()), owners: vec![executor(owner)] };
    let source = Dataset {
        definition: "{}".into(),
        from: "file:///d".into(),
        refresh_mode: "full".into(),
        refreshed_at_ms: None,
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
        Step::Create { name, buckets, owner, replace, dataset } => Command::CreateTable(Box::new(NewTable {
            or_replace: *replace,
            loading: *dataset,
            dataset: dataset.then_some(source),
            partitions: (0..*buckets).map(|b| new_partition(b, owner)).collect(),
            ..new_table(&format!("t{name}"), 0, &[])
        })),
        Step::Drop { name } => Command::DropTable { name: TableName::public(format!("t{name}")), if_exists: true },
        Step::Alter { name } => {
            Command::AlterDataset { table: named(state, *name).map_or(TableId(0), |t| t.id), dataset: source }
        }
        Step::Ensure { name, keys, owner } => Command::EnsurePartitions {
            table: named(state, *name).map_or(TableId(0), |t| t.id),
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
        Step::Commit { name, write, overwrite, refreshed, parts } => {
            let table = named(state, *name);
            Command::CommitWrite {
                table: table.as_ref().map_or(TableId(0), |t| t.id),
                write_id: WriteId(Uuid::from_u128((*write).into())),
                overwrite: *overwrite,
                parts: table.iter().flat_map(|t| parts.iter().filter_map(|p| staged(state, t, p))).collect(),
                refreshed: *refreshed,
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
            let rows: u64 = state.tables.values().map(|t| t.rows()).sum();
            let response = state.apply(request.clone());
            prop_assert_eq!(violations(&state), Vec::<String>::new(), "after {:?}", request);
            if response.outcome.is_err() {
                let now: u64 = state.tables.values().map(|t| t.rows()).sum();
                prop_assert_eq!(rows, now, "a refused command changed rows");
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
