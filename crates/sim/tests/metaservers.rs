//! Many seeds of metaservers, data servers and NFS clients. `HEOROT_SIM_METASERVERS_SEED=n` runs one of them
//! and prints its events; `HEOROT_SIM_METASERVERS_SEEDS=n` sets the number of seeds, and `HEOROT_SIM_FIRST=n`
//! the first.

mod common;

use common::{log, number, run_all};
use sim::{Scenario, run};

/// Number of seeds in CI.
const SEEDS_DEFAULT: u64 = 500;

/// Seeds that once found a defect, run again with each change; docs/simulation.md describes the defects.
const FOUND: [u64; 9] = [274, 292, 348, 368, 379, 726, 876, 4086, 5006];

#[test]
fn what_was_found_once_is_not_found_again() {
    for seed in FOUND {
        let outcome = run(&Scenario::of_metaservers(seed));
        assert!(outcome.findings.is_empty(), "HEOROT_SIM_METASERVERS_SEED={seed}: {:#?}", outcome.findings);
    }
}

#[test]
fn whatever_happens_to_metaservers_clients_keep_what_they_were_promised() {
    if let Some(seed) = number("HEOROT_SIM_METASERVERS_SEED") {
        log();
        let outcome = run(&Scenario { prints: true, ..Scenario::of_metaservers(seed) });
        assert!(outcome.findings.is_empty(), "{:#?}", outcome.findings);
        return;
    }
    run_all(
        "HEOROT_SIM_METASERVERS_SEED",
        "HEOROT_SIM_METASERVERS_SEEDS",
        SEEDS_DEFAULT,
        Scenario::of_metaservers,
    );
}
