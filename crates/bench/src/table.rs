//! Measurements as lines of a table, for a terminal.

use std::collections::BTreeMap;

use crate::result::{Cache, Measurement, Unit};

/// Line of one measurement.
#[must_use]
pub fn line(measurement: &Measurement) -> String {
    let at: Vec<String> = measurement.at.iter().map(|(name, value)| format!("{name} {value}")).collect();
    let [_, median, percentile_99, _] = measurement.latency_us;
    format!(
        "{:<18} {:<24} {:>12}{}  {:>9.3} s  median {:>9} p99 {:>9}  {}{}{}",
        measurement.name,
        at.join(", "),
        rate(measurement),
        of_bound(measurement),
        measurement.seconds,
        time(median),
        time(percentile_99),
        treatment(measurement.cache),
        if measurement.verified_bytes > 0 { ", verified" } else { "" },
        if measurement.partial { ", PARTIAL" } else { "" },
    )
}

/// Text of the rate; MB are 10^6 bytes.
fn rate(measurement: &Measurement) -> String {
    match measurement.unit {
        Unit::Bytes => format!("{:.2} MB/s", measurement.bytes as f64 / measurement.seconds / 1e6),
        Unit::Operations => format!("{:.1} /s", measurement.operations as f64 / measurement.seconds),
    }
}

/// Text of the percentage of the bound; empty without hardware.
fn of_bound(measurement: &Measurement) -> String {
    let Some(bound) = measurement.bound.as_ref().filter(|_| measurement.unit == Unit::Bytes) else {
        return String::new();
    };
    let percent = measurement.bytes as f64 / measurement.seconds / bound.rate * 100.0;
    format!("  {percent:>5.1} % of {:.2} MB/s ({})", bound.rate / 1e6, bound.binds.replace('-', " "))
}

/// Scores of a run, a line for each.
#[must_use]
pub fn scores(scores: &BTreeMap<String, f64>) -> String {
    scores.iter().map(|(name, value)| format!("{name:<20} {value:>12.4}\n")).collect()
}

fn time(us: f64) -> String {
    if us < 1000.0 { format!("{us:.0} µs") } else { format!("{:.1} ms", us / 1000.0) }
}

/// Treatment of caches in a few words.
#[must_use]
pub fn treatment(cache: Cache) -> &'static str {
    match cache {
        Cache::FsyncAtEnd => "fsync at end",
        Cache::Direct => "O_DIRECT",
        Cache::Dropped => "caches dropped",
        Cache::NotHere => "not in this client's cache",
        Cache::Warm => "WARM cache",
        Cache::AsIs => "caches as they are",
        Cache::None => "no cache",
    }
}
