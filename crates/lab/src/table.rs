//! What was measured beside what the links allow, as a Markdown table.

use std::fmt::Write;

use bench::result::{Bound, Measurement, Results};

use crate::config::{Cluster, System};
use crate::experiment::Speed;

/// The heading, and the line below it.
pub const HEADING: &str =
    "| measured | at | MB/s | Mbit/s | bound, MB/s | reached |\n| --- | --- | --- | --- | --- | --- |\n";

/// Sets the bound of each transfer: no more than the links of the clients at work carry, or those of the servers.
pub fn set_bounds(results: &mut Results, cluster: &Cluster, straight: bool, speed: Speed) {
    // Without pNFS all goes through the one metaserver.
    let servers = match cluster.system {
        System::Heorot if straight => cluster.data_servers,
        System::Heorot => cluster.metaservers,
        System::Ganesha => 1,
    };
    for measurement in &mut results.measurements {
        if measurement.bytes == 0 {
            continue;
        }
        let link = if measurement.name.contains("read") { speed.down } else { speed.up };
        let clients = measurement.at.get("clients").copied().unwrap_or(results.machines.len() as u64);
        let (clients, servers) = (clients.max(1) as f64, f64::from(servers));
        let binds = if clients <= servers { "client-links" } else { "server-links" };
        measurement.bound = Some(Bound { rate: link * clients.min(servers), binds: binds.into() });
    }
}

/// A line for each measurement.
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

fn rate(measurement: &Measurement) -> f64 {
    measurement.bytes as f64 / measurement.seconds
}
