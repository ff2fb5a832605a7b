//! The dirty log of a target on its disk, in the file `unsettled`: so it outlives the process. Regions of objects with
//! copies that other members of their chains may have otherwise, until all members of the chain are in.
//!
//! ```text
//! 9f86d081884c7d65 00000001.000000000000002a.00000003.00000000 0-67108864,…    chain, object, ranges in bytes
//! crc32c 1a2b3c4d                                                              of all bytes before
//! ```
//!
//! Whatever is in the dirty log (`chain::dirty_log`) is in this file or in the change log (`checksums::change_log`), which
//! has each change before it is made, and forgets it some seconds later. So the file is written before that: nothing is
//! settled until it is. A removal leaves nothing to settle: the change log has it while a member is away.
//!
//! ```text
//! change ─▶ dirty log ─▶ change log, synced ─▶ disk … 10 s … ─▶ `unsettled` ─▶ the change log forgets
//! next process: dirty log = `unsettled` + change log
//! ```

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use host::SystemFiles;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::dirty_log::{DirtyLog, DirtyObjects, OBJECTS_MAX};
use super::records::ChainRecords;
use crate::checksums::{BLOCK, LeftObject, REGION_BLOCKS, Regions};
use crate::object::ObjectName;
use crate::objects::Objects;

/// Name of the file.
const FILE: &str = "unsettled";
/// Time between two writes of the file, in times that the last one took: a large log takes a tenth of the disk.
const PAUSE: u32 = 10;

/// By chain; none: all objects of the chain may be otherwise.
type DirtyChains = BTreeMap<u64, Option<DirtyObjects>>;

#[derive(Default)]
struct Written {
    /// Changes of the dirty log that the file has.
    changes: Option<u64>,
    /// Checksum of the file; none: it is not known.
    sum: Option<u32>,
    /// Time of the next write, at the earliest.
    next: Option<Instant>,
    /// True if the last attempt to write failed, and the log has it.
    is_failing: bool,
}

/// The file of one target.
pub(crate) struct DirtyLogFile {
    path: PathBuf,
    /// What the former process has left.
    left: DirtyChains,
    /// The log; none: it has not begun.
    log: OnceLock<Arc<DirtyLog>>,
    /// Locked while the file is written.
    written: Mutex<Written>,
}

impl DirtyLogFile {
    /// Reads the file of the target in `dir`, and adds the objects that the change log has; none: they are not known.
    /// `chains`: those of the target, of which nothing is known if something cannot be read.
    pub(crate) fn open(
        dir: &Path,
        objects: &Objects,
        changed: Option<BTreeMap<ObjectName, LeftObject>>,
        chains: impl Iterator<Item = u64>,
    ) -> Self {
        let path = dir.join(FILE);
        let (read, mut sum) = match std::fs::read_to_string(&path) {
            Ok(text) => match parsed(&text) {
                Some(chains) => (Ok(chains), Some(crc32c::crc32c(text.as_bytes()))),
                None => (Err("its checksum is wrong".to_owned()), None),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                (Ok(BTreeMap::new()), Some(crc32c::crc32c(text(&BTreeMap::new()).as_bytes())))
            }
            Err(error) => (Err(error.to_string()), None),
        };
        let mut why = match (&read, &changed) {
            (Err(why), _) => Some(why.clone()),
            (_, None) => Some("the change log is missing or damaged".to_owned()),
            _ => None,
        };
        let mut left = read.unwrap_or_default();
        for (name, LeftObject { regions, chain }) in changed.unwrap_or_default() {
            match objects.look_at(&name) {
                Ok(Some(look)) if look.chain != 0 => add(&mut left, look.chain, name, &regions),
                // It was removed, or is being made.
                Ok(_) if chain != 0 => add(&mut left, chain, name, &regions),
                // One that is not there was removed by all members; one without copies is in no chain.
                Ok(_) => {}
                Err(error) => why = Some(format!("{name}: {error}")),
            }
        }
        let all: DirtyChains = chains.map(|chain| (chain, None)).collect();
        // A new target has no chains.
        if let Some(why) = why.filter(|_| !all.is_empty()) {
            tracing::warn!(
                file = %path.display(), %why,
                "what this target had not settled cannot be read: it is compared with all data of its chains"
            );
            left = all;
            // At once: the change log has begun anew by now, and tells the next process that all is well.
            sum = None;
            if let Err(error) = host::replace(&SystemFiles, &path, text(&left).as_bytes()) {
                tracing::warn!(file = %path.display(), %error, "cannot write what is not known of this target");
            }
        }
        let written = Mutex::new(Written { sum, ..Written::default() });
        Self { path, left, log: OnceLock::new(), written }
    }

    /// What the former process has left of a chain. None: not known.
    pub(super) fn of_chain(&self, chain: u64) -> Option<DirtyObjects> {
        match self.left.get(&chain) {
            Some(objects) => objects.clone(),
            None => Some(DirtyObjects::new()),
        }
    }

    /// The log has begun, with what the former process has left.
    pub(super) fn begin(&self, log: Arc<DirtyLog>) {
        let _ = self.log.set(log);
    }

    /// False while the disk is left to others, as the file was written a short while ago.
    pub(crate) fn may_write(&self) -> bool {
        self.written.lock().next.is_none_or(|next| next <= Instant::now())
    }

    /// Writes the file, if there is news of the chains of the target. False: it is not written, and nothing may be
    /// settled. Blocks.
    pub(crate) fn write_down(&self, records: &ChainRecords) -> bool {
        let Some(log) = self.log.get() else { return false };
        let mut written = self.written.lock();
        let changes = log.changes();
        if written.changes == Some(changes) {
            return true;
        }
        let began = Instant::now();
        let of = |chain| Some((chain, log.of_chain(chain)?));
        let chains: DirtyChains = records.chains().into_iter().filter_map(of).collect();
        let text = text(&chains);
        let sum = crc32c::crc32c(text.as_bytes());
        // What the log does not have any more, as the target was dropped, must not be forgotten before the record says so.
        if records.has_news() {
            return false;
        }
        let is_new = written.sum != Some(sum);
        if let Some(Err(error)) = is_new.then(|| host::replace(&SystemFiles, &self.path, text.as_bytes())) {
            if !written.is_failing {
                tracing::warn!(
                    file = %self.path.display(), %error,
                    "cannot write what this target had not settled, trying again; meanwhile checksums are not settled"
                );
            }
            (written.is_failing, written.sum) = (true, None);
            return false;
        }
        let next = written.next.unwrap_or(began).max(began);
        written.next = Some(next + began.elapsed() * PAUSE);
        (written.changes, written.sum, written.is_failing) = (Some(changes), Some(sum), false);
        true
    }
}

fn add(chains: &mut DirtyChains, chain: u64, name: ObjectName, regions: &Regions) {
    let Some(objects) = chains.entry(chain).or_insert_with(|| Some(DirtyObjects::new())) else { return };
    let dirty = objects.entry(name).or_default();
    for range in regions.ranges() {
        let byte = |region: u64| region.saturating_mul(REGION_BLOCKS * BLOCK);
        let end = if *range.end() == u32::MAX { u64::MAX } else { byte(u64::from(*range.end()) + 1) };
        dirty.add(byte(u64::from(*range.start()))..end);
    }
    if objects.len() > OBJECTS_MAX {
        chains.insert(chain, None);
    }
}

fn text(chains: &DirtyChains) -> String {
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

fn parsed(text: &str) -> Option<DirtyChains> {
    let (lines, sum) = text.strip_suffix('\n')?.rsplit_once("crc32c ")?;
    if u32::from_str_radix(sum, 16).ok()? != crc32c::crc32c(lines.as_bytes()) {
        return None;
    }
    let mut chains = DirtyChains::new();
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
#[path = "dirty_log_file/tests.rs"]
mod tests;
