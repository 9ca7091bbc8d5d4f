//! Plans of moves: even, no more than needed, and followed by none.
use std::collections::BTreeMap;

use super::*;
use crate::placement::moves::{MovePlan, due, rebalance};
use crate::state::{MoveAction, MovePhase, MoveStep};

fn policy() -> PlacementPolicy {
    PlacementPolicy::default()
}

/// Carries a plan out as if every copy were made at once.
fn carry_out(state: &mut ClusterState, plan: &MovePlan) {
    apply(state, plan.clone().into_command());
    while !state.moves.is_empty() {
        let steps = state.moves.iter().map(|(id, known)| {
            let (_, partition) = state.find_partition(*id).unwrap();
            let action = match known.phase {
                MovePhase::Waiting => MoveAction::Copy,
                MovePhase::Copying | MovePhase::Closing => {
                    MoveAction::Switch { version: partition.version, incarnation: "1".into() }
                }
                MovePhase::Leaving => MoveAction::Finish,
            };
            MoveStep { partition: *id, epoch: known.epoch, action }
        });
        let steps = steps.collect();
        apply(state, Command::AdvanceMoves { steps });
    }
}

fn bytes_by_executor(state: &ClusterState) -> BTreeMap<String, u64> {
    let mut all: BTreeMap<String, u64> =
        state.executors.values().filter(|e| e.may_take()).map(|e| (e.id.0.clone(), 0)).collect();
    for partition in state.tables.values().flat_map(|t| t.partitions.values()) {
        if let Some(bytes) = partition.owners.first().and_then(|owner| all.get_mut(&owner.0)) {
            *bytes += partition.bytes;
        }
    }
    all
}

#[test]
fn who_joins_gets_a_share_and_buckets_stay_together() {
    let mut state = cluster(1);
    let orders = create(&mut state, new_table("orders", 16, &[]));
    let lines = create(&mut state, new_table("lines", 16, &[]));
    fill(&mut state, orders, 10 << 20);
    fill(&mut state, lines, 40 << 20);
    assert!(due(&state, &policy()).is_empty());
    for (joined, most) in [(vec!["e1"], 8), (vec!["e2", "e3"], 8)] {
        for name in joined {
            apply(&mut state, register(name, "1"));
        }
        let plan = due(&state, &policy());
        assert_eq!(plan.moves.len(), 2 * most, "{plan}");
        assert_eq!(plan.bytes(), 50 * most as u64 * (1 << 20));
        carry_out(&mut state, &plan);
        assert_eq!(owners(&state, orders), owners(&state, lines));
        assert!(due(&state, &policy()).is_empty() && rebalance(&state, &policy()).is_empty());
    }
    assert_eq!(spread(&state, orders), (4, 4));
}

#[test]
fn who_drains_gives_all_away_and_gets_nothing() {
    let mut state = cluster(3);
    let buckets = create(&mut state, new_table("t", 12, &[]));
    let small = create(&mut state, whole("small"));
    fill(&mut state, buckets, 5 << 20);
    fill(&mut state, small, 1 << 20);
    apply(&mut state, Command::SetDraining { executor: id("e1"), draining: true });
    let plan = due(&state, &policy());
    assert!(plan.moves.iter().all(|m| m.from == id("e1")), "what need not move stays: {plan}");
    carry_out(&mut state, &plan);
    let left = owners(&state, buckets).into_iter().chain(owners(&state, small));
    assert!(left.into_iter().all(|owner| owner != "e1"));
    let next = create(&mut state, new_table("next", 6, &[]));
    assert!(!owners(&state, next).contains(&"e1".to_owned()));
    assert!(due(&state, &policy()).is_empty());
    // The last one has nobody to give to.
    for name in ["e0", "e2"] {
        apply(&mut state, Command::SetDraining { executor: id(name), draining: true });
    }
    assert!(due(&state, &policy()).is_empty());
    apply(&mut state, Command::SetDraining { executor: id("e1"), draining: false });
    let plan = due(&state, &policy());
    carry_out(&mut state, &plan);
    assert_eq!(owners(&state, buckets), ["e1"; 12]);
}

#[test]
fn a_table_that_is_being_loaded_and_what_is_down_stay() {
    let mut state = cluster(2);
    let table = create(&mut state, new_table("t", 4, &["e0"]));
    fill(&mut state, table, 5 << 20);
    let loading = create(&mut state, NewTable { loading: true, ..new_table("loading", 4, &["e0"]) });
    let plan = due(&state, &policy());
    assert!(!plan.is_empty() && plan.moves.iter().all(|m| state.tables[&table].partitions.contains_key(&m.partition)));
    down(&mut state, "e0");
    assert!(due(&state, &policy()).is_empty());
    assert_eq!(owners(&state, loading), ["e0"; 4]);
}

#[test]
fn what_never_held_rows_moves_at_once() {
    let mut state = cluster(2);
    let table = create(&mut state, new_table("t", 8, &["e0"]));
    let plan = due(&state, &policy());
    apply(&mut state, plan.into_command());
    assert!(state.moves.is_empty());
    assert_eq!(spread(&state, table), (4, 4));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn plans_are_deterministic_idempotent_and_keep_to_those_that_may_take(
        executors in 1..6usize,
        changes in prop::collection::vec(change(), 1..20),
        draining in prop::collection::vec(any::<bool>(), 6),
    ) {
        let mut state = cluster(executors);
        for (number, change) in changes.iter().enumerate() {
            perform(&mut state, number, change);
        }
        let names: Vec<ExecutorId> = state.executors.keys().cloned().collect();
        for (executor, draining) in names.into_iter().zip(draining) {
            apply(&mut state, Command::SetDraining { executor, draining });
        }
        let plan = rebalance(&state, &policy());
        prop_assert_eq!(&plan, &rebalance(&state, &policy()));
        let before = state.clone();
        for planned in &plan.moves {
            prop_assert!(before.executors[&planned.to].may_take(), "{plan}");
            prop_assert!(is_live(&before, &planned.from) && planned.from != planned.to, "{plan}");
        }
        carry_out(&mut state, &plan);
        let again = rebalance(&state, &policy());
        prop_assert!(again.is_empty(), "after {plan}: {again}");
        if state.executors.values().any(|e| e.may_take()) {
            for partition in state.tables.values().flat_map(|t| t.partitions.values()) {
                let left = partition.owners.first().and_then(|owner| state.executors.get(owner));
                prop_assert!(left.is_none_or(|e| !e.draining || e.liveness == Liveness::Down), "{plan}");
            }
        }
    }

    /// Buckets of nearly the same size, from some executors to more.
    #[test]
    fn shares_are_even_and_no_more_moves_than_must(
        before in 1..4usize,
        joining in 1..4usize,
        per_executor in 8..24usize,
    ) {
        let mut state = cluster(before);
        let buckets = u32::try_from((before + joining) * per_executor).unwrap();
        let table = create(&mut state, new_table("t", buckets, &[]));
        fill(&mut state, table, 8 << 20);
        let had = bytes_by_executor(&state);
        for number in before..before + joining {
            apply(&mut state, register(&format!("e{number}"), "1"));
        }
        let plan = due(&state, &policy());
        carry_out(&mut state, &plan);
        let has = bytes_by_executor(&state);
        let even = has.values().sum::<u64>() / has.len() as u64;
        for (executor, bytes) in &has {
            prop_assert!(bytes.abs_diff(even) * 10 <= even, "{executor} has {bytes} of {even}: {plan}");
        }
        let gained: u64 = has.iter().map(|(id, bytes)| bytes.saturating_sub(had.get(id).copied().unwrap_or(0))).sum();
        prop_assert_eq!(plan.bytes(), gained, "something moved in vain: {}", plan);
        let lacking = even * joining as u64;
        prop_assert!(plan.bytes() * 10 <= lacking * 11, "{} bytes move, {} are lacking", plan.bytes(), lacking);
    }
}
