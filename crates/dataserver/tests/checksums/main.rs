//! Checksums of objects: each flipped bit is found, no crash raises a false alarm, and no crash leaves data
//! without a sum that were acknowledged as durable.

mod changes;
mod crash;
mod flips;
mod past_cache;
mod scrub;
mod volatile_disk;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use dataserver::{
    BLOCK_BYTES, CallEpoch, Disk, Epoch, ObjectError, ObjectName, ObjectRef, Objects, SystemDisk, Target,
    TargetOptions,
};
use host::SeededEntropy;
use tempfile::TempDir;
use wire::xdr::Payload;

const CLUSTER: [u8; 16] = [0xc1; 16];
const BLOCK: u64 = BLOCK_BYTES as u64;

fn name(inode: u64) -> ObjectName {
    ObjectName { inode, column: 0, volume: 1, generation: 7 }
}

/// An object in its first epoch.
fn at(inode: u64) -> ObjectRef {
    ObjectRef { name: name(inode), epoch: Epoch { incarnation: 3, chain: 0, call: CallEpoch::Server(0, 0) } }
}

/// A directory in memory, where there is one that holds a target: many are opened, which syncs the file
/// system.
fn quick_dir() -> TempDir {
    let in_memory = || tempfile::tempdir_in("/dev/shm").ok();
    let holds_a_target =
        |dir: &TempDir| Target::open_or_create(dir.path(), CLUSTER, &SeededEntropy::new(1)).is_ok();
    static USABLE: OnceLock<bool> = OnceLock::new();
    let usable = *USABLE.get_or_init(|| in_memory().is_some_and(|dir| holds_a_target(&dir)));
    usable.then(in_memory).flatten().unwrap_or_else(|| tempfile::tempdir().unwrap())
}

fn open(dir: &Path) -> Arc<Target> {
    open_on(dir, Arc::new(SystemDisk), 512)
}

fn open_on(dir: &Path, disk: Arc<dyn Disk>, open_files_max: usize) -> Arc<Target> {
    let options = TargetOptions { disk, open_files_max, ..TargetOptions::default() };
    Target::open_with(options, dir, CLUSTER, &SeededEntropy::new(1)).unwrap()
}

fn data(bytes: &[u8]) -> Payload {
    Bytes::copy_from_slice(bytes).into()
}

/// What differs from place to place, so that a byte in the wrong one is seen; never zero.
fn text(bytes: u64, seed: u64) -> Vec<u8> {
    (0..bytes).map(|n| (n / 251 + n % 251 + 31 * seed) as u8 | 1).collect()
}

fn put(objects: &Objects, inode: u64, offset: u64, bytes: &[u8]) {
    objects.make(&[name(inode)]).unwrap();
    objects.write(at(inode), offset, &data(bytes)).unwrap();
}

fn get(objects: &Objects, inode: u64) -> Result<Vec<u8>, ObjectError> {
    objects.read(at(inode), 0, 16 << 20).map(|read| read.data.to_vec())
}

fn file(dir: &Path, inode: u64) -> PathBuf {
    dir.join(format!("objects/{:02x}/{}", name(inode).directory(), name(inode)))
}

fn sum_file(dir: &Path, inode: u64) -> PathBuf {
    let mut path = file(dir, inode).into_os_string();
    path.push(".sums");
    path.into()
}

/// Flips one bit, as a disk might.
fn flip(path: &Path, bit: u64) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[usize::try_from(bit / 8).unwrap()] ^= 1 << (bit % 8);
    std::fs::write(path, bytes).unwrap();
}
