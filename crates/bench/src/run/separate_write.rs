//! `separate-write`: more and more clients that each write a file of their own, as in the paper on replicated
//! metaservers for NFS.

use clap::Args;
use serde::Serialize;

use crate::phase::Phase;
use crate::run::{Counts, Place, Plan, check};
use crate::task::Direction::Write;
use crate::task::Order::Forward;
use crate::task::Records;
use crate::trouble::Trouble;

#[derive(Debug, Args, Serialize)]
pub struct SeparateWrite {
    /// Size of each client's file
    #[arg(long, value_name = "SIZE", value_parser = host::size::parse, default_value = "1GiB")]
    size: u64,
    /// Size of records
    #[arg(long, value_name = "SIZE", value_parser = host::size::parse, default_value = "1MiB")]
    record: u64,
    /// How many clients
    #[arg(long, value_name = "COUNTS", default_value = "1..21")]
    clients: Counts,
}

impl Plan for SeparateWrite {
    fn phases(&self, place: &Place) -> Result<Vec<Phase>, Trouble> {
        check::records(self.size, self.record)?;
        let records = Records::run(0, self.size, self.record);
        let point = |&clients: &u64| {
            let at = [("clients", clients), ("record_bytes", self.record)];
            let folder = format!("clients-{clients}");
            let file = |i| place.file(&format!("{folder}/{i}"));
            let tasks = (0..clients).map(|i| file(i).transfer(Write, records, Forward));
            let phase = place.phase("write", &at, Write, place.spread(tasks));
            place.point(&folder, [phase])
        };
        Ok(self.clients.0.iter().flat_map(point).collect())
    }
}
