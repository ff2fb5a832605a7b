//! `make group`: what several metaservers cost and bring, beside one, on one machine.
//!
//! `group [changes] [misses] [reads]`, all of them without arguments. Metaservers are processes on 127.0.0.1,
//! each with a directory of its own on the disk that holds /var/tmp, and clients are nfs-rs by NFSv3: nothing
//! is cached and each call is one round trip. What is compared is measured in turns, within one run.

mod changes;
mod misses;
mod reads;
mod servers;

use std::process::ExitCode;
use std::time::{Duration, Instant};

/// The parts, by name.
const PARTS: [(&str, fn()); 3] = [("changes", changes::run), ("misses", misses::run), ("reads", reads::run)];

fn main() -> ExitCode {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    if let Some(unknown) = wanted.iter().find(|name| !PARTS.iter().any(|(part, _)| part == name)) {
        eprintln!("group: there is no part {unknown}; there are: changes misses reads");
        return ExitCode::FAILURE;
    }
    for (_, run) in
        PARTS.iter().filter(|(part, _)| wanted.is_empty() || wanted.iter().any(|name| name == part))
    {
        run();
    }
    ExitCode::SUCCESS
}

/// How long one call took, in milliseconds.
fn timed(call: impl FnOnce()) -> f64 {
    let began = Instant::now();
    call();
    milliseconds(began.elapsed())
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// The value in the middle; NaN of nothing.
fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}
