//! Ranges of objects on a real directory: data and holes, room, copies; also on disks that cannot do what is
//! asked.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use dataserver::{
    CallEpoch, Disk, Epoch, ObjectError, ObjectName, ObjectRef, Objects, Place, Run, Target, TargetOptions,
};
use host::SeededEntropy;
use wire::data::Piece;

const CLUSTER: [u8; 16] = [0xc1; 16];
const UNIT: u64 = 64 * 1024; // a multiple of every file system's block
const EOPNOTSUPP: i32 = 95;
const EXDEV: i32 = 18;

fn name(inode: u64) -> ObjectName {
    ObjectName { inode, column: 0, volume: 1, generation: 7 }
}

/// An object in its first epoch.
fn at(name: ObjectName) -> ObjectRef {
    ObjectRef { name, epoch: Epoch { incarnation: 3, chain: 0, call: CallEpoch::Server(0, 0) } }
}

fn open(dir: &Path) -> Arc<Target> {
    Target::open_or_create(dir, CLUSTER, &SeededEntropy::new(1)).unwrap()
}

fn put(objects: &Objects, inode: u64, offset: u64, data: &[u8]) {
    objects.make(&[name(inode)]).unwrap();
    objects.write(at(name(inode)), offset, &Bytes::copy_from_slice(data).into()).unwrap();
}

fn get(objects: &Objects, inode: u64) -> Vec<u8> {
    objects.read(at(name(inode)), 0, 64 << 20).unwrap().data.to_vec()
}

/// What differs from place to place, so that a byte in the wrong one is seen.
fn text(bytes: u64) -> Vec<u8> {
    (0..bytes).map(|n| (n / 251 + n % 251) as u8 | 1).collect()
}

/// A disk that can neither copy nor make holes nor reserve room.
struct OldDisk;

impl Disk for OldDisk {
    fn allocate(&self, _: &File, _: u64, _: u64) -> io::Result<()> {
        Err(io::Error::from_raw_os_error(EOPNOTSUPP))
    }

    fn punch(&self, _: &File, _: u64, _: u64) -> io::Result<()> {
        Err(io::Error::from_raw_os_error(EOPNOTSUPP))
    }

    fn copy(&self, _: &File, _: u64, _: &File, _: u64, _: usize) -> io::Result<usize> {
        Err(io::Error::from_raw_os_error(EXDEV))
    }
}

#[test]
fn seek_finds_data_and_holes_and_the_end_is_a_hole() {
    let dir = tempfile::tempdir().unwrap();
    let target = open(dir.path());
    let objects = target.objects();
    assert_eq!(objects.seek(at(name(1)), Place::Data, 5), Err(ObjectError::Lost));
    objects.make(&[name(1)]).unwrap();
    assert_eq!(objects.seek(at(name(1)), Place::Data, 5), Ok(None));
    assert_eq!(objects.seek(at(name(1)), Place::Hole, 5), Ok(Some(5)));
    put(objects, 1, UNIT, &text(UNIT));
    put(objects, 1, 3 * UNIT, &text(10));
    let end = 3 * UNIT + 10;
    for (from, data, hole) in [
        (0, Some(UNIT), 0),
        (UNIT + 1, Some(UNIT + 1), 2 * UNIT),
        (2 * UNIT, Some(3 * UNIT), 2 * UNIT),
        (end - 1, Some(end - 1), end),
        (end, None, end),
        (end + 9, None, end + 9),
        (u64::MAX, None, u64::MAX),
    ] {
        assert_eq!(objects.seek(at(name(1)), Place::Data, from), Ok(data), "data from {from}");
        let found = objects.seek(at(name(1)), Place::Hole, from).unwrap();
        // Beyond the last block, the file system may say the end of the block.
        assert_eq!(found, Some(hole), "hole from {from}");
    }
    assert_eq!(objects.length(at(name(1))), Ok(end));
    assert_eq!(objects.length(at(name(2))), Err(ObjectError::Lost));
}

#[test]
fn a_read_tells_holes_from_data() {
    let dir = tempfile::tempdir().unwrap();
    let target = open(dir.path());
    let objects = target.objects();
    assert_eq!(objects.read_runs(at(name(1)), 0, 100), Err(ObjectError::Lost));
    objects.make(&[name(1)]).unwrap();
    assert_eq!(objects.read_runs(at(name(1)), 0, 100), Ok(vec![]));
    let data = text(UNIT);
    put(objects, 1, UNIT, &data);
    put(objects, 1, 3 * UNIT, b"end");
    let runs = objects.read_runs(at(name(1)), 5, 1 << 20).unwrap();
    let expected = [
        Run::Hole(UNIT - 5),
        Run::Data(data.clone().into()),
        Run::Hole(UNIT),
        Run::Data(b"end".as_slice().into()),
    ];
    assert_eq!(runs, expected);
    let runs = objects.read_runs(at(name(1)), 2 * UNIT - 3, 5).unwrap();
    assert_eq!(runs, [Run::Data(data[data.len() - 3..].to_vec().into()), Run::Hole(2)]);
    assert_eq!(objects.read_runs(at(name(1)), 3 * UNIT + 3, 5), Ok(vec![]));
    assert_eq!(objects.read_runs(at(name(1)), u64::MAX, 5), Ok(vec![]));
}

#[test]
fn a_read_of_crumbs_is_bounded_and_whole() {
    let dir = tempfile::tempdir().unwrap();
    let target = open(dir.path());
    for n in 0..100 {
        put(target.objects(), 1, n * 2 * UNIT, &text(UNIT));
    }
    let runs = target.objects().read_runs(at(name(1)), 0, 200 * UNIT as usize).unwrap();
    assert!(runs.len() <= 64, "{} runs", runs.len());
    let bytes: Vec<u8> = runs
        .into_iter()
        .flat_map(|run| match run {
            Run::Data(data) => data.to_vec(),
            Run::Hole(len) => vec![0; len as usize],
        })
        .collect();
    assert!(bytes == get(target.objects(), 1));
}

#[test]
fn allocate_makes_the_object_longer_and_takes_room_once() {
    let dir = tempfile::tempdir().unwrap();
    let target = open(dir.path());
    let objects = target.objects();
    assert_eq!(objects.reserve(at(name(1)), 0, UNIT), Err(ObjectError::Lost));
    assert_eq!(objects.allocate(at(name(1)), 0, UNIT), Err(ObjectError::Lost));
    objects.make(&[name(1), name(2)]).unwrap();
    assert_eq!(objects.reserve(at(name(1)), 0, UNIT).unwrap().needed, UNIT);
    assert_eq!(objects.allocate(at(name(1)), UNIT, UNIT).unwrap().needed, UNIT);
    assert_eq!(get(objects, 1), vec![0; 2 * UNIT as usize]);
    put(objects, 1, UNIT + 5, b"data");
    objects.allocate(at(name(1)), 0, 2 * UNIT).unwrap();
    assert_eq!(objects.reserve(at(name(1)), 0, 2 * UNIT).unwrap().needed, 0, "it is there");
    assert_eq!(&get(objects, 1)[UNIT as usize + 5..][..4], b"data");

    let all = objects.space().unwrap().free;
    assert_eq!(objects.allocate(at(name(2)), 0, all + (1 << 30)), Err(ObjectError::NoSpace));
    assert_eq!(objects.length(at(name(2))), Ok(0), "nothing was reserved");
    assert_eq!(objects.allocate(at(name(2)), u64::MAX, 1), Err(ObjectError::TooLarge));
    objects.remove(&[name(1)]).unwrap();
    assert_eq!(objects.allocate(at(name(1)), 0, 1), Err(ObjectError::Stale));
}

#[test]
fn punch_gives_room_back_and_keeps_the_length() {
    let dir = tempfile::tempdir().unwrap();
    let target = open(dir.path());
    let objects = target.objects();
    assert_eq!(objects.punch(at(name(1)), 0, 100), Err(ObjectError::Lost));
    let mut memory = text(10 * UNIT);
    put(objects, 1, 0, &memory);
    objects.commit(at(name(1))).unwrap();
    for (offset, len) in [(5, 10), (UNIT, 3 * UNIT), (9 * UNIT, 100 * UNIT), (50 * UNIT, 1)] {
        objects.punch(at(name(1)), offset, len).unwrap();
        let end = memory.len();
        memory[(offset as usize).min(end)..((offset + len) as usize).min(end)].fill(0);
        assert!(get(objects, 1) == memory);
    }
    let reserve = objects.reserve(at(name(1)), 0, 10 * UNIT).unwrap();
    assert_eq!(reserve.needed, 4 * UNIT, "what was given back is wanted again");
}

#[test]
fn a_disk_that_cannot_is_not_asked_to_pretend() {
    let dir = tempfile::tempdir().unwrap();
    let options = TargetOptions { disk: Arc::new(OldDisk), ..TargetOptions::default() };
    let target = Target::open_with(options, dir.path(), CLUSTER, &SeededEntropy::new(1)).unwrap();
    let objects = target.objects();
    put(objects, 1, 0, b"data");
    assert_eq!(objects.punch(at(name(1)), 0, 2), Err(ObjectError::NotSupported));
    assert_eq!(objects.allocate(at(name(1)), 0, 2), Err(ObjectError::NotSupported));
    assert!(!objects.failed());
    // A copy must not depend on it.
    copies(objects);
}

#[test]
fn a_copy_is_as_one_in_memory() {
    let dir = tempfile::tempdir().unwrap();
    copies(open(dir.path()).objects());
}

fn copies(objects: &Objects) {
    let mut source = text(6 * UNIT + 5);
    source[UNIT as usize..3 * UNIT as usize].fill(0);
    put(objects, 10, 0, &source[..UNIT as usize]);
    put(objects, 10, 3 * UNIT, &source[3 * UNIT as usize..]);
    let mut memory = text(4 * UNIT);
    memory.reverse();
    put(objects, 11, 0, &memory);
    let pieces = [
        Piece { from: 0, to: 7, len: 2 * UNIT },
        Piece { from: 6 * UNIT, to: 3 * UNIT, len: 5 },
        Piece { from: 3 * UNIT + 1, to: 10 * UNIT + 3, len: UNIT },
        // The source ends within it: the rest is a hole.
        Piece { from: 6 * UNIT, to: 3 * UNIT + 100, len: 100 },
        Piece { from: 1, to: 1, len: 0 },
    ];
    objects.copy(at(name(11)), objects, at(name(10)), &pieces).unwrap();
    source.resize(7 * UNIT as usize, 0);
    memory.resize(11 * UNIT as usize + 3, 0);
    for Piece { from, to, len } in pieces {
        let data = source[from as usize..(from + len) as usize].to_vec();
        memory[to as usize..(to + len) as usize].copy_from_slice(&data);
    }
    assert!(get(objects, 11) == memory);
    // An empty source is a hole; one that is lost is none.
    objects.make(&[name(99)]).unwrap();
    objects.copy(at(name(11)), objects, at(name(99)), &[Piece { from: 0, to: 20, len: UNIT }]).unwrap();
    memory[20..20 + UNIT as usize].fill(0);
    assert!(get(objects, 11) == memory);
    for (to, from) in [(11, 98), (98, 11)] {
        let outcome =
            objects.copy(at(name(to)), objects, at(name(from)), &[Piece { from: 0, to: 20, len: UNIT }]);
        assert_eq!(outcome, Err(ObjectError::Lost));
    }
    assert!(get(objects, 11) == memory);
    // Within one object.
    objects.copy(at(name(11)), objects, at(name(11)), &[Piece { from: 0, to: 8 * UNIT, len: UNIT }]).unwrap();
    memory.copy_within(0..UNIT as usize, 8 * UNIT as usize);
    assert!(get(objects, 11) == memory);
    let beyond = [Piece { from: u64::MAX, to: 0, len: 2 }];
    assert_eq!(objects.copy(at(name(11)), objects, at(name(10)), &beyond), Err(ObjectError::TooLarge));
}
