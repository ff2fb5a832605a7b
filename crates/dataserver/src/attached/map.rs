//! The map of an attached object: where each of its regions is. Beside it, under its name with `.regions` appended.
//!
//! ```text
//! │ "heorot regions 1\n" and zeros, 24 │ bytes of the bases that count, u64 │ zeros, 28 │ CRC-32C of all before, u32 │
//! │ base 1, 32 │ … │ base 8, 32 │ word 0, 8 │ word 1, 8 │ …                                    little-endian
//! base: inode u64 │ column u32 │ volume u32 │ generation u32 │ zeros, 8 │ CRC-32C of its number (u64) and these, u32
//!       a base that is not used is zeros
//! word: 4 regions, a byte each: 0 (the object's own), or the number of a base │ CRC-32C of its number (u64) and these, u32
//! ```
//!
//! A word of 8 bytes at a multiple of 8 is never torn: no sector ends within it; nor within a base, or the header.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;

use crate::checksums::BLOCK;
use crate::disk::Disk;
use crate::object::ObjectName;

/// Bytes of a region: a block, so that a region has the sum of its base's block.
pub(crate) const REGION_BYTES: u64 = BLOCK;
/// Bases of an object at most.
pub(crate) const BASES_MAX: usize = 8;
/// Appended to the name of the object.
pub(crate) const SUFFIX: &str = ".regions";
const MAGIC: &[u8; 17] = b"heorot regions 1\n";
const HEADER_BYTES: usize = 64;
const BASE_BYTES: usize = 32;
const HEAD_BYTES: usize = HEADER_BYTES + BASES_MAX * BASE_BYTES;
const WORD_BYTES: usize = 8;
/// Regions of a word.
const WORD_REGIONS: usize = 4;
/// Read or written at a time.
const CHUNK_BYTES: usize = 1 << 20;

/// Number of a base, from 1.
pub(crate) type Number = u8;
/// The bases, from number 1 on.
pub(crate) type Bases = [Option<ObjectName>; BASES_MAX];

/// The map, and its file.
#[derive(Debug)]
pub(crate) struct Map {
    file: File,
    bases: Bases,
    /// Bytes of the bases that count; what the object has behind them is its own.
    limit: u64,
    regions: Vec<Number>,
    /// Regions of each base, and the object's own.
    counts: [u64; BASES_MAX + 1],
    /// Words that the file has otherwise, with its regions; and whether it has the rest otherwise.
    changed: BTreeMap<usize, Vec<Number>>,
    head_is_changed: bool,
}

/// Bytes of an object that one of its bases has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OfBase {
    pub range: Range<u64>,
    pub base: Number,
}

/// What the file does not have yet.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    head: Option<[u8; HEAD_BYTES]>,
    words: Vec<(usize, [u8; WORD_BYTES])>,
    /// What the file has in their places.
    before: BTreeMap<usize, Vec<Number>>,
}

fn sum(number: usize, bytes: &[u8]) -> [u8; 4] {
    crc32c::crc32c_append(crc32c::crc32c(&(number as u64).to_le_bytes()), bytes).to_le_bytes()
}

/// Regions of a word, of so many.
fn of_word(word: usize, len: usize) -> Range<usize> {
    let first = word * WORD_REGIONS;
    first..len.min(first + WORD_REGIONS)
}

/// The word with this number.
fn word(regions: &[Number], number: usize) -> [u8; WORD_BYTES] {
    let mut bytes = [0; WORD_BYTES];
    let of_word = &regions[of_word(number, regions.len())];
    bytes[..of_word.len()].copy_from_slice(of_word);
    let sum = sum(number, &bytes[..WORD_REGIONS]);
    bytes[WORD_REGIONS..].copy_from_slice(&sum);
    bytes
}

fn place(word: usize) -> u64 {
    (HEAD_BYTES + word * WORD_BYTES) as u64
}

fn head(bases: &Bases, limit: u64) -> [u8; HEAD_BYTES] {
    let mut bytes = [0; HEAD_BYTES];
    bytes[..17].copy_from_slice(MAGIC);
    bytes[24..32].copy_from_slice(&limit.to_le_bytes());
    let crc = crc32c::crc32c(&bytes[..60]);
    bytes[60..64].copy_from_slice(&crc.to_le_bytes());
    for (number, (base, place)) in bases.iter().zip(bytes[HEADER_BYTES..].chunks_mut(BASE_BYTES)).enumerate()
    {
        let Some(base) = base else { continue };
        place[..8].copy_from_slice(&base.inode.to_le_bytes());
        place[8..12].copy_from_slice(&base.column.to_le_bytes());
        place[12..16].copy_from_slice(&base.volume.to_le_bytes());
        place[16..20].copy_from_slice(&base.generation.to_le_bytes());
        let sum = sum(number, &place[..28]);
        place[28..].copy_from_slice(&sum);
    }
    bytes
}

/// The bases and their bytes that count; none: it is damaged.
fn parse(bytes: &[u8; HEAD_BYTES]) -> Option<(Bases, u64)> {
    let u32_at = |at: usize| bytes[at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
    let u64_at = |at: usize| bytes[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let base = |number: usize| {
        let at = HEADER_BYTES + number * BASE_BYTES;
        let is_used = bytes[at..at + BASE_BYTES].iter().any(|byte| *byte != 0);
        let (inode, column, volume, generation) =
            (u64_at(at), u32_at(at + 8), u32_at(at + 12), u32_at(at + 16));
        is_used.then_some(ObjectName { inode, column, volume, generation })
    };
    let (bases, limit) = (std::array::from_fn(base), u64_at(24));
    (*bytes == head(&bases, limit)).then_some((bases, limit))
}

fn counts(regions: &[Number]) -> Option<[u64; BASES_MAX + 1]> {
    let mut counts = [0; BASES_MAX + 1];
    for region in regions {
        *counts.get_mut(usize::from(*region))? += 1;
    }
    Some(counts)
}

impl Map {
    /// A map, durably in `file`, which is new.
    pub(crate) fn create(
        disk: &dyn Disk,
        file: File,
        bases: Bases,
        limit: u64,
        regions: Vec<Number>,
    ) -> io::Result<Self> {
        let mut at = 0;
        let mut bytes = head(&bases, limit).to_vec();
        for number in 0..regions.len().div_ceil(WORD_REGIONS) {
            bytes.extend(word(&regions, number));
            if bytes.len() >= CHUNK_BYTES {
                disk.write_all_at(&file, &bytes, at)?;
                at += bytes.len() as u64;
                bytes.clear();
            }
        }
        disk.write_all_at(&file, &bytes, at)?;
        disk.sync_file(&file)?;
        let counts = counts(&regions).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(Self { file, bases, limit, regions, counts, changed: BTreeMap::new(), head_is_changed: false })
    }

    /// The map in `file`; none: it is damaged. `len`: the length of the object.
    pub(crate) fn read(disk: &dyn Disk, file: File, len: u64) -> io::Result<Option<Self>> {
        let Some((bases, limit)) = read_head(disk, &file)? else { return Ok(None) };
        let count = limit.div_ceil(REGION_BYTES) as usize;
        let words = count.div_ceil(WORD_REGIONS);
        if file.metadata()?.len() < place(words) {
            return Ok(None);
        }
        let (mut regions, mut bytes) = (Vec::with_capacity(count), vec![0; CHUNK_BYTES]);
        while regions.len() < count {
            let first = regions.len() / WORD_REGIONS;
            let chunk = (words - first).min(CHUNK_BYTES / WORD_BYTES) * WORD_BYTES;
            if disk.read_at(&file, &mut bytes[..chunk], place(first))? < chunk {
                return Ok(None);
            }
            for (number, found) in (first..).zip(bytes[..chunk].chunks(WORD_BYTES)) {
                if found[WORD_REGIONS..] != sum(number, &found[..WORD_REGIONS]) {
                    return Ok(None);
                }
                regions.extend(&found[..WORD_REGIONS]);
            }
        }
        regions.truncate(count);
        let Some(counts) = counts(&regions) else { return Ok(None) };
        if bases.iter().zip(&counts[1..]).any(|(base, count)| base.is_none() && *count > 0) {
            return Ok(None);
        }
        let mut map =
            Self { file, bases, limit, regions, counts, changed: BTreeMap::new(), head_is_changed: false };
        // What was cut off before the end of the last process is not the object's any more.
        map.shorten(len);
        Ok(Some(map))
    }

    /// The bases.
    pub(crate) fn bases(&self) -> &Bases {
        &self.bases
    }

    /// Bytes of the bases that count.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// Regions of a base.
    pub(crate) fn count(&self, base: Number) -> u64 {
        self.counts[usize::from(base)]
    }

    /// True if all regions are the object's own.
    pub(crate) fn is_full(&self) -> bool {
        self.counts[1..].iter().all(|count| *count == 0)
    }

    /// Where each region is.
    pub(crate) fn regions(&self) -> &[Number] {
        &self.regions
    }

    /// The next bytes in this range, at most `most`, that one base has (this one, if it is given); none: there are no more.
    pub(crate) fn next_of_base(&self, range: Range<u64>, most: u64, base: Option<Number>) -> Option<OfBase> {
        if self.is_full() {
            return None;
        }
        let end = range.end.min(self.limit);
        let is_wanted = |region: &Number| base.map_or(*region > 0, |base| base == *region);
        let first = usize::try_from(range.start / REGION_BYTES).ok()?;
        let last = usize::try_from(end.div_ceil(REGION_BYTES)).ok()?;
        let skipped = self.regions.get(first..last)?.iter().position(is_wanted)?;
        let found = first + skipped;
        let alike =
            self.regions[found..last].iter().take_while(|region| **region == self.regions[found]).count();
        let start = range.start.max(found as u64 * REGION_BYTES);
        let end = end.min((found + alike) as u64 * REGION_BYTES).min(start.saturating_add(most));
        // Behind the bytes that count the last region is the object's own.
        (start < end).then(|| OfBase { range: start..end, base: self.regions[found] })
    }

    /// Regions are the object's own from now on.
    pub(crate) fn set(&mut self, regions: Range<u64>) {
        let len = self.regions.len();
        let bound = |region| usize::try_from(region).unwrap_or(usize::MAX).min(len);
        for region in bound(regions.start)..bound(regions.end) {
            let base = self.regions[region];
            if base > 0 {
                let word = region / WORD_REGIONS;
                self.changed.entry(word).or_insert_with(|| self.regions[of_word(word, len)].to_vec());
                self.regions[region] = 0;
                self.counts[usize::from(base)] -= 1;
                self.counts[0] += 1;
            }
        }
    }

    /// The object was cut off: nothing of the bases behind its end counts any more.
    pub(crate) fn shorten(&mut self, len: u64) {
        if len < self.limit {
            self.set(len.div_ceil(REGION_BYTES)..u64::MAX);
            self.limit = len;
            self.head_is_changed = true;
        }
    }

    /// A base that no region is of is one no more.
    pub(crate) fn drop_base(&mut self, base: Number) {
        self.bases[usize::from(base) - 1] = None;
        self.head_is_changed = true;
    }

    /// What is to be written to the file, after the object's data were synced.
    pub(crate) fn take_changes(&mut self) -> Changes {
        let head = std::mem::take(&mut self.head_is_changed).then(|| head(&self.bases, self.limit));
        let before = std::mem::take(&mut self.changed);
        let words = before.keys().map(|number| (*number, word(&self.regions, *number))).collect();
        Changes { head, words, before }
    }

    /// Takes changes back that were not written: they are to be written later.
    pub(crate) fn put_back(&mut self, changes: Changes) {
        self.head_is_changed |= changes.head.is_some();
        self.changed.extend(changes.before);
    }

    /// Goes back to what the file has, after changes were not written: the data of regions may be lost. What was cut off
    /// stays cut off.
    pub(crate) fn go_back(&mut self, changes: Changes) {
        self.put_back(changes);
        let len = self.regions.len();
        for (word, before) in std::mem::take(&mut self.changed) {
            for (region, base) in of_word(word, len).zip(before) {
                self.counts[usize::from(self.regions[region])] -= 1;
                self.counts[usize::from(base)] += 1;
                self.regions[region] = base;
            }
        }
        self.set(self.limit.div_ceil(REGION_BYTES)..u64::MAX);
    }

    /// A handle of the file, for [`Changes::write`] without a lock of the map.
    pub(crate) fn file(&self) -> io::Result<File> {
        self.file.try_clone()
    }
}

fn read_head(disk: &dyn Disk, file: &File) -> io::Result<Option<(Bases, u64)>> {
    let mut bytes = [0; HEAD_BYTES];
    Ok(if disk.read_at(file, &mut bytes, 0)? < HEAD_BYTES { None } else { parse(&bytes) })
}

/// The bases in a map's file; none of a damaged one.
pub(crate) fn read_bases(disk: &dyn Disk, file: &File) -> io::Result<Bases> {
    Ok(read_head(disk, file)?.map_or([None; BASES_MAX], |(bases, _)| bases))
}

impl Changes {
    pub(crate) fn is_empty(&self) -> bool {
        self.head.is_none() && self.words.is_empty()
    }

    /// Writes them, durably.
    pub(crate) fn write(&self, disk: &dyn Disk, file: &File) -> io::Result<()> {
        if let Some(head) = &self.head {
            disk.write_all_at(file, head, 0)?;
        }
        let mut words = self.words.as_slice();
        while let Some((first, _)) = words.first() {
            // Those that lie one after the other, at once.
            let run = words.iter().zip(*first..).take_while(|((number, _), next)| number == next).count();
            let bytes: Vec<u8> = words[..run].iter().flat_map(|(_, bytes)| *bytes).collect();
            disk.write_all_at(file, &bytes, place(*first))?;
            words = &words[run..];
        }
        disk.sync_file(file)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;
    use crate::SystemDisk;

    const BASE: ObjectName = ObjectName { inode: 7, column: 1, volume: 2, generation: 3 };

    fn of(range: Range<u64>, base: Number) -> Option<OfBase> {
        Some(OfBase { range: range.start * REGION_BYTES..range.end * REGION_BYTES, base })
    }

    #[test]
    fn a_map_is_read_as_it_was_written_and_a_flipped_bit_of_it_is_seen() {
        let (dir, limit) = (tempfile::tempdir().unwrap(), 40 * REGION_BYTES + 5);
        let path = dir.path().join("map");
        let file =
            || File::options().read(true).write(true).create(true).truncate(false).open(&path).unwrap();
        let mut bases = Bases::default();
        (bases[0], bases[3]) = (Some(BASE), Some(ObjectName { inode: 9, ..BASE }));
        let regions = [vec![1; 30], vec![4; 11]].concat();
        let mut map = Map::create(&SystemDisk, file(), bases, limit, regions).unwrap();
        let next =
            |map: &Map, from: u64, base| map.next_of_base(from * REGION_BYTES..u64::MAX, u64::MAX, base);
        assert_eq!(next(&map, 0, None), of(0..30, 1));
        assert_eq!(next(&map, 0, Some(4)).unwrap().range, 30 * REGION_BYTES..limit);
        assert_eq!(map.next_of_base(5..REGION_BYTES + 1, 7, None).unwrap().range, 5..12);
        map.set(0..29);
        map.set(40..99);
        assert_eq!((map.count(1), map.count(4), map.is_full()), (1, 10, false));
        map.take_changes().write(&SystemDisk, &file()).unwrap();
        let read = |len| Map::read(&SystemDisk, file(), len).unwrap();
        let same = read(limit).unwrap();
        assert_eq!((same.bases(), same.limit(), same.regions()), (&bases, limit, map.regions()));
        assert_eq!((next(&same, 0, None), next(&same, 40, None)), (of(29..30, 1), None));
        // Of an object that is shorter, also if its map does not know yet.
        assert!(read(29 * REGION_BYTES).unwrap().is_full());
        assert_eq!(map.next_of_base(limit..limit + 9, 9, None), None);
        map.shorten(31 * REGION_BYTES - 8);
        assert_eq!(next(&map, 30, None).unwrap().range.end, 31 * REGION_BYTES - 8);
        assert!(map.take_changes().head.is_some() && map.take_changes().is_empty());
        // A sync that failed may have lost data: of what was set since the file was written.
        map.set(30..31);
        let changes = map.take_changes();
        assert!(next(&map, 30, None).is_none());
        map.go_back(changes);
        assert_eq!((next(&map, 30, None).unwrap().base, map.count(4)), (4, 1));
        let len = file().metadata().unwrap().len();
        for at in 0..len {
            let mut byte = [0];
            file().read_exact_at(&mut byte, at).unwrap();
            file().write_all_at(&[byte[0] ^ 4], at).unwrap();
            assert!(read(limit).is_none(), "byte {at}");
            file().write_all_at(&byte, at).unwrap();
        }
        file().set_len(len - 1).unwrap();
        assert!(read(limit).is_none(), "cut off");
    }
}
