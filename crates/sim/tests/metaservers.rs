//! Many seeds of metaservers, data servers and NFS clients. `HEOROT_SIM_METASERVERS_SEED=n` runs one of them
//! and prints its events; `HEOROT_SIM_METASERVERS_SEEDS=n` sets the number of seeds, and `HEOROT_SIM_FIRST=n`
//! the first.

mod common;

use common::{Seeds, run_all, run_found};
use sim::Scenario;

/// Seeds in CI. `make sim` goes on behind those that always run.
const SEEDS: Seeds = Seeds { always: 150, while_others_run: 500 };

/// Seeds that once found a defect, run again with each change; docs/simulation.md describes the defects.
const FOUND: [u64; 11] = [274, 292, 348, 368, 379, 726, 876, 4086, 5006, 60016, 60049];

#[test]
fn what_was_found_once_is_not_found_again() {
    run_found("HEOROT_SIM_METASERVERS_SEED", &FOUND, Scenario::of_metaservers);
}

#[test]
fn whatever_happens_to_metaservers_clients_keep_what_they_were_promised() {
    run_all("HEOROT_SIM_METASERVERS_SEED", "HEOROT_SIM_METASERVERS_SEEDS", &SEEDS, Scenario::of_metaservers);
}
