//! `cluster`: more and more clients, each with a file of its own, or with a part of one file, as in the same
//! papers.
//!
//! The run cannot see the number of servers: start them, and give it as `--at servers=N`.

use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::phase::Phase;
use crate::run::{Counts, Place, Plan, check};
use crate::task::Direction::{self, Read, Write};
use crate::task::Order::Forward;
use crate::task::{Records, Task};
use crate::trouble::Trouble;

#[derive(Debug, Args, Serialize)]
pub struct Cluster {
    /// How much each client moves
    #[arg(long, value_name = "SIZE", value_parser = host::size::parse, default_value = "200MiB")]
    size: u64,
    /// Size of records
    #[arg(long, value_name = "SIZE", value_parser = host::size::parse, default_value = "2MiB")]
    record: u64,
    /// How many clients
    #[arg(long, value_name = "COUNTS", default_value = "1..8")]
    clients: Counts,
    /// A file for each client, one file for all, or one after the other
    #[arg(long, value_delimiter = ',', default_value = "separate,shared")]
    files: Vec<Files>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Files {
    Separate,
    Shared,
}

impl Plan for Cluster {
    fn phases(&self, place: &Place) -> Result<Vec<Phase>, Trouble> {
        check::records(self.size, self.record)?;
        let mut phases = Vec::new();
        for &files in &self.files {
            let (write, read) = match files {
                Files::Separate => ("write-separate", "read-separate"),
                Files::Shared => ("write-shared", "read-shared"),
            };
            for &clients in &self.clients.0 {
                let at = [("clients", clients), ("record_bytes", self.record)];
                let folder = format!("{write}-{clients}");
                let phase = |name, direction| {
                    let tasks = (0..clients).map(|i| self.task(place, &folder, files, i, direction));
                    place.phase(name, &at, direction, place.spread(tasks))
                };
                phases.extend(place.point(&folder, [phase(write, Write), phase(read, Read)]));
            }
        }
        Ok(phases)
    }
}

impl Cluster {
    fn task(&self, place: &Place, folder: &str, files: Files, client: u64, direction: Direction) -> Task {
        let own = Records::run(0, self.size, self.record);
        let (file, records) = match files {
            Files::Separate => (place.file(&format!("{folder}/{client}")), own),
            Files::Shared => {
                let start = client * own.bytes();
                (place.file(&format!("{folder}/shared")), Records { start, ..own })
            }
        };
        file.transfer(direction, records, Forward)
    }
}
