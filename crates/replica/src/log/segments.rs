//! Segments of the log: preallocated files with a header, and a spare file for the next segment.
//!
//! ```text
//! log/00000000000000000000.log   log/00000000000000016384.log   named by the index of their first record
//! ┌ magic 16 ┬ salt 8 ┬ before 32 ┬ crc32c 4 ┬ zeros to 64 ┬ record ┬ record ┬ … ┬ zeros ┐
//! ```
//!
//! `before` is the entry before the first record: 1 or 0 for whether there is one, index, term, leader. A
//! segment is allocated when it is created, so a full disk is found before anything is written, and a sync
//! writes no metadata. A segment that is no longer needed becomes the spare and then the next segment: its
//! old records have another salt, and are not taken for its own.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use host::{Entropy, File, Files, Opened};

#[cfg(test)]
use crate::environment::SEGMENT_BYTES;
use crate::log::record::Salt;
use crate::log::tail::Tail;
use crate::log::{LogError, failed};
use crate::types::{LeaderId, LogId};

const MAGIC: &[u8; 16] = b"heorot log 4\n\0\0\0";
/// Magics of old versions: before replication, before NFSv3 calls were replicated, before segments had a
/// salt.
const OLD_MAGICS: [&[u8]; 3] = [b"heorot log 1\n", b"heorot log 2\n", b"heorot log 3\n"];
/// Offset of the first record.
pub(crate) const HEADER_BYTES: u64 = 64;
const SUMMED_BYTES: usize = 56;
/// Offset of the id of the entry before the first record.
const PREVIOUS_AT: usize = 24;
/// Name of the spare segment, which has the usual length and no needed records.
pub(crate) const SPARE: &str = "spare";
/// Interval of records whose offset is kept in memory.
pub(crate) const MARK_EVERY: u64 = 256;

/// Directory of the log, and the length of its segments.
#[derive(Clone)]
pub(crate) struct LogDir {
    pub files: Arc<dyn Files>,
    /// Source of salts.
    pub entropy: Arc<dyn Entropy>,
    pub dir: PathBuf,
    pub segment_bytes: u64,
}

impl LogDir {
    /// Directory on this machine.
    #[cfg(test)]
    pub(crate) fn local(dir: &Path) -> Self {
        let (files, entropy) = (Arc::new(host::SystemFiles), Arc::new(host::SystemEntropy));
        Self { files, entropy, dir: dir.to_owned(), segment_bytes: SEGMENT_BYTES }
    }
}

/// One segment, and the offsets of its records.
#[derive(Debug, Clone)]
pub(crate) struct Segment {
    pub path: PathBuf,
    /// Index of the first record, also while there is none.
    pub first: u64,
    /// Entry before the first record.
    pub before: Option<LogId>,
    /// Salt of the records.
    pub salt: Salt,
    /// Offsets of the records first, first + [`MARK_EVERY`], …
    pub marks: Vec<u64>,
    /// Number of records, and the end of the last one.
    pub records: u64,
    pub end: u64,
    /// Length of the file.
    pub bytes: u64,
}

impl Segment {
    /// Notes a record of `len` bytes at the end.
    pub(crate) fn push(&mut self, len: u64) {
        if self.records.is_multiple_of(MARK_EVERY) {
            self.marks.push(self.end);
        }
        self.records += 1;
        self.end += len;
    }

    /// Index after the last record.
    pub(crate) fn next(&self) -> u64 {
        self.first + self.records
    }

    /// An offset at or before the record `index`, and the index of the record there.
    pub(crate) fn near(&self, index: u64) -> (u64, u64) {
        let mark = (index - self.first) / MARK_EVERY;
        let at = self.marks.get(mark as usize).copied().unwrap_or(self.end);
        (at, self.first + mark * MARK_EVERY)
    }

    /// An offset at or after the end of the record before `index`.
    pub(crate) fn beyond(&self, index: u64) -> u64 {
        let mark = (index - self.first).div_ceil(MARK_EVERY);
        self.marks.get(mark as usize).copied().unwrap_or(self.end)
    }
}

/// All segments in a directory, sorted by first index, from their headers; records are not read.
pub(crate) fn list(log_dir: &LogDir) -> Result<Vec<Segment>, LogError> {
    let mut out = Vec::new();
    for path in log_dir.files.list(&log_dir.dir).map_err(failed("list", &log_dir.dir))? {
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        let Some(first) = name.strip_suffix(".log").and_then(|n| n.parse().ok()) else { continue };
        let file = log_dir.files.open(&path, Opened::Read).map_err(failed("open", &path))?;
        let bytes = file.bytes().map_err(failed("stat", &path))?;
        let mut header = [0; HEADER_BYTES as usize];
        let read = file.read_at(&mut header, 0);
        if OLD_MAGICS.iter().any(|before| header.starts_with(before)) {
            return Err(LogError::Older(path));
        }
        let header_fields = read.ok().and_then(|()| decode_header(&header));
        let Some((salt, before)) = header_fields else {
            return Err(LogError::Damaged { path, index: first });
        };
        out.push(Segment { path, first, before, salt, marks: vec![], records: 0, end: HEADER_BYTES, bytes });
    }
    out.sort_by_key(|segment| segment.first);
    Ok(out)
}

/// Creates the segment for records from `first` on, after the entry `before`; returns it and its end for
/// writing.
pub(crate) fn create(
    log_dir: &LogDir,
    first: u64,
    before: Option<LogId>,
    bytes: u64,
) -> Result<(Segment, Tail), LogError> {
    let LogDir { files, entropy, dir, segment_bytes } = log_dir;
    let salt = Salt(entropy.u64().to_le_bytes());
    let path = dir.join(format!("{first:020}.log"));
    let temporary = dir.join("next.tmp");
    let make = || -> io::Result<Tail> {
        if bytes != *segment_bytes || files.rename(&dir.join(SPARE), &temporary).is_err() {
            preallocate(&**files, &temporary, bytes)?;
        } else {
            // Otherwise the spare could, after a crash, have its old name and new contents.
            files.sync_dir(dir)?;
        }
        let file = files.open(&temporary, Opened::Write)?;
        // The header, and zeros in place of a record: the segment is empty until the first one is written.
        let mut start = [0; HEADER_BYTES as usize + 8];
        start[..HEADER_BYTES as usize].copy_from_slice(&encode_header(salt, before));
        file.write_at(&start, 0)?;
        file.sync()?;
        files.rename(&temporary, &path)?;
        files.sync_dir(dir)?;
        Tail::open(&**files, &path, HEADER_BYTES)
    };
    match make() {
        Ok(tail) => {
            let segment =
                Segment { path, first, before, salt, marks: vec![], records: 0, end: HEADER_BYTES, bytes };
            Ok((segment, tail))
        }
        Err(e) if matches!(e.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => {
            let _ = files.remove(&temporary);
            Err(LogError::NoSpace(dir.clone()))
        }
        Err(e) => Err(failed("create", &path)(e)),
    }
}

/// Makes a segment the spare one, or removes it.
pub(crate) fn retire(log_dir: &LogDir, segment: &Segment) -> Result<(), LogError> {
    let path = &segment.path;
    if segment.bytes == log_dir.segment_bytes {
        // Replaces another spare: one is enough.
        log_dir.files.rename(path, &log_dir.dir.join(SPARE)).map_err(failed("rename", path))
    } else {
        log_dir.files.remove(path).map_err(failed("remove", path))
    }
}

/// Creates the spare segment of the log in `log_dir`, if there is none.
pub(crate) fn keep_spare(log_dir: &LogDir) -> io::Result<()> {
    let LogDir { files, dir, segment_bytes, .. } = log_dir;
    let spare = dir.join(SPARE);
    if files.open(&spare, Opened::Read).is_ok() {
        return Ok(());
    }
    let temporary = dir.join("spare.tmp");
    let made =
        preallocate(&**files, &temporary, *segment_bytes).and_then(|()| files.rename(&temporary, &spare));
    made.inspect_err(|_| {
        let _ = files.remove(&temporary);
    })
}

/// Creates a file of zeros, on disk.
fn preallocate(files: &dyn Files, path: &Path, bytes: u64) -> io::Result<()> {
    let file = files.open(path, Opened::New)?;
    // Written, not only allocated: a sync of allocated space would write the file's metadata each time.
    zero(&*file, 0, bytes)?;
    file.sync()
}

pub(crate) fn zero(file: &dyn File, from: u64, to: u64) -> io::Result<()> {
    let zeros = vec![0; (to - from).min(1 << 20) as usize];
    let mut at = from;
    while at < to {
        let n = (to - at).min(zeros.len() as u64) as usize;
        file.write_at(&zeros[..n], at)?;
        at += n as u64;
    }
    Ok(())
}

fn encode_header(salt: Salt, before: Option<LogId>) -> [u8; HEADER_BYTES as usize] {
    let mut header = [0; HEADER_BYTES as usize];
    header[..MAGIC.len()].copy_from_slice(MAGIC);
    salt.put(&mut header[MAGIC.len()..]);
    if let Some(LogId { leader_id, index }) = before {
        let numbers = [1, index, leader_id.term, leader_id.node_id];
        for (place, number) in header[PREVIOUS_AT..SUMMED_BYTES].chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
    }
    let crc = crc32c::crc32c(&header[..SUMMED_BYTES]);
    header[SUMMED_BYTES..SUMMED_BYTES + 4].copy_from_slice(&crc.to_le_bytes());
    header
}

/// Salt and entry before the first record, if the header is sound.
fn decode_header(header: &[u8; HEADER_BYTES as usize]) -> Option<(Salt, Option<LogId>)> {
    let crc = u32::from_le_bytes(header[SUMMED_BYTES..SUMMED_BYTES + 4].try_into().ok()?);
    if !header.starts_with(MAGIC) || crc32c::crc32c(&header[..SUMMED_BYTES]) != crc {
        return None;
    }
    let number = |n: usize| {
        let at = PREVIOUS_AT + 8 * n;
        header[at..at + 8].try_into().ok().map(u64::from_le_bytes)
    };
    let (some, index, term, node_id) = (number(0)?, number(1)?, number(2)?, number(3)?);
    let before = (some == 1).then_some(LogId { leader_id: LeaderId { term, node_id }, index });
    Some((Salt(header[MAGIC.len()..PREVIOUS_AT].try_into().ok()?), before))
}
