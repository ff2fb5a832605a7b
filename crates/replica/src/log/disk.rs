//! The log on disk, at its end: appended to, cut, and given up from its beginning.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use host::{Files, Opened};

use crate::log::cut::{self, Cut};
use crate::log::record::{self, Record, Salt};
use crate::log::segments::{self, HEADER_BYTES, Place, Segment};
use crate::log::tail::{BLOCK_BYTES, Tail};
use crate::log::{LogError, failed};
use crate::types::{Entry, LogId};

/// Where records are, for those who read and for the one who writes.
pub(crate) type Segments = Arc<Mutex<Vec<Segment>>>;

/// The open log. One thread has it; [`Segments`] are for all.
pub(crate) struct Disk {
    place: Place,
    segments: Segments,
    /// The end of the last segment; none while there is none.
    tail: Option<Tail>,
    last: Option<LogId>,
}

pub(crate) fn lock(segments: &Segments) -> MutexGuard<'_, Vec<Segment>> {
    segments.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Disk {
    /// Opens the log in `place`, and hands every entry to `visit`, in order. Records after the last sound one that were
    /// never acknowledged are cut off.
    pub(crate) fn open(place: Place, mut visit: impl FnMut(Entry)) -> Result<Self, LogError> {
        place.files.make_dir(&place.dir).map_err(failed("create", &place.dir))?;
        let mut found = segments::list(&place)?;
        let cut = cut::under_way(&*place.files, &place.dir)?;
        match cut {
            Some(Cut::From(first)) => remove_after(&place, &mut found, first)?,
            Some(Cut::After(last)) => found = vec![begin_anew(&place, std::mem::take(&mut found), last)?.0],
            None => {}
        }
        let mut last = found.first().and_then(|segment| segment.before);
        let count = found.len();
        for (n, segment) in found.iter_mut().enumerate() {
            // Each goes on where the one before ended; only the last may be torn.
            if segment.before != last {
                return Err(LogError::Damaged { path: segment.path.clone(), index: segment.first });
            }
            let from = match cut {
                Some(Cut::From(first)) => Some(first),
                Some(Cut::After(_)) | None => None,
            };
            scan(&*place.files, segment, n + 1 == count, from, &mut |entry: Entry| {
                last = Some(entry.log_id);
                visit(entry);
            })?;
        }
        let tail = found.last().map(|segment| reopen(&*place.files, segment)).transpose()?;
        if cut.is_some() {
            cut::done(&*place.files, &place.dir)?;
        }
        Ok(Self { place, segments: Arc::new(Mutex::new(found)), tail, last })
    }

    /// Where records are.
    pub(crate) fn segments(&self) -> Segments {
        Arc::clone(&self.segments)
    }

    /// Writes entries and syncs them. On `NoSpace` nothing was written and the log is as before; any other error leaves
    /// the log unusable.
    pub(crate) fn append(&mut self, entries: &[Entry]) -> Result<(), LogError> {
        let Some(first) = entries.first() else { return Ok(()) };
        let settled = first.log_id.index;
        let mut bytes = Vec::with_capacity(4096);
        let mut lengths = Vec::with_capacity(entries.len());
        for entry in entries {
            let before = bytes.len();
            record::encode(entry, settled, &mut bytes)
                .map_err(|e| failed("encode a record for", &self.place.dir)(io::Error::other(e)))?;
            lengths.push((bytes.len() - before) as u64);
        }
        let salt = self.make_room(first.log_id.index, bytes.len() as u64)?;
        let mut rest = &mut bytes[..];
        for len in &lengths {
            salt.put(rest);
            rest = &mut rest[*len as usize..];
        }
        let Some(tail) = &mut self.tail else { unreachable!("there is room") };
        tail.append(&bytes).map_err(failed("write and sync the log in", &self.place.dir))?;
        if let Some(segment) = lock(&self.segments).last_mut() {
            lengths.into_iter().for_each(|len| segment.push(len));
        }
        self.last = entries.last().map(|entry| entry.log_id);
        Ok(())
    }

    /// Returns the salt of the segment that has the room.
    fn make_room(&mut self, first: u64, needed: u64) -> Result<Salt, LogError> {
        if let (Some(_), Some(segment)) = (&self.tail, lock(&self.segments).last())
            && needed <= segment.bytes - segment.end
        {
            return Ok(segment.salt);
        }
        let bytes =
            self.place.segment_bytes.max((needed + HEADER_BYTES).next_multiple_of(BLOCK_BYTES as u64));
        let (segment, tail) = segments::create(&self.place, first, self.last, bytes)?;
        let salt = segment.salt;
        lock(&self.segments).push(segment);
        self.tail = Some(tail);
        Ok(salt)
    }

    /// The index after the last entry.
    pub(crate) fn next(&self) -> u64 {
        self.last.map_or(0, |last| last.index + 1)
    }

    /// Takes away the entries after `last`; none: all of them.
    pub(crate) fn truncate(&mut self, last: Option<LogId>) -> Result<(), LogError> {
        let next = last.map_or(0, |log_id| log_id.index + 1);
        let Place { files, dir, .. } = &self.place;
        cut::begin(&**files, dir, Cut::From(next))?;
        self.tail = None;
        let mut all = lock(&self.segments).clone();
        remove_after(&self.place, &mut all, next)?;
        if let Some(segment) = all.last_mut() {
            let mut cut = cut_from(&**files, segment, next).map_err(failed("cut", &segment.path))?;
            cut.records = next - cut.first;
            cut.marks.truncate(cut.records.div_ceil(segments::MARK_EVERY) as usize);
            self.tail = Some(reopen(&**files, &cut)?);
            *segment = cut;
        }
        *lock(&self.segments) = all;
        cut::done(&**files, dir)?;
        self.last = last;
        Ok(())
    }

    /// Begins anew after `last`, which a snapshot has, whatever is in the log.
    pub(crate) fn begin_after(&mut self, last: LogId) -> Result<(), LogError> {
        let Place { files, dir, .. } = &self.place;
        cut::begin(&**files, dir, Cut::After(last))?;
        let all = std::mem::take(&mut *lock(&self.segments));
        self.tail = None;
        let (segment, tail) = begin_anew(&self.place, all, last)?;
        cut::done(&**files, dir)?;
        lock(&self.segments).push(segment);
        (self.tail, self.last) = (Some(tail), Some(last));
        Ok(())
    }

    /// Gives up segments whose records are all at or below `upto`.
    pub(crate) fn purge(&mut self, upto: LogId) -> Result<(), LogError> {
        if self.last.is_none_or(|last| last.index < upto.index) {
            // A snapshot reaches beyond the log.
            return self.begin_after(upto);
        }
        loop {
            let mut all = lock(&self.segments);
            let (Some(segment), true) = (all.first().cloned(), all.len() > 1) else { return Ok(()) };
            if segment.next() > upto.index + 1 {
                return Ok(());
            }
            all.remove(0);
            drop(all);
            segments::give_up(&self.place, &segment)?;
        }
    }
}

/// Removes all segments, and makes the one that follows `last`.
fn begin_anew(place: &Place, all: Vec<Segment>, last: LogId) -> Result<(Segment, Tail), LogError> {
    let Place { files, dir, .. } = place;
    for segment in all {
        files.remove(&segment.path).map_err(failed("remove", &segment.path))?;
    }
    files.sync_dir(dir).map_err(failed("sync", dir))?;
    segments::create(place, last.index + 1, Some(last), place.segment_bytes)
}

/// Removes the segments that begin at `first` or after it, but for one that is the first of all. From the end, so that
/// after a crash what is left has no gap.
fn remove_after(place: &Place, all: &mut Vec<Segment>, first: u64) -> Result<(), LogError> {
    let Place { files, dir, .. } = place;
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

/// The end of a segment, for writing. What stands behind it was never acknowledged, or was cut.
fn reopen(files: &dyn Files, segment: &Segment) -> Result<Tail, LogError> {
    let path = &segment.path;
    let file = files.open(path, Opened::Write).map_err(failed("open", path))?;
    segments::zero(&*file, segment.end, segment.bytes).map_err(failed("clear the end of", path))?;
    // What was read may be in the page cache only, left there by a process that was killed before its sync. The store
    // will have it on disk soon, and must not be ahead of the log after a power failure.
    file.sync().map_err(failed("sync", path))?;
    Tail::open(files, path, segment.end).map_err(failed("open", path))
}

/// Where the record `index` begins is the segment's new end.
fn cut_from(files: &dyn Files, segment: &Segment, index: u64) -> io::Result<Segment> {
    let mut cut = segment.clone();
    if index < segment.next() {
        let (mut at, mut there) = segment.near(index);
        let bytes = read(files, segment, at, segment.end)?;
        let start = at;
        while there < index {
            let record = record::decode(&bytes[(at - start) as usize..], segment.salt);
            at += record.ok_or_else(|| io::Error::other("a damaged record"))?.len as u64;
            there += 1;
        }
        cut.end = at;
    }
    Ok(cut)
}

/// Bytes of a segment.
pub(crate) fn read(files: &dyn Files, segment: &Segment, from: u64, to: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; (to - from) as usize];
    files.open(&segment.path, Opened::Read)?.read_at(&mut bytes, from)?;
    Ok(bytes)
}

/// Visits the records of a segment, and notes where they are; those from `cut` on were being cut away.
fn scan(
    files: &dyn Files,
    segment: &mut Segment,
    is_last: bool,
    cut: Option<u64>,
    visit: &mut dyn FnMut(Entry),
) -> Result<(), LogError> {
    let path = segment.path.clone();
    let bytes = read(files, segment, 0, segment.bytes).map_err(failed("read", &path))?;
    let is_next = |record: &Record, next: u64| {
        record.entry.log_id.index == next && cut.is_none_or(|first| next < first)
    };
    while let Some(record) =
        record::decode(&bytes[segment.end as usize..], segment.salt).filter(|r| is_next(r, segment.next()))
    {
        segment.push(record.len as u64);
        visit(record.entry);
    }
    // Where one that is not the last ended, the next one's header says.
    let is_cut_here = cut == Some(segment.next());
    let rest = &bytes[segment.end as usize..];
    if is_last && !is_cut_here && settled_after(rest, segment.salt, segment.next()) {
        return Err(LogError::Damaged { path, index: segment.next() });
    }
    Ok(())
}

/// Whether `rest`, which begins with what is no sound record, has one further on that says that `index` was on disk.
fn settled_after(rest: &[u8], salt: Salt, index: u64) -> bool {
    // A record can begin anywhere; the salt is what tells it from data.
    let within = rest.len().min(record::PAYLOAD_BYTES_MAX + (8 << 20));
    (1..within).any(|at| {
        record::decode(&rest[at..], salt)
            .is_some_and(|found| found.settled > index && found.entry.log_id.index > index)
    })
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::os::unix::fs::FileExt;
    use std::path::Path;

    use namespace::{Command, InodeId, Proposal, Stamp};

    use crate::log::segments::{MARK_EVERY, SEGMENT_BYTES, SPARE};
    use crate::types::{Change, LeaderId, Payload};

    use super::*;

    fn id(term: u64, index: u64) -> LogId {
        LogId { leader_id: LeaderId { term, node_id: 1 }, index }
    }

    fn entries(term: u64, indices: std::ops::Range<u64>) -> Vec<Entry> {
        indices.map(|index| Entry { log_id: id(term, index), payload: Payload::Blank }).collect()
    }

    fn found(dir: &Path) -> Result<(Disk, Vec<LogId>), LogError> {
        let mut all = vec![];
        Disk::open(Place::local(dir), |entry| all.push(entry.log_id)).map(|disk| (disk, all))
    }

    fn ids(term: u64, indices: std::ops::Range<u64>) -> Vec<LogId> {
        entries(term, indices).into_iter().map(|entry| entry.log_id).collect()
    }

    /// A segment of its own for what comes next.
    fn roll(disk: &mut Disk) {
        let mut all = lock(&disk.segments);
        let last = all.last_mut().expect("a segment");
        last.bytes = last.end;
    }

    #[test]
    fn what_was_appended_is_there_after_a_crash_and_a_torn_tail_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let (mut disk, _) = found(dir.path()).unwrap();
        disk.append(&entries(1, 0..2)).unwrap();
        disk.append(&entries(1, 2..3)).unwrap();
        let segment = lock(&disk.segments)[0].clone();
        drop(disk);
        assert_eq!(found(dir.path()).unwrap().1, ids(1, 0..3));

        // One write of two records, of which only the second reached the disk whole.
        let [mut torn, whole] = [3, 4].map(|index| {
            let mut record = Vec::new();
            record::encode(&entries(1, index..index + 1)[0], 3, &mut record).unwrap();
            segment.salt.put(&mut record);
            record
        });
        *torn.last_mut().unwrap() ^= 1;
        torn.extend(whole);
        let file = OpenOptions::new().write(true).open(&segment.path).unwrap();
        file.write_all_at(&torn, segment.end).unwrap();
        let (mut disk, all) = found(dir.path()).unwrap();
        assert_eq!(all, ids(1, 0..3));
        disk.append(&entries(1, 3..4)).unwrap();
        assert_eq!(found(dir.path()).unwrap().1, ids(1, 0..4), "the second of the torn tail is gone");
    }

    #[test]
    fn a_record_that_was_acknowledged_and_is_damaged_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let (mut disk, _) = found(dir.path()).unwrap();
        disk.append(&entries(1, 0..2)).unwrap();
        disk.append(&entries(1, 2..3)).unwrap();
        let path = lock(&disk.segments)[0].path.clone();
        drop(disk);
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(&[0xff], HEADER_BYTES + record::HEADER_BYTES as u64 + 9).unwrap();
        let error = found(dir.path()).err().unwrap();
        assert!(matches!(error, LogError::Damaged { index: 1, .. }), "{error}");

        file.write_all_at(&[0xff], 20).unwrap();
        let error = found(dir.path()).err().unwrap();
        assert!(matches!(error, LogError::Damaged { index: 0, .. }), "the header: {error}");
        for older in [b"heorot log 1\n", b"heorot log 3\n"] {
            file.write_all_at(older, 0).unwrap();
            assert!(matches!(found(dir.path()).err().unwrap(), LogError::Older(_)));
        }
    }

    #[test]
    fn what_is_cut_is_gone_and_what_comes_in_its_place_stays() {
        let dir = tempfile::tempdir().unwrap();
        let (mut disk, _) = found(dir.path()).unwrap();
        let many = 3 * MARK_EVERY;
        disk.append(&entries(1, 0..many)).unwrap();
        roll(&mut disk);
        disk.append(&entries(1, many..many + 10)).unwrap();
        roll(&mut disk);
        disk.append(&entries(1, many + 10..many + 20)).unwrap();

        disk.truncate(Some(id(1, many + 4))).unwrap();
        disk.append(&entries(2, many + 5..many + 7)).unwrap();
        let all = [ids(1, 0..many + 5), ids(2, many + 5..many + 7)].concat();
        assert_eq!(found(dir.path()).unwrap().1, all);
        drop(disk);

        let (mut disk, _) = found(dir.path()).unwrap();
        disk.truncate(Some(id(1, 299))).unwrap();
        assert_eq!(found(dir.path()).unwrap().1, ids(1, 0..300), "into another segment");
        disk.append(&entries(3, 300..301)).unwrap();
        disk.truncate(None).unwrap();
        disk.append(&entries(4, 0..1)).unwrap();
        assert_eq!(found(dir.path()).unwrap().1, ids(4, 0..1));
    }

    #[test]
    fn a_crash_while_a_cut_log_is_zeroed_is_not_taken_for_damage() {
        let image = |holes: &[u64]| {
            let dir = tempfile::tempdir().unwrap();
            let (mut disk, _) = found(dir.path()).unwrap();
            let (mut begins, mut path) = (vec![], None);
            for index in 0..20 {
                disk.append(&entries(1, index..index + 1)).unwrap();
                let all = lock(&disk.segments);
                begins.push(all[0].end);
                path = Some(all[0].path.clone());
            }
            drop(disk);
            // As the disk may have it: some blocks of zeros arrived, others did not.
            cut::begin(&host::SystemFiles, dir.path(), Cut::From(5)).unwrap();
            let file = OpenOptions::new().write(true).open(path.unwrap()).unwrap();
            for index in holes {
                file.write_all_at(&[0; 16], begins[*index as usize - 1]).unwrap();
            }
            dir
        };
        for holes in [&[][..], &[5], &[7], &[5, 6, 7, 8], &[6, 19], &[5, 19]] {
            let dir = image(holes);
            let (mut disk, all) = found(dir.path()).unwrap();
            assert_eq!(all, ids(1, 0..5), "{holes:?}");
            disk.append(&entries(2, 5..7)).unwrap();
            drop(disk);
            let all = found(dir.path()).unwrap().1;
            assert_eq!(all, [ids(1, 0..5), ids(2, 5..7)].concat(), "what came after the cut stays");
        }
        let error = found(image(&[3]).path()).err().unwrap();
        assert!(matches!(error, LogError::Damaged { index: 3, .. }), "before the cut it is damage: {error}");
    }

    #[test]
    fn a_crash_while_segments_behind_a_cut_are_removed_leaves_the_cut_to_be_finished() {
        let dir = tempfile::tempdir().unwrap();
        let (mut disk, _) = found(dir.path()).unwrap();
        disk.append(&entries(1, 0..10)).unwrap();
        roll(&mut disk);
        disk.append(&entries(1, 10..20)).unwrap();
        roll(&mut disk);
        disk.append(&entries(1, 20..30)).unwrap();
        drop(disk);
        cut::begin(&host::SystemFiles, dir.path(), Cut::From(10)).unwrap();
        assert_eq!(found(dir.path()).unwrap().1, ids(1, 0..10));
        assert_eq!(found(dir.path()).unwrap().1, ids(1, 0..10), "and it is finished");
    }

    #[test]
    fn segments_are_given_up_whole_and_used_again_without_what_they_held() {
        let dir = tempfile::tempdir().unwrap();
        let (mut disk, _) = found(dir.path()).unwrap();
        disk.append(&entries(1, 0..100)).unwrap();
        roll(&mut disk);
        disk.append(&entries(1, 100..110)).unwrap();
        roll(&mut disk);
        disk.append(&entries(1, 110..111)).unwrap();
        lock(&disk.segments)[0].bytes = SEGMENT_BYTES;
        disk.purge(id(1, 50)).unwrap();
        assert_eq!(found(dir.path()).unwrap().1.len(), 111, "half a segment is not given up");
        disk.purge(id(1, 99)).unwrap();
        assert!(dir.path().join(SPARE).exists());
        assert_eq!(found(dir.path()).unwrap().1, ids(1, 100..111));
        roll(&mut disk);
        disk.append(&entries(1, 111..112)).unwrap();
        assert!(!dir.path().join(SPARE).exists(), "it is the current one now");
        assert_eq!(found(dir.path()).unwrap().1, ids(1, 100..112));
    }

    /// A small write whose data are a record that says all was on disk, as a client can send it: it does not know the salt.
    fn forging(index: u64) -> Entry {
        let mut data = Vec::new();
        let forged = Entry { log_id: id(u64::MAX, u64::MAX), payload: Payload::Blank };
        record::encode(&forged, u64::MAX, &mut data).unwrap();
        let command = Command::WriteInline { inode: InodeId(3), offset: 0, data: data.into() };
        let proposal = Proposal { stamp: Stamp::default(), origin: None, command };
        Entry { log_id: id(1, index), payload: Payload::Normal(Change(Arc::new(proposal))) }
    }

    #[test]
    fn a_record_that_a_client_wrote_into_its_data_is_none_wherever_it_stands() {
        // In what the segment held before, with what follows the end of the log.
        let dir = tempfile::tempdir().unwrap();
        let (mut disk, _) = found(dir.path()).unwrap();
        let many: Vec<Entry> = (0..100).map(forging).collect();
        disk.append(&many).unwrap();
        roll(&mut disk);
        disk.append(&entries(1, 100..101)).unwrap();
        roll(&mut disk);
        lock(&disk.segments)[0].bytes = SEGMENT_BYTES;
        disk.purge(id(1, 99)).unwrap();
        assert!(dir.path().join(SPARE).exists());
        disk.append(&entries(1, 101..102)).unwrap();
        assert!(!dir.path().join(SPARE).exists());
        drop(disk);
        assert_eq!(found(dir.path()).unwrap().1, ids(1, 100..102), "in a segment that is used again");

        // In the last write, which a crash tore.
        let dir = tempfile::tempdir().unwrap();
        let (mut disk, _) = found(dir.path()).unwrap();
        disk.append(&entries(1, 0..1)).unwrap();
        let segment = lock(&disk.segments)[0].clone();
        disk.append(&[forging(1)]).unwrap();
        drop(disk);
        let file = OpenOptions::new().write(true).open(&segment.path).unwrap();
        file.write_all_at(&[0xff], segment.end + 16).unwrap();
        assert_eq!(found(dir.path()).unwrap().1, ids(1, 0..1), "in a torn write");
    }

    #[test]
    fn after_a_snapshot_that_reaches_beyond_it_the_log_goes_on_from_there() {
        let dir = tempfile::tempdir().unwrap();
        let (mut disk, _) = found(dir.path()).unwrap();
        disk.append(&entries(1, 0..5)).unwrap();
        disk.purge(id(3, 1000)).unwrap();
        let (reopened, all) = found(dir.path()).unwrap();
        assert_eq!((all, reopened.last), (vec![], Some(id(3, 1000))));
        drop(reopened);
        disk.append(&entries(3, 1001..1003)).unwrap();
        assert_eq!(found(dir.path()).unwrap().1, ids(3, 1001..1003));
    }

    #[test]
    fn a_crash_while_a_log_begins_anew_leaves_it_to_be_done_at_the_start() {
        for gone in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let (mut disk, _) = found(dir.path()).unwrap();
            disk.append(&entries(1, 0..10)).unwrap();
            let segment = lock(&disk.segments)[0].clone();
            drop(disk);
            cut::begin(&host::SystemFiles, dir.path(), Cut::After(id(2, 41))).unwrap();
            if gone {
                segments::give_up(&Place::local(dir.path()), &segment).unwrap();
            }
            let (mut disk, ids_found) = found(dir.path()).unwrap();
            assert_eq!((disk.next(), ids_found.len()), (42, 0));
            disk.append(&entries(2, 42..44)).unwrap();
            drop(disk);
            assert_eq!(found(dir.path()).unwrap().1, ids(2, 42..44), "it is done once");
        }
    }

    #[test]
    fn a_log_that_begins_anew_writes_into_nothing_that_has_later_records() {
        let dir = tempfile::tempdir().unwrap();
        let (mut disk, _) = found(dir.path()).unwrap();
        disk.append(&entries(1, 0..150)).unwrap();
        disk.begin_after(id(2, 100)).unwrap();
        drop(disk);
        assert!(!dir.path().join(SPARE).exists());
        // Twice: what is behind the end of the one segment is looked at by each.
        let (mut disk, all) = found(dir.path()).unwrap();
        assert_eq!(all, []);
        disk.append(&entries(2, 101..103)).unwrap();
        drop(disk);
        assert_eq!(found(dir.path()).unwrap().1, ids(2, 101..103));
    }
}
