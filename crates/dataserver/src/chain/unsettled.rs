//! What former processes of a target had not settled when they ended: regions of objects with copies that other members
//! of their chains may have otherwise. The file `unsettled` keeps them until all members of the chain are in.
//!
//! ```text
//! 9f86d081884c7d65 00000001.000000000000002a.00000003.00000000 0-67108864,…    chain, object, ranges in bytes
//! crc32c 1a2b3c4d                                                              of all bytes before
//! ```
//!
//! They come from the change log (`checksums::change_log`), which forgets them once their sums fit. So the file is
//! written before that: nothing is settled until it is.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use host::SystemFiles;
use parking_lot::Mutex;

use super::dirty_log::{DirtyObjects, OBJECTS_MAX};
use crate::checksums::{BLOCK, REGION_BLOCKS, Regions};
use crate::object::ObjectName;
use crate::objects::Objects;

/// Name of the file.
const FILE: &str = "unsettled";

#[derive(Default)]
struct Known {
    /// By chain; none: all objects of the chain may be otherwise.
    chains: BTreeMap<u64, Option<DirtyObjects>>,
    /// Number of changes, and of those that the file has.
    changes: u64,
    written: u64,
    /// True if the last attempt to write failed, and the log has it.
    is_failing: bool,
}

/// The unsettled objects of one target.
pub(crate) struct Unsettled {
    path: PathBuf,
    known: Mutex<Known>,
    /// One writes at a time.
    writing: Mutex<()>,
}

impl Unsettled {
    /// Reads the file of the target in `dir`, and adds the objects of which the change log has regions; none: they are
    /// not known. `chains`: those of the target, of which nothing is known if something cannot be read.
    pub(crate) fn open(
        dir: &Path,
        objects: &Objects,
        changed: Option<HashMap<ObjectName, Regions>>,
        chains: impl Iterator<Item = u64>,
    ) -> Self {
        let path = dir.join(FILE);
        let read = match std::fs::read_to_string(&path) {
            Ok(text) => parsed(&text).ok_or_else(|| "its checksum is wrong".to_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeMap::new()),
            Err(error) => Err(error.to_string()),
        };
        let mut why = match (&read, &changed) {
            (Err(why), _) => Some(why.clone()),
            (_, None) => Some("the change log is missing or damaged".to_owned()),
            _ => None,
        };
        let mut known = Known { chains: read.unwrap_or_default(), ..Known::default() };
        for (name, regions) in changed.unwrap_or_default() {
            match objects.look_at(&name) {
                Ok(Some(look)) if look.chain != 0 => known.add(look.chain, name, &regions),
                // One that is not there was removed, or was being made; one without copies is in no chain.
                Ok(_) => {}
                Err(error) => why = Some(format!("{name}: {error}")),
            }
        }
        let all: BTreeMap<u64, Option<DirtyObjects>> = chains.map(|chain| (chain, None)).collect();
        // A new target has no chains.
        if let Some(why) = why.filter(|_| !all.is_empty()) {
            tracing::warn!(
                file = %path.display(), %why,
                "what this target had not settled cannot be read: it is compared with all data of its chains"
            );
            known.chains = all;
            known.changes += 1;
        }
        Self { path, known: Mutex::new(known), writing: Mutex::default() }
    }

    /// The objects of a chain. None: not known.
    pub(super) fn of_chain(&self, chain: u64) -> Option<DirtyObjects> {
        let known = self.known.lock();
        match known.chains.get(&chain) {
            Some(objects) => objects.clone(),
            None => Some(DirtyObjects::new()),
        }
    }

    /// All members of these chains are in.
    pub(super) fn settled(&self, chains: &HashSet<u64>) {
        let mut known = self.known.lock();
        let before = known.chains.len();
        known.chains.retain(|chain, _| !chains.contains(chain));
        known.changes += u64::from(known.chains.len() < before);
    }

    /// Writes the file, if there is news. False: it is not written, and nothing may be settled. Blocks.
    pub(crate) fn write_down(&self) -> bool {
        let _alone = self.writing.lock();
        let (text, changes) = {
            let known = self.known.lock();
            if known.changes == known.written {
                return true;
            }
            (text(&known.chains), known.changes)
        };
        // Without the lock: to hear of a chain must not wait for the disk.
        let written = host::replace(&SystemFiles, &self.path, text.as_bytes());
        let mut known = self.known.lock();
        match &written {
            Ok(()) => known.written = changes,
            Err(error) if !known.is_failing => tracing::warn!(
                file = %self.path.display(), %error,
                "cannot write what this target had not settled, trying again; meanwhile checksums are not settled"
            ),
            Err(_) => {}
        }
        known.is_failing = written.is_err();
        written.is_ok()
    }
}

impl Known {
    fn add(&mut self, chain: u64, name: ObjectName, regions: &Regions) {
        let Some(objects) = self.chains.entry(chain).or_insert_with(|| Some(DirtyObjects::new())) else {
            return;
        };
        let dirty = objects.entry(name).or_default();
        let before = dirty.clone();
        for range in regions.ranges() {
            let byte = |region: u64| region.saturating_mul(REGION_BLOCKS * BLOCK);
            let end = if *range.end() == u32::MAX { u64::MAX } else { byte(u64::from(*range.end()) + 1) };
            dirty.add(byte(u64::from(*range.start()))..end);
        }
        self.changes += u64::from(*dirty != before);
        if objects.len() > OBJECTS_MAX {
            self.chains.insert(chain, None);
        }
    }
}

fn text(chains: &BTreeMap<u64, Option<DirtyObjects>>) -> String {
    let mut lines = String::new();
    for (chain, objects) in chains {
        let Some(objects) = objects else {
            lines += &format!("{chain:016x} all\n");
            continue;
        };
        for (name, regions) in objects {
            let ranges: Vec<String> =
                regions.ranges().map(|range| format!("{}-{}", range.start, range.end)).collect();
            lines += &format!("{chain:016x} {name} {}\n", ranges.join(","));
        }
    }
    let sum = crc32c::crc32c(lines.as_bytes());
    format!("{lines}crc32c {sum:08x}\n")
}

fn parsed(text: &str) -> Option<BTreeMap<u64, Option<DirtyObjects>>> {
    let (lines, sum) = text.strip_suffix('\n')?.rsplit_once("crc32c ")?;
    if u32::from_str_radix(sum, 16).ok()? != crc32c::crc32c(lines.as_bytes()) {
        return None;
    }
    let mut chains = BTreeMap::<u64, Option<DirtyObjects>>::new();
    for line in lines.lines() {
        let (chain, rest) = line.split_once(' ')?;
        let objects =
            chains.entry(u64::from_str_radix(chain, 16).ok()?).or_insert_with(|| Some(DirtyObjects::new()));
        match (rest.split_once(' '), objects) {
            (Some((name, ranges)), Some(objects)) => {
                let regions = objects.entry(ObjectName::parse(name)?).or_default();
                for range in ranges.split(',').filter(|range| !range.is_empty()) {
                    let (from, to) = range.split_once('-')?;
                    regions.add(from.parse().ok()?..to.parse().ok()?);
                }
            }
            (None, objects) if rest == "all" => *objects = None,
            _ => return None,
        }
    }
    Some(chains)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(inode: u64) -> ObjectName {
        ObjectName { inode, column: 1, volume: 2, generation: 3 }
    }

    fn known(dir: &Path) -> Unsettled {
        let target =
            crate::Target::open_or_create(&dir.join("target"), [1; 16], &host::SystemEntropy).unwrap();
        Unsettled::open(dir, target.objects(), Some(HashMap::new()), [7, 8].into_iter())
    }

    #[test]
    fn the_file_keeps_objects_until_their_chain_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let unsettled = known(dir.path());
        {
            let mut known = unsettled.known.lock();
            let mut regions = Regions::default();
            known.add(7, name(1), &regions);
            assert_eq!(known.chains.len(), 1);
            regions.insert(1, 2);
            regions.insert(9, u32::MAX);
            known.add(7, name(2), &regions);
            known.add(8, name(3), &Regions::all());
            assert!(known.changes > known.written);
            known.chains.insert(9, None);
        }
        assert!(unsettled.write_down());
        let again = known(dir.path());
        assert_eq!(again.known.lock().changes, 0);
        assert_eq!(again.known.lock().chains, unsettled.known.lock().chains);
        let region = REGION_BLOCKS * BLOCK;
        let of_second: Vec<_> = again.of_chain(7).unwrap()[&name(2)].ranges().collect();
        assert_eq!(of_second, [region..3 * region, 9 * region..u64::MAX]);
        assert!(again.of_chain(9).is_none() && again.of_chain(5).unwrap().is_empty());
        again.settled(&HashSet::from([7, 9]));
        assert!(again.write_down());
        let rest = known(dir.path());
        assert!(rest.of_chain(7).unwrap().is_empty() && rest.of_chain(8).unwrap().len() == 1);
    }

    #[test]
    fn of_a_damaged_file_nothing_is_known() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(FILE);
        let unsettled = known(dir.path());
        unsettled.known.lock().add(8, name(3), &Regions::all());
        assert!(unsettled.write_down());
        let text = std::fs::read(&file).unwrap();
        let damaged = (0..text.len()).map(|at| [&text[..at], &[text[at] ^ 1], &text[at + 1..]].concat());
        for bytes in damaged.chain([vec![], vec![0; text.len()], vec![255; 9]]) {
            std::fs::write(&file, &bytes).unwrap();
            assert!(known(dir.path()).of_chain(7).is_none(), "{bytes:?}");
        }
        let unsettled = known(dir.path());
        std::fs::remove_file(&file).unwrap();
        std::fs::create_dir(dir.path().join("unsettled.new")).unwrap(); // in the way
        assert!(!unsettled.write_down());
        std::fs::remove_dir(dir.path().join("unsettled.new")).unwrap();
        assert!(unsettled.write_down());
        assert!(known(dir.path()).of_chain(7).is_none(), "also to the next process");
    }

    #[test]
    fn without_a_sound_change_log_nothing_is_known() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("target");
        let open = || crate::Target::open_or_create(&dir, [1; 16], &host::SystemEntropy).unwrap();
        let lines = "0000000000000007 7 0000000000000001 - 7\n";
        let sum = crc32c::crc32c(lines.as_bytes());
        drop(open());
        std::fs::write(dir.join("chains"), format!("{lines}crc32c {sum:08x}\n")).unwrap();
        assert!(open().unsettled().of_chain(7).is_some());
        let log = dir.join("changes.log");
        let mut bytes = std::fs::read(&log).unwrap();
        bytes[64 * 5 + 9] = 1; // a record that is not sound
        std::fs::write(&log, bytes).unwrap();
        let target = open();
        assert!(target.unsettled().of_chain(7).is_none() && target.unsettled().write_down());
        drop(target);
        assert!(open().unsettled().of_chain(7).is_none(), "also to the next process");
        std::fs::remove_file(dir.join("unsettled")).unwrap();
        std::fs::remove_file(&log).unwrap();
        assert!(open().unsettled().of_chain(7).is_none());
    }
}
