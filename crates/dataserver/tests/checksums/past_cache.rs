//! Large writes past the kernel's cache, among small ones through it.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use host::Entropy;
use rustix::io::Errno;

use super::*;

const LONG: u64 = 4 * BLOCK;

/// What a disk says that is full, fails, or has turned read-only.
const FAULTS: [(Errno, ObjectError); 3] = [
    (Errno::NOSPC, ObjectError::NoSpace),
    (Errno::IO, ObjectError::Io),
    (Errno::ROFS, ObjectError::ReadOnly),
];

/// Counts writes past the cache, and fails them halfway.
#[derive(Default)]
struct Watched {
    past_cache: AtomicU64,
    /// What they fail with; 0: they do not.
    errno: AtomicI32,
}

impl Disk for Watched {
    fn read_cached(&self, file: &File, buffer: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
        SystemDisk.read_cached(file, buffer, offset)
    }

    fn write_past_cache(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<bool> {
        self.past_cache.fetch_add(1, Ordering::Relaxed);
        match self.errno.load(Ordering::Relaxed) {
            0 => {}
            errno => {
                file.write_all_at(&bytes[..bytes.len() / 2], offset)?;
                return Err(io::Error::from_raw_os_error(errno));
            }
        }
        SystemDisk.write_past_cache(file, bytes, offset)
    }
}

fn open_watched(dir: &Path, disk: &Arc<Watched>) -> Arc<Target> {
    let options =
        TargetOptions { disk: disk.clone(), kept_in_cache: Some(2 * LONG), ..TargetOptions::default() };
    Target::open_with(options, dir, CLUSTER, &SeededEntropy::new(1)).unwrap()
}

/// True if files in the directory can be written past the cache.
fn takes_direct(dir: &Path) -> bool {
    let flags = rustix::fs::OFlags::DIRECT.bits() as i32;
    File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .custom_flags(flags)
        .open(dir.join("probe"))
        .is_ok()
}

fn finds_nothing(objects: &Objects) {
    objects.scrub_all().unwrap();
    assert_eq!(objects.checksum_counts(), dataserver::ChecksumCounts::default());
}

#[test]
fn large_writes_behind_the_first_part_go_past_the_cache_and_small_ones_do_not() {
    let (dir, disk) = (tempfile::tempdir().unwrap(), Arc::new(Watched::default()));
    let expected = |writes| if takes_direct(dir.path()) { writes } else { 0 };
    let target = open_watched(&dir.path().join("target"), &disk);
    let bytes = text(5 * LONG + 8192, 1);
    target.objects().make(&[name(1)]).unwrap();
    for (number, past_cache) in [(0, 0), (1, 0), (2, 1), (3, 2), (4, 3), (5, 3)] {
        let (from, to) = (number * LONG as usize, bytes.len().min((number + 1) * LONG as usize));
        target.objects().write(at(1), from as u64, &data(&bytes[from..to])).unwrap();
        assert_eq!(disk.past_cache.load(Ordering::Relaxed), expected(past_cache), "{number}");
    }
    assert_eq!(get(target.objects(), 1).unwrap(), bytes);
    target.objects().commit(at(1)).unwrap();
    finds_nothing(target.objects());
}

#[test]
fn writes_past_the_cache_and_through_it_leave_the_same_bytes_and_right_sums() {
    for seed in 0..4 {
        let (dir, disk) = (tempfile::tempdir().unwrap(), Arc::new(Watched::default()));
        let entropy = SeededEntropy::new(seed);
        let below = |n: u64| entropy.u64() % n;
        let mut target = open_watched(dir.path(), &disk);
        target.objects().make(&[name(1)]).unwrap();
        let mut model = Vec::<u8>::new();
        for step in 0..120 {
            let (offset, len) = match below(3) {
                0 => (below(12 * LONG), 1 + below(2 * BLOCK)),
                1 => (below(48) * BLOCK, (1 + below(2)) * LONG),
                _ => (below(3000) * 4096, LONG + below(3) * 4096),
            };
            let (from, bytes) = (offset as usize, text(len, seed * 1000 + step));
            model.resize(model.len().max(from + bytes.len()), 0);
            // Into the cache before, or not.
            if below(2) == 0 {
                assert!(get(target.objects(), 1).is_ok());
            }
            let (errno, fault) = FAULTS[below(3) as usize];
            disk.errno.store(if below(8) == 0 { errno.raw_os_error() } else { 0 }, Ordering::Relaxed);
            match target.objects().write(at(1), offset, &data(&bytes)) {
                Ok(_) => model[from..from + bytes.len()].copy_from_slice(&bytes),
                Err(error) => {
                    assert_eq!(error, fault, "seed {seed} step {step}");
                    model[from..from + bytes.len() / 2].copy_from_slice(&bytes[..bytes.len() / 2]);
                    let len = std::fs::metadata(file(dir.path(), 1)).unwrap().len();
                    model.truncate(len as usize);
                }
            }
            match below(20) {
                0 => target.objects().commit(at(1)).unwrap(),
                1 => {
                    drop(target);
                    target = open_watched(dir.path(), &disk);
                }
                _ => {}
            }
            let read = get(target.objects(), 1).unwrap();
            assert!(read == model, "seed {seed} step {step}: {} and {} bytes", read.len(), model.len());
        }
        finds_nothing(target.objects());
    }
}
