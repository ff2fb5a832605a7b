//! Shared by both processes: the plan, the open replica, and the process's own measurements.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use namespace::{
    Command, Create, Exists, FileLayout, InodeId, NewAttributes, NewNode, Proposal, Stamp, StripeUnit, Time,
};
use replica::{Replica, ReplicaConfig};
use store::{RedbStore, Store};

use crate::Failure;

/// Concurrent callers: enough to fill a batch while the one before it is synced.
pub const CALLERS: u64 = 512;

/// Files and directories to create, and the folder.
#[derive(Debug, Clone)]
pub struct Plan {
    pub files: u64,
    pub directories: u64,
    pub store_bytes: usize,
    pub folder: PathBuf,
}

impl Plan {
    pub fn parse(words: &[&str]) -> Result<Self, Failure> {
        let [files, directories, store_bytes, folder] = words else { return Err("four words".into()) };
        // Before that the process is not in the cgroup yet.
        std::io::stdin().read_line(&mut String::new())?;
        Ok(Self {
            files: files.parse()?,
            directories: directories.parse()?,
            store_bytes: store_bytes.parse()?,
            folder: folder.into(),
        })
    }

    pub fn words(&self) -> [String; 4] {
        let Self { files, directories, store_bytes, folder } = self;
        [files.to_string(), directories.to_string(), store_bytes.to_string(), folder.display().to_string()]
    }

    pub fn store_file(&self) -> PathBuf {
        self.folder.join("namespace.redb")
    }

    /// Inode of a directory: directories are created first, in order, after the root.
    pub fn directory(&self, number: u64) -> InodeId {
        InodeId(InodeId::ROOT.0 + 1 + number)
    }

    /// Directory of a file: directories are filled in order, as an archive is unpacked.
    pub fn directory_of(&self, file: u64) -> u64 {
        file / self.files.div_ceil(self.directories) % self.directories
    }

    /// Opens store and replica as `heorot mds` does.
    pub fn open(&self) -> Result<Replica, Failure> {
        let store: Arc<dyn Store> = Arc::new(RedbStore::open(self.store_file(), self.store_bytes)?);
        let config = ReplicaConfig::alone(self.folder.clone(), 0);
        let stamp = Stamp { random: 7, ..Stamp::default() };
        Ok(Replica::open(config, store, stamp, Arc::new(()), Arc::new(()))?)
    }
}

pub fn file_name(file: u64) -> Vec<u8> {
    format!("file-{file:09}").into_bytes()
}

pub fn create(dir: InodeId, name: Vec<u8>, node: NewNode, number: u64) -> Proposal {
    let attributes = NewAttributes { mode: 0o644, uid: 1000, gid: 1000, accessed: None, modified: None };
    let command = Command::Create(Create { dir, name, node, attributes, exists: Exists::Refuse });
    let time = Time { seconds: 1_700_000_000 + (number / 1000) as i64, nanoseconds: (number % 1000) as u32 };
    Proposal::new(Stamp { time, random: number }, None, command)
}

/// Layout of a file with four columns.
pub fn striped(device: namespace::DeviceId, file: u64) -> NewNode {
    NewNode::File(FileLayout { device, first: (file % 4) as u32, unit: StripeUnit::DEFAULT, columns: 4 })
}

/// Wall-clock and CPU time since the start.
pub struct Watch {
    wall: Instant,
    cpu: f64,
}

impl Watch {
    pub fn start() -> Self {
        Self { wall: Instant::now(), cpu: cpu_seconds() }
    }

    /// Prints a row: the rate per second, and per second of CPU time.
    pub fn row(&self, what: &str, count: u64) {
        let (wall, cpu) = (self.wall.elapsed().as_secs_f64(), cpu_seconds() - self.cpu);
        let count = count as f64;
        println!("| {what} | {:.0}/s; {:.0} for each second of CPU |", count / wall, count / cpu.max(0.01));
    }
}

fn cpu_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
    let ticks = |field: usize| fields.get(field - 3).and_then(|f| f.parse::<f64>().ok()).unwrap_or(0.0);
    // 100 ticks per second on every current Linux (proc(5), fields 14 and 15).
    (ticks(14) + ticks(15)) / 100.0
}

/// Peak memory of this process, in MiB.
pub fn peak_mib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) / 1024
}
