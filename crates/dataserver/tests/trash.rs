//! Removed objects: kept for a while, given up for good by age, and brought back by hand.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dataserver::{CallEpoch, Epoch, ObjectError, ObjectName, ObjectRef, Target, TargetOptions};
use host::{ManualClock, SeededEntropy};

const CLUSTER: [u8; 16] = [0xc1; 16];
const KEEP: Duration = Duration::from_secs(3600);
const BYTES: usize = 1 << 20;

fn name(inode: u64) -> ObjectName {
    ObjectName { inode, column: 0, volume: 1, generation: 7 }
}

/// An object in its first epoch.
fn at(name: ObjectName) -> ObjectRef {
    ObjectRef { name, epoch: Epoch { incarnation: 3, chain: 0, call: CallEpoch::Server(0, 0) } }
}

fn open(dir: &Path, clock: &Arc<ManualClock>, trash_keep: Duration) -> Arc<Target> {
    let options = TargetOptions { clock: clock.clone(), ..TargetOptions::default() };
    let target = Target::open_with(options, dir, CLUSTER, &SeededEntropy::new(1)).unwrap();
    target.objects().set_trash_time(trash_keep);
    target
}

fn put(target: &Target, inode: u64) {
    let objects = target.objects();
    objects.make(&[name(inode)]).unwrap();
    objects.write_through(at(name(inode)), 0, &Bytes::from(vec![inode as u8; BYTES]).into()).unwrap();
}

/// The objects in the trash. Each has its sum file beside it.
fn in_trash(dir: &Path) -> Vec<PathBuf> {
    let files = |period: PathBuf| std::fs::read_dir(period).unwrap().map(|file| file.unwrap().path());
    let periods = std::fs::read_dir(dir.join("trash")).unwrap();
    let all: Vec<PathBuf> = periods.flat_map(|period| files(period.unwrap().path())).collect();
    let (sums, objects): (Vec<_>, Vec<_>) = all.into_iter().partition(|file| sums_of(file).is_none());
    assert_eq!(sums.len(), objects.len(), "{sums:?} {objects:?}");
    objects
}

/// The sum file of an object; none: it is one itself.
fn sums_of(object: &Path) -> Option<PathBuf> {
    let name = object.file_name()?.to_str()?;
    (!name.ends_with(".sums")).then(|| object.with_file_name(format!("{name}.sums")))
}

#[test]
fn a_removed_object_is_kept_for_as_long_as_was_set_and_counts_as_free() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), Arc::new(ManualClock::default()));
    clock.advance(Duration::from_secs(1_800_000_000));
    let target = open(dir.path(), &clock, KEEP);
    (1..=2).for_each(|inode| put(&target, inode));
    target.objects().remove(&[name(1)]).unwrap();
    assert_eq!((target.objects().count(), in_trash(dir.path()).len()), (1, 1));
    assert!(target.objects().space().unwrap().trash >= BYTES as u64);

    clock.advance(KEEP / 2);
    target.objects().remove(&[name(2)]).unwrap();
    target.objects().sweep_trash();
    assert_eq!(in_trash(dir.path()).len(), 2, "none is old enough");
    // What is there counts after a restart, too; and what was removed before it is not taken for lost.
    drop(target);
    let target = open(dir.path(), &clock, KEEP);
    assert!(target.objects().space().unwrap().trash >= 2 * BYTES as u64);
    assert_eq!(target.objects().read(at(name(1)), 0, 1), Err(ObjectError::Stale));
    assert_eq!(target.objects().read(at(name(3)), 0, 1), Err(ObjectError::Lost));

    clock.advance(KEEP / 2 + Duration::from_secs(600));
    target.objects().sweep_trash();
    let left = in_trash(dir.path());
    assert!(left.len() == 1 && left[0].ends_with(name(2).to_string()), "{left:?}");
    clock.advance(KEEP);
    target.objects().sweep_trash();
    assert_eq!(std::fs::read_dir(dir.path().join("trash")).unwrap().count(), 0);
    assert_eq!(target.objects().space().unwrap().trash, 0);
}

#[test]
fn an_object_that_is_moved_back_by_hand_is_there_again() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), Arc::new(ManualClock::default()));
    let target = open(dir.path(), &clock, KEEP);
    put(&target, 5);
    target.objects().remove(&[name(5)]).unwrap();
    drop(target);
    let file = in_trash(dir.path()).remove(0);
    let place = dir.path().join("objects/05").join(name(5).to_string());
    std::fs::rename(sums_of(&file).unwrap(), sums_of(&place).unwrap()).unwrap();
    std::fs::rename(&file, place).unwrap();
    let target = open(dir.path(), &clock, KEEP);
    assert!(target.objects().read(at(name(5)), 0, BYTES).unwrap().data == vec![5; BYTES]);
    assert_eq!(target.objects().space().unwrap().trash, 0);
    assert_eq!(target.objects().checksum_counts().unsummed, 0);
}

/// What was removed is kept until a metaserver says for how long: after a restart, too.
#[test]
fn nothing_is_given_up_for_its_age_before_a_metaserver_has_said_how_long_it_is_kept() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), Arc::new(ManualClock::default()));
    let target = open(dir.path(), &clock, KEEP);
    put(&target, 1);
    target.objects().remove(&[name(1)]).unwrap();
    drop(target);
    clock.advance(KEEP * 100);
    let options = TargetOptions { clock: clock.clone(), ..TargetOptions::default() };
    let target = Target::open_with(options, dir.path(), CLUSTER, &SeededEntropy::new(1)).unwrap();
    target.objects().sweep_trash();
    assert_eq!(in_trash(dir.path()).len(), 1);
    target.objects().set_trash_time(KEEP);
    target.objects().sweep_trash();
    assert_eq!(in_trash(dir.path()).len(), 0);
}

#[test]
fn without_a_time_nothing_is_kept() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), Arc::new(ManualClock::default()));
    let target = open(dir.path(), &clock, Duration::ZERO);
    put(&target, 1);
    target.objects().remove(&[name(1), name(2)]).unwrap();
    assert_eq!((target.objects().count(), in_trash(dir.path()).len()), (0, 0));
}
