//! `record-size`: the effect of the record size, as in the tables of the cluster file system papers of 2005
//! to 2008.

use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::phase::Phase;
use crate::run::{Place, Plan, check};
use crate::task::Direction::{Read, Write};
use crate::task::Order::{Forward, Shuffled};
use crate::task::{Records, Task};
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
    /// Only these; the file then stays until the run is over, and with --keep --folder another run can read
    /// it
    #[arg(long, value_delimiter = ',', default_value = "write,rewrite,read,reread,random-read,random-write")]
    operations: Vec<Operation>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Operation {
    Write,
    Rewrite,
    Read,
    Reread,
    RandomRead,
    RandomWrite,
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
            let last = if self.operations.contains(&Operation::Rewrite) { &second } else { &first };
            let records = Records::run(0, self.size, record_bytes);
            let steps = [
                (Operation::Write, "write", &first, Write, Forward),
                (Operation::Rewrite, "rewrite", &second, Write, Forward),
                (Operation::Read, "read", last, Read, Forward),
                (Operation::Reread, "reread", last, Read, Forward),
                (Operation::RandomRead, "random-read", last, Read, Shuffled),
                (Operation::RandomWrite, "random-write", &third, Write, Shuffled),
            ];
            let asked = steps.iter().filter(|(operation, ..)| self.operations.contains(operation));
            let asked: Vec<Phase> = asked
                .map(|&(_, name, file, direction, order)| {
                    let task = file.transfer(direction, records, order);
                    place.phase(name, &[("record_bytes", record_bytes)], direction, place.on_one([task]))
                })
                .collect();
            if asked.len() == steps.len() {
                phases.extend(place.point(&folder, asked));
            } else {
                phases.push(place.aside(Task::Make(place.path(&folder))));
                phases.extend(asked);
            }
        }
        Ok(phases)
    }
}
