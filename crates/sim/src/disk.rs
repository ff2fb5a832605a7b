//! Disk that loses unsynced writes at a power failure: all, some, or a part of one.
//!
//! ```text
//! write ─▶ now ─────── sync ──────▶ synced        after a crash: synced, and of the writes since then
//!           └─ pending (per file) ─┘                 each whole, torn at a sector, or lost;
//! make, rename, remove ─▶ names ─ sync_dir ─▶        of the names the first few changes, as in a journal
//! ```
//!
//! The power can fail between any two steps of the simulation ([`SimDisk::cut_power`]), and within any single
//! operation ([`SimDisk::cut_power_after`]), which is then done in part.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use host::{File, Files, Opened};
use parking_lot::{Mutex, MutexGuard};

use crate::rng::Rng;

/// Unit that a disk writes whole or not at all.
const SECTOR_BYTES: usize = 512;

type FileId = u64;

/// Bytes of a file.
#[derive(Default)]
struct Content {
    now: Vec<u8>,
    synced: Vec<u8>,
    /// Writes since the last sync, in order.
    pending: Vec<(u64, Vec<u8>)>,
}

impl Content {
    fn put(image: &mut Vec<u8>, at: u64, bytes: &[u8]) {
        let end = at as usize + bytes.len();
        if image.len() < end {
            image.resize(end, 0);
        }
        image[at as usize..end].copy_from_slice(bytes);
    }

    fn sync(&mut self) {
        for (at, bytes) in std::mem::take(&mut self.pending) {
            Self::put(&mut self.synced, at, &bytes);
        }
    }

    /// Applies some of the unsynced writes, as a power failure may.
    fn lose(&mut self, rng: &mut Rng) {
        for (at, bytes) in std::mem::take(&mut self.pending) {
            let sectors = bytes.len().div_ceil(SECTOR_BYTES);
            let kept = match rng.below(3) {
                0 => 0..0,
                1 => 0..sectors,
                // A write is one request: a torn one leaves its beginning, or its end.
                _ => match rng.below(2) {
                    0 => 0..rng.below(sectors + 1),
                    _ => rng.below(sectors + 1)..sectors,
                },
            };
            let (from, to) = (kept.start * SECTOR_BYTES, (kept.end * SECTOR_BYTES).min(bytes.len()));
            if from < to {
                Self::put(&mut self.synced, at + from as u64, &bytes[from..to]);
            }
        }
        self.now = self.synced.clone();
    }
}

/// Change of names that is not synced yet.
enum Renaming {
    Make(PathBuf, FileId),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
}

impl Renaming {
    fn apply(&self, names: &mut BTreeMap<PathBuf, FileId>) {
        match self {
            Renaming::Make(path, id) => drop(names.insert(path.clone(), *id)),
            Renaming::Rename(from, to) => {
                if let Some(id) = names.remove(from) {
                    names.insert(to.clone(), id);
                }
            }
            Renaming::Remove(path) => drop(names.remove(path)),
        }
    }
}

struct State {
    names: BTreeMap<PathBuf, FileId>,
    synced_names: BTreeMap<PathBuf, FileId>,
    pending: Vec<Renaming>,
    contents: BTreeMap<FileId, Content>,
    next: FileId,
    /// Number of changes until the power fails.
    fuse: Option<u64>,
    dead: bool,
    /// Seeded bug: syncs are reported but not done.
    lies: bool,
    rng: Rng,
}

impl State {
    fn alive(&self) -> io::Result<()> {
        if self.dead { Err(io::Error::other("the power is gone")) } else { Ok(()) }
    }

    /// True if the power fails with this change. The caller then does any part of it, and fails.
    fn goes_out(&mut self) -> io::Result<bool> {
        self.alive()?;
        self.fuse = self.fuse.map(|left| left.saturating_sub(1));
        self.dead = self.fuse == Some(0);
        Ok(self.dead)
    }

    fn content(&mut self, id: FileId) -> &mut Content {
        self.contents.entry(id).or_default()
    }

    fn rename(&mut self, change: Renaming) -> io::Result<()> {
        let out = self.goes_out()?;
        change.apply(&mut self.names);
        self.pending.push(change);
        if out { self.alive() } else { Ok(()) }
    }

    fn id(&self, path: &Path) -> io::Result<FileId> {
        self.names.get(path).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// Outcome of a change.
pub(crate) enum Step {
    Done,
    /// The power failed during the change: it may be there after the restart.
    CutOff,
    /// The power had failed: nothing was done.
    Dead,
}

/// Simulated disk; clones share it.
#[derive(Clone)]
pub struct SimDisk(Arc<Mutex<State>>);

impl SimDisk {
    /// Creates an empty disk. `lies`: it reports syncs that it has not done.
    #[must_use]
    pub fn new(rng: Rng, lies: bool) -> Self {
        Self(Arc::new(Mutex::new(State {
            names: BTreeMap::new(),
            synced_names: BTreeMap::new(),
            pending: vec![],
            contents: BTreeMap::new(),
            next: 0,
            fuse: None,
            dead: false,
            lies,
            rng,
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }

    /// Fails the power: every operation fails from now on.
    pub fn cut_power(&self) {
        self.state().dead = true;
    }

    /// Fails the power within the change after this many.
    pub fn cut_power_after(&self, changes: u64) {
        self.state().fuse = Some(changes);
    }

    /// True if the power has failed.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.state().dead
    }

    /// A change by the machine's store, in one step.
    pub(crate) fn step(&self) -> Step {
        match self.state().goes_out() {
            Ok(false) => Step::Done,
            Ok(true) => Step::CutOff,
            Err(_) => Step::Dead,
        }
    }

    /// Restores the power: the contents are those that survived.
    pub fn restart(&self) {
        let mut state = self.state();
        let State { names, synced_names, pending, contents, rng, .. } = &mut *state;
        let kept = rng.below(pending.len() + 1);
        pending.iter().take(kept).for_each(|change| change.apply(synced_names));
        pending.clear();
        *names = synced_names.clone();
        contents.retain(|id, _| names.values().any(|named| named == id));
        contents.values_mut().for_each(|content| content.lose(rng));
        (state.dead, state.fuse) = (false, None);
    }
}

impl Files for SimDisk {
    fn make_dir(&self, _: &Path) -> io::Result<()> {
        self.state().alive()
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        let state = self.state();
        state.alive()?;
        Ok(state.names.keys().filter(|path| path.parent() == Some(dir)).cloned().collect())
    }

    fn open(&self, path: &Path, how: Opened) -> io::Result<Box<dyn File>> {
        let mut state = self.state();
        state.alive()?;
        let id = match how {
            Opened::New => {
                // Not emptied in place: a crash could then leave the old bytes.
                let id = state.next;
                state.next += 1;
                state.rename(Renaming::Make(path.to_owned(), id))?;
                id
            }
            Opened::Read | Opened::Write | Opened::Durable => state.id(path)?,
        };
        Ok(Box::new(Open { disk: self.clone(), id, durable: how == Opened::Durable }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.id(from)?;
        state.rename(Renaming::Rename(from.to_owned(), to.to_owned()))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.id(path)?;
        state.rename(Renaming::Remove(path.to_owned()))
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        let mut state = self.state();
        if state.goes_out()? {
            return state.alive();
        }
        if !state.lies {
            state.synced_names = state.names.clone();
            state.pending.clear();
        }
        Ok(())
    }
}

struct Open {
    disk: SimDisk,
    id: FileId,
    durable: bool,
}

impl File for Open {
    fn bytes(&self) -> io::Result<u64> {
        let mut state = self.disk.state();
        state.alive()?;
        Ok(state.content(self.id).now.len() as u64)
    }

    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        state.alive()?;
        let found = state.content(self.id).now.get(at as usize..at as usize + bytes.len());
        bytes.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        let out = state.goes_out()?;
        let durable = self.durable && !state.lies;
        let content = state.content(self.id);
        Content::put(&mut content.now, at, bytes);
        content.pending.push((at, bytes.to_vec()));
        if out {
            return state.alive();
        }
        if durable {
            content.sync();
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        if state.goes_out()? {
            return state.alive();
        }
        if !state.lies {
            state.content(self.id).sync();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(disk: &SimDisk, path: &Path) -> Vec<u8> {
        let file = disk.open(path, Opened::Read).unwrap();
        let mut bytes = vec![0; file.bytes().unwrap() as usize];
        file.read_at(&mut bytes, 0).unwrap();
        bytes
    }

    #[test]
    fn what_was_synced_outlives_a_crash_and_what_was_not_may_be_lost_whole_or_in_part() {
        let path = Path::new("/log/a");
        let (mut whole, mut torn, mut lost) = (0, 0, 0);
        for seed in 0..200 {
            let disk = SimDisk::new(Rng::new(seed), false);
            let file = disk.open(path, Opened::New).unwrap();
            file.write_at(&[1; 4096], 0).unwrap();
            file.sync().unwrap();
            disk.sync_dir(Path::new("/log")).unwrap();
            file.write_at(&[2; 4096], 0).unwrap();
            disk.cut_power();
            assert!(file.write_at(&[3; 4096], 0).is_err());
            disk.restart();
            let found = contents(&disk, path);
            assert!(found.iter().all(|byte| [1, 2].contains(byte)));
            match found.iter().filter(|byte| **byte == 2).count() {
                0 => lost += 1,
                4096 => whole += 1,
                _ => torn += 1,
            }
        }
        assert!(whole > 0 && torn > 0 && lost > 0, "{whole} {torn} {lost}");
    }

    #[test]
    fn the_power_goes_in_the_midst_of_the_change_that_was_named() {
        let path = Path::new("/log/a");
        let disk = SimDisk::new(Rng::new(1), false);
        let file = disk.open(path, Opened::New).unwrap();
        file.write_at(&[0; 512], 0).unwrap();
        file.sync().unwrap();
        disk.sync_dir(Path::new("/log")).unwrap();
        let durable = disk.open(path, Opened::Durable).unwrap();
        disk.cut_power_after(2);
        durable.write_at(&[1; 512], 0).unwrap();
        assert!(durable.write_at(&[2; 512], 0).is_err() && disk.is_dead());
        disk.restart();
        assert_ne!(contents(&disk, path), [0; 512], "the first was on disk when it returned");
    }
}
