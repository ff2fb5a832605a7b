//! The log on disk: segments of records, preallocated, one sync for a batch.
//!
//! ```text
//! log/00000000000000000001.log   log/00000000000000016384.log   named by the index of their first record
//! ┌ magic 16 ┬ record ┬ record ┬ … ┬ zeros ┐
//! ```
//!
//! A segment gets all its room when it is made. So a full disk is found then, before anything was written, and a sync
//! has no metadata to write. A segment that is not needed any more becomes the spare, and then the next one: what it
//! held has lower indices, and so cannot be taken for its records. Records after the last sound one of the last segment were never acknowledged: they are
//! cut off. An unsound record anywhere else is damage, and is said.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use namespace::Proposal;
use thiserror::Error;

use crate::record::{self, Record};
use crate::tail::{BLOCK_BYTES, Tail};

const MAGIC: &[u8; 16] = b"heorot log 1\n\0\0\0";
/// Small enough that a fresh start is cheap, large enough that one is made every few hundred thousand commands.
const SEGMENT_BYTES: u64 = 32 << 20;
/// A segment of that size that holds nothing that is needed.
const SPARE: &str = "spare";

/// The log failed. Says what was being done to which file.
#[derive(Debug, Error)]
pub enum LogError {
    /// The operating system said no.
    #[error("{doing} {path}: {source}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// To which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// There is no room for another segment; nothing was written.
    #[error("no space for the log in {0}: free some, or move the data directory to a larger disk")]
    NoSpace(PathBuf),
    /// The log is damaged where it had been acknowledged.
    #[error(
        "{path}: record {index} is damaged or missing: restore the metadata from a backup or another metaserver"
    )]
    Damaged {
        /// The segment.
        path: PathBuf,
        /// The index that should have been there.
        index: u64,
    },
}

fn failed(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> LogError {
    move |source| LogError::Io { doing, path: path.to_owned(), source }
}

struct Segment {
    path: PathBuf,
    first: u64,
}

/// The open log, at its end.
pub(crate) struct Log {
    dir: PathBuf,
    sealed: Vec<Segment>,
    current: Segment,
    tail: Tail,
    segment_bytes: u64,
    next: u64,
}

impl Log {
    /// Opens the log in `dir`, and hands every record with an index above `applied` to `visit`, in order.
    pub(crate) fn open(dir: &Path, applied: u64, mut visit: impl FnMut(Record)) -> Result<Self, LogError> {
        std::fs::create_dir_all(dir).map_err(failed("create", dir))?;
        let mut segments = segments(dir)?;
        let Some(last) = segments.pop() else {
            if applied > 0 {
                // There is always a segment once a command was carried out: someone removed what may be newer than
                // the store.
                return Err(LogError::Damaged { path: dir.to_owned(), index: applied + 1 });
            }
            return Self::start(dir, 1);
        };
        let oldest = segments.first().unwrap_or(&last);
        let mut next = oldest.first;
        if next > applied + 1 {
            // The store has lost what the log has already forgotten.
            return Err(LogError::Damaged { path: oldest.path.clone(), index: applied + 1 });
        }
        for segment in &segments {
            let (end, _) = replay(segment, &mut next, applied, &mut visit)?;
            let following = segments.iter().chain([&last]).find(|s| s.first > segment.first);
            if following.is_some_and(|f| f.first != end) {
                return Err(LogError::Damaged { path: segment.path.clone(), index: end });
            }
        }
        let (next, position) = replay(&last, &mut next, applied, &mut visit)?;
        if next <= applied {
            // The store is ahead of the log: it can only be when log files were removed.
            return Err(LogError::Damaged { path: last.path, index: next });
        }
        let file = OpenOptions::new().write(true).open(&last.path).map_err(failed("open", &last.path))?;
        let length = file.metadata().map_err(failed("stat", &last.path))?.len();
        // What stands behind the last sound record was never acknowledged, and must not be taken for a record later.
        zero(&file, position, length).map_err(failed("clear the end of", &last.path))?;
        // What was replayed may be in the page cache only, left there by a process that was killed before its sync. The
        // store will have it on disk soon, and must not be ahead of the log after a power failure.
        file.sync_all().map_err(failed("sync", &last.path))?;
        let tail = Tail::open(&last.path, position).map_err(failed("open", &last.path))?;
        let segment_bytes = length.max(position);
        Ok(Self { dir: dir.to_owned(), sealed: segments, current: last, tail, segment_bytes, next })
    }

    fn start(dir: &Path, first: u64) -> Result<Self, LogError> {
        let (current, tail) = create(dir, first, SEGMENT_BYTES)?;
        let dir = dir.to_owned();
        Ok(Self { dir, sealed: vec![], current, tail, segment_bytes: SEGMENT_BYTES, next: first })
    }

    /// The index that the next record gets.
    pub(crate) fn next_index(&self) -> u64 {
        self.next
    }

    /// Writes the proposals as records and syncs them. On `NoSpace` nothing was written and the log is as before;
    /// any other error leaves the log unusable.
    pub(crate) fn append<'a>(
        &mut self,
        proposals: impl Iterator<Item = &'a Proposal>,
    ) -> Result<(), LogError> {
        let mut bytes = Vec::with_capacity(4096);
        let mut next = self.next;
        for proposal in proposals {
            let fault = |e| LogError::Io {
                doing: "encode a record for",
                path: self.current.path.clone(),
                source: io::Error::other(e),
            };
            record::encode(next, proposal, &mut bytes).map_err(fault)?;
            next += 1;
        }
        if self.tail.position() + bytes.len() as u64 > self.segment_bytes {
            self.roll(bytes.len() as u64)?;
        }
        self.tail.append(&bytes).map_err(failed("write and sync", &self.current.path))?;
        self.next = next;
        Ok(())
    }

    fn roll(&mut self, needed: u64) -> Result<(), LogError> {
        let bytes = SEGMENT_BYTES.max((needed + MAGIC.len() as u64).next_multiple_of(BLOCK_BYTES as u64));
        let (segment, tail) = create(&self.dir, self.next, bytes)?;
        self.sealed.push(std::mem::replace(&mut self.current, segment));
        (self.tail, self.segment_bytes) = (tail, bytes);
        Ok(())
    }

    /// Whether the next segment should be got ready.
    pub(crate) fn is_half_full(&self) -> bool {
        self.tail.position() > self.segment_bytes / 2
    }

    /// Gives up segments whose records are all at or below `applied`, which the store has on disk.
    pub(crate) fn forget(&mut self, applied: u64) -> Result<(), LogError> {
        while let Some(first) = self.sealed.first() {
            let following = self.sealed.get(1).map_or(self.current.first, |s| s.first);
            if following > applied + 1 {
                break;
            }
            let of_use = std::fs::metadata(&first.path).is_ok_and(|m| m.len() == SEGMENT_BYTES);
            if of_use {
                // Whatever spare there is goes: one is enough.
                std::fs::rename(&first.path, self.dir.join(SPARE)).map_err(failed("rename", &first.path))?;
            } else {
                std::fs::remove_file(&first.path).map_err(failed("remove", &first.path))?;
            }
            self.sealed.remove(0);
        }
        Ok(())
    }
}

fn segments(dir: &Path) -> Result<Vec<Segment>, LogError> {
    let mut out = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(failed("list", dir))? {
        let path = entry.map_err(failed("list", dir))?.path();
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        if let Some(first) = name.strip_suffix(".log").and_then(|n| n.parse().ok()) {
            out.push(Segment { path, first });
        }
    }
    out.sort_by_key(|s| s.first);
    Ok(out)
}

/// Makes the spare segment of the log in `dir`, if there is none.
pub(crate) fn keep_spare(dir: &Path) -> io::Result<()> {
    let spare = dir.join(SPARE);
    if spare.exists() {
        return Ok(());
    }
    let temporary = dir.join("spare.tmp");
    make(&temporary, SEGMENT_BYTES).and_then(|()| std::fs::rename(&temporary, &spare)).inspect_err(|_| {
        let _ = std::fs::remove_file(&temporary);
    })
}

fn create(dir: &Path, first: u64, bytes: u64) -> Result<(Segment, Tail), LogError> {
    let path = dir.join(format!("{first:020}.log"));
    let temporary = dir.join("next.tmp");
    let segment = || -> io::Result<Tail> {
        let spare = dir.join(SPARE);
        if bytes != SEGMENT_BYTES || std::fs::rename(&spare, &path).is_err() {
            make(&temporary, bytes)?;
            std::fs::rename(&temporary, &path)?;
        }
        File::open(dir)?.sync_all()?;
        Tail::open(&path, MAGIC.len() as u64)
    };
    match segment() {
        Ok(tail) => Ok((Segment { path, first }, tail)),
        Err(e) if matches!(e.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => {
            let _ = std::fs::remove_file(&temporary);
            Err(LogError::NoSpace(dir.to_owned()))
        }
        Err(e) => Err(failed("create", &path)(e)),
    }
}

/// An empty segment, on disk.
fn make(path: &Path, bytes: u64) -> io::Result<()> {
    let file = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
    // Written, not only reserved: a sync of reserved room would have to write the file's metadata each time.
    zero(&file, 0, bytes)?;
    file.write_all_at(MAGIC, 0)?;
    file.sync_all()
}

fn zero(file: &File, from: u64, to: u64) -> io::Result<()> {
    let zeros = vec![0; 1 << 20];
    let mut at = from;
    while at < to {
        let n = (to - at).min(zeros.len() as u64) as usize;
        file.write_all_at(&zeros[..n], at)?;
        at += n as u64;
    }
    Ok(())
}

/// Visits the records of one segment; returns the index after the last sound one, and where it ends.
fn replay(
    segment: &Segment,
    next: &mut u64,
    applied: u64,
    visit: &mut impl FnMut(Record),
) -> Result<(u64, u64), LogError> {
    let bytes = std::fs::read(&segment.path).map_err(failed("read", &segment.path))?;
    if !bytes.starts_with(MAGIC) || segment.first != *next {
        return Err(LogError::Damaged { path: segment.path.clone(), index: *next });
    }
    let mut at = MAGIC.len();
    while let Some((record, len)) = record::decode(&bytes[at..]) {
        if record.index != *next {
            break;
        }
        *next += 1;
        at += len;
        if record.index > applied {
            visit(record);
        }
    }
    Ok((*next, at as u64))
}

#[cfg(test)]
mod tests {
    use namespace::{Command, InodeId, Stamp};

    use super::*;

    fn proposal(n: u64) -> Proposal {
        let command = Command::Wrote { inode: InodeId(n), end: n, cuts: 0 };
        Proposal { stamp: Stamp { random: n, ..Stamp::default() }, origin: None, command }
    }

    fn indices(dir: &Path, applied: u64) -> Result<(Log, Vec<u64>), LogError> {
        let mut seen = Vec::new();
        let log = Log::open(dir, applied, |r| {
            assert_eq!(r.proposal, proposal(r.index));
            seen.push(r.index);
        })?;
        Ok((log, seen))
    }

    #[test]
    fn what_was_appended_is_there_after_a_crash_and_a_torn_tail_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let (mut log, _) = indices(dir.path(), 0).unwrap();
        log.append([proposal(1), proposal(2)].iter()).unwrap();
        log.append([proposal(3)].iter()).unwrap();
        let (path, end) = (log.current.path.clone(), log.tail.position());
        drop(log);
        assert_eq!(indices(dir.path(), 1).unwrap().1, [2, 3]);

        // A record of which only a part reached the disk, and a whole one behind it that no one was told of.
        let mut torn = Vec::new();
        record::encode(4, &proposal(4), &mut torn).unwrap();
        let cut = torn.len() - 1;
        torn[cut] ^= 1;
        record::encode(5, &proposal(5), &mut torn).unwrap();
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(&torn, end).unwrap();
        let (mut log, seen) = indices(dir.path(), 0).unwrap();
        assert_eq!(seen, [1, 2, 3]);
        log.append([proposal(4)].iter()).unwrap();
        assert_eq!(indices(dir.path(), 0).unwrap().1, [1, 2, 3, 4], "record 5 of the torn tail is gone");
    }

    #[test]
    fn segments_are_forgotten_once_applied_and_damage_in_one_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let (mut log, _) = indices(dir.path(), 0).unwrap();
        log.append([proposal(1)].iter()).unwrap();
        log.roll(0).unwrap();
        log.append([proposal(2)].iter()).unwrap();
        log.roll(0).unwrap();
        log.append([proposal(3)].iter()).unwrap();
        log.forget(1).unwrap();
        assert_eq!(segments(dir.path()).unwrap().len(), 2);
        let middle = log.sealed[0].path.clone();
        drop(log);
        assert_eq!(indices(dir.path(), 1).unwrap().1, [2, 3]);
        let error = indices(dir.path(), 0).err().unwrap();
        assert!(matches!(error, LogError::Damaged { index: 1, .. }), "an older store: {error}");

        let file = OpenOptions::new().write(true).open(&middle).unwrap();
        file.write_all_at(&[0xff], MAGIC.len() as u64 + 20).unwrap();
        let error = indices(dir.path(), 1).err().unwrap();
        assert!(matches!(error, LogError::Damaged { index: 2, .. }), "{error}");

        let empty = tempfile::tempdir().unwrap();
        let error = indices(empty.path(), 7).err().unwrap();
        assert!(matches!(error, LogError::Damaged { index: 8, .. }), "the log is gone: {error}");
    }

    #[test]
    fn a_forgotten_segment_is_used_again_and_what_it_held_is_not_found_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let (mut log, _) = indices(dir.path(), 0).unwrap();
        log.append((1..=100).map(proposal).collect::<Vec<_>>().iter()).unwrap();
        log.roll(0).unwrap();
        log.append([proposal(101)].iter()).unwrap();
        log.forget(100).unwrap();
        assert!(dir.path().join(SPARE).exists());
        log.roll(0).unwrap();
        assert!(!dir.path().join(SPARE).exists(), "it is the current one now");
        assert_eq!(
            indices(dir.path(), 100).unwrap().1,
            [101],
            "an empty segment, though full of old records"
        );
        log.append([proposal(102)].iter()).unwrap();
        log.roll(0).unwrap();
        log.append([proposal(103)].iter()).unwrap();
        drop(log);
        assert_eq!(indices(dir.path(), 100).unwrap().1, [101, 102, 103]);

        keep_spare(dir.path()).unwrap();
        assert_eq!(dir.path().join(SPARE).metadata().unwrap().len(), SEGMENT_BYTES);
    }
}
