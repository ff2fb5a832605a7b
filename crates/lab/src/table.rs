//! Markdown table of results and the bounds of the links.

use std::fmt::Write;

use bench::model::{Disks, Files, Hardware, Load, Rate, Setup, Solution};
use bench::result::{Bound, Cache, Measurement, Results};
use bench::task::Direction;

use crate::config::{Cluster, System};
use crate::experiment::Speed;

/// Heading of the table.
pub const HEADING: &str =
    "| measured | at | MB/s | Mbit/s | bound, MB/s | reached |\n| --- | --- | --- | --- | --- | --- |\n";

/// Sets the bound of each transfer by the model for links of this speed. The disk counts for synchronous
/// writes only: other writes, and all reads, use the servers' memory, and without the disk the bound is
/// stricter.
pub fn set_bounds(results: &mut Results, cluster: &Cluster, straight: bool, speed: Speed) {
    let machines = results.machines.len().max(1) as u64;
    let one_file = results.run == "shared-read";
    for measurement in &mut results.measurements {
        let shared = |word| measurement.name.contains(word);
        let one_file = one_file || ["shared", "segmented", "strided"].into_iter().any(shared);
        let files = if one_file { Files::Shared(1) } else { Files::PerClient(1) };
        measurement.bound = bound(measurement, files, machines, cluster, straight, speed);
    }
}

fn bound(
    measurement: &Measurement,
    files: Files,
    machines: u64,
    cluster: &Cluster,
    straight: bool,
    speed: Speed,
) -> Option<Bound> {
    if measurement.bytes == 0 {
        return None;
    }
    let (direction, link) = match measurement.name.contains("read") {
        true => (Direction::Read, speed.down),
        false => (Direction::Write, speed.up),
    };
    let (servers, stripe_width) = match cluster.system {
        System::Heorot if straight => (cluster.data_servers, cluster.columns()),
        // Without pNFS all data go through the metaservers.
        System::Heorot => (cluster.metaservers, cluster.metaservers),
        System::Ganesha => (1, 1),
    };
    let clients = measurement.at.get("clients").copied().unwrap_or(machines).max(1);
    let link = Rate::new(link).ok();
    let synchronous = measurement.cache == Cache::Direct && direction == Direction::Write;
    // Share of each server in the one disk.
    let disk = synchronous.then(|| Rate::new(speed.disk / f64::from(servers)).ok()).flatten();
    let hardware = Hardware {
        data_servers: servers.into(),
        disks: Disks::PerServer(1),
        client_link: link,
        server_link: link,
        disk,
        client_cpu: None,
        uplink: None,
        switch: None,
        replication: if straight { cluster.copies.into() } else { 1 },
        stripe_width: Some(stripe_width.into()),
    };
    let solution = Solution::of(&Setup::new(hardware, Load { clients, direction, files }).ok()?);
    Some(Bound { rate: solution.rate(), binds: solution.binds().name().into() })
}

/// One row for each measurement.
#[must_use]
pub fn rows(results: &Results) -> String {
    let mut text = String::new();
    for measurement in &results.measurements {
        let at: Vec<_> = measurement.at.iter().map(|(key, value)| format!("{key} {value}")).collect();
        // Writing to a String cannot fail.
        let _ = write!(text, "| {} | {} | ", measurement.name, at.join(", "));
        let _ = match (&measurement.bound, rate(measurement)) {
            (Some(bound), rate) => writeln!(
                text,
                "{:.3} | {:.2} | {:.3} ({}) | **{:.1} %** |",
                rate / 1e6,
                rate * 8.0 / 1e6,
                bound.rate / 1e6,
                bound.binds,
                rate / bound.rate * 100.0
            ),
            (None, _) => {
                let rate = measurement.operations as f64 / measurement.seconds;
                writeln!(text, "{rate:.0}/s | | | |")
            }
        };
    }
    text
}

/// CPU time of all servers for each GiB that the run moved.
#[must_use]
pub fn cpu(results: &Results, seconds: f64) -> String {
    let bytes: u64 = results.measurements.iter().map(|measurement| measurement.bytes).sum();
    let gib = bytes as f64 / f64::from(1 << 30);
    let of_each =
        if bytes == 0 { String::new() } else { format!(", {:.2} s for each of {gib:.2} GiB", seconds / gib) };
    format!("CPU time of all servers: {seconds:.2} s{of_each}.")
}

fn rate(measurement: &Measurement) -> f64 {
    measurement.bytes as f64 / measurement.seconds
}
