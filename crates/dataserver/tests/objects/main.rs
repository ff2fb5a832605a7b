//! Objects on a real directory, and on a disk that fails when told to.

mod target;

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

use bytes::Bytes;
use dataserver::{
    CallEpoch, Disk, Epoch, OPEN_FILES_MAX, ObjectError, ObjectName, ObjectRef, Objects, SystemDisk, Target,
    TargetOptions,
};
use host::SeededEntropy;
use wire::data::list;
use wire::xdr::Payload;

const CLUSTER: [u8; 16] = [0xc1; 16];

fn name(inode: u64, column: u32) -> ObjectName {
    ObjectName { inode, column, volume: 1, generation: 7 }
}

/// An object in its first epoch.
fn at(name: ObjectName) -> ObjectRef {
    ObjectRef { name, epoch: Epoch { incarnation: 3, chain: 0, call: CallEpoch::Server(0, 0) } }
}

fn open(dir: &Path, seed: u64) -> Arc<Target> {
    Target::open_or_create(dir, CLUSTER, &SeededEntropy::new(seed)).unwrap()
}

fn data(bytes: &[u8]) -> Payload {
    Bytes::copy_from_slice(bytes).into()
}

/// Writes to an object, which is made where it is not there.
fn put(objects: &Objects, name: ObjectName, offset: u64, data: &Payload) -> Result<(), ObjectError> {
    objects.make(&[name])?;
    objects.write(at(name), offset, data).map(drop)
}

/// A disk whose faults are errno values, and which counts its syncs.
#[derive(Default)]
struct FaultyDisk {
    write: AtomicI32,
    sync_file: AtomicI32,
    sync_dir: AtomicI32,
    file_syncs: AtomicU32,
    dir_syncs: AtomicU32,
    mark_syncs: AtomicU32,
    makes_marked: AtomicBool,
}

fn fault(errno: &AtomicI32) -> io::Result<()> {
    match errno.load(Ordering::Relaxed) {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

const EIO: i32 = 5;
const EMFILE: i32 = 24;
const EROFS: i32 = 30;
const ENOSPC: i32 = 28;

impl Disk for FaultyDisk {
    fn write_all_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        fault(&self.write)?;
        std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
    }

    fn sync_file(&self, file: &File) -> io::Result<()> {
        self.file_syncs.fetch_add(1, Ordering::Relaxed);
        fault(&self.sync_file)?;
        file.sync_data()
    }

    fn create_marked(&self, dir: &File, name: &str, mark: &[u8]) -> io::Result<bool> {
        if !self.makes_marked.load(Ordering::Relaxed) {
            return Ok(false);
        }
        SystemDisk.create_marked(dir, name, mark)
    }

    fn sync_all(&self, file: &File) -> io::Result<()> {
        self.mark_syncs.fetch_add(1, Ordering::Relaxed);
        file.sync_all()
    }

    fn sync_dir(&self, root: &File, name: &str) -> io::Result<()> {
        self.dir_syncs.fetch_add(1, Ordering::Relaxed);
        fault(&self.sync_dir)?;
        SystemDisk.sync_dir(root, name)
    }
}

fn open_faulty(dir: &Path, open_files_max: usize) -> (Arc<Target>, Arc<FaultyDisk>) {
    let disk = Arc::new(FaultyDisk::default());
    let options = TargetOptions { disk: disk.clone(), open_files_max, ..TargetOptions::default() };
    let target = Target::open_with(options, dir, CLUSTER, &SeededEntropy::new(1)).unwrap();
    (target, disk)
}

#[test]
fn what_was_never_written_is_empty_and_holes_are_zeros() {
    let dir = tempfile::tempdir().unwrap();
    let target = open(dir.path(), 1);
    let objects = target.objects();
    assert_eq!(objects.read(at(name(1, 0)), 5, 10), Err(ObjectError::Lost), "it was not made");
    assert_eq!(objects.count(), 0, "a read creates nothing");
    objects.make(&[name(1, 0)]).unwrap();
    let read = objects.read(at(name(1, 0)), 5, 10).unwrap();
    assert_eq!((&read.data[..], read.at_end), (&b""[..], true));

    put(objects, name(1, 0), 4, &data(b"efgh")).unwrap();
    let read = objects.read(at(name(1, 0)), 2, 4).unwrap();
    assert_eq!((&read.data[..], read.at_end), (&b"\0\0ef"[..], false));
    let read = objects.read(at(name(1, 0)), 4, 4).unwrap();
    assert_eq!((&read.data[..], read.at_end), (&b"efgh"[..], true));
    let read = objects.read(at(name(1, 0)), 6, 100_000).unwrap();
    assert_eq!((&read.data[..], read.at_end), (&b"gh"[..], true));
    assert_eq!(objects.count(), 1);
}

#[test]
fn a_write_of_many_pieces_is_one_run_of_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let target = open(dir.path(), 1);
    let mut payload = data(b"one ");
    payload.push(Bytes::from(vec![b'-'; 300_000]));
    payload.push(Bytes::from_static(b" three"));
    put(target.objects(), name(1, 0), 10, &payload).unwrap();
    assert_eq!(target.objects().read(at(name(1, 0)), 10, 1 << 20).unwrap().data, payload.to_bytes());
}

#[test]
fn offsets_that_cannot_be_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let target = open(dir.path(), 1);
    target.objects().make(&[name(1, 0)]).unwrap();
    for offset in [u64::MAX, i64::MAX as u64, u64::MAX - 3] {
        let outcome = target.objects().write(at(name(1, 0)), offset, &data(b"efgh"));
        assert_eq!(outcome, Err(ObjectError::TooLarge), "{offset}");
        assert!(target.objects().read(at(name(1, 0)), offset, 4).unwrap().data.is_empty());
    }
    assert_eq!(target.objects().length(at(name(1, 0))), Ok(0));
}

#[test]
fn truncate_only_shortens() {
    let dir = tempfile::tempdir().unwrap();
    let target = open(dir.path(), 1);
    let objects = target.objects();
    assert_eq!(objects.truncate(at(name(1, 0)), 3), Err(ObjectError::Lost));
    objects.truncate(at(name(1, 0)), 0).unwrap();
    assert_eq!(objects.count(), 1, "nothing is missing of a lost object that is to be empty");
    put(objects, name(1, 0), 0, &data(b"abcdef")).unwrap();
    objects.truncate(at(name(1, 0)), 100).unwrap();
    assert_eq!(&objects.read(at(name(1, 0)), 0, 100).unwrap().data[..], b"abcdef");
    objects.truncate(at(name(1, 0)), 2).unwrap();
    assert_eq!(&objects.read(at(name(1, 0)), 0, 100).unwrap().data[..], b"ab");
    put(objects, name(1, 0), 4, &data(b"e")).unwrap();
    assert_eq!(&objects.read(at(name(1, 0)), 0, 100).unwrap().data[..], b"ab\0\0e", "the old bytes are gone");
}

#[test]
fn a_removed_object_does_not_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let target = open(dir.path(), 1);
    let objects = target.objects();
    put(objects, name(1, 0), 0, &data(b"a")).unwrap();
    put(objects, name(1, 1), 0, &data(b"b")).unwrap();
    objects.remove(&[name(1, 0), name(2, 0)]).unwrap();
    objects.remove(&[name(1, 0)]).unwrap();
    assert_eq!(objects.count(), 1);
    for late in [objects.write(at(name(1, 0)), 0, &data(b"late")).map(drop), objects.make(&[name(1, 0)])] {
        assert_eq!(late, Err(ObjectError::Stale));
    }
    assert_eq!(objects.truncate(at(name(1, 0)), 0), Err(ObjectError::Stale));
    assert_eq!(objects.read(at(name(1, 0)), 0, 1), Err(ObjectError::Stale));
    assert_eq!(objects.commit(at(name(1, 0))), Ok(()));
    assert_eq!(&objects.read(at(name(1, 1)), 0, 1).unwrap().data[..], b"b", "the other column is untouched");
    let next = ObjectName { generation: 8, ..name(1, 0) };
    put(objects, next, 0, &data(b"new")).unwrap();
    assert_eq!(objects.count(), 2);
}

#[test]
fn a_commit_syncs_what_is_dirty_once_and_the_directory_is_synced_when_the_object_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let (target, disk) = open_faulty(dir.path(), OPEN_FILES_MAX);
    let objects = target.objects();
    let syncs = || (disk.file_syncs.load(Ordering::Relaxed), disk.dir_syncs.load(Ordering::Relaxed));
    objects.commit(at(name(1, 0))).unwrap();
    assert_eq!(syncs(), (0, 0));
    put(objects, name(1, 0), 0, &data(b"a")).unwrap();
    assert_eq!(syncs(), (0, 1));
    objects.commit(at(name(1, 0))).unwrap();
    objects.commit(at(name(1, 0))).unwrap();
    assert_eq!(syncs(), (1, 1));
    objects.write(at(name(1, 0)), 1, &data(b"b")).unwrap();
    objects.commit(at(name(1, 0))).unwrap();
    assert_eq!(syncs(), (2, 1));
}

#[test]
fn a_file_that_leaves_the_cache_is_synced_first() {
    let dir = tempfile::tempdir().unwrap();
    let (target, disk) = open_faulty(dir.path(), 8);
    for inode in 0..100 {
        put(target.objects(), name(inode, 0), 0, &data(&inode.to_be_bytes())).unwrap();
    }
    assert_eq!(disk.file_syncs.load(Ordering::Relaxed), 92);
    assert_eq!(disk.dir_syncs.load(Ordering::Relaxed), 100);
    for inode in 0..100 {
        let read = target.objects().read(at(name(inode, 0)), 0, 8).unwrap();
        assert_eq!(read.data[..], inode.to_be_bytes());
    }
}

#[test]
fn a_failed_sync_fails_the_target_until_it_is_opened_again() {
    let dir = tempfile::tempdir().unwrap();
    let (target, disk) = open_faulty(dir.path(), OPEN_FILES_MAX);
    let objects = target.objects();
    put(objects, name(1, 0), 0, &data(b"a")).unwrap();
    disk.sync_file.store(EIO, Ordering::Relaxed);
    assert_eq!(objects.commit(at(name(1, 0))), Err(ObjectError::Io));
    disk.sync_file.store(0, Ordering::Relaxed);
    assert!(objects.failed());
    assert_eq!(objects.commit(at(name(1, 0))), Err(ObjectError::Io));
    assert_eq!(objects.write(at(name(2, 0)), 0, &data(b"a")), Err(ObjectError::Io));
    assert_eq!(objects.make(&[name(2, 0)]), Err(ObjectError::Io));
    assert_eq!(objects.read(at(name(1, 0)), 0, 1), Err(ObjectError::Io));
    assert_eq!(objects.truncate(at(name(1, 0)), 0), Err(ObjectError::Io));
    assert_eq!(objects.remove(&[name(1, 0)]), Err(ObjectError::Io));
    assert_eq!(objects.list(None, 1), Err(ObjectError::Io));
    drop(target);
    let again = open(dir.path(), 2);
    assert_eq!(&again.objects().read(at(name(1, 0)), 0, 1).unwrap().data[..], b"a");
}

#[test]
fn a_directory_that_cannot_be_opened_for_want_of_files_is_synced_later() {
    let dir = tempfile::tempdir().unwrap();
    let (target, disk) = open_faulty(dir.path(), OPEN_FILES_MAX);
    let objects = target.objects();
    disk.sync_dir.store(EMFILE, Ordering::Relaxed);
    assert_eq!(objects.make(&[name(1, 0)]), Err(ObjectError::Busy));
    assert!(!objects.failed());
    disk.sync_dir.store(0, Ordering::Relaxed);
    objects.make(&[name(1, 0)]).unwrap();
    assert_eq!(disk.dir_syncs.load(Ordering::Relaxed), 2, "it is there already, and perhaps not durable");
    disk.sync_dir.store(EIO, Ordering::Relaxed);
    assert_eq!(objects.remove(&[name(1, 0)]), Err(ObjectError::Io));
    assert!(objects.failed());
}

#[test]
fn a_new_object_has_its_mark_by_one_sync_where_the_disk_can() {
    for makes_marked in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let (target, disk) = open_faulty(dir.path(), OPEN_FILES_MAX);
        disk.makes_marked.store(makes_marked, Ordering::Relaxed);
        let of = |epoch| {
            let epoch = Epoch { incarnation: 3, chain: 0, call: CallEpoch::Server(epoch, 0) };
            ObjectRef { name: name(1, 0), epoch }
        };
        for _ in 0..2 {
            target.objects().make_of_calls(&[of(4)]).unwrap();
        }
        let syncs = [&disk.mark_syncs, &disk.dir_syncs].map(|syncs| syncs.load(Ordering::Relaxed));
        assert_eq!(syncs, [u32::from(!makes_marked), 2]);
        drop(target);
        let again = open(dir.path(), 2);
        assert_eq!(again.objects().read(of(3), 0, 1), Err(ObjectError::StaleEpoch));
        assert!(again.objects().read(of(4), 0, 1).is_ok());
    }
}

/// As ext4 answers since Linux 6.15 once an error has made it read-only.
#[test]
fn a_directory_that_has_become_read_only_is_no_reason_to_stop_reads() {
    let dir = tempfile::tempdir().unwrap();
    let (target, disk) = open_faulty(dir.path(), OPEN_FILES_MAX);
    let objects = target.objects();
    put(objects, name(1, 0), 0, &data(b"a")).unwrap();
    disk.sync_dir.store(EROFS, Ordering::Relaxed);
    assert_eq!(objects.make(&[name(1, 0)]), Err(ObjectError::ReadOnly), "it is asked for again");
    assert!(!objects.failed());
    assert_eq!(&objects.read(at(name(1, 0)), 0, 1).unwrap().data[..], b"a");
}

#[test]
fn a_full_disk_refuses_the_write_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let (target, disk) = open_faulty(dir.path(), OPEN_FILES_MAX);
    let objects = target.objects();
    put(objects, name(1, 0), 0, &data(b"a")).unwrap();
    disk.write.store(ENOSPC, Ordering::Relaxed);
    assert_eq!(put(objects, name(1, 0), 1, &data(b"b")), Err(ObjectError::NoSpace));
    disk.write.store(EIO, Ordering::Relaxed);
    assert_eq!(put(objects, name(1, 0), 1, &data(b"b")), Err(ObjectError::Io));
    assert!(!objects.failed(), "a write that failed was told to who wrote");
    assert_eq!(&objects.read(at(name(1, 0)), 0, 9).unwrap().data[..], b"a");
}

/// ```text
/// write a, b     -> verifier 1
/// commit a       -> no space: a's pages may be gone, b's are there
/// commit a, b    -> verifier 2: clients send both again
/// ```
#[test]
fn a_sync_that_finds_the_disk_full_changes_the_verifier_and_the_target_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let (target, disk) = open_faulty(dir.path(), OPEN_FILES_MAX);
    let objects = target.objects();
    objects.make(&[name(1, 0), name(2, 0)]).unwrap();
    let before = objects.write(at(name(1, 0)), 0, &data(b"a")).unwrap();
    assert_eq!(objects.write(at(name(2, 0)), 0, &data(b"b")), Ok(before));
    disk.sync_file.store(ENOSPC, Ordering::Relaxed);
    assert_eq!(objects.commit(at(name(1, 0))), Err(ObjectError::NoSpace));
    disk.sync_file.store(0, Ordering::Relaxed);
    assert!(!objects.failed());
    objects.commit(at(name(1, 0))).unwrap();
    objects.commit(at(name(2, 0))).unwrap();
    let after = objects.verifier();
    assert_ne!(after, before, "a commit without error must not seem to cover what is gone");
    assert_eq!(objects.write_through(at(name(1, 0)), 0, &data(b"a")), Ok(after));

    // What leaves the cache of open files, too, and an operation on another object does not hear of it.
    let dir = tempfile::tempdir().unwrap();
    let (target, disk) = open_faulty(dir.path(), 2);
    let objects = target.objects();
    objects.make(&[name(1, 0), name(2, 0), name(3, 0)]).unwrap();
    let before = objects.write(at(name(1, 0)), 0, &data(b"a")).unwrap();
    objects.write(at(name(2, 0)), 0, &data(b"b")).unwrap();
    disk.sync_file.store(ENOSPC, Ordering::Relaxed);
    assert!(objects.read(at(name(3, 0)), 0, 1).unwrap().data.is_empty());
    assert_ne!(objects.verifier(), before);
}

fn list_all(target: &Target, max: u32) -> (Vec<ObjectName>, usize) {
    let (mut all, mut pages, mut after) = (Vec::new(), 0, None);
    loop {
        let page = target.objects().list(after, max).unwrap();
        pages += 1;
        all.extend(page.objects.iter().map(|o| ObjectName {
            inode: o.inode,
            column: o.column,
            volume: o.volume,
            generation: o.generation,
        }));
        if page.done {
            return (all, pages);
        }
        let last = page.objects.last().expect("a page that is not the last has objects");
        after = Some(list::ObjectName { inode: last.inode, column: last.column });
    }
}

#[test]
fn list_names_every_object_once_whatever_the_page() {
    let dir = tempfile::tempdir().unwrap();
    let target = open(dir.path(), 1);
    let mut expected = Vec::new();
    for inode in [3, 256 + 3, 5 * 256 + 3, 0xff, 7, u64::MAX] {
        for column in 0..3 {
            for (volume, generation) in [(1, 1), (1, 2), (2, 1)] {
                let name = ObjectName { inode, column, volume, generation };
                put(target.objects(), name, 0, &data(b"x")).unwrap();
                expected.push(name);
            }
        }
    }
    std::fs::write(dir.path().join("objects/03/not an object"), b"").unwrap();
    expected.sort_by_key(|n| (n.directory(), *n));
    for max in [0, 1, 2, 3, 4, 5, 7, 26, 27, 28, 53, 54, 55, 1000, u32::MAX] {
        let (all, _) = list_all(&target, max);
        assert_eq!(all, expected, "{max} in a page");
    }
    assert_eq!(list_all(&target, 54).1, 1);
    assert_eq!(list_all(&target, 27).1, 2);
    assert_eq!(target.objects().count(), 54);
    drop(target);
    assert_eq!(open(dir.path(), 2).objects().count(), 54);
}

/// The kernel's clock for modification times stands still for milliseconds, and an object may be closed in
/// between.
#[test]
fn a_write_after_a_stat_has_another_modification_time() {
    let dir = tempfile::tempdir().unwrap();
    let target = open(dir.path(), 1);
    let objects = target.objects();
    assert_eq!(objects.stat(at(name(1, 0)), false), Err(ObjectError::Lost), "and not empty");
    objects.make(&[name(1, 0)]).unwrap();
    let mut before = objects.stat(at(name(1, 0)), true).unwrap();
    for round in 0..500 {
        objects.write(at(name(1, 0)), 0, &data(b"as long as before")).unwrap();
        if round % 7 == 0 {
            objects.write(at(name(1, 0)), 0, &data(b"twice")).unwrap();
        }
        let now = objects.stat(at(name(1, 0)), round % 50 == 0).unwrap();
        assert!(now.modified_ns > before.modified_ns, "round {round}: {before:?} and {now:?}");
        assert_eq!(now.len, 17);
        assert_eq!(objects.stat(at(name(1, 0)), false).unwrap(), now, "nothing was written");
        before = now;
    }
    drop(target);
    // Another process, which has told nothing yet.
    let target = open(dir.path(), 2);
    let objects = target.objects();
    objects.write(at(name(1, 0)), 0, &data(b"a")).unwrap();
    assert!(objects.stat(at(name(1, 0)), false).unwrap().modified_ns > before.modified_ns);
    objects.remove(&[name(1, 0)]).unwrap();
    assert_eq!(objects.stat(at(name(1, 0)), false), Err(ObjectError::Stale));
}
