//! Determinism: the same seed gives the same run.

use sim::{Outcome, Scenario, run};

const SEEDS: u64 = 16;
const METASERVER_SEEDS: u64 = 6;
const COPIES_SEEDS: u64 = 6;

fn same_twice(seeds: u64, scenario: fn(u64) -> Scenario) {
    let runs = |seed| -> [Outcome; 2] {
        // On other threads, after other seeds: only the seed counts.
        std::array::from_fn(|_| std::thread::spawn(move || run(&scenario(seed))).join().expect("it runs"))
    };
    let mut traces = vec![];
    for seed in 1..=seeds {
        let [one, other] = runs(seed);
        assert_eq!(one, other, "seed {seed}");
        traces.push(one.trace);
    }
    traces.dedup();
    assert_eq!(traces.len() as u64, seeds);
}

#[test]
fn the_same_seed_twice_is_the_same_to_the_last_message_and_another_is_not() {
    same_twice(SEEDS, Scenario::from_seed);
}

#[test]
fn the_same_seed_of_metaservers_twice_is_the_same_and_another_is_not() {
    same_twice(METASERVER_SEEDS, Scenario::of_metaservers);
}

#[test]
fn the_same_seed_of_copies_twice_is_the_same_and_another_is_not() {
    same_twice(COPIES_SEEDS, Scenario::of_copies);
}
