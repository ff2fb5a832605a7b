//! Object epochs: which calls an object still obeys, also after a restart and on a disk that fails.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use bytes::Bytes;
use dataserver::{CallEpoch, Disk, Epoch, ObjectError, ObjectName, ObjectRef, Place, Target, TargetOptions};
use host::SeededEntropy;
use parking_lot::{Condvar, Mutex};
use wire::data::Piece;
use wire::xdr::Payload;

const CLUSTER: [u8; 16] = [0xc1; 16];
const STALE: ObjectError = ObjectError::StaleEpoch;

fn name(inode: u64) -> ObjectName {
    ObjectName { inode, column: 0, volume: 1, generation: 7 }
}

/// Object 1 as a handle of this epoch names it.
fn at(number: u32) -> ObjectRef {
    of(1, 3, number)
}

fn of(inode: u64, incarnation: u64, number: u32) -> ObjectRef {
    ObjectRef {
        name: name(inode),
        epoch: Epoch { incarnation, chain: 0, call: CallEpoch::Server(number, 0) },
    }
}

fn data(bytes: &[u8]) -> Payload {
    Bytes::copy_from_slice(bytes).into()
}

fn open(dir: &Path) -> Arc<Target> {
    Target::open_or_create(dir, CLUSTER, &SeededEntropy::new(1)).unwrap()
}

/// A disk that cannot set a mark, or holds writes up.
#[derive(Default)]
struct OddDisk {
    mark: AtomicI32,
    held: Mutex<Held>,
    changed: Condvar,
}

#[derive(Default)]
struct Held {
    holds: bool,
    waiting: u32,
}

impl OddDisk {
    fn hold(&self, holds: bool) {
        self.held.lock().holds = holds;
        self.changed.notify_all();
    }

    fn until_one_waits(&self) {
        let mut held = self.held.lock();
        while held.waiting == 0 {
            self.changed.wait(&mut held);
        }
    }
}

impl Disk for OddDisk {
    fn write_all_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut held = self.held.lock();
        held.waiting += 1;
        self.changed.notify_all();
        while held.holds {
            self.changed.wait(&mut held);
        }
        held.waiting -= 1;
        std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
    }

    fn set_mark(&self, file: &File, mark: &[u8]) -> io::Result<()> {
        match self.mark.load(Ordering::Relaxed) {
            0 => dataserver::SystemDisk.set_mark(file, mark),
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }
}

fn on_odd_disk(dir: &Path) -> (Arc<Target>, Arc<OddDisk>) {
    let disk = Arc::new(OddDisk::default());
    let options = TargetOptions { disk: disk.clone(), ..TargetOptions::default() };
    (Target::open_with(options, dir, CLUSTER, &SeededEntropy::new(1)).unwrap(), disk)
}

#[test]
fn a_call_with_a_later_epoch_ends_all_earlier_ones_for_good() {
    let dir = tempfile::tempdir().unwrap();
    let target = open(dir.path());
    let objects = target.objects();
    objects.make(&[name(1), name(2)]).unwrap();
    objects.write(at(0), 0, &data(b"first")).unwrap();
    assert_eq!(objects.stat(at(2), false).unwrap().len, 5);
    assert_eq!(objects.write(at(1), 0, &data(b"late")), Err(STALE));
    assert_eq!(objects.write_through(at(0), 0, &data(b"late")), Err(STALE));
    assert_eq!(objects.read(at(1), 0, 9), Err(STALE));
    assert_eq!(objects.commit(at(1)), Err(STALE));
    assert_eq!(objects.stat(at(1), true), Err(STALE));
    assert_eq!(objects.truncate(at(1), 0), Err(STALE));
    assert_eq!(objects.seek(at(1), Place::Data, 0), Err(STALE));
    assert_eq!(objects.length(at(1)), Err(STALE));
    assert_eq!(objects.read_runs(at(1), 0, 9), Err(STALE));
    assert_eq!(objects.reserve(at(1), 0, 9), Err(STALE));
    assert_eq!(objects.allocate(at(1), 0, 9), Err(STALE));
    assert_eq!(objects.punch(at(1), 0, 9), Err(STALE));
    assert_eq!(objects.clear(at(1), 0, 9), Err(STALE));
    let piece = [Piece { from: 0, to: 0, len: 5 }];
    assert_eq!(objects.copy(at(1), objects, of(2, 3, 0), &piece), Err(STALE));
    assert_eq!(objects.copy(of(2, 3, 0), objects, at(1), &piece), Err(STALE));
    assert_eq!(objects.read(at(2), 0, 9).unwrap().data, "first");
}

#[test]
fn the_epoch_outlives_the_process() {
    let dir = tempfile::tempdir().unwrap();
    {
        let target = open(dir.path());
        target.objects().make(&[name(1)]).unwrap();
        target.objects().write(at(0), 0, &data(b"first")).unwrap();
        target.objects().stat(at(3), true).unwrap();
    }
    let target = open(dir.path());
    assert_eq!(target.objects().write(at(2), 0, &data(b"late")), Err(STALE));
    // Of a group that was restored from a backup: it counts from where that was.
    assert_eq!(target.objects().read(of(1, 9, 1), 0, 9).unwrap().data, "first");
    assert_eq!(target.objects().read(of(1, 9, 0), 0, 9), Err(STALE));
}

#[test]
fn an_object_in_its_first_epoch_has_no_mark() {
    let dir = tempfile::tempdir().unwrap();
    let (target, disk) = on_odd_disk(dir.path());
    disk.mark.store(5, Ordering::Relaxed);
    let objects = target.objects();
    objects.make(&[name(1)]).unwrap();
    objects.write_through(at(0), 0, &data(b"first")).unwrap();
    assert_eq!(objects.read(at(0), 0, 9).unwrap().data, "first");
    assert_eq!(objects.read(of(1, 9, 0), 0, 9).unwrap().data, "first");
}

/// A client keeps its layout over its own truncation, and loses it with a fence.
#[test]
fn a_raise_leaves_layouts_alone_and_a_fence_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let target = open(dir.path());
    let objects = target.objects();
    let layout = |fence| ObjectRef {
        epoch: Epoch { incarnation: 3, chain: 0, call: CallEpoch::Layout(fence) },
        ..at(0)
    };
    let call = |number, fence| ObjectRef {
        epoch: Epoch { incarnation: 3, chain: 0, call: CallEpoch::Server(number, fence) },
        ..at(0)
    };
    objects.make(&[name(1)]).unwrap();
    objects.write(layout(0), 0, &data(b"before")).unwrap();
    objects.truncate(call(1, 0), 2).unwrap();
    objects.write(layout(0), 2, &data(b"after")).unwrap();
    objects.truncate(call(1, 0), 2).unwrap();
    objects.stat(call(2, 2), true).unwrap();
    assert_eq!(objects.write(layout(0), 0, &data(b"late")), Err(STALE));
    assert_eq!(objects.write(call(1, 0), 0, &data(b"late")), Err(STALE));
    assert_eq!(objects.read(layout(2), 0, 9).unwrap().data, "beafter");
    // A client may be the first with a layout from after a fence.
    objects.write(layout(4), 0, &data(b"B")).unwrap();
    assert_eq!(objects.write(layout(2), 0, &data(b"late")), Err(STALE));
    assert_eq!(objects.write(call(3, 2), 0, &data(b"late")), Err(STALE));
    drop(target);
    let target = open(dir.path());
    assert_eq!(target.objects().write(layout(2), 0, &data(b"late")), Err(STALE));
    assert_eq!(target.objects().read(call(4, 4), 0, 9).unwrap().data, "Beafter");
}

/// ```text
/// metaserver A   TRUNCATE to 2, epoch 1 ─▶ done                  … and its first try, which was late
/// client                                  WRITE, epoch 1 ─▶ done
/// ```
#[test]
fn a_truncation_that_comes_again_late_takes_nothing_that_was_written_since() {
    let dir = tempfile::tempdir().unwrap();
    let target = open(dir.path());
    let objects = target.objects();
    objects.make(&[name(1)]).unwrap();
    objects.write(at(0), 0, &data(b"before")).unwrap();
    objects.truncate(at(1), 2).unwrap();
    objects.write(at(1), 2, &data(b"after")).unwrap();
    objects.truncate(at(1), 2).unwrap();
    assert_eq!(objects.read(at(1), 0, 99).unwrap().data, "beafter");
    drop(target);
    let target = open(dir.path());
    let objects = target.objects();
    objects.truncate(at(1), 2).unwrap();
    assert_eq!(objects.read(at(1), 0, 99).unwrap().data, "beafter", "after a restart");
    objects.truncate(at(2), 0).unwrap();
    assert_eq!(objects.read(at(2), 0, 99).unwrap().data, "");
    // Another call may be the first with an epoch.
    objects.write(at(3), 0, &data(b"third")).unwrap();
    objects.truncate(at(3), 1).unwrap();
    assert_eq!(objects.read(at(3), 0, 99).unwrap().data, "t");
}

#[test]
fn an_object_that_is_lost_is_made_again_by_a_truncation_to_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let target = open(dir.path());
    let objects = target.objects();
    assert_eq!(objects.truncate(at(1), 1), Err(ObjectError::Lost));
    objects.truncate(at(1), 0).unwrap();
    assert_eq!(objects.write(at(0), 0, &data(b"late")), Err(STALE));
    objects.write(at(1), 0, &data(b"new")).unwrap();
    objects.truncate(at(1), 0).unwrap();
    assert_eq!(objects.read(at(1), 0, 9).unwrap().data, "new");
}

#[test]
fn a_raise_waits_for_a_write_that_is_under_way() {
    let dir = tempfile::tempdir().unwrap();
    let (target, disk) = on_odd_disk(dir.path());
    target.objects().make(&[name(1)]).unwrap();
    disk.hold(true);
    std::thread::scope(|scope| {
        let late = scope.spawn(|| target.objects().write(at(0), 0, &data(b"late")));
        disk.until_one_waits();
        let raise = scope.spawn(|| target.objects().stat(at(1), true).map(|stat| stat.len));
        // From the moment on at which the raise has begun.
        while target.objects().read(at(0), 0, 1) != Err(STALE) {
            std::thread::yield_now();
        }
        assert!(!raise.is_finished() && !late.is_finished());
        disk.hold(false);
        late.join().unwrap().expect("it began in time");
        assert_eq!(raise.join().unwrap(), Ok(4), "and is part of what the raise finds");
    });
}

#[test]
fn an_epoch_that_cannot_be_stored_is_not_taken_but_earlier_calls_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (target, disk) = on_odd_disk(dir.path());
    let objects = target.objects();
    objects.make(&[name(1)]).unwrap();
    objects.write(at(0), 0, &data(b"first")).unwrap();
    disk.mark.store(28, Ordering::Relaxed);
    assert_eq!(objects.stat(at(1), true), Err(ObjectError::NoSpace));
    assert_eq!(objects.write(at(0), 0, &data(b"late")), Err(STALE));
    assert_eq!(objects.truncate(at(1), 0), Err(ObjectError::NoSpace));
    disk.mark.store(0, Ordering::Relaxed);
    assert_eq!(objects.stat(at(1), true).unwrap().len, 0, "the truncation is to be done again");
    objects.truncate(at(1), 0).unwrap();
}

/// Its files can be read as before. (Nothing can be written, by anybody.)
#[test]
fn a_read_only_disk_keeps_the_epoch_in_memory() {
    let dir = tempfile::tempdir().unwrap();
    let (target, disk) = on_odd_disk(dir.path());
    let objects = target.objects();
    objects.make(&[name(1)]).unwrap();
    objects.write(at(0), 0, &data(b"first")).unwrap();
    disk.mark.store(30, Ordering::Relaxed);
    assert_eq!(objects.read(at(1), 0, 9).unwrap().data, "first");
    assert_eq!(objects.read(at(0), 0, 9), Err(STALE));
    assert_eq!(objects.truncate(at(2), 9), Err(ObjectError::ReadOnly));
}

#[test]
fn a_damaged_mark_is_an_error_and_no_first_epoch() {
    let dir = tempfile::tempdir().unwrap();
    {
        let target = open(dir.path());
        target.objects().make(&[name(1)]).unwrap();
        target.objects().stat(at(3), true).unwrap();
    }
    let file = dir.path().join(format!("objects/01/{}", name(1)));
    let mut mark = [0; 64];
    let len = rustix::fs::getxattr(&file, "user.heorot.epoch", &mut mark).unwrap();
    mark[9] ^= 1;
    rustix::fs::setxattr(&file, "user.heorot.epoch", &mark[..len], rustix::fs::XattrFlags::empty()).unwrap();
    let target = open(dir.path());
    assert_eq!(target.objects().write(at(3), 0, &data(b"x")), Err(ObjectError::Io));
    assert_eq!(target.objects().read(at(9), 0, 1), Err(ObjectError::Io));
}
