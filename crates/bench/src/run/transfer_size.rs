//! `transfer-size`: one file, decomposed over more and more clients, in transfers of several sizes, as in the
//! paper on diskless clients with a shared root. The terms are those of IOR, which it used:
//!
//! ```text
//! segmented   0 0 0 0 1 1 1 1 2 2 2 2      each client one run of transfers
//! strided     0 1 2 0 1 2 0 1 2 0 1 2      clients take turns
//! ```

use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::phase::Phase;
use crate::run::{Counts, Place, Plan, check};
use crate::task::Direction::{Read, Write};
use crate::task::Order::Forward;
use crate::task::Records;
use crate::trouble::Trouble;

#[derive(Debug, Args, Serialize)]
pub struct TransferSize {
    /// Size of the file, whatever the number of clients
    #[arg(long, value_name = "SIZE", value_parser = host::size::parse, default_value = "128MiB")]
    size: u64,
    /// Sizes of transfers
    #[arg(long, value_name = "SIZES", value_parser = host::size::parse, value_delimiter = ',',
        default_value = "8KiB,16KiB,32KiB,64KiB,128KiB,256KiB")]
    transfers: Vec<u64>,
    /// How many clients
    #[arg(long, value_name = "COUNTS", default_value = "1..25")]
    clients: Counts,
    /// How the file is decomposed
    #[arg(long, value_delimiter = ',', default_value = "segmented,strided")]
    patterns: Vec<Pattern>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Pattern {
    Segmented,
    Strided,
}

impl Plan for TransferSize {
    fn phases(&self, place: &Place) -> Result<Vec<Phase>, Trouble> {
        let mut phases = Vec::new();
        for &pattern in &self.patterns {
            let (write, read) = match pattern {
                Pattern::Segmented => ("write-segmented", "read-segmented"),
                Pattern::Strided => ("write-strided", "read-strided"),
            };
            for &transfer_bytes in &self.transfers {
                check::records(self.size, transfer_bytes)?;
                let count = self.size.div_ceil(transfer_bytes);
                for &clients in &self.clients.0 {
                    check::enough_for_all(count, clients)?;
                    let at = [("clients", clients), ("transfer_bytes", transfer_bytes)];
                    let folder = format!("{write}-{transfer_bytes}-{clients}");
                    let file = place.file(&format!("{folder}/file"));
                    let phase = |name, direction| {
                        let part = |i| part(pattern, transfer_bytes, count, i, clients);
                        let tasks = (0..clients).map(|i| file.transfer(direction, part(i), Forward));
                        place.phase(name, &at, direction, place.spread(tasks))
                    };
                    phases.extend(place.point(&folder, [phase(write, Write), phase(read, Read)]));
                }
            }
        }
        Ok(phases)
    }
}

/// Client `i`'s part of `count` transfers. The first clients get the remainder, one transfer each.
fn part(pattern: Pattern, record_bytes: u64, count: u64, i: u64, clients: u64) -> Records {
    let (each, left) = (count / clients, count % clients);
    let own = each + u64::from(i < left);
    match pattern {
        Pattern::Segmented => {
            let start = (i * each + i.min(left)) * record_bytes;
            Records { start, record_bytes, stride: record_bytes, count: own }
        }
        Pattern::Strided => {
            Records { start: i * record_bytes, record_bytes, stride: clients * record_bytes, count: own }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_transfer_is_one_clients_however_many_there_are() {
        for pattern in [Pattern::Segmented, Pattern::Strided] {
            for (count, clients) in [(1, 1), (7, 3), (25, 25), (512, 25), (16_384, 7)] {
                let mut offsets: Vec<u64> = (0..clients)
                    .map(|i| part(pattern, 8192, count, i, clients))
                    .flat_map(|records| (0..records.count).map(move |i| records.offset(i)))
                    .collect();
                offsets.sort_unstable();
                assert!(
                    offsets.into_iter().eq((0..count).map(|i| i * 8192)),
                    "{pattern:?} {count} {clients}"
                );
            }
        }
    }
}
