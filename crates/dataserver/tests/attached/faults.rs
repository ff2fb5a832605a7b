//! Disks that lie or are full, below an attached object.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use super::*;

const EIO: i32 = 5;
const ENOSPC: i32 = 28;
const EROFS: i32 = 30;
const REGION: u64 = 64 << 10;

/// A disk on which nothing can be written, with this error; 0: it works.
#[derive(Default)]
struct Refusing(AtomicI32);

impl Refusing {
    fn check(&self) -> io::Result<()> {
        match self.0.load(Ordering::Relaxed) {
            0 => Ok(()),
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }
}

impl Disk for Refusing {
    fn write_all_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.check()?;
        SystemDisk.write_all_at(file, bytes, offset)
    }

    fn copy(&self, from: &File, from_at: u64, to: &File, to_at: u64, len: usize) -> io::Result<usize> {
        self.check()?;
        SystemDisk.copy(from, from_at, to, to_at, len)
    }
}

/// A target with an object, and one that is attached to it.
fn attached(disk: Arc<dyn Disk>) -> (tempfile::TempDir, Arc<Target>, Vec<u8>) {
    let dir = tempfile::tempdir().unwrap();
    let target = open_on(dir.path(), disk);
    let bytes = text(3 * MIB, 1);
    put(target.objects(), 1, &bytes);
    target.objects().settle_all(&dataserver::Settling::default());
    target.objects().make(&[name(2)]).unwrap();
    target.objects().attach(at(2), name(1)).unwrap();
    (dir, target, bytes)
}

fn flip(path: &Path, at: u64) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 16], at).unwrap();
}

#[test]
fn a_full_or_read_only_disk_shows_all_of_it_and_takes_no_part_of_a_write() {
    for errno in [ENOSPC, EROFS] {
        let disk = Arc::new(Refusing::default());
        let (_dir, target, mut bytes) = attached(disk.clone());
        let objects = target.objects();
        disk.0.store(errno, Ordering::Relaxed);
        assert_eq!(get(objects, 2).unwrap(), bytes);
        let refused = objects.write(at(2), MIB + 5, &data(b"new")).unwrap_err();
        assert!(matches!(refused, ObjectError::NoSpace | ObjectError::ReadOnly), "{refused}");
        assert_eq!(get(objects, 2).unwrap(), bytes);
        disk.0.store(0, Ordering::Relaxed);
        objects.write(at(2), MIB + 5, &data(b"new")).unwrap();
        bytes[MIB as usize + 5..][..3].copy_from_slice(b"new");
        fill(objects);
        assert_eq!(get(objects, 2).unwrap(), bytes);
    }
}

#[test]
fn a_damaged_block_of_the_base_is_damaged_in_the_object_and_no_other_byte_is() {
    let (dir, target, bytes) = attached(Arc::new(SystemDisk));
    drop(target);
    flip(&file(dir.path(), 1, ""), MIB + 65_536 + 9);
    let target = open(dir.path());
    let objects = target.objects();
    let read = |offset: u64, len: usize| objects.read(at(2), offset, len).map(|read| read.data.to_vec());
    for filled in [false, true] {
        assert_eq!(read(MIB + 65_536, 10), Err(ObjectError::Damaged), "filled {filled}");
        for (from, to) in [(0, MIB + 65_536), (MIB + 131_072, 3 * MIB)] {
            let found = read(from, (to - from) as usize).unwrap();
            assert!(found == bytes[from as usize..to as usize], "filled {filled} {from}");
        }
        // All of it is copied.
        objects.block_states(at(2), 0, 48).unwrap();
        assert_eq!(fill(objects), 0);
        assert!(other_files(dir.path(), 2).is_empty());
    }
    // It is mended by a write, as any block.
    objects.write(at(2), MIB + 65_536, &data(&bytes[MIB as usize + 65_536..][..65_536])).unwrap();
    assert_eq!(get(objects, 2).unwrap(), bytes);
}

/// A disk that cannot read the file with this inode.
#[derive(Default)]
struct Unreadable(AtomicU64);

impl Unreadable {
    fn check(&self, file: &File) -> io::Result<()> {
        let is_bad = file.metadata()?.ino() == self.0.load(Ordering::Relaxed);
        if is_bad { Err(io::Error::from_raw_os_error(EIO)) } else { Ok(()) }
    }
}

impl Disk for Unreadable {
    fn read_at(&self, file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.check(file)?;
        SystemDisk.read_at(file, buffer, offset)
    }

    fn copy(&self, from: &File, from_at: u64, to: &File, to_at: u64, len: usize) -> io::Result<usize> {
        self.check(from)?;
        SystemDisk.copy(from, from_at, to, to_at, len)
    }
}

#[test]
fn a_base_that_cannot_be_read_takes_none_of_its_own_bytes_from_the_object() {
    let disk = Arc::new(Unreadable::default());
    let (dir, target, mut bytes) = attached(disk.clone());
    let objects = target.objects();
    let own = MIB..MIB + REGION;
    bytes[own.start as usize..own.end as usize].fill(7);
    objects.write(at(2), own.start, &data(&vec![7; REGION as usize])).unwrap();
    objects.commit(at(2)).unwrap();
    disk.0.store(file(dir.path(), 1, "").metadata().unwrap().ino(), Ordering::Relaxed);
    let read = |offset: u64| objects.read(at(2), offset, 100).map(|read| read.data.to_vec());
    assert_eq!(read(own.start), Ok(vec![7; 100]));
    for offset in [0, own.end, 3 * MIB - 100] {
        read(offset).expect_err("the base cannot be read");
        objects.write(at(2), offset + 5, &data(b"new")).expect_err("the region cannot be copied");
    }
    assert_eq!(read(own.start), Ok(vec![7; 100]), "it goes on serving what it has");
    drop(target);
    // As after another try of the disk, or in another machine.
    let target = open(dir.path());
    assert!(get(target.objects(), 2).unwrap() == bytes, "nothing of a refused write, and no zeros");
    fill(target.objects());
    assert!(get(target.objects(), 2).unwrap() == bytes);
}

/// A zeroed sector of a sum file says that its blocks are zeros, as holes are.
#[test]
fn a_base_with_lost_sums_shows_no_zeros_in_place_of_its_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let target = open(dir.path());
    let objects = target.objects();
    put(objects, 1, &text(4 * BLOCK, 1));
    objects.write(at(1), 8 * BLOCK, &data(&text(BLOCK, 2))).unwrap();
    objects.settle_all(&dataserver::Settling::default());
    let sums = File::options().write(true).open(file(dir.path(), 1, ".sums")).unwrap();
    sums.write_all_at(&[0; 8], 64 + 2 * 8).unwrap();
    objects.make(&[name(2)]).unwrap();
    objects.attach(at(2), name(1)).unwrap();
    let read = |block: u64| objects.read(at(2), block * BLOCK, BLOCK as usize).map(|read| read.data.to_vec());
    assert_eq!(read(2), Err(ObjectError::Damaged));
    assert!(read(1).unwrap() == text(4 * BLOCK, 1)[BLOCK as usize..2 * BLOCK as usize]);
    assert!(read(8).unwrap() == text(BLOCK, 2) && read(6).unwrap() == vec![0; BLOCK as usize]);
    // A hole is one there, too.
    let next = objects.seek(at(2), dataserver::Place::Data, 5 * BLOCK).unwrap();
    assert!(next == Some(8 * BLOCK) || next == Some(5 * BLOCK), "{next:?}: by a file system without holes");
}

/// What is done to the files of object 2, and its name.
type Harm = (&'static str, fn(&Path));

#[test]
fn an_object_whose_map_or_base_is_damaged_or_gone_is_lost_and_in_the_trash() {
    let harms: [Harm; 6] = [
        ("a word", |dir| flip(&file(dir, 2, ".regions"), 330)),
        ("the header", |dir| flip(&file(dir, 2, ".regions"), 30)),
        ("the base's name", |dir| flip(&file(dir, 2, ".regions"), 70)),
        ("zeros", |dir| std::fs::write(file(dir, 2, ".regions"), [0; 600]).unwrap()),
        ("cut off", |dir| std::fs::write(file(dir, 2, ".regions"), []).unwrap()),
        ("no base", |dir| std::fs::remove_file(file(dir, 2, ".base1")).unwrap()),
    ];
    for (harm, harms) in harms {
        let (dir, target, bytes) = attached(Arc::new(SystemDisk));
        drop(target);
        harms(dir.path());
        let target = open(dir.path());
        assert_eq!(target.objects().count(), 2, "{harm}");
        for _ in 0..2 {
            assert_eq!(get(target.objects(), 2), Err(ObjectError::Lost), "{harm}");
        }
        assert_eq!(target.objects().count(), 1, "{harm}");
        assert_eq!(other_files(dir.path(), 2), [""; 0], "{harm}");
        fill(target.objects());
        assert_eq!(get(target.objects(), 1).unwrap(), bytes, "{harm}");
        // The head of its chain can make it again.
        target.objects().make(&[name(2)]).unwrap();
        assert_eq!(get(target.objects(), 2).unwrap(), b"", "{harm}");
    }
}
