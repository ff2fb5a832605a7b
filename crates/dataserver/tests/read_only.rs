//! A file system that becomes read-only at an error, as ext4 does: what is there is read on, and no sync seems to succeed.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use dataserver::{
    CallEpoch, Disk, Epoch, ObjectError, ObjectName, ObjectRef, Settling, SystemDisk, Target, TargetOptions,
};
use host::SeededEntropy;
use wire::xdr::Payload;

const EROFS: i32 = 30;

/// A disk that can become read-only.
#[derive(Default)]
struct Fragile(AtomicBool);

impl Fragile {
    fn check(&self) -> io::Result<()> {
        match self.0.load(Ordering::Relaxed) {
            true => Err(io::Error::from_raw_os_error(EROFS)),
            false => Ok(()),
        }
    }
}

impl Disk for Fragile {
    fn write_all_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.check()?;
        SystemDisk.write_all_at(file, bytes, offset)
    }

    fn sync_all(&self, file: &File) -> io::Result<()> {
        self.check()?;
        SystemDisk.sync_all(file)
    }

    fn sync_file(&self, file: &File) -> io::Result<()> {
        self.check()?;
        SystemDisk.sync_file(file)
    }

    fn sync_sums(&self, file: &File) -> io::Result<()> {
        self.check()?;
        SystemDisk.sync_sums(file)
    }

    fn sync_dir(&self, root: &File, name: &str) -> io::Result<()> {
        self.check()?;
        SystemDisk.sync_dir(root, name)
    }
}

fn at(inode: u64) -> ObjectRef {
    let name = ObjectName { inode, column: 0, volume: 1, generation: 7 };
    ObjectRef { name, epoch: Epoch { incarnation: 3, chain: 0, call: CallEpoch::Server(0, 0) } }
}

fn data(byte: u8) -> Payload {
    Bytes::from(vec![byte; 200_000]).into()
}

#[test]
fn objects_are_read_on_and_what_was_not_committed_is_never_said_to_be_durable() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(Fragile::default());
    // Fewer open files than objects with data that are not on the disk.
    let options = TargetOptions { disk: disk.clone(), open_files_max: 2, ..TargetOptions::default() };
    let target = Target::open_with(options, dir.path(), [0xc1; 16], &SeededEntropy::new(1)).unwrap();
    let objects = target.objects();
    for inode in 1..=6 {
        objects.make(&[at(inode).name]).unwrap();
        objects.write(at(inode), 0, &data(inode as u8)).unwrap();
    }
    for durable in 1..=3 {
        objects.commit(at(durable)).unwrap();
    }
    objects.write(at(4), 0, &data(4)).unwrap();
    objects.write(at(5), 0, &data(5)).unwrap();
    disk.0.store(true, Ordering::Relaxed);
    for _ in 0..3 {
        objects.settle_all(&Settling::default());
        for inode in 1..=6 {
            let read = objects.read(at(inode), 0, 200_000);
            assert!(read.unwrap().data.iter().all(|byte| *byte == inode as u8), "{inode}");
            assert_eq!(objects.write(at(inode), 0, &data(9)), Err(ObjectError::ReadOnly));
        }
        for inode in [4, 5] {
            assert_eq!(objects.commit(at(inode)), Err(ObjectError::ReadOnly), "{inode}");
        }
    }
    assert!(!objects.failed());
    disk.0.store(false, Ordering::Relaxed);
    for inode in [4, 5] {
        objects.commit(at(inode)).unwrap();
    }
    objects.settle_all(&Settling::default());
    for inode in 1..=6 {
        assert!(objects.read(at(inode), 0, 200_000).unwrap().data.iter().all(|byte| *byte == inode as u8));
    }
}
