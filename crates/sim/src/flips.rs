//! Bits that disks flip, in times without other faults: in data, in sums, and in the headers of files of sums. A read or
//! a scrub finds each, and it is mended from another member.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use dataserver::{Checks, ObjectName};

use crate::cluster::Cluster;
use crate::columns::Column;
use crate::rng::Rng;

/// Checks of data servers whose disks flip bits.
pub const CHECKS: Checks = Checks { scrub_time: Duration::from_secs(2), scrub_rate: 1 << 30 };
/// Bits that are flipped at a time.
const FLIPS_MAX: usize = 4;
/// Longest time in which they are mended.
const MENDED_MS_MAX: u64 = 20_000;
/// Interval of the looks whether they are.
const LOOK_MS: u64 = 50;
/// Bytes of a block.
const BLOCK: u64 = 64 << 10;
/// Bytes of the header of a file of sums, and of a sum: docs/disk-format.md.
const HEADER_BYTES: u64 = 64;
const SUM_BYTES: u64 = 8;

/// Place of a flipped bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    /// Data of a block.
    Data,
    /// Sum of a block, or the header of all.
    Sum,
}

/// A flipped bit.
#[derive(Debug)]
pub(crate) struct Flip {
    column: ObjectName,
    what: What,
    /// File with the bit.
    path: PathBuf,
    /// Its byte.
    at: u64,
    /// First of the bytes that change together with it, and these as they are now: a sum, the header, or the byte itself.
    from: u64,
    bytes: Vec<u8>,
    /// Objects of the other members.
    others: Vec<PathBuf>,
}

fn bytes_at(path: &Path, from: u64, len: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0; len as usize];
    File::open(path).ok()?.read_exact_at(&mut bytes, from).ok()?;
    Some(bytes)
}

/// Bytes of a block that are there. None: there is no file.
fn block(path: &Path, at: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0; BLOCK as usize];
    let read = File::open(path).ok()?.read_at(&mut bytes, at / BLOCK * BLOCK).ok()?;
    bytes.truncate(read);
    Some(bytes)
}

impl Flip {
    /// Flips a bit of a column at one member. None: there is no byte to flip.
    fn of(column: &Column, rng: &mut Rng) -> Option<Self> {
        let objects: Option<Vec<&PathBuf>> =
            column.objects.iter().map(|object| object.as_ref().map(|o| &o.path)).collect();
        let mut others = objects?;
        let object = others.swap_remove(rng.below(others.len()));
        let len = object.metadata().ok()?.len();
        if len == 0 || others.is_empty() {
            return None;
        }
        let at = rng.within(0..=len - 1);
        let sums = PathBuf::from(format!("{}.sums", object.display()));
        let (what, path, at) = match rng.below(3) {
            0 if sums.exists() => {
                // A header now and then; it has zeros that mean nothing.
                let at = match rng.below(4) {
                    0 => rng.within(0..=HEADER_BYTES - 1),
                    _ => HEADER_BYTES + at / BLOCK * SUM_BYTES + rng.within(0..=SUM_BYTES - 1),
                };
                (What::Sum, sums, at)
            }
            _ => (What::Data, object.clone(), at),
        };
        // A block that was written over may have a sum with the same byte.
        let (from, len) = match what {
            What::Data => (at, 1),
            What::Sum if at < HEADER_BYTES => (0, HEADER_BYTES),
            What::Sum => (at / SUM_BYTES * SUM_BYTES, SUM_BYTES),
        };
        let mut bytes = bytes_at(&path, from, len)?;
        let byte = &mut bytes[(at - from) as usize];
        *byte ^= 1 << rng.below(8);
        write(&path, at, *byte).ok()?;
        Some(Self {
            column: column.name,
            what,
            path,
            at,
            from,
            bytes,
            others: others.into_iter().cloned().collect(),
        })
    }

    /// True if nothing of it is left: it was mended, or written over, or its file is gone.
    fn is_gone(&self) -> bool {
        // The byte alone says it where the members have not come to the same bytes again.
        let now = bytes_at(&self.path, self.from, self.bytes.len() as u64);
        if now.as_ref() != Some(&self.bytes) {
            return true;
        }
        match self.what {
            What::Sum => false,
            What::Data => {
                let now = block(&self.path, self.at);
                now.is_none() || self.others.iter().any(|other| block(other, self.at) == now)
            }
        }
    }
}

/// Writes a byte, and leaves the file's time as it is: a disk flips bits behind its file system.
fn write(path: &Path, at: u64, byte: u8) -> io::Result<()> {
    let file = File::options().read(true).write(true).open(path)?;
    let modified = file.metadata()?.modified()?;
    file.write_all_at(&[byte], at)?;
    file.set_modified(modified)
}

impl Cluster {
    /// Flips bits of columns that have all copies, each at one member.
    pub(crate) fn flip_bits(&self, rng: &mut Rng) -> Vec<Flip> {
        let mut columns = self.columns().unwrap_or_default();
        columns.retain(|column| column.is_whole);
        let mut flips: Vec<Flip> = vec![];
        for _ in 0..rng.below(FLIPS_MAX + 1) {
            let Some(column) = rng.of(&columns) else { break };
            if flips.iter().any(|flip| flip.column == column.name) {
                continue; // a block that is damaged at all members is lost
            }
            let Some(flip) = Flip::of(column, rng) else { continue };
            let Flip { column, what, path, at, .. } = &flip;
            let server = self.data_servers.iter().find(|server| server.has(path)).map_or(0, |s| s.address);
            self.shared.note(|| {
                format!("data server {server}: {what:?} of {column} has a flipped bit in byte {at}")
            });
            flips.push(flip);
        }
        flips
    }

    /// Waits until flipped bits are mended.
    pub(crate) fn flips_are_mended(&mut self, mut flips: Vec<Flip>) -> Result<(), String> {
        let end_ms = self.shared.now_ms() + MENDED_MS_MAX;
        loop {
            flips.retain(|flip| !flip.is_gone());
            if flips.is_empty() {
                return Ok(());
            }
            if self.shared.now_ms() >= end_ms {
                let left =
                    flips.iter().map(|flip| format!("{:?} of {}, byte {}", flip.what, flip.column, flip.at));
                return Err(format!("flipped bits are not mended: {}", left.collect::<Vec<_>>().join("; ")));
            }
            self.until(LOOK_MS, |_| false);
        }
    }
}
