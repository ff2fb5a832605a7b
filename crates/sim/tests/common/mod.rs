//! Runs of many seeds.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use sim::{Scenario, run};

/// A number that was said in the environment.
fn number(name: &str) -> Option<u64> {
    let said = std::env::var(name).ok()?;
    Some(said.parse().unwrap_or_else(|_| panic!("{name}={said}: not a number")))
}

/// Runs seeds that once found a defect.
pub fn run_found(one: &str, seeds: &[u64], scenario: fn(u64) -> Scenario) {
    for seed in seeds {
        let outcome = run(&scenario(*seed));
        assert!(outcome.findings.is_empty(), "{one}={seed}: {:#?}", outcome.findings);
    }
}

/// Numbers of seeds, from 1 on.
pub struct Seeds {
    /// Each run of the tests.
    pub always: u64,
    /// Those after them are run while `make test` has other work: up to this one.
    pub while_others_run: u64,
}

/// Runs the seed that `one` in the environment names, and prints its events; or as many as `seeds` in the environment
/// says, from `HEOROT_SIM_FIRST` on. If `HEOROT_SIM_UNTIL` names a file: those after the ones that always run, until the
/// file is there.
pub fn run_all(one: &str, seeds: &str, default: &Seeds, scenario: fn(u64) -> Scenario) {
    if let Some(seed) = number(one) {
        log();
        let outcome = run(&Scenario { prints: true, ..scenario(seed) });
        assert!(outcome.findings.is_empty(), "{:#?}", outcome.findings);
        return;
    }
    let until = std::env::var_os("HEOROT_SIM_UNTIL").map(PathBuf::from);
    let (first, seeds) = match &until {
        Some(_) => (default.always + 1, default.while_others_run - default.always),
        None => (number("HEOROT_SIM_FIRST").unwrap_or(1), number(seeds).unwrap_or(default.always)),
    };
    let (next, operations) = (AtomicU64::new(first), AtomicU64::new(0));
    let failed = Mutex::new(vec![]);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let work = || {
        while !until.as_ref().is_some_and(|until| until.exists()) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + seeds {
                return;
            }
            let outcome = run(&scenario(seed));
            operations.fetch_add(outcome.operations as u64, Ordering::Relaxed);
            if !outcome.findings.is_empty() {
                eprintln!("{one}={seed}: {:#?}", outcome.findings);
                failed.lock().push(seed);
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
    let (failed, ran) = (failed.into_inner(), (next.into_inner() - first).min(seeds));
    println!(
        "{one}: {ran} seeds from {first} on, {} operations; failed: {failed:?}",
        operations.into_inner()
    );
    assert!(failed.is_empty(), "run again with {one}={}", failed[0]);
}

/// Has all machines log to the standard error, if `HEOROT_SIM_LOG` says what: `cluster=debug,dataserver=info`.
fn log() {
    if let Ok(filter) = std::env::var("HEOROT_SIM_LOG") {
        let log = tracing_subscriber::fmt().with_env_filter(filter).without_time().with_ansi(false);
        log.with_writer(std::io::stderr).init();
    }
}
