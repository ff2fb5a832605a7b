//! The scrubber.

use dataserver::{Scrub, ScrubStep, Settling};
use host::Entropy;

use super::*;

/// Files of a directory and their lengths in bits.
fn bits_of(dir: &Path) -> Vec<(PathBuf, u64)> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(dir.join("objects")).unwrap() {
        for file in std::fs::read_dir(entry.unwrap().path()).unwrap() {
            let file = file.unwrap();
            all.push((file.path(), file.metadata().unwrap().len() * 8));
        }
    }
    all.sort();
    all
}

#[test]
fn a_thousand_flipped_bits_over_objects_and_sum_files_are_all_found() {
    let dir = tempfile::tempdir().unwrap();
    let target = open(dir.path());
    let objects = target.objects();
    let entropy = SeededEntropy::new(20);
    for inode in 0..20 {
        put(objects, inode, entropy.u64() % 2 * BLOCK, &text(1 + entropy.u64() % (8 * BLOCK), inode));
    }
    objects.settle_all(&Settling::default());
    objects.scrub_all().unwrap();
    assert_eq!(objects.checksum_counts(), dataserver::ChecksumCounts::default());
    let files = bits_of(dir.path());
    assert_eq!(files.len(), 40);
    for round in 0..1000 {
        // Half of them in sum files, which are small.
        let (path, bits) = &files[(entropy.u64() % 40) as usize];
        let bit = entropy.u64() % bits;
        flip(path, bit);
        let before = objects.checksum_counts();
        objects.scrub_all().unwrap();
        let after = objects.checksum_counts();
        let found = after.damaged - before.damaged + after.sums_damaged - before.sums_damaged;
        assert_eq!(found, 1, "round {round}: bit {bit} of {}", path.display());
        if after.damaged_now > 0 {
            flip(path, bit);
            // What was mended outside is known to be whole when it is written again.
            let name = path.file_name().unwrap().to_str().and_then(ObjectName::parse).unwrap();
            let block = bit / 8 / BLOCK;
            let bytes = std::fs::read(path).unwrap();
            let end = bytes.len().min((block as usize + 1) * BLOCK_BYTES);
            objects
                .write(at(name.inode), block * BLOCK, &data(&bytes[block as usize * BLOCK_BYTES..end]))
                .unwrap();
            objects.settle_all(&Settling::default());
        }
        assert_eq!(objects.checksum_counts().damaged_now, 0);
    }
}

#[test]
fn a_scrub_that_was_interrupted_goes_on_and_reads_each_object_once() {
    let dir = tempfile::tempdir().unwrap();
    let target = open(dir.path());
    let objects = target.objects();
    for inode in 0..30 {
        put(objects, inode, 0, &text(BLOCK + 1, inode));
    }
    objects.settle_all(&Settling::default());
    let mut scrub = Scrub::default();
    let (mut bytes, mut found) = (0, 0);
    for step in 0u64.. {
        match objects.scrub_step(&mut scrub).unwrap() {
            ScrubStep::Ended => break,
            ScrubStep::Read(read) => bytes += read,
        }
        if step % 7 == 6 {
            found += scrub.objects;
            scrub = Scrub::resume(scrub.after);
        }
    }
    assert_eq!(found + scrub.objects, 30);
    // The object that it was interrupted in is read again.
    assert!((30 * (BLOCK + 1)..45 * (BLOCK + 1)).contains(&bytes), "{bytes}");
}

#[test]
fn a_scrub_beside_writes_and_removals_raises_no_alarm() {
    let dir = tempfile::tempdir().unwrap();
    let target = open(dir.path());
    let objects = target.objects();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for round in 0..300u64 {
                let inode = round % 5;
                put(
                    objects,
                    inode,
                    round * 7919 % (3 * BLOCK),
                    &text(1 + round * 104_729 % (2 * BLOCK), round),
                );
                match round % 9 {
                    0 => objects.truncate(at(inode), BLOCK + 9).unwrap(),
                    1 => objects.settle_all(&Settling::default()),
                    2 => objects.remove(&[name(100 + round)]).unwrap(),
                    _ => put(objects, 100 + round + 1, 0, &text(100, round)),
                }
            }
        });
        while !writer.is_finished() {
            objects.scrub_all().unwrap();
        }
        writer.join().unwrap();
    });
    assert_eq!(objects.checksum_counts(), dataserver::ChecksumCounts::default());
}
