//! Reader of the log: recent entries from memory, older ones from the segments.

use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds};

use openraft::{OptionalSend, RaftLogReader};

use super::{Log, LogError, SEND_BYTES_MAX, data_bytes, disk, record, segments};
use crate::types::{Entry, LogId, Types, Vote};

impl Log {
    /// Entries from `start`, or from the first entry of the log, to `end`. Fewer if they have more than
    /// `bytes_max` of data, but at least one if there is one.
    pub(super) fn read(&self, start: u64, end: u64, bytes_max: usize) -> io::Result<Vec<Entry>> {
        let (mut out, mut bytes) = (Vec::new(), 0);
        let on_disk = disk::lock(&self.segments).first().filter(|s| s.records > 0).map(|s| s.first);
        let (recent, purged, after_last) = {
            let memory = self.memory();
            let after = |id: Option<LogId>| id.map_or(0, |id| id.index + 1);
            (memory.first_recent(), after(memory.purged), after(memory.last))
        };
        // A truncated entry is on disk until the thread has come to it.
        let end = end.min(after_last);
        // A segment that is purged in part still has all its records.
        let first = on_disk.into_iter().chain(recent).min().map(|first| first.max(purged));
        let mut next = first.map_or(end, |first| first.max(start));
        while next < end && bytes < bytes_max {
            if self.read_recent(next, end, bytes_max - bytes, &mut out) {
                break;
            }
            let Some(segment) = self.segment_of(next) else { break };
            let (mut at, mut index) = segment.near(next);
            let start = at;
            // Only a part of the segment: a lagging member reads it once for every few hundred entries.
            let raw = disk::read(&*self.log_dir.files, &segment, at, segment.beyond(end))?;
            while index < segment.next() && next < end && bytes < bytes_max {
                let found = record::decode(&raw[(at - start) as usize..], segment.salt)
                    .filter(|r| r.entry.log_id.index == index);
                let Some(found) = found else {
                    let path = segment.path.clone();
                    return Err(io::Error::other(LogError::Damaged { path, index }));
                };
                at += found.len as u64;
                index += 1;
                if found.entry.log_id.index == next {
                    next += 1;
                    bytes += data_bytes(&found.entry);
                    out.push(found.entry);
                }
            }
        }
        Ok(out)
    }

    /// Reads from memory; false if `start` is not in memory, and may be on disk.
    fn read_recent(&self, start: u64, end: u64, bytes_max: usize, out: &mut Vec<Entry>) -> bool {
        let memory = self.memory();
        let Some(first) = memory.first_recent().filter(|first| *first <= start) else { return false };
        let mut bytes = 0;
        for entry in memory.recent.range((start - first).min(memory.recent.len() as u64) as usize..) {
            if entry.log_id.index >= end || bytes >= bytes_max {
                break;
            }
            bytes += data_bytes(entry);
            out.push(entry.clone());
        }
        true
    }

    pub(super) fn segment_of(&self, index: u64) -> Option<segments::Segment> {
        let all = disk::lock(&self.segments);
        all.iter().find(|segment| (segment.first..segment.next()).contains(&index)).cloned()
    }
}

impl RaftLogReader<Types> for Log {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Result<Vec<Entry>, io::Error> {
        let start = match range.start_bound() {
            Bound::Included(start) => *start,
            Bound::Excluded(start) => start + 1,
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(end) => end + 1,
            Bound::Excluded(end) => *end,
            Bound::Unbounded => u64::MAX,
        };
        self.read(start, end, usize::MAX)
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> Result<Vec<Entry>, io::Error> {
        self.read(start, end, SEND_BYTES_MAX)
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, io::Error> {
        Ok(self.memory().vote)
    }
}
