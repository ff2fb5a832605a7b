//! Log on disk: appended to and truncated at its end, purged at its beginning.

use std::io;
use std::sync::Arc;

use host::{Files, Opened};
use parking_lot::{Mutex, MutexGuard};

use crate::log::record::{self, Record, Salt};
use crate::log::segments::{self, HEADER_BYTES, LogDir, Segment};
use crate::log::tail::{BLOCK_BYTES, Tail};
use crate::log::truncation::{self, Truncation};
use crate::log::{LogError, failed};
use crate::types::{Entry, LogId};

/// Segments of the log, shared by readers and the writer.
pub(crate) type Segments = Arc<Mutex<Vec<Segment>>>;

/// Open log of the log's thread; [`Segments`] are shared.
pub(crate) struct Disk {
    log_dir: LogDir,
    segments: Segments,
    /// End of the last segment; None if there is no segment.
    tail: Option<Tail>,
    last: Option<LogId>,
}

pub(crate) fn lock(segments: &Segments) -> MutexGuard<'_, Vec<Segment>> {
    segments.lock()
}

impl Disk {
    /// Opens the log in `log_dir`, and passes every entry to `visit`, in order. Records after the last sound
    /// one that were never acknowledged are truncated.
    pub(crate) fn open(log_dir: LogDir, mut visit: impl FnMut(Entry)) -> Result<Self, LogError> {
        log_dir.files.make_dir(&log_dir.dir).map_err(failed("create", &log_dir.dir))?;
        let mut found = segments::list(&log_dir)?;
        let truncation = truncation::read_note(&*log_dir.files, &log_dir.dir)?;
        match truncation {
            Some(Truncation::From(first)) => remove_after(&log_dir, &mut found, first)?,
            Some(Truncation::After(last)) => {
                found = vec![replace_segments(&log_dir, std::mem::take(&mut found), last)?.0]
            }
            None => {}
        }
        let mut last = found.first().and_then(|segment| segment.before);
        let count = found.len();
        for (n, segment) in found.iter_mut().enumerate() {
            // Each segment continues the one before; only the last may end in a torn record.
            if segment.before != last {
                return Err(LogError::Damaged { path: segment.path.clone(), index: segment.first });
            }
            let from = match truncation {
                Some(Truncation::From(first)) => Some(first),
                Some(Truncation::After(_)) | None => None,
            };
            scan(&*log_dir.files, segment, n + 1 == count, from, &mut |entry: Entry| {
                last = Some(entry.log_id);
                visit(entry);
            })?;
        }
        let tail = found.last().map(|segment| reopen(&*log_dir.files, segment)).transpose()?;
        if truncation.is_some() {
            truncation::remove_note(&*log_dir.files, &log_dir.dir)?;
        }
        Ok(Self { log_dir, segments: Arc::new(Mutex::new(found)), tail, last })
    }

    /// Segments of the log.
    pub(crate) fn segments(&self) -> Segments {
        Arc::clone(&self.segments)
    }

    /// Writes and syncs entries. After `NoSpace` the log is as before; after any other error it is unusable.
    pub(crate) fn append(&mut self, entries: &[Entry]) -> Result<(), LogError> {
        let Some(first) = entries.first() else { return Ok(()) };
        let settled = first.log_id.index;
        let mut bytes = Vec::with_capacity(4096);
        let mut lengths = Vec::with_capacity(entries.len());
        for entry in entries {
            let before = bytes.len();
            record::encode(entry, settled, &mut bytes)
                .map_err(|e| failed("encode a record for", &self.log_dir.dir)(io::Error::other(e)))?;
            lengths.push((bytes.len() - before) as u64);
        }
        let salt = self.make_room(first.log_id.index, bytes.len() as u64)?;
        let mut rest = &mut bytes[..];
        for len in &lengths {
            salt.put(rest);
            rest = &mut rest[*len as usize..];
        }
        let Some(tail) = &mut self.tail else { unreachable!("there is room") };
        tail.append(&bytes).map_err(failed("write and sync the log in", &self.log_dir.dir))?;
        if let Some(segment) = lock(&self.segments).last_mut() {
            lengths.into_iter().for_each(|len| segment.push(len));
        }
        self.last = entries.last().map(|entry| entry.log_id);
        Ok(())
    }

    /// Salt of the segment that has space for `needed` bytes; creates a segment if necessary.
    fn make_room(&mut self, first: u64, needed: u64) -> Result<Salt, LogError> {
        if let (Some(_), Some(segment)) = (&self.tail, lock(&self.segments).last())
            && needed <= segment.bytes - segment.end
        {
            return Ok(segment.salt);
        }
        let bytes =
            self.log_dir.segment_bytes.max((needed + HEADER_BYTES).next_multiple_of(BLOCK_BYTES as u64));
        let (segment, tail) = segments::create(&self.log_dir, first, self.last, bytes)?;
        let salt = segment.salt;
        let mut all = lock(&self.segments);
        // A segment without records, too small for these, had the same name: its file was replaced.
        all.pop_if(|last| last.first == first);
        all.push(segment);
        drop(all);
        self.tail = Some(tail);
        Ok(salt)
    }

    /// Index after the last entry.
    pub(crate) fn next(&self) -> u64 {
        self.last.map_or(0, |last| last.index + 1)
    }

    /// Removes the entries after `last`; None: all entries.
    pub(crate) fn truncate(&mut self, last: Option<LogId>) -> Result<(), LogError> {
        let next = last.map_or(0, |log_id| log_id.index + 1);
        let LogDir { files, dir, .. } = &self.log_dir;
        truncation::write_note(&**files, dir, Truncation::From(next))?;
        self.tail = None;
        let mut all = lock(&self.segments).clone();
        remove_after(&self.log_dir, &mut all, next)?;
        if let Some(segment) = all.last_mut() {
            let mut truncated =
                truncated_at(&**files, segment, next).map_err(failed("truncate", &segment.path))?;
            truncated.records = next - truncated.first;
            truncated.marks.truncate(truncated.records.div_ceil(segments::MARK_EVERY) as usize);
            self.tail = Some(reopen(&**files, &truncated)?);
            *segment = truncated;
        }
        *lock(&self.segments) = all;
        truncation::remove_note(&**files, dir)?;
        self.last = last;
        Ok(())
    }

    /// Restarts the log after `last`, which a snapshot has, whatever entries the log has.
    pub(crate) fn restart_after(&mut self, last: LogId) -> Result<(), LogError> {
        let LogDir { files, dir, .. } = &self.log_dir;
        truncation::write_note(&**files, dir, Truncation::After(last))?;
        let all = std::mem::take(&mut *lock(&self.segments));
        self.tail = None;
        let (segment, tail) = replace_segments(&self.log_dir, all, last)?;
        truncation::remove_note(&**files, dir)?;
        lock(&self.segments).push(segment);
        (self.tail, self.last) = (Some(tail), Some(last));
        Ok(())
    }

    /// Purges segments whose records are all at or below `upto`.
    pub(crate) fn purge(&mut self, upto: LogId) -> Result<(), LogError> {
        if self.last.is_none_or(|last| last.index < upto.index) {
            // The snapshot is ahead of the log.
            return self.restart_after(upto);
        }
        loop {
            let mut all = lock(&self.segments);
            let (Some(segment), true) = (all.first().cloned(), all.len() > 1) else { return Ok(()) };
            if segment.next() > upto.index + 1 {
                return Ok(());
            }
            all.remove(0);
            drop(all);
            segments::retire(&self.log_dir, &segment)?;
        }
    }
}

/// Removes all segments, and creates the one that follows `last`.
fn replace_segments(log_dir: &LogDir, all: Vec<Segment>, last: LogId) -> Result<(Segment, Tail), LogError> {
    let LogDir { files, dir, .. } = log_dir;
    for segment in all {
        files.remove(&segment.path).map_err(failed("remove", &segment.path))?;
    }
    files.sync_dir(dir).map_err(failed("sync", dir))?;
    segments::create(log_dir, last.index + 1, Some(last), log_dir.segment_bytes)
}

/// Removes the segments that begin at or after `first`, except the first of all. From the end, so that a
/// crash leaves no gap.
fn remove_after(log_dir: &LogDir, all: &mut Vec<Segment>, first: u64) -> Result<(), LogError> {
    let LogDir { files, dir, .. } = log_dir;
    while let Some(segment) = all.pop() {
        if segment.first < first || (segment.first == first && all.is_empty()) {
            all.push(segment);
            return Ok(());
        }
        files.remove(&segment.path).map_err(failed("remove", &segment.path))?;
        files.sync_dir(dir).map_err(failed("sync", dir))?;
    }
    Ok(())
}

/// Opens the end of a segment for writing. Records after it were never acknowledged, or were truncated.
fn reopen(files: &dyn Files, segment: &Segment) -> Result<Tail, LogError> {
    let path = &segment.path;
    let file = files.open(path, Opened::Write).map_err(failed("open", path))?;
    segments::zero(&*file, segment.end, segment.bytes).map_err(failed("clear the end of", path))?;
    // Records may be only in the page cache, written by a process that was killed before its sync. The store
    // will be on disk soon, and must not be ahead of the log after a power failure.
    file.sync().map_err(failed("sync", path))?;
    Tail::open(files, path, segment.end).map_err(failed("open", path))
}

/// The segment with its end at the beginning of the record `index`.
fn truncated_at(files: &dyn Files, segment: &Segment, index: u64) -> io::Result<Segment> {
    let mut truncated = segment.clone();
    if index < segment.next() {
        let (mut at, mut there) = segment.near(index);
        let bytes = read(files, segment, at, segment.end)?;
        let start = at;
        while there < index {
            let record = record::decode(&bytes[(at - start) as usize..], segment.salt);
            at += record.ok_or_else(|| io::Error::other("a damaged record"))?.len as u64;
            there += 1;
        }
        truncated.end = at;
    }
    Ok(truncated)
}

/// Bytes of a segment.
pub(crate) fn read(files: &dyn Files, segment: &Segment, from: u64, to: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; (to - from) as usize];
    files.open(&segment.path, Opened::Read)?.read_at(&mut bytes, from)?;
    Ok(bytes)
}

/// Visits the records of a segment, and notes their positions; records from `truncated_from` on were being
/// removed.
fn scan(
    files: &dyn Files,
    segment: &mut Segment,
    is_last: bool,
    truncated_from: Option<u64>,
    visit: &mut dyn FnMut(Entry),
) -> Result<(), LogError> {
    let path = segment.path.clone();
    let bytes = read(files, segment, 0, segment.bytes).map_err(failed("read", &path))?;
    let is_next = |record: &Record, next: u64| {
        record.entry.log_id.index == next && truncated_from.is_none_or(|first| next < first)
    };
    while let Some(record) =
        record::decode(&bytes[segment.end as usize..], segment.salt).filter(|r| is_next(r, segment.next()))
    {
        segment.push(record.len as u64);
        visit(record.entry);
    }
    // A segment that is not the last ends where the header of the next one says.
    let is_truncated_here = truncated_from == Some(segment.next());
    let rest = &bytes[segment.end as usize..];
    // Truncating it as torn would lose an acknowledged entry.
    if !is_truncated_here && record::unknown(rest, segment.salt) == Some(segment.next()) {
        return Err(LogError::Newer { path, index: segment.next() });
    }
    if is_last && !is_truncated_here && settled_after(rest, segment.salt, segment.next()) {
        return Err(LogError::Damaged { path, index: segment.next() });
    }
    Ok(())
}

/// True if `rest`, which begins without a sound record, has a later record which says that `index` was on
/// disk.
fn settled_after(rest: &[u8], salt: Salt, index: u64) -> bool {
    // A record can begin at any byte; the salt distinguishes it from data.
    let within = rest.len().min(record::PAYLOAD_BYTES_MAX + (8 << 20));
    (1..within).any(|at| {
        record::decode(&rest[at..], salt)
            .is_some_and(|found| found.settled > index && found.entry.log_id.index > index)
    })
}

#[cfg(test)]
mod tests;
