//! Attached objects: an object that begins as another one is, at each moment, as if it had been copied, whatever is done to
//! the two; no bytes of the one appear in the other, no loss of power and no fault of a disk mixes them.

mod crash;
mod faults;
mod steps;
#[allow(dead_code)] // it is the tests' of checksums, too
#[path = "../checksums/volatile_disk.rs"]
mod volatile_disk;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use dataserver::{
    CallEpoch, Disk, Epoch, FillStep, ObjectError, ObjectName, ObjectRef, Objects, SystemDisk, Target,
    TargetOptions,
};
use host::SeededEntropy;
use wire::xdr::Payload;

const MIB: u64 = 1 << 20;
const BLOCK: u64 = dataserver::BLOCK_BYTES as u64;

fn name(inode: u64) -> ObjectName {
    ObjectName { inode, column: 0, volume: 1, generation: 7 }
}

/// An object in its first epoch.
fn at(inode: u64) -> ObjectRef {
    ObjectRef { name: name(inode), epoch: Epoch { incarnation: 3, chain: 0, call: CallEpoch::Server(0, 0) } }
}

fn open(dir: &Path) -> Arc<Target> {
    open_on(dir, Arc::new(SystemDisk))
}

fn open_on(dir: &Path, disk: Arc<dyn Disk>) -> Arc<Target> {
    let options = TargetOptions { disk, ..TargetOptions::default() };
    Target::open_with(options, dir, [0xc1; 16], &SeededEntropy::new(1)).unwrap()
}

/// A directory in memory, where there is one that holds a target.
fn quick_dir() -> tempfile::TempDir {
    let in_memory = tempfile::tempdir_in("/dev/shm").ok();
    let holds_a_target = |dir: &tempfile::TempDir| {
        Target::open_or_create(dir.path(), [0xc1; 16], &SeededEntropy::new(1)).is_ok()
    };
    in_memory.filter(holds_a_target).unwrap_or_else(|| tempfile::tempdir().unwrap())
}

fn data(bytes: &[u8]) -> Payload {
    Bytes::copy_from_slice(bytes).into()
}

/// Bytes that differ from place to place; never zero.
fn text(len: u64, seed: u64) -> Vec<u8> {
    (0..len).map(|at| 1 + ((at / 251 + at * 7 + seed * 31) % 255) as u8).collect()
}

/// Makes an object with these bytes, durably.
fn put(objects: &Objects, inode: u64, bytes: &[u8]) {
    objects.make(&[name(inode)]).unwrap();
    objects.write(at(inode), 0, &data(bytes)).unwrap();
    objects.commit(at(inode)).unwrap();
}

fn get(objects: &Objects, inode: u64) -> Result<Vec<u8>, ObjectError> {
    get_in(objects, at(inode))
}

fn get_in(objects: &Objects, object: ObjectRef) -> Result<Vec<u8>, ObjectError> {
    let len = objects.length(object)?;
    Ok(objects.read(object, 0, len as usize)?.data.to_vec())
}

/// The object in a later epoch.
fn in_epoch(object: ObjectRef, epoch: u32) -> ObjectRef {
    ObjectRef { epoch: Epoch { call: CallEpoch::Server(epoch, 0), ..object.epoch }, ..object }
}

/// Fills all attached objects that need it, and says how many bytes were copied for it.
fn fill(objects: &Objects) -> u64 {
    let (mut from, mut all) = (None, 0);
    loop {
        match objects.fill_step(from) {
            FillStep::Filled(name, bytes) => {
                all += bytes;
                from = Some(name);
            }
            FillStep::Failed(name, error) => panic!("{name}: {error}"),
            // The tests have few.
            FillStep::Rests(_) | FillStep::Ended => return all,
        }
    }
}

/// Files of the object's directory that are not of an object and its sums.
fn other_files(dir: &Path, inode: u64) -> Vec<String> {
    let names = std::fs::read_dir(folder(dir, inode)).unwrap().map(|entry| entry.unwrap().file_name());
    let names = names.map(|name| name.into_string().unwrap());
    let mut others: Vec<_> =
        names.filter(|name| name.split('.').count() > 4 && !is_sums_of_object(name)).collect();
    others.sort();
    others
}

fn is_sums_of_object(name: &str) -> bool {
    name.split('.').count() == 5 && name.ends_with(".sums")
}

fn folder(dir: &Path, inode: u64) -> PathBuf {
    dir.join(format!("objects/{:02x}", inode & 0xff))
}

fn file(dir: &Path, inode: u64, suffix: &str) -> PathBuf {
    folder(dir, inode).join(format!("{}{suffix}", name(inode)))
}

#[test]
fn an_object_begins_as_another_one_and_copies_what_is_written_and_the_rest_when_that_one_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let target = open(dir.path());
    let objects = target.objects();
    let base = text(3 * MIB + 5000, 1);
    put(objects, 1, &base);
    objects.make(&[name(2)]).unwrap();
    objects.attach(at(2), name(1)).unwrap();
    assert_eq!(other_files(dir.path(), 2).len(), 3);
    assert_eq!(get(objects, 2).unwrap(), base);
    assert!(objects.stat(at(2), false).unwrap().space_used > 3 * MIB, "what it would take");
    objects.attach(at(2), name(1)).unwrap(); // a repeated call
    objects.write(at(2), MIB + 77, &data(b"own")).unwrap();
    let mut own = base.clone();
    own[(MIB + 77) as usize..][..3].copy_from_slice(b"own");
    assert_eq!((get(objects, 2).unwrap(), get(objects, 1).unwrap()), (own.clone(), base.clone()));
    assert_eq!(fill(objects), 0, "the snapshot needs its object anyway");
    let blocks = std::os::unix::fs::MetadataExt::blocks;
    let space = || blocks(&std::fs::metadata(file(dir.path(), 2, "")).unwrap()) * 512;
    assert!(space() <= BLOCK, "{}: one region alone was copied", space());
    // The time that clients see is that of the write, also after regions were copied.
    let before = objects.stat(at(2), true).unwrap().modified_ns;
    objects.remove(&[name(1)]).unwrap();
    assert_eq!(fill(objects), 0, "it is in the trash");
    std::fs::remove_dir_all(dir.path().join("trash")).unwrap();
    assert_eq!(fill(objects), 3 * MIB + 5000 - BLOCK, "but for the region that is its own");
    assert_eq!(objects.stat(at(2), true).unwrap().modified_ns, before);
    assert_eq!(other_files(dir.path(), 2), [""; 0]);
    assert_eq!(get(objects, 2).unwrap(), own);
    drop(target);
    std::fs::create_dir(dir.path().join("trash")).unwrap();
    assert_eq!(get(open(dir.path()).objects(), 2).unwrap(), own);
}

#[test]
fn what_is_written_between_two_snapshots_is_copied_once_however_many_there_are() {
    let dir = tempfile::tempdir().unwrap();
    let target = open(dir.path());
    let objects = target.objects();
    let mut shown = vec![text(8 * MIB, 1)];
    put(objects, 1, &shown[0]);
    for number in 1..30 {
        let (snapshot, live) = (number, number + 1);
        objects.make(&[name(live)]).unwrap();
        objects.attach(at(live), name(snapshot)).unwrap();
        let (mut bytes, new) = (shown.last().unwrap().clone(), text(3000, number));
        let offset = number * 7 % 100 * BLOCK + 500;
        objects.write(at(live), offset, &data(&new)).unwrap();
        bytes[offset as usize..][..3000].copy_from_slice(&new);
        shown.push(bytes);
        fill(objects);
        for (inode, bytes) in (1..).zip(&shown) {
            assert!(get(objects, inode).unwrap() == *bytes, "{inode} of {live}");
        }
    }
    let blocks = std::os::unix::fs::MetadataExt::blocks;
    let space = |inode| blocks(&std::fs::metadata(file(dir.path(), inode, "")).unwrap()) * 512;
    for inode in 2..=30 {
        assert!(space(inode) <= 30 * BLOCK, "{inode} has {}: the few that others have, too", space(inode));
    }
}

#[test]
fn what_cannot_be_attached_is_to_be_copied() {
    let dir = tempfile::tempdir().unwrap();
    let target = open(dir.path());
    let objects = target.objects();
    put(objects, 1, &text(2 * MIB, 1));
    objects.make(&[name(2), name(3), name(4), name(5)]).unwrap();
    objects.write(at(3), 0, &data(b"not empty")).unwrap();
    objects.attach(at(2), name(1)).unwrap();
    for (inode, base) in [(3, 1), (4, 3), (4, 4), (4, 9), (2, 3)] {
        let refused = objects.attach(at(inode), name(base));
        assert_eq!(refused, Err(ObjectError::NotSupported), "{inode} to {base}");
    }
    objects.attach(at(4), name(5)).unwrap();
    assert_eq!(get(objects, 4).unwrap(), b"", "there is nothing to be attached to");
    assert_eq!(objects.attach(at(9), name(1)), Err(ObjectError::Lost));
    objects.remove(&[name(2)]).unwrap();
    assert_eq!(objects.attach(at(2), name(1)), Err(ObjectError::Stale));
    assert_eq!(other_files(dir.path(), 2), [""; 0], "they are in the trash, with the object");
    assert_eq!(get(objects, 1).unwrap(), text(2 * MIB, 1));
}

#[test]
fn a_target_of_the_format_before_is_read_and_gets_this_one() {
    let dir = tempfile::tempdir().unwrap();
    put(open(dir.path()).objects(), 1, b"bytes");
    let identity = dir.path().join("target.toml");
    let now = std::fs::read_to_string(&identity).unwrap();
    std::fs::write(&identity, now.replace("format = 3", "format = 2")).unwrap();
    assert_eq!(get(open(dir.path()).objects(), 1).unwrap(), b"bytes");
    assert_eq!(std::fs::read_to_string(&identity).unwrap(), now);
}
