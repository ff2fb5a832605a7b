//! The map of an attached object's regions: which of them are its own. Beside it, under its name with `.regions` appended.
//!
//! ```text
//! │ "heorot regions 1\n" and zeros, 24 │ base: inode u64 │ column u32 │ volume u32 │ generation u32 │ zeros, 4 │
//! │ bytes of the base that count, u64 │ zeros, 4 │ CRC-32C of all before, u32 │ word 0, 8 │ word 1, 8 │ …
//! word: 32 regions, a bit each, u32 │ CRC-32C of its number (u64) and these bits, u32          little-endian
//! ```
//!
//! A word of 8 bytes at a multiple of 8 is never torn: no sector ends within it; nor within the header.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::ops::Range;

use crate::disk::Disk;
use crate::object::ObjectName;

/// Bytes of a region.
pub(crate) const REGION_BYTES: u64 = 1 << 20;
/// Appended to the name of the object.
pub(crate) const SUFFIX: &str = ".regions";
const MAGIC: &[u8; 17] = b"heorot regions 1\n";
const HEADER_BYTES: usize = 64;
const WORD_BYTES: usize = 8;
/// Regions of a word.
const WORD_REGIONS: u64 = u32::BITS as u64;

/// The map, and its file.
#[derive(Debug)]
pub(crate) struct RegionMap {
    file: File,
    base: ObjectName,
    /// Bytes of the base that count; what the object has behind them is its own.
    limit: u64,
    words: Vec<u32>,
    /// Words that the file does not have yet, and whether the header is one of them.
    changed: BTreeSet<u64>,
    header_is_changed: bool,
}

/// What the file does not have yet.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    header: Option<[u8; HEADER_BYTES]>,
    words: Vec<(u64, u32)>,
}

fn sum(word: u64, bits: u32) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&word.to_le_bytes()), &bits.to_le_bytes())
}

fn word_bytes(word: u64, bits: u32) -> [u8; WORD_BYTES] {
    let mut bytes = [0; WORD_BYTES];
    bytes[..4].copy_from_slice(&bits.to_le_bytes());
    bytes[4..].copy_from_slice(&sum(word, bits).to_le_bytes());
    bytes
}

fn place(word: u64) -> u64 {
    HEADER_BYTES as u64 + word * WORD_BYTES as u64
}

fn header(base: &ObjectName, limit: u64) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..17].copy_from_slice(MAGIC);
    bytes[24..32].copy_from_slice(&base.inode.to_le_bytes());
    bytes[32..36].copy_from_slice(&base.column.to_le_bytes());
    bytes[36..40].copy_from_slice(&base.volume.to_le_bytes());
    bytes[40..44].copy_from_slice(&base.generation.to_le_bytes());
    bytes[48..56].copy_from_slice(&limit.to_le_bytes());
    let crc = crc32c::crc32c(&bytes[..60]);
    bytes[60..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// The base and its bytes that count; none: the header is damaged.
fn parse(bytes: &[u8; HEADER_BYTES]) -> Option<(ObjectName, u64)> {
    let u32_at = |at: usize| bytes[at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
    let u64_at = |at: usize| bytes[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let base =
        ObjectName { inode: u64_at(24), column: u32_at(32), volume: u32_at(36), generation: u32_at(40) };
    let limit = u64_at(48);
    (*bytes == header(&base, limit)).then_some((base, limit))
}

impl RegionMap {
    /// A map without regions, durably in `file`, which is new.
    pub(crate) fn create(disk: &dyn Disk, file: File, base: ObjectName, limit: u64) -> io::Result<Self> {
        let words = limit.div_ceil(REGION_BYTES).div_ceil(WORD_REGIONS);
        let mut bytes = header(&base, limit).to_vec();
        (0..words).for_each(|word| bytes.extend(word_bytes(word, 0)));
        disk.write_all_at(&file, &bytes, 0)?;
        disk.sync_file(&file)?;
        let words = vec![0; words as usize];
        Ok(Self { file, base, limit, words, changed: BTreeSet::new(), header_is_changed: false })
    }

    /// The map in `file`; none: it is damaged. `len`: the length of the object.
    pub(crate) fn read(disk: &dyn Disk, file: File, len: u64) -> io::Result<Option<Self>> {
        let mut bytes = [0; HEADER_BYTES];
        if disk.read_at(&file, &mut bytes, 0)? < HEADER_BYTES {
            return Ok(None);
        }
        let Some((base, limit)) = parse(&bytes) else { return Ok(None) };
        let count = limit.div_ceil(REGION_BYTES).div_ceil(WORD_REGIONS);
        if file.metadata()?.len() < place(count) {
            return Ok(None);
        }
        let mut words = vec![0; count as usize];
        for (word, bits) in words.iter_mut().enumerate() {
            let (word, mut bytes) = (word as u64, [0; WORD_BYTES]);
            disk.read_at(&file, &mut bytes, place(word))?;
            let [b0, b1, b2, b3, ..] = bytes;
            *bits = u32::from_le_bytes([b0, b1, b2, b3]);
            if bytes != word_bytes(word, *bits) {
                return Ok(None);
            }
        }
        // What was cut off before the end of the last process is not the object's any more.
        let limit = limit.min(len);
        Ok(Some(Self { file, base, limit, words, changed: BTreeSet::new(), header_is_changed: false }))
    }

    /// The object that this one is attached to.
    pub(crate) fn base(&self) -> ObjectName {
        self.base
    }

    /// Bytes of the base that count.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    fn owns(&self, region: u64) -> bool {
        let word = self.words.get((region / WORD_REGIONS) as usize);
        word.is_none_or(|bits| bits & 1 << (region % WORD_REGIONS) != 0)
    }

    /// The next bytes from `at` on, as far as one region, that are the base's; none: there are no more.
    pub(crate) fn next_of_base(&self, at: u64) -> Option<Range<u64>> {
        let regions = at / REGION_BYTES..self.limit.div_ceil(REGION_BYTES);
        let region = regions.into_iter().find(|region| !self.owns(*region))?;
        let start = at.max(region * REGION_BYTES);
        let end = ((region + 1) * REGION_BYTES).min(self.limit);
        (start < end).then_some(start..end)
    }

    /// Regions are the object's own from now on.
    pub(crate) fn set(&mut self, regions: Range<u64>) {
        for region in regions.start..regions.end.min(self.words.len() as u64 * WORD_REGIONS) {
            if !self.owns(region) {
                self.words[(region / WORD_REGIONS) as usize] |= 1 << (region % WORD_REGIONS);
                self.changed.insert(region / WORD_REGIONS);
            }
        }
    }

    /// The object was cut off: nothing of the base behind its end counts any more.
    pub(crate) fn shorten(&mut self, len: u64) {
        if len < self.limit {
            self.limit = len;
            self.header_is_changed = true;
        }
    }

    /// What is to be written to the file, after the object's data were synced.
    pub(crate) fn take_changes(&mut self) -> Changes {
        let header = std::mem::take(&mut self.header_is_changed).then(|| header(&self.base, self.limit));
        let words = std::mem::take(&mut self.changed).into_iter();
        Changes { header, words: words.map(|word| (word, self.words[word as usize])).collect() }
    }

    /// Takes changes back that were not written.
    pub(crate) fn put_back(&mut self, changes: Changes) {
        self.header_is_changed |= changes.header.is_some();
        self.changed.extend(changes.words.into_iter().map(|(word, _)| word));
    }

    /// A handle of the file, for [`Changes::write`] without a lock of the map.
    pub(crate) fn file(&self) -> io::Result<File> {
        self.file.try_clone()
    }
}

impl Changes {
    pub(crate) fn is_empty(&self) -> bool {
        self.header.is_none() && self.words.is_empty()
    }

    /// Writes them, durably.
    pub(crate) fn write(&self, disk: &dyn Disk, file: &File) -> io::Result<()> {
        if let Some(header) = &self.header {
            disk.write_all_at(file, header, 0)?;
        }
        for (word, bits) in &self.words {
            disk.write_all_at(file, &word_bytes(*word, *bits), place(*word))?;
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

    #[test]
    fn a_map_is_read_as_it_was_written_and_a_flipped_bit_of_it_is_seen() {
        let (dir, limit) = (tempfile::tempdir().unwrap(), 40 * REGION_BYTES + 5);
        let path = dir.path().join("map");
        let file =
            || File::options().read(true).write(true).create(true).truncate(false).open(&path).unwrap();
        let mut map = RegionMap::create(&SystemDisk, file(), BASE, limit).unwrap();
        assert_eq!(map.next_of_base(0), Some(0..REGION_BYTES));
        map.set(0..33);
        map.set(40..99);
        assert_eq!(map.next_of_base(5), Some(33 * REGION_BYTES..34 * REGION_BYTES));
        map.take_changes().write(&SystemDisk, &file()).unwrap();
        let read = |len| RegionMap::read(&SystemDisk, file(), len).unwrap();
        let same = read(limit).unwrap();
        assert_eq!((same.base(), same.limit(), &same.words), (BASE, limit, &map.words));
        assert_eq!(same.next_of_base(39 * REGION_BYTES + 1), Some(39 * REGION_BYTES + 1..40 * REGION_BYTES));
        assert_eq!(same.next_of_base(40 * REGION_BYTES), None);
        // Of an object that is shorter, also if its map does not know yet.
        assert_eq!(read(33 * REGION_BYTES).unwrap().next_of_base(0), None);
        map.shorten(34 * REGION_BYTES);
        assert_eq!(map.next_of_base(34 * REGION_BYTES), None);
        assert!(map.take_changes().header.is_some() && map.take_changes().is_empty());
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
