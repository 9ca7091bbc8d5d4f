//! Runs many seeds of the simulation; see the crate's description.
use std::{
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::Instant,
};

use ancho_simulation::{oracle::Counts, run};

/// Runs in the ordinary test run.
const RUNS: u64 = 200;

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// Broken seeds that are told before the rest is left out.
const MOST_BROKEN: usize = 8;

/// Shows the first broken run again, with its trace, and fails.
fn show(broken: &[(u64, String)]) -> ! {
    let seed = broken[0].0;
    let report = run(seed, true);
    for line in &report.trace {
        println!("{line}");
    }
    let all: Vec<String> = broken.iter().map(|(seed, what)| format!("seed {seed}: {what}")).collect();
    panic!(
        "{}\nreplay: ANCHO_SIM_SEED={seed} cargo nextest run --cargo-profile quick -p ancho-simulation \
         --no-capture",
        all.join("\n")
    );
}

fn add(total: &mut Counts, counts: Counts) {
    total.entries += counts.entries;
    total.commits += counts.commits;
    total.reads += counts.reads;
    total.acknowledged += counts.acknowledged;
    total.unknown += counts.unknown;
    total.failed += counts.failed;
    total.given_up += counts.given_up;
    total.placed += counts.placed;
    total.moved += counts.moved;
}

#[test]
fn no_seed_breaks_an_invariant() {
    if let Some(seed) = setting("ANCHO_SIM_SEED") {
        let report = run(seed, true);
        for line in &report.trace {
            println!("{line}");
        }
        println!("{:?}", report.counts);
        assert_eq!(report.broken, None, "seed {seed}");
        return;
    }
    let runs = setting("ANCHO_SIM_RUNS").unwrap_or(RUNS);
    let first = setting("ANCHO_SIM_FIRST").unwrap_or(1);
    let began = Instant::now();
    let next = AtomicU64::new(first);
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let work = || {
        let (mut total, mut broken) = (Counts::default(), Vec::new());
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + runs || broken.len() >= MOST_BROKEN {
                return (total, broken);
            }
            let report = run(seed, false);
            add(&mut total, report.counts);
            broken.extend(report.broken.map(|what| (seed, what)));
        }
    };
    let outcomes: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let (mut total, mut broken) = (Counts::default(), Vec::new());
    for (counts, found) in outcomes {
        add(&mut total, counts);
        broken.extend(found);
    }
    broken.sort();
    if !broken.is_empty() {
        show(&broken);
    }
    println!("{runs} seeds in {:.1?}: {total:?}", began.elapsed());
    // A simulation in which nothing happens shows nothing.
    assert!(total.commits > 20 * runs && total.reads > 10 * runs && total.given_up > runs / 2, "{total:?}");
    assert!(total.moved > runs / 2, "{total:?}");
    assert!(total.placed > 0 && total.unknown > 0 && total.failed > 0, "{total:?}");
}

#[test]
fn a_seed_decides_everything() {
    for seed in [3, 8] {
        let (one, other) = (run(seed, true), run(seed, true));
        assert_eq!(one.trace, other.trace, "seed {seed}");
        assert!(one.trace.len() > 100);
    }
}
