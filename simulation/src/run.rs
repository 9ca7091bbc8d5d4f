//! One run: a while of faults, then peace, then the question whether everything has settled.
use std::time::Duration;

use ancho_scheduler::{
    placement::{PlacementPolicy, plan},
    state::Liveness,
};

use crate::{oracle::Counts, world::World};

/// Things go wrong for so long.
const FAULTS: Duration = Duration::from_secs(60);
/// Peace before clients stop writing.
const PEACE: Duration = Duration::from_secs(20);
/// Then all executors start anew, and everything must settle within this: also what nobody assigns any more is gone.
const SETTLING: Duration = Duration::from_secs(32);
/// In which clients read every table.
const READING: Duration = Duration::from_secs(10);

/// How a run went.
#[derive(Debug)]
pub struct Report {
    /// What must not have been, if anything.
    pub broken: Option<String>,
    /// What happened.
    pub counts: Counts,
    /// The last lines of the trace, if one was wanted.
    pub trace: Vec<String>,
}

/// Runs a seed.
#[must_use]
pub fn run(seed: u64, traced: bool) -> Report {
    let mut world = World::new(seed, traced);
    world.run_with_faults_until(FAULTS);
    world.heal();
    world.run_until(FAULTS + PEACE);
    world.only_reads();
    world.run_until(FAULTS + PEACE + Duration::from_secs(5));
    world.restart_executors();
    world.run_until(FAULTS + PEACE + SETTLING);
    if world.oracle.broken.is_none() {
        check_settled(&mut world);
    }
    let reads = world.oracle.counts.reads;
    world.run_until(FAULTS + PEACE + SETTLING + READING);
    let filled = world.oracle.state.tables.values().any(|table| !table.partitions.is_empty());
    if world.oracle.counts.reads == reads && world.oracle.lost.is_empty() && filled {
        world.oracle.fail("SETTLE", "no table can be read");
    }
    Report { broken: world.oracle.broken.clone(), counts: world.oracle.counts, trace: world.trace().to_vec() }
}

fn check_settled(world: &mut World) {
    if world.leader().is_none() {
        world.oracle.fail("SETTLE", "there is no leader");
    }
    let (state, lost) = (world.oracle.state.clone(), world.oracle.lost.clone());
    for disk in &world.disks {
        if !state.executors.get(&disk.id).is_some_and(|e| e.liveness == Liveness::Up) {
            world.oracle.fail("SETTLE", format!("executor {} is not up", disk.id));
        }
    }
    let todo = plan(&state, &PlacementPolicy::default());
    if !todo.is_empty() {
        world.oracle.fail("SETTLE", format!("there is still work: {todo}"));
    }
    if !state.moves.is_empty() {
        world.oracle.fail("SETTLE", format!("partitions still move: {:?}", state.moves));
    }
    for table in state.tables.values() {
        for partition in table.partitions.values().filter(|p| !lost.contains(&p.id)) {
            if state.serving_owner(partition).is_none() {
                world.oracle.fail(
                    "SETTLE",
                    format!(
                        "partition {} of table {} is not served; owners {:?}",
                        partition.id, table.name, partition.owners
                    ),
                );
            }
        }
    }
    for disk in &world.disks {
        if !disk.copies.is_empty() {
            let left = disk.copies.keys().collect::<Vec<_>>();
            world.oracle.fail("SETTLE", format!("copies of {left:?} are left on {}", disk.id));
        }
        for (id, partition) in &disk.partitions {
            if !partition.staged.is_empty() {
                let staged = partition.staged.keys().collect::<Vec<_>>();
                world.oracle.fail("SETTLE", format!("partition {id} on {} still has {staged:?} staged", disk.id));
            }
            let known = state.find_partition(*id).map(|(_, partition)| partition);
            let Some(known) = known.filter(|partition| partition.owners.contains(&disk.id)) else {
                world.oracle.fail("SETTLE", format!("partition {id} is on {} and not assigned to it", disk.id));
                continue;
            };
            if known.version != partition.version() {
                world
                    .oracle
                    .fail("SETTLE", format!("partition {id} on {} is not at version {}", disk.id, known.version));
            }
        }
    }
}
