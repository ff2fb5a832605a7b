//! Determinism: the same seed gives the same run.

use sim::{Outcome, Scenario, run};

const SEEDS: u64 = 25;

#[test]
fn the_same_seed_twice_is_the_same_to_the_last_message_and_another_is_not() {
    let runs = |seed| -> [Outcome; 2] {
        // On other threads, after other seeds: only the seed counts.
        std::array::from_fn(|_| {
            std::thread::spawn(move || run(&Scenario::from_seed(seed))).join().expect("it runs")
        })
    };
    let mut traces = vec![];
    for seed in 1..=SEEDS {
        let [one, other] = runs(seed);
        assert_eq!(one, other, "seed {seed}");
        traces.push(one.trace);
    }
    traces.dedup();
    assert_eq!(traces.len() as u64, SEEDS);
}
