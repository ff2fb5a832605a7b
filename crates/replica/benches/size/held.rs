//! Memory cgroup of a given size, of version 2 or 1, as the machine has it. Needs root.

use std::fs;
use std::path::PathBuf;

use crate::Failure;

/// Memory cgroup, removed on drop, once its processes have ended.
pub struct Held {
    folder: PathBuf,
    /// File that counts the times that the limit was met.
    met: &'static str,
}

impl Held {
    /// Creates a cgroup that may use this many bytes, page cache included.
    pub fn new(bytes: u64) -> Result<Self, Failure> {
        let second = fs::read_to_string("/sys/fs/cgroup/cgroup.controllers")
            .is_ok_and(|controllers| controllers.split_whitespace().any(|c| c == "memory"));
        let (root, limit, met) = if second {
            ("/sys/fs/cgroup", "memory.max", "memory.events")
        } else {
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.failcnt")
        };
        let folder = PathBuf::from(root).join(format!("heorot-size.{}", std::process::id()));
        let wrong = |e: std::io::Error| format!("cannot hold memory with {}: {e}", folder.display());
        fs::create_dir(&folder).map_err(wrong)?;
        let held = Self { folder: folder.clone(), met };
        fs::write(folder.join(limit), bytes.to_string()).map_err(wrong)?;
        Ok(held)
    }

    pub fn take_in(&self, process: u32) -> Result<(), Failure> {
        let file = self.folder.join("cgroup.procs");
        Ok(fs::write(&file, process.to_string()).map_err(|e| format!("write {}: {e}", file.display()))?)
    }

    /// Number of times that the kernel reclaimed memory to keep the limit.
    pub fn limit_met(&self) -> String {
        let text = fs::read_to_string(self.folder.join(self.met)).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with("max ")).or(text.lines().next());
        line.unwrap_or("unknown").trim_start_matches("max ").to_owned()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.folder);
    }
}
