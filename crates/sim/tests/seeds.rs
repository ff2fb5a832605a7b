//! Many seeds. `HEOROT_SIM_SEED=n` runs one of them and prints its events; `HEOROT_SIM_SEEDS=n` sets the
//! number of seeds, and `HEOROT_SIM_FIRST=n` the first.

mod common;

use common::{Seeds, run_all, run_found};
use sim::Scenario;

/// Seeds in CI. `make sim` goes on behind those that always run.
const SEEDS: Seeds = Seeds { always: 300, while_others_run: 500 };

/// Seeds that once found a defect, run again with each change; docs/simulation.md describes the defects.
const FOUND: [u64; 20] = [
    12, 16, 40, 96, 262, 304, 315, 335, 550, 806, 817, 2773, 3068, 3123, 3416, 3871, 4359, 6185, 8938, 14_618,
];

#[test]
fn what_was_found_once_is_not_found_again() {
    run_found("HEOROT_SIM_SEED", &FOUND, Scenario::from_seed);
}

#[test]
fn whatever_happens_to_a_cluster_its_clients_see_one_file_system() {
    run_all("HEOROT_SIM_SEED", "HEOROT_SIM_SEEDS", &SEEDS, Scenario::from_seed);
}
