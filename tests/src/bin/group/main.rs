//! `make group`: cost and benefit of several metaservers compared with one, on one machine.
//!
//! `group [changes] [misses] [reads]`, all of them without arguments. Metaservers are processes on 127.0.0.1,
//! each with a directory of its own on the disk of /var/tmp, and clients are nfs-rs with NFSv3: without
//! caches, each call is one round trip. Compared systems are measured in turns, within one run.

mod changes;
mod misses;
mod reads;
mod servers;

use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Parts by name.
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

/// Duration of one call, in milliseconds.
fn timed(call: impl FnOnce()) -> f64 {
    let began = Instant::now();
    call();
    milliseconds(began.elapsed())
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Median; NaN without values.
fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}
