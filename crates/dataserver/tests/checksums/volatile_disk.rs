//! A disk that loses what was not synced, in part: of each file that was changed since its last sync, a crash
//! leaves some pages of 4 KiB as they were, some as they are, and one of the two lengths.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use dataserver::{Disk, SystemDisk};
use host::{Entropy, SeededEntropy};
use parking_lot::Mutex;

const PAGE: usize = 4096;
const SECTOR: usize = 512;
const EIO: i32 = 5;

/// Fault of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// From this operation on nothing works: the power is gone.
    PowerFrom(u64),
    /// Only this operation fails, with an error number.
    Once(u64, i32),
    Never,
}

#[derive(Default)]
struct State {
    operations: u64,
    /// Content at the last sync of files that have changed since, by inode.
    durable: BTreeMap<u64, Vec<u8>>,
    /// Sum files whose directories were synced since they were made.
    durable_names: BTreeSet<PathBuf>,
}

pub struct VolatileDisk {
    root: PathBuf,
    fault: Fault,
    state: Mutex<State>,
}

fn content(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; file.metadata().unwrap().len() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

impl VolatileDisk {
    /// What is there already is durable.
    pub fn new(root: &Path, fault: Fault) -> Self {
        let state = State { durable_names: files(root).into_iter().collect(), ..State::default() };
        Self { root: root.into(), fault, state: Mutex::new(state) }
    }

    pub fn operations(&self) -> u64 {
        self.state.lock().operations
    }

    fn begin(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        state.operations += 1;
        let error = match self.fault {
            Fault::PowerFrom(first) if state.operations > first => EIO,
            Fault::Once(only, errno) if state.operations == only + 1 => errno,
            _ => return Ok(()),
        };
        Err(io::Error::from_raw_os_error(error))
    }

    /// An operation that changes the file.
    fn change(&self, file: &File) -> io::Result<()> {
        self.begin()?;
        let inode = file.metadata()?.ino();
        self.state.lock().durable.entry(inode).or_insert_with(|| content(file));
        Ok(())
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        self.begin()?;
        self.state.lock().durable.remove(&file.metadata()?.ino());
        Ok(())
    }

    /// Leaves the files as a loss of power might. The target must be closed.
    pub fn crash(&self, seed: u64) {
        let entropy = SeededEntropy::new(seed);
        let state = self.state.lock();
        for path in files(&self.root) {
            let is_sums = path.extension().is_some_and(|suffix| suffix == "sums");
            if is_sums && !state.durable_names.contains(&path) && entropy.u64().is_multiple_of(2) {
                std::fs::remove_file(path).unwrap();
                continue;
            }
            let Some(old) = state.durable.get(&path.metadata().unwrap().ino()) else { continue };
            let new = std::fs::read(&path).unwrap();
            // Mostly mixed; some files as if nothing, or all, had reached the disk.
            let kind = entropy.u64() % 4;
            let keeps_new = || match kind {
                0 => false,
                1 => true,
                _ => entropy.u64().is_multiple_of(2),
            };
            let len = if keeps_new() { new.len() } else { old.len() };
            let mut mixed = vec![0; len];
            for at in (0..len).step_by(PAGE) {
                let from = if keeps_new() { &new } else { old };
                let end = (at + PAGE).min(len);
                if let Some(page) = from.get(at..end.min(from.len())) {
                    mixed[at..at + page.len()].copy_from_slice(page);
                }
            }
            std::fs::write(&path, mixed).unwrap();
        }
    }
}

impl Disk for VolatileDisk {
    fn read_at(&self, file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.begin()?;
        SystemDisk.read_at(file, buffer, offset)
    }

    fn write_all_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        let changed = self.change(file);
        if changed.is_err() {
            // The half of it was written; a sector is written whole or not at all.
            SystemDisk.write_all_at(file, &bytes[..bytes.len() / 2 / SECTOR * SECTOR], offset)?;
        }
        changed?;
        SystemDisk.write_all_at(file, bytes, offset)
    }

    fn set_len(&self, file: &File, len: u64) -> io::Result<()> {
        self.change(file)?;
        SystemDisk.set_len(file, len)
    }

    fn punch(&self, file: &File, offset: u64, len: u64) -> io::Result<()> {
        self.change(file)?;
        SystemDisk.punch(file, offset, len)
    }

    fn copy(&self, from: &File, from_at: u64, to: &File, to_at: u64, len: usize) -> io::Result<usize> {
        self.change(to)?;
        SystemDisk.copy(from, from_at, to, to_at, len)
    }

    fn sync_file(&self, file: &File) -> io::Result<()> {
        self.sync(file)
    }

    fn sync_all(&self, file: &File) -> io::Result<()> {
        self.sync(file)
    }

    fn sync_sums(&self, file: &File) -> io::Result<()> {
        self.sync(file)
    }

    fn sync_log(&self, file: &File) -> io::Result<()> {
        self.sync(file)
    }

    fn sync_dir(&self, _: &File, name: &str) -> io::Result<()> {
        self.begin()?;
        let found = files(&self.root.join("objects").join(name));
        self.state.lock().durable_names.extend(found);
        Ok(())
    }
}
