//! `processes`: several processes of one client, each with a file of its own, as in the same papers.

use clap::Args;
use serde::Serialize;

use crate::phase::Phase;
use crate::run::{Counts, Place, Plan, check};
use crate::task::Direction::{Read, Write};
use crate::task::Order::Forward;
use crate::task::Records;
use crate::trouble::Trouble;

#[derive(Debug, Args, Serialize)]
pub struct Processes {
    /// Size of each process's file
    #[arg(long, value_name = "SIZE", value_parser = host::size::parse, default_value = "100MiB")]
    size: u64,
    /// Size of records
    #[arg(long, value_name = "SIZE", value_parser = host::size::parse, default_value = "512KiB")]
    record: u64,
    /// How many processes
    #[arg(long, value_name = "COUNTS", default_value = "1..10")]
    processes: Counts,
}

impl Plan for Processes {
    fn phases(&self, place: &Place) -> Result<Vec<Phase>, Trouble> {
        check::records(self.size, self.record)?;
        let records = Records::run(0, self.size, self.record);
        let point = |&processes: &u64| {
            let at = [("processes", processes), ("record_bytes", self.record)];
            let folder = format!("processes-{processes}");
            let phase = |name, direction| {
                let file = |i| place.file(&format!("{folder}/{i}"));
                let tasks = (0..processes).map(|i| file(i).transfer(direction, records, Forward));
                place.phase(name, &at, direction, place.on_one(tasks))
            };
            place.point(&folder, [phase("write", Write), phase("read", Read)])
        };
        Ok(self.processes.0.iter().flat_map(point).collect())
    }
}
