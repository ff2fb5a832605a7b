//! Many seeds of metaservers, whole data servers that keep copies, and NFS clients. `HEOROT_SIM_COPIES_SEED=n` runs one
//! of them and prints its events; `HEOROT_SIM_COPIES_SEEDS=n` sets the number of seeds, and `HEOROT_SIM_FIRST=n` the
//! first.

mod common;

use common::{log, number, run_all};
use sim::{Scenario, run};

/// Number of seeds in CI.
const SEEDS_DEFAULT: u64 = 200;

/// Seeds that once found a defect, run again with each change; docs/simulation.md describes the defects.
const FOUND: [u64; 8] = [6, 23, 31, 35, 60, 206, 290, 369];

#[test]
fn what_was_found_once_is_not_found_again() {
    for seed in FOUND {
        let outcome = run(&Scenario::of_copies(seed));
        assert!(outcome.findings.is_empty(), "HEOROT_SIM_COPIES_SEED={seed}: {:#?}", outcome.findings);
    }
}

#[test]
fn whatever_happens_to_data_servers_clients_read_what_they_wrote() {
    if let Some(seed) = number("HEOROT_SIM_COPIES_SEED") {
        log();
        let outcome = run(&Scenario { prints: true, ..Scenario::of_copies(seed) });
        assert!(outcome.findings.is_empty(), "{:#?}", outcome.findings);
        return;
    }
    run_all("HEOROT_SIM_COPIES_SEED", "HEOROT_SIM_COPIES_SEEDS", SEEDS_DEFAULT, Scenario::of_copies);
}
