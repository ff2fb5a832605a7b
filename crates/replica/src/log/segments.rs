//! The files that a log is made of: preallocated, each with a header, and a spare one for the next.
//!
//! ```text
//! log/00000000000000000000.log   log/00000000000000016384.log   named by the index of their first record
//! ┌ magic 16 ┬ before 32 ┬ crc32c 4 ┬ zeros to 64 ┬ record ┬ record ┬ … ┬ zeros ┐
//! ```
//!
//! `before` is the entry that the first record follows: 1 or 0 for whether there is one, index, term, leader. A segment
//! gets all its room when it is made. So a full disk is found then, before anything was written, and a sync has no
//! metadata to write. A segment that is not needed any more becomes the spare, and then the next one: what it held has
//! other indices, and so cannot be taken for its records.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::log::tail::Tail;
use crate::log::{LogError, failed};
use crate::types::{LeaderId, LogId};

const MAGIC: &[u8; 16] = b"heorot log 3\n\0\0\0";
/// Before replication, and before calls of NFSv3 were known by all metaservers.
const MAGIC_BEFORE: [&[u8]; 2] = [b"heorot log 1\n", b"heorot log 2\n"];
/// Where records begin.
pub(crate) const HEADER_BYTES: u64 = 64;
const SUMMED_BYTES: usize = 48;
/// Small enough that a fresh start is cheap, large enough that one is made every few hundred thousand commands.
pub(crate) const SEGMENT_BYTES: u64 = 32 << 20;
/// A segment of that size that holds nothing that is needed.
pub(crate) const SPARE: &str = "spare";
/// Every so many records of a segment it is noted where one begins.
pub(crate) const MARK_EVERY: u64 = 256;

/// One file, and where in it records are.
#[derive(Debug, Clone)]
pub(crate) struct Segment {
    pub path: PathBuf,
    /// The index of its first record, or of the one that will be.
    pub first: u64,
    /// The entry before that.
    pub before: Option<LogId>,
    /// Where the records first, first + [`MARK_EVERY`], … begin.
    pub marks: Vec<u64>,
    /// How many records it has, and where the last ends.
    pub records: u64,
    pub end: u64,
    /// The length of the file.
    pub bytes: u64,
}

impl Segment {
    /// Notes a record of so many bytes at the end.
    pub(crate) fn push(&mut self, len: u64) {
        if self.records.is_multiple_of(MARK_EVERY) {
            self.marks.push(self.end);
        }
        self.records += 1;
        self.end += len;
    }

    /// The index after its last record.
    pub(crate) fn next(&self) -> u64 {
        self.first + self.records
    }

    /// A place at or before the record `index`, and the index of the record there.
    pub(crate) fn near(&self, index: u64) -> (u64, u64) {
        let mark = (index - self.first) / MARK_EVERY;
        let at = self.marks.get(mark as usize).copied().unwrap_or(self.end);
        (at, self.first + mark * MARK_EVERY)
    }
}

/// All segments in a directory, by their first indices, as their headers say; no record was looked at.
pub(crate) fn list(dir: &Path) -> Result<Vec<Segment>, LogError> {
    let mut out = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(failed("list", dir))? {
        let path = entry.map_err(failed("list", dir))?.path();
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        let Some(first) = name.strip_suffix(".log").and_then(|n| n.parse().ok()) else { continue };
        let bytes = path.metadata().map_err(failed("stat", &path))?.len();
        let mut header = [0; HEADER_BYTES as usize];
        let read = File::open(&path).and_then(|file| file.read_exact_at(&mut header, 0));
        if MAGIC_BEFORE.iter().any(|before| header.starts_with(before)) {
            return Err(LogError::Older(path));
        }
        let before = read.ok().and_then(|()| decode_header(&header));
        let Some(before) = before else { return Err(LogError::Damaged { path, index: first }) };
        out.push(Segment { path, first, before, marks: vec![], records: 0, end: HEADER_BYTES, bytes });
    }
    out.sort_by_key(|segment| segment.first);
    Ok(out)
}

/// A new segment for records after `before`, from `first` on, and its end to write to.
pub(crate) fn create(
    dir: &Path,
    first: u64,
    before: Option<LogId>,
    bytes: u64,
) -> Result<(Segment, Tail), LogError> {
    let path = dir.join(format!("{first:020}.log"));
    let temporary = dir.join("next.tmp");
    let make = || -> io::Result<Tail> {
        if bytes != SEGMENT_BYTES || std::fs::rename(dir.join(SPARE), &temporary).is_err() {
            preallocate(&temporary, bytes)?;
        }
        let file = OpenOptions::new().write(true).open(&temporary)?;
        // The header, and zeros where a record would be: until the first is written there is none.
        let mut start = [0; HEADER_BYTES as usize + 8];
        start[..HEADER_BYTES as usize].copy_from_slice(&encode_header(before));
        file.write_all_at(&start, 0)?;
        file.sync_data()?;
        std::fs::rename(&temporary, &path)?;
        File::open(dir)?.sync_all()?;
        Tail::open(&path, HEADER_BYTES)
    };
    match make() {
        Ok(tail) => {
            let segment =
                Segment { path, first, before, marks: vec![], records: 0, end: HEADER_BYTES, bytes };
            Ok((segment, tail))
        }
        Err(e) if matches!(e.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => {
            let _ = std::fs::remove_file(&temporary);
            Err(LogError::NoSpace(dir.to_owned()))
        }
        Err(e) => Err(failed("create", &path)(e)),
    }
}

/// Gives up a segment: it becomes the spare one, or goes.
pub(crate) fn give_up(dir: &Path, segment: &Segment) -> Result<(), LogError> {
    let path = &segment.path;
    if segment.bytes == SEGMENT_BYTES {
        // Whatever spare there is goes: one is enough.
        std::fs::rename(path, dir.join(SPARE)).map_err(failed("rename", path))
    } else {
        std::fs::remove_file(path).map_err(failed("remove", path))
    }
}

/// Makes the spare segment of the log in `dir`, if there is none.
pub(crate) fn keep_spare(dir: &Path) -> io::Result<()> {
    let spare = dir.join(SPARE);
    if spare.exists() {
        return Ok(());
    }
    let temporary = dir.join("spare.tmp");
    preallocate(&temporary, SEGMENT_BYTES).and_then(|()| std::fs::rename(&temporary, &spare)).inspect_err(
        |_| {
            let _ = std::fs::remove_file(&temporary);
        },
    )
}

/// A file of zeros, on disk.
fn preallocate(path: &Path, bytes: u64) -> io::Result<()> {
    let file = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
    // Written, not only reserved: a sync of reserved room would have to write the file's metadata each time.
    zero(&file, 0, bytes)?;
    file.sync_all()
}

pub(crate) fn zero(file: &File, from: u64, to: u64) -> io::Result<()> {
    let zeros = vec![0; 1 << 20];
    let mut at = from;
    while at < to {
        let n = (to - at).min(zeros.len() as u64) as usize;
        file.write_all_at(&zeros[..n], at)?;
        at += n as u64;
    }
    Ok(())
}

fn encode_header(before: Option<LogId>) -> [u8; HEADER_BYTES as usize] {
    let mut header = [0; HEADER_BYTES as usize];
    header[..MAGIC.len()].copy_from_slice(MAGIC);
    if let Some(LogId { leader_id, index }) = before {
        let numbers = [1, index, leader_id.term, leader_id.node_id];
        for (place, number) in header[MAGIC.len()..SUMMED_BYTES].chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
    }
    let crc = crc32c::crc32c(&header[..SUMMED_BYTES]);
    header[SUMMED_BYTES..SUMMED_BYTES + 4].copy_from_slice(&crc.to_le_bytes());
    header
}

#[expect(clippy::option_option, reason = "whether it is sound, and whether there is one")]
fn decode_header(header: &[u8; HEADER_BYTES as usize]) -> Option<Option<LogId>> {
    let crc = u32::from_le_bytes(header[SUMMED_BYTES..SUMMED_BYTES + 4].try_into().ok()?);
    if !header.starts_with(MAGIC) || crc32c::crc32c(&header[..SUMMED_BYTES]) != crc {
        return None;
    }
    let number = |n: usize| {
        let at = MAGIC.len() + 8 * n;
        header[at..at + 8].try_into().ok().map(u64::from_le_bytes)
    };
    let (some, index, term, node_id) = (number(0)?, number(1)?, number(2)?, number(3)?);
    Some((some == 1).then_some(LogId { leader_id: LeaderId { term, node_id }, index }))
}
