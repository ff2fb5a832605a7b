//! File system in memory, with faults.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use bench::target::{Attributes, Open, OpenFile, Target};
use parking_lot::Mutex;

/// Files by path; directories end with a slash.
#[derive(Clone, Default)]
pub struct Memory {
    pub files: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
    /// Offset from which writes fail with ENOSPC, regardless of `free_bytes`.
    pub full_at: Option<u64>,
    pub free_bytes: Option<u64>,
    /// Whether directories cannot be made.
    pub forbidden: bool,
    /// Whether the page cache answers all reads that are not direct.
    pub cached: bool,
    /// Offset of bytes that are read with a flipped bit.
    pub flips: Option<u64>,
    pub fetched: Arc<Mutex<u64>>,
}

impl Memory {
    pub fn names(&self) -> Vec<String> {
        self.files.lock().keys().cloned().collect()
    }
}

struct MemoryFile {
    memory: Memory,
    path: String,
    direct: bool,
}

fn not_found() -> io::Error {
    io::ErrorKind::NotFound.into()
}

impl Target for Memory {
    fn describe(&self) -> String {
        "memory".into()
    }

    fn free_bytes(&self) -> Option<u64> {
        self.free_bytes
    }

    fn fetched_bytes(&self) -> Option<u64> {
        Some(*self.fetched.lock())
    }

    fn forget_names(&self) -> io::Result<()> {
        Ok(())
    }

    fn open(&self, path: &str, open: Open) -> io::Result<Box<dyn OpenFile>> {
        let mut files = self.files.lock();
        let (direct, made) = match open {
            Open::Read { direct } => (direct, false),
            Open::Write { direct } => (direct, true),
            Open::New => (false, true),
        };
        if made {
            files.entry(path.to_owned()).or_default();
        }
        files.get(path).ok_or_else(not_found)?;
        Ok(Box::new(MemoryFile { memory: self.clone(), path: path.to_owned(), direct }))
    }

    fn stat(&self, path: &str) -> io::Result<Attributes> {
        let files = self.files.lock();
        let bytes = files.get(path).ok_or_else(not_found)?.len() as u64;
        Ok(Attributes { bytes, changed: 0 })
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut files = self.files.lock();
        let file = files.remove(from).ok_or_else(not_found)?;
        files.insert(to.to_owned(), file);
        Ok(())
    }

    fn unlink(&self, path: &str) -> io::Result<()> {
        self.files.lock().remove(path).map(drop).ok_or_else(not_found)
    }

    fn mkdir(&self, path: &str) -> io::Result<()> {
        if self.forbidden {
            return Err(io::Error::from_raw_os_error(13)); // EACCES
        }
        self.files.lock().insert(format!("{path}/"), vec![]);
        Ok(())
    }

    fn rmdir(&self, path: &str) -> io::Result<()> {
        self.unlink(&format!("{path}/"))
    }

    fn list(&self, path: &str, each: &mut dyn FnMut(&str, bool)) -> io::Result<()> {
        for name in self.names() {
            let below = name.strip_prefix(path).and_then(|rest| rest.strip_prefix('/')).unwrap_or_default();
            let (name, is_dir) = (below.trim_end_matches('/'), below.ends_with('/'));
            if !name.is_empty() && !name.contains('/') {
                each(name, is_dir);
            }
        }
        Ok(())
    }
}

impl OpenFile for MemoryFile {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let files = self.memory.files.lock();
        let file = &files[&self.path];
        let from = file.len().min(offset as usize);
        let found = &file[from..file.len().min(from + into.len())];
        into[..found.len()].copy_from_slice(found);
        if let Some(byte) = self.memory.flips.and_then(|at| into.get_mut(at.checked_sub(offset)? as usize)) {
            *byte ^= 0x10;
        }
        if self.direct || !self.memory.cached {
            *self.memory.fetched.lock() += found.len() as u64;
        }
        Ok(found.len())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let end = offset as usize + data.len();
        if self.memory.full_at.is_some_and(|full| end as u64 > full) {
            return Err(io::Error::from_raw_os_error(28)); // ENOSPC
        }
        let mut files = self.memory.files.lock();
        let file = files.get_mut(&self.path).ok_or_else(not_found)?;
        file.resize(file.len().max(end), 0);
        file[offset as usize..end].copy_from_slice(data);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn forget(&self) -> io::Result<()> {
        Ok(())
    }

    fn close(self: Box<Self>) -> io::Result<()> {
        Ok(())
    }
}
