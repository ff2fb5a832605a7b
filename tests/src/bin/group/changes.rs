//! Creates on three replicas compared with one: latency for one client, rates for one and eight.

use std::thread;
use std::time::Instant;

use bench::target::NfsServer;

use crate::servers::{DIR, Group, create};
use crate::{median, timed};

const ROUNDS: usize = 15;
/// Number of files of each client in each round.
const FILES: usize = 100;
const CLIENTS: usize = 8;

/// One side of the comparison.
struct Side {
    name: &'static str,
    group: usize,
    clients: Vec<NfsServer>,
    latencies: Vec<f64>,
    /// Rates of one client and of all, in each round.
    rates: (Vec<f64>, Vec<f64>),
    /// CPU-seconds of each server.
    cpu: Vec<f64>,
}

impl Side {
    fn busiest(&self) -> f64 {
        self.cpu.iter().copied().fold(0.0, f64::max)
    }
}

/// Measures and prints the results.
pub fn run() {
    let groups = [Group::start(1), Group::start(3)];
    let side = |name, group: usize, at: usize| {
        let clients = (0..CLIENTS).map(|_| groups[group].client(at)).collect();
        Side { name, group, clients, latencies: vec![], rates: (vec![], vec![]), cpu: vec![] }
    };
    let mut sides = [side("one", 0, 0), side("three, at the leader", 1, 0), side("three, at another", 1, 1)];
    for round in 0..ROUNDS {
        // The first side of a round changes each time.
        for turn in 0..sides.len() {
            let number = (round + turn) % sides.len();
            let side = &mut sides[number];
            let group = &groups[side.group];
            let before = group.cpu_of_each();
            one(side, &format!("{DIR}/{number}-{round}"));
            all(side, &format!("{DIR}/{number}-{round}"));
            let used = group.cpu_of_each().into_iter().zip(before).map(|(after, before)| after - before);
            side.cpu = match side.cpu.is_empty() {
                true => used.collect(),
                false => side.cpu.iter().zip(used).map(|(sum, used)| sum + used).collect(),
            };
        }
    }
    let files = (ROUNDS * FILES * (1 + CLIENTS)) as f64;
    println!("Creates: {ROUNDS} rounds in turns, {FILES} files of each client in a round; medians");
    println!(
        "| metaservers | one client, latency | one client | {CLIENTS} clients | CPU for a create: of all | of the busiest |"
    );
    println!("| --- | --- | --- | --- | --- | --- |");
    for side in &sides {
        println!(
            "| {} | {:.3} ms | {:.0} /s | {:.0} /s | {:.0} µs | {:.0} µs |",
            side.name,
            median(&side.latencies),
            median(&side.rates.0),
            median(&side.rates.1),
            side.cpu.iter().sum::<f64>() / files * 1e6,
            side.busiest() / files * 1e6
        );
    }
    let [alone, leader, other] = &sides;
    for side in [leader, other] {
        println!(
            "{}: {:.3} ms more than one; {:.2} of its rate by one client, {:.2} by {CLIENTS}",
            side.name,
            median(&side.latencies) - median(&alone.latencies),
            median(&ratios(&side.rates.0, &alone.rates.0)),
            median(&ratios(&side.rates.1, &alone.rates.1)),
        );
        // With each server on a machine of its own, the busiest one binds.
        println!(
            "and by its processors alone {:.2}, each on a machine of its own",
            alone.busiest() / side.busiest()
        );
    }
}

fn one(side: &mut Side, path: &str) {
    let began = Instant::now();
    for file in 0..FILES {
        side.latencies.push(timed(|| create(&side.clients[0], &format!("{path}-{file}"))));
    }
    side.rates.0.push(FILES as f64 / began.elapsed().as_secs_f64());
}

fn all(side: &mut Side, path: &str) {
    let began = Instant::now();
    thread::scope(|scope| {
        for (number, client) in side.clients.iter().enumerate() {
            scope.spawn(move || {
                (0..FILES).for_each(|file| create(client, &format!("{path}-{number}-{file}")))
            });
        }
    });
    side.rates.1.push((CLIENTS * FILES) as f64 / began.elapsed().as_secs_f64());
}

/// Ratio of each round.
fn ratios(ours: &[f64], theirs: &[f64]) -> Vec<f64> {
    ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect()
}
