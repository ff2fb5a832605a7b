//! The files that a log is made of: preallocated, each with a header, and a spare one for the next.
//!
//! ```text
//! log/00000000000000000000.log   log/00000000000000016384.log   named by the index of their first record
//! ┌ magic 16 ┬ salt 8 ┬ before 32 ┬ crc32c 4 ┬ zeros to 64 ┬ record ┬ record ┬ … ┬ zeros ┐
//! ```
//!
//! `before` is the entry that the first record follows: 1 or 0 for whether there is one, index, term, leader. A segment
//! gets all its room when it is made. So a full disk is found then, before anything was written, and a sync has no
//! metadata to write. A segment that is not needed any more becomes the spare, and then the next one: what it held has
//! another salt, and so cannot be taken for its records.

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
/// Before replication, before calls of NFSv3 were known by all metaservers, and before segments had a salt.
const OLD_MAGICS: [&[u8]; 3] = [b"heorot log 1\n", b"heorot log 2\n", b"heorot log 3\n"];
/// Where records begin.
pub(crate) const HEADER_BYTES: u64 = 64;
const SUMMED_BYTES: usize = 56;
/// Where the header says which entry is before the first record.
const PREVIOUS_AT: usize = 24;
/// A segment of the usual length that holds nothing that is needed.
pub(crate) const SPARE: &str = "spare";
/// Every so many records of a segment it is noted where one begins.
pub(crate) const MARK_EVERY: u64 = 256;

/// Where segments are, and how long they are.
#[derive(Clone)]
pub(crate) struct LogDir {
    pub files: Arc<dyn Files>,
    /// Where salts come from.
    pub entropy: Arc<dyn Entropy>,
    pub dir: PathBuf,
    pub segment_bytes: u64,
}

impl LogDir {
    /// On this machine.
    #[cfg(test)]
    pub(crate) fn local(dir: &Path) -> Self {
        let (files, entropy) = (Arc::new(host::SystemFiles), Arc::new(host::SystemEntropy));
        Self { files, entropy, dir: dir.to_owned(), segment_bytes: SEGMENT_BYTES }
    }
}

/// One file, and where in it records are.
#[derive(Debug, Clone)]
pub(crate) struct Segment {
    pub path: PathBuf,
    /// The index of its first record, or of the one that will be.
    pub first: u64,
    /// The entry before that.
    pub before: Option<LogId>,
    /// What its records begin with.
    pub salt: Salt,
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

    /// A place at or after the end of the record before `index`.
    pub(crate) fn beyond(&self, index: u64) -> u64 {
        let mark = (index - self.first).div_ceil(MARK_EVERY);
        self.marks.get(mark as usize).copied().unwrap_or(self.end)
    }
}

/// All segments in a directory, by their first indices, as their headers say; no record was looked at.
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

/// A new segment for records after `before`, from `first` on, and its end to write to.
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
            // Or after a crash it may have the name that it had as a segment, and what is written to it now.
            files.sync_dir(dir)?;
        }
        let file = files.open(&temporary, Opened::Write)?;
        // The header, and zeros where a record would be: until the first is written there is none.
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

/// Gives up a segment: it becomes the spare one, or goes.
pub(crate) fn retire(log_dir: &LogDir, segment: &Segment) -> Result<(), LogError> {
    let path = &segment.path;
    if segment.bytes == log_dir.segment_bytes {
        // Whatever spare there is goes: one is enough.
        log_dir.files.rename(path, &log_dir.dir.join(SPARE)).map_err(failed("rename", path))
    } else {
        log_dir.files.remove(path).map_err(failed("remove", path))
    }
}

/// Makes the spare segment of the log in `log_dir`, if there is none.
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

/// A file of zeros, on disk.
fn preallocate(files: &dyn Files, path: &Path, bytes: u64) -> io::Result<()> {
    let file = files.open(path, Opened::New)?;
    // Written, not only reserved: a sync of reserved room would have to write the file's metadata each time.
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

/// The salt, and the entry before the first, if the header is sound.
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
