//! The change log of a target: the objects whose sums on the disk need not fit their data.
//!
//! ```text
//! changes.log │ record, 64 │ record, 64 │ … │ zeros │        written in order, never over a record
//! record      │ number u64 │ up to u64 │ inode u64 │ column u32 │ volume u32 │ generation u32 │ kind u32 │
//!             │ first region u32 │ last region u32 │ zeros, 12 │ CRC-32C u32 │   little-endian
//! kind 1: the regions first to last of the object change from here on; last ffffffff: all from first on. `up to`: the
//!         object's chain, where the object may not say it: it is being made, or is removed; else 0
//! kind 2: data and sums of the object are on the disk: its records up to number `up to` do not count
//! ```
//!
//! The rule that keeps false alarms away: a record of kind 1 is on the disk before the first byte of its
//! regions changes. So after a crash the blocks of a region without a record fit their sums, and one that
//! does not is damaged. Where there is a record, a block that does not fit may have been in the middle of a
//! write. A record of kind 2 need not be synced: if it is lost, some blocks are looked at once more.
//!
//! At each start the log begins anew, as a new file full of zeros.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::regions::Regions;
use crate::disk::Disk;
use crate::held_dir::HeldDir;
use crate::object::ObjectName;

/// Its file in the directory of the target.
pub(crate) const FILE: &str = "changes.log";
/// The next file, until it is renamed.
pub(crate) const NEXT: &str = "changes.log.new";
const RECORD_BYTES: usize = 64;
/// Length of the file in records, at least: 1 MiB.
const RECORDS_MIN: usize = 16_384;
const CHANGES: u32 = 1;
const SETTLED: u32 = 2;

/// Regions of an object that changed since its sums were last on the disk.
#[derive(Debug, Clone, Default)]
pub(crate) struct Changed {
    /// Regions, by the number of their record.
    records: Vec<(u64, RangeInclusive<u32>)>,
    /// Chain, if a record has it; else 0.
    chain: u64,
    /// Second in which the oldest of them was noted, of a clock that only goes on.
    pub since: u64,
    /// Its sum file was made and its directory was not synced since.
    pub is_new: bool,
}

impl Changed {
    /// The regions, and the number of the last record.
    pub(crate) fn regions(&self) -> (Regions, u64) {
        let (mut regions, mut last) = (Regions::default(), 0);
        for (number, range) in &self.records {
            regions.insert(*range.start(), *range.end());
            last = last.max(*number);
        }
        (regions, last)
    }
}

struct State {
    file: File,
    /// Records that the file has room for.
    room: usize,
    /// Records in the file.
    written: usize,
    number: u64,
    changed: BTreeMap<ObjectName, Changed>,
}

/// The log. One for each target.
pub(crate) struct ChangeLog {
    dir: HeldDir,
    state: Mutex<State>,
    /// Number of the last record that is on the disk. Held during a sync: those that wait for it find their
    /// records synced.
    syncing: Mutex<()>,
    synced: AtomicU64,
}

struct Record {
    number: u64,
    kind: u32,
    name: ObjectName,
    range: RangeInclusive<u32>,
    up_to: u64,
}

impl Record {
    fn to_bytes(&self) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        bytes[..8].copy_from_slice(&self.number.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.up_to.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.name.inode.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.name.column.to_le_bytes());
        bytes[28..32].copy_from_slice(&self.name.volume.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.name.generation.to_le_bytes());
        bytes[36..40].copy_from_slice(&self.kind.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.range.start().to_le_bytes());
        bytes[44..48].copy_from_slice(&self.range.end().to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..60]);
        bytes[60..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8; RECORD_BYTES]) -> Option<Self> {
        let long = |at: usize| bytes.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
        let short = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
        let (inode, column, volume, generation) = (long(16)?, short(24)?, short(28)?, short(32)?);
        let name = ObjectName { inode, column, volume, generation };
        let (first, last) = (short(40)?, short(44)?);
        let record = Self { number: long(0)?, kind: short(36)?, name, range: first..=last, up_to: long(8)? };
        (record.to_bytes() == *bytes && first <= last).then_some(record)
    }
}

/// Applies a record to the objects that changed.
fn apply(changed: &mut BTreeMap<ObjectName, Changed>, record: Record) {
    match record.kind {
        CHANGES => {
            let object = changed.entry(record.name).or_default();
            object.records.push((record.number, record.range));
            object.chain = if record.up_to == 0 { object.chain } else { record.up_to };
        }
        SETTLED => {
            if let Some(object) = changed.get_mut(&record.name) {
                object.records.retain(|(number, _)| *number > record.up_to);
                if object.records.is_empty() {
                    changed.remove(&record.name);
                }
            }
        }
        _ => {}
    }
}

/// The objects that a log names as changed. A record that was not synced may be missing or torn, and nothing
/// depends on it; the others count. Also whether all records are sound, or zeros.
fn replay(bytes: &[u8]) -> (BTreeMap<ObjectName, Changed>, bool) {
    let (mut changed, mut are_sound) = (BTreeMap::new(), true);
    for bytes in bytes.as_chunks::<RECORD_BYTES>().0 {
        match Record::from_bytes(bytes) {
            Some(record) => apply(&mut changed, record),
            None => are_sound &= *bytes == [0; RECORD_BYTES],
        }
    }
    (changed, are_sound)
}

/// An object that the last process had not settled.
#[derive(Debug, Clone)]
pub(crate) struct LeftObject {
    /// Regions that changed.
    pub regions: Regions,
    /// Its chain, if the log has it; else 0.
    pub chain: u64,
}

/// What the last process had not settled when it ended.
pub(crate) struct Left {
    /// Objects that changed.
    pub changed: BTreeMap<ObjectName, LeftObject>,
    /// False if there was no log, or a damaged record: there may be more regions.
    pub is_all: bool,
}

impl ChangeLog {
    /// Opens the log in `dir`, the target's directory. Returns also the regions that changed shortly before
    /// the last process ended.
    pub(crate) fn open(dir: HeldDir, disk: &dyn Disk) -> io::Result<(Self, Left)> {
        let (changed, is_all) = match dir.open_file(FILE) {
            Ok(mut file) => {
                let mut bytes = Vec::new();
                io::Read::read_to_end(&mut file, &mut bytes)?;
                replay(&bytes)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => (BTreeMap::new(), false),
            Err(error) => return Err(error),
        };
        let of = |object: &Changed| LeftObject { regions: object.regions().0, chain: object.chain };
        let left =
            Left { changed: changed.iter().map(|(name, object)| (*name, of(object))).collect(), is_all };
        let state = begin(&dir, disk, 0, changed)?;
        let synced = AtomicU64::new(state.number);
        Ok((Self { dir, state: Mutex::new(state), syncing: Mutex::default(), synced }, left))
    }

    /// Notes that these regions of the object are about to change. `chain`: see [`Changed`]. Returns the number of the
    /// record, which [`ChangeLog::sync`] makes durable.
    pub(crate) fn note(
        &self,
        disk: &dyn Disk,
        name: &ObjectName,
        range: RangeInclusive<u32>,
        chain: u64,
        now: u64,
    ) -> io::Result<u64> {
        let mut state = self.state.lock();
        let number = self.append(&mut state, disk, CHANGES, *name, range, chain)?;
        let object = state.changed.entry(*name).or_default();
        if object.records.len() == 1 {
            object.since = now;
        }
        Ok(number)
    }

    /// Makes all records up to `number` durable.
    pub(crate) fn sync(&self, disk: &dyn Disk, number: u64) -> io::Result<()> {
        if self.synced.load(Ordering::Acquire) >= number {
            return Ok(());
        }
        let _one = self.syncing.lock();
        if self.synced.load(Ordering::Acquire) >= number {
            return Ok(());
        }
        let (file, last) = {
            let state = self.state.lock();
            (state.file.try_clone()?, state.number)
        };
        disk.sync_log(&file)?;
        self.synced.fetch_max(last, Ordering::AcqRel);
        Ok(())
    }

    /// Number of the last record.
    pub(crate) fn number(&self) -> u64 {
        self.state.lock().number
    }

    /// Notes that data and sums of the object are on the disk, as they were when `up_to` was the last record.
    pub(crate) fn settled(&self, disk: &dyn Disk, name: &ObjectName, up_to: u64) -> io::Result<()> {
        let mut state = self.state.lock();
        if !state.changed.contains_key(name) {
            return Ok(());
        }
        self.append(&mut state, disk, SETTLED, *name, 0..=0, up_to)?;
        Ok(())
    }

    /// The regions of the object that may change without another record, and the number of the last record.
    pub(crate) fn regions(&self, name: &ObjectName) -> (Regions, u64) {
        self.state.lock().changed.get(name).map_or((Regions::default(), 0), Changed::regions)
    }

    /// The sum file of the object was made.
    pub(crate) fn made_file(&self, name: &ObjectName) {
        if let Some(object) = self.state.lock().changed.get_mut(name) {
            object.is_new = true;
        }
    }

    /// The objects whose first change was before the second `before`.
    pub(crate) fn changed(&self, before: u64) -> Vec<(ObjectName, Changed)> {
        let state = self.state.lock();
        let old = state.changed.iter().filter(|(_, object)| object.since < before);
        old.map(|(name, object)| (*name, object.clone())).collect()
    }

    fn append(
        &self,
        state: &mut State,
        disk: &dyn Disk,
        kind: u32,
        name: ObjectName,
        range: RangeInclusive<u32>,
        up_to: u64,
    ) -> io::Result<u64> {
        if state.written >= state.room {
            let changed = std::mem::take(&mut state.changed);
            // All that counts is synced with the new file.
            match begin(&self.dir, disk, state.number, changed.clone()) {
                Ok(next) => *state = next,
                Err(error) => {
                    state.changed = changed;
                    return Err(error);
                }
            }
            self.synced.fetch_max(state.number, Ordering::AcqRel);
        }
        let number = state.number + 1;
        let record = Record { number, kind, name, range, up_to };
        disk.write_all_at(&state.file, &record.to_bytes(), (state.written * RECORD_BYTES) as u64)?;
        state.written += 1;
        state.number = number;
        apply(&mut state.changed, record);
        Ok(number)
    }
}

/// Begins a log with records of the objects that changed, durably.
fn begin(
    dir: &HeldDir,
    disk: &dyn Disk,
    mut number: u64,
    changed: BTreeMap<ObjectName, Changed>,
) -> io::Result<State> {
    match dir.remove_file(NEXT) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = disk.create_file(dir.file(), NEXT)?;
    let mut fresh = BTreeMap::new();
    let mut bytes = Vec::new();
    for (name, object) in changed {
        let mut records = Vec::new();
        for range in object.regions().0.ranges() {
            number += 1;
            let record = Record { number, kind: CHANGES, name, range: range.clone(), up_to: object.chain };
            bytes.extend_from_slice(&record.to_bytes());
            records.push((number, range));
        }
        fresh.insert(name, Changed { records, ..object });
    }
    let written = bytes.len() / RECORD_BYTES;
    let room = RECORDS_MIN.max(written * 4);
    // Zeros are written, so that a sync of a record has no length or block to note.
    bytes.resize(room * RECORD_BYTES, 0);
    disk.write_all_at(&file, &bytes, 0)?;
    disk.sync_log(&file)?;
    dir.move_file(NEXT, dir, FILE)?;
    dir.file().sync_all()?;
    Ok(State { file, room, written, number, changed: fresh })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::SystemDisk;

    fn name(inode: u64) -> ObjectName {
        ObjectName { inode, column: 0, volume: 1, generation: 1 }
    }

    fn open(dir: &std::path::Path) -> (ChangeLog, BTreeMap<ObjectName, LeftObject>) {
        let is_new = !dir.join(FILE).exists();
        let (log, left) = ChangeLog::open(HeldDir::open(dir).unwrap(), &SystemDisk).unwrap();
        assert_eq!(left.is_all, !is_new);
        (log, left.changed)
    }

    #[test]
    fn a_log_that_is_full_begins_anew_and_forgets_nothing_that_counts() {
        let dir = tempfile::tempdir().unwrap();
        let (log, before) = open(dir.path());
        assert!(before.is_empty());
        log.note(&SystemDisk, &name(0), 3..=u32::MAX, 77, 1).unwrap();
        for inode in 1..=RECORDS_MIN as u64 {
            let number = log.note(&SystemDisk, &name(inode % 100 + 1), 0..=0, 0, 1).unwrap();
            if inode % 3 > 0 {
                log.settled(&SystemDisk, &name(inode % 100 + 1), number).unwrap();
            }
        }
        log.note(&SystemDisk, &name(200), 7..=8, 0, 2).unwrap();
        let number = log.note(&SystemDisk, &name(201), 1..=1, 0, 2).unwrap();
        // A change after the settling began.
        log.note(&SystemDisk, &name(201), 2..=2, 0, 2).unwrap();
        log.settled(&SystemDisk, &name(201), number).unwrap();
        log.sync(&SystemDisk, log.number()).unwrap();
        let names = |log: &ChangeLog| {
            let mut names: Vec<_> = log.changed(u64::MAX).into_iter().map(|(name, _)| name).collect();
            names.sort();
            names
        };
        let noted = names(&log);
        assert_eq!(
            log.changed(2).iter().filter(|(name, _)| name.inode >= 200).count(),
            0,
            "they are younger"
        );
        drop(log);
        let (log, doubtful) = open(dir.path());
        assert_eq!(names(&log), noted, "a restart notes them again");
        assert_eq!(doubtful.len(), noted.len());
        assert_eq!(doubtful[&name(0)].regions.ranges(), [3..=u32::MAX]);
        assert_eq!((doubtful[&name(0)].chain, doubtful[&name(200)].chain), (77, 0));
        assert_eq!(doubtful[&name(200)].regions.ranges(), [7..=7, 8..=8]);
        assert_eq!(doubtful[&name(201)].regions.ranges(), [2..=2]);
    }

    #[test]
    fn a_record_that_is_not_sound_is_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let (log, _) = open(dir.path());
        for inode in 1..=3 {
            log.note(&SystemDisk, &name(inode), 0..=0, 0, 1).unwrap();
        }
        drop(log);
        let path = dir.path().join(FILE);
        let whole = std::fs::read(&path).unwrap();
        for bit in RECORD_BYTES * 8..2 * RECORD_BYTES * 8 {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let found = replay(&bytes);
            assert!(found.0.len() == 2 && !found.0.contains_key(&name(2)) && !found.1, "bit {bit}");
        }
        assert!(replay(&whole[..RECORD_BYTES + 9]).0.contains_key(&name(1)));
    }
}
