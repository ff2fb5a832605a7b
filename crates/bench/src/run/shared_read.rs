//! `shared-read`: more and more clients that all read the same file, as in the paper on replicated
//! metaservers for NFS.

use clap::Args;
use serde::Serialize;

use crate::phase::Phase;
use crate::run::{Counts, Place, Plan, check};
use crate::task::Direction::{Read, Write};
use crate::task::Order::Forward;
use crate::task::Records;
use crate::trouble::Trouble;

#[derive(Debug, Args, Serialize)]
pub struct SharedRead {
    /// Size of the file
    #[arg(long, value_name = "SIZE", value_parser = host::size::parse, default_value = "1GiB")]
    size: u64,
    /// Size of records
    #[arg(long, value_name = "SIZE", value_parser = host::size::parse, default_value = "1MiB")]
    record: u64,
    /// How many clients; each is to be a machine: two on one would read through one page cache
    #[arg(long, value_name = "COUNTS", default_value = "1..21")]
    clients: Counts,
}

impl Plan for SharedRead {
    /// Phases: the first agent writes the file once, then the clients read.
    fn phases(&self, place: &Place) -> Result<Vec<Phase>, Trouble> {
        check::records(self.size, self.record)?;
        let records = Records::run(0, self.size, self.record);
        let file = place.file("shared");
        let written = place.on_one([file.transfer(Write, records, Forward)]);
        let write = Phase { counts: false, ..place.phase("write", &[], Write, written) };
        let read = |&clients: &u64| {
            let at = [("clients", clients), ("record_bytes", self.record)];
            let tasks = (0..clients).map(|_| file.transfer(Read, records, Forward));
            place.phase("read", &at, Read, place.spread(tasks))
        };
        Ok(std::iter::once(write).chain(self.clients.0.iter().map(read)).collect())
    }
}
