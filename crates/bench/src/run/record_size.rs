//! `record-size`: what the size of records does, as the tables of the cluster file system papers of 2005 to 2008 have it.

use clap::Args;
use serde::Serialize;

use crate::phase::Phase;
use crate::run::{Place, Plan, check};
use crate::task::Direction::{Read, Write};
use crate::task::Order::{Forward, Shuffled};
use crate::task::Records;
use crate::trouble::Trouble;

#[derive(Debug, Args, Serialize)]
pub struct RecordSize {
    /// Size of the file
    #[arg(long, value_name = "SIZE", value_parser = host::size::parse, default_value = "512MiB")]
    size: u64,
    /// Sizes of records
    #[arg(long, value_name = "SIZES", value_parser = host::size::parse, value_delimiter = ',',
        default_value = "64KiB,128KiB,256KiB,512KiB,1MiB,2MiB,4MiB,8MiB,16MiB")]
    records: Vec<u64>,
}

impl Plan for RecordSize {
    fn phases(&self, place: &Place) -> Result<Vec<Phase>, Trouble> {
        let mut phases = Vec::new();
        for &record_bytes in &self.records {
            check::records(self.size, record_bytes)?;
            let folder = format!("record-{record_bytes}");
            let first = place.file(&format!("{folder}/file"));
            let second = first.refilled();
            let third = second.refilled();
            let records = Records::run(0, self.size, record_bytes);
            let steps = [
                ("write", &first, Write, Forward),
                ("rewrite", &second, Write, Forward),
                ("read", &second, Read, Forward),
                ("reread", &second, Read, Forward),
                ("random-read", &second, Read, Shuffled),
                ("random-write", &third, Write, Shuffled),
            ];
            let steps = steps.map(|(name, file, direction, order)| {
                let task = file.transfer(direction, records, order);
                place.phase(name, &[("record_bytes", record_bytes)], direction, place.on_one([task]))
            });
            phases.extend(place.point(&folder, steps));
        }
        Ok(phases)
    }
}
