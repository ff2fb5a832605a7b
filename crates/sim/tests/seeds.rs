//! Many seeds. `HEOROT_SIM_SEED=n` runs one of them and prints its events; `HEOROT_SIM_SEEDS=n` sets the
//! number of seeds, and `HEOROT_SIM_FIRST=n` the first.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use sim::{Scenario, run};

/// Number of seeds in CI.
const SEEDS_DEFAULT: u64 = 500;

/// Seeds that once found a defect, run again with each change; docs/simulation.md describes the defects.
const FOUND: [u64; 19] =
    [12, 16, 40, 96, 262, 304, 315, 335, 550, 806, 2773, 3068, 3123, 3416, 3871, 4359, 6185, 8938, 14_618];

fn number(name: &str) -> Option<u64> {
    let said = std::env::var(name).ok()?;
    Some(said.parse().unwrap_or_else(|_| panic!("{name}={said}: not a number")))
}

#[test]
fn what_was_found_once_is_not_found_again() {
    for seed in FOUND {
        let outcome = run(&Scenario::from_seed(seed));
        assert!(outcome.findings.is_empty(), "HEOROT_SIM_SEED={seed}: {:#?}", outcome.findings);
    }
}

#[test]
fn whatever_happens_to_a_cluster_its_clients_see_one_file_system() {
    if let Some(seed) = number("HEOROT_SIM_SEED") {
        let outcome = run(&Scenario { prints: true, ..Scenario::from_seed(seed) });
        assert!(outcome.findings.is_empty(), "{:#?}", outcome.findings);
        return;
    }
    let first = number("HEOROT_SIM_FIRST").unwrap_or(1);
    let seeds = number("HEOROT_SIM_SEEDS").unwrap_or(SEEDS_DEFAULT);
    let (next, operations) = (AtomicU64::new(first), AtomicU64::new(0));
    let failed = Mutex::new(vec![]);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + seeds {
                return;
            }
            let outcome = run(&Scenario::from_seed(seed));
            operations.fetch_add(outcome.operations as u64, Ordering::Relaxed);
            if !outcome.findings.is_empty() {
                eprintln!("HEOROT_SIM_SEED={seed}: {:#?}", outcome.findings);
                failed.lock().expect("no panic").push(seed);
            }
            if seed.is_multiple_of(1000) {
                eprintln!("seed {seed}");
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let failed = failed.into_inner().expect("no panic");
    println!("{seeds} seeds from {first} on, {} operations; failed: {failed:?}", operations.into_inner());
    assert!(failed.is_empty(), "run again with HEOROT_SIM_SEED={}", failed[0]);
}
