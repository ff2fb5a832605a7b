//! Many seeds of metaservers, whole data servers that keep copies, and NFS clients. `HEOROT_SIM_COPIES_SEED=n` runs one
//! of them and prints its events; `HEOROT_SIM_COPIES_SEEDS=n` sets the number of seeds, and `HEOROT_SIM_FIRST=n` the
//! first.

mod common;

use common::{Seeds, run_all, run_found};
use sim::Scenario;

/// Seeds in CI. `make sim` goes on behind those that always run.
const SEEDS: Seeds = Seeds { always: 70, while_others_run: 500 };

/// Seeds that once found a defect, run again with each change beside those that always run; docs/simulation.md describes the
/// defects.
const FOUND: [u64; 16] = [83, 175, 206, 289, 290, 315, 339, 369, 426, 474, 876, 948, 1601, 1865, 5376, 5413];

#[test]
fn what_was_found_once_is_not_found_again() {
    run_found("HEOROT_SIM_COPIES_SEED", &FOUND, Scenario::of_copies);
}

#[test]
fn whatever_happens_to_data_servers_clients_read_what_they_wrote() {
    run_all("HEOROT_SIM_COPIES_SEED", "HEOROT_SIM_COPIES_SEEDS", &SEEDS, Scenario::of_copies);
}
