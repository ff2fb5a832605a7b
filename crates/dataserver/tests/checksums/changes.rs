//! Changes of all kinds keep the sums right.

use std::sync::atomic::{AtomicBool, Ordering};

use dataserver::{BlockState, Settling, Verify};
use host::Entropy;
use wire::data::Piece;

use super::*;

/// Random changes of three objects beside a model in memory. After each, all that is read fits; and after a
/// restart.
#[test]
fn any_sequence_of_changes_leaves_right_sums() {
    for seed in 0..6 {
        let dir = tempfile::tempdir().unwrap();
        let entropy = SeededEntropy::new(seed);
        let below = |n: u64| entropy.u64() % n;
        let mut target = open_on(dir.path(), Arc::new(SystemDisk), 2);
        let mut model = [const { Vec::<u8>::new() }; 3];
        target.objects().make(&[name(0), name(1), name(2)]).unwrap();
        for step in 0..200 {
            let (inode, other) = (below(3), below(3));
            let objects = target.objects();
            let memory = &mut model[inode as usize];
            // Mostly at the edges of blocks.
            let place = |n: u64| match below(3) {
                0 => below(n) * BLOCK,
                1 => (below(n) * BLOCK + below(200)).saturating_sub(100),
                _ => below(n * BLOCK),
            };
            let (offset, len) = (place(6), place(4));
            let range = |memory: &[u8]| {
                (offset as usize).min(memory.len())..((offset + len) as usize).min(memory.len())
            };
            match below(8) {
                0..3 => {
                    let bytes = text(len, step);
                    objects.write(at(inode), offset, &data(&bytes)).unwrap();
                    if len > 0 {
                        memory.resize(memory.len().max((offset + len) as usize), 0);
                        memory[offset as usize..(offset + len) as usize].copy_from_slice(&bytes);
                    }
                }
                3 => {
                    let bytes = text(len, step);
                    objects.write(at(inode), memory.len() as u64, &data(&bytes)).unwrap();
                    memory.extend(bytes);
                }
                4 => {
                    objects.truncate(at(inode), offset).unwrap();
                    memory.truncate(offset as usize);
                }
                5 => {
                    objects.punch(at(inode), offset, len).unwrap();
                    let range = range(memory);
                    memory[range].fill(0);
                }
                6 => {
                    objects.allocate(at(inode), offset, len.max(1)).unwrap();
                    memory.resize(memory.len().max((offset + len.max(1)) as usize), 0);
                }
                _ => {
                    let from =
                        if below(2) == 0 { offset % BLOCK + place(3) / BLOCK * BLOCK } else { place(5) };
                    if inode == other {
                        continue;
                    }
                    objects.copy(at(inode), objects, at(other), &[Piece { from, to: offset, len }]).unwrap();
                    let mut source = model[other as usize].clone();
                    source.resize(source.len().max((from + len) as usize), 0);
                    let part = &source[from as usize..(from + len) as usize];
                    // The target gets as long as it has data.
                    let data = part.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
                    let memory = &mut model[inode as usize];
                    if data > 0 {
                        memory.resize(memory.len().max(offset as usize + data), 0);
                    }
                    let end = memory.len().min((offset + len) as usize);
                    if let Some(copied) = end.checked_sub(offset as usize) {
                        memory[offset as usize..end].copy_from_slice(&part[..copied]);
                    }
                }
            }
            let objects = target.objects();
            let read = get(objects, inode).unwrap();
            let memory = &mut model[inode as usize];
            // A copy makes the target as long as it has data to copy, which may be zeros.
            if read.len() > memory.len() && read[memory.len()..].iter().all(|b| *b == 0) {
                memory.resize(read.len(), 0);
            }
            assert!(read == *memory, "seed {seed} step {step}");
            match below(20) {
                0 => objects.settle_all(&Settling::default()),
                1 => {
                    drop(target);
                    target = open_on(dir.path(), Arc::new(SystemDisk), 2);
                }
                _ => {}
            }
        }
        for inode in 0..3 {
            assert!(get(target.objects(), inode).unwrap() == model[inode as usize]);
        }
        let counts = target.objects().checksum_counts();
        assert_eq!((counts.damaged, counts.sums_damaged), (0, 0), "seed {seed}");
    }
}

#[test]
fn a_copy_in_the_kernel_brings_damage_along_and_one_by_hand_refuses_it() {
    let dir = tempfile::tempdir().unwrap();
    let target = open(dir.path());
    let objects = target.objects();
    put(objects, 1, 0, &text(4 * BLOCK, 1));
    objects.make(&[name(2), name(3)]).unwrap();
    flip(&file(dir.path(), 1), 8 * (BLOCK + 7));
    objects.copy(at(2), objects, at(1), &[Piece { from: 0, to: 0, len: 4 * BLOCK }]).unwrap();
    assert_eq!(objects.read(at(2), BLOCK, 1), Err(ObjectError::Damaged), "its sum vouches for the original");
    assert!(objects.read(at(2), 2 * BLOCK, 100).is_ok());
    let unaligned = [Piece { from: 0, to: 1, len: 4 * BLOCK }];
    assert_eq!(objects.copy(at(3), objects, at(1), &unaligned), Err(ObjectError::Damaged));
}

#[test]
fn a_truncation_of_a_damaged_block_is_done_and_the_rest_of_it_stays_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let target = open(dir.path());
    let objects = target.objects();
    put(objects, 1, 0, &text(2 * BLOCK, 1));
    flip(&file(dir.path(), 1), 8 * (BLOCK + 50_000));
    objects.truncate(at(1), BLOCK + 40_000).unwrap();
    assert_eq!(objects.read(at(1), BLOCK, 10), Err(ObjectError::Damaged));
    objects.write(at(1), BLOCK, &data(&text(40_000, 2))).unwrap();
    assert!(objects.read(at(1), BLOCK, 40_000).unwrap().data == text(40_000, 2));
    assert_eq!(objects.checksum_counts().damaged_now, 0);
}

#[test]
fn a_read_beside_writes_of_its_block_raises_no_alarm() {
    let dir = tempfile::tempdir().unwrap();
    let target = open(dir.path());
    let objects = target.objects();
    put(objects, 1, 0, &text(4 * BLOCK, 1));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for round in 0..2000u64 {
                let (offset, len) = (round * 7919 % (3 * BLOCK), 1 + round * 104_729 % (2 * BLOCK));
                objects.write(at(1), offset, &data(&text(len, round))).unwrap();
                if round % 100 == 0 {
                    objects.punch(at(1), offset, len).unwrap();
                    objects.settle_all(&Settling::default());
                }
            }
            done.store(true, Ordering::Release);
        });
        let mut reads = 0u64;
        while !done.load(Ordering::Acquire) && !writer.is_finished() {
            let offset = reads * 12_289 % (4 * BLOCK);
            objects.read(at(1), offset, (reads % 200_000) as usize).unwrap();
            reads += 1;
        }
        writer.join().unwrap();
    });
    assert_eq!(objects.checksum_counts().damaged, 0);
}

#[test]
fn members_of_a_chain_compare_blocks_and_mend_one_from_the_other() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let targets = [open(dirs[0].path()), open(dirs[1].path())];
    let (a, b) = (targets[0].objects(), targets[1].objects());
    let bytes = text(3 * BLOCK + 100, 1);
    put(a, 1, 0, &bytes);
    // In other pieces, and longer by zeros: the same bytes.
    for at in (0..bytes.len()).step_by(10_000) {
        put(b, 1, at as u64, &bytes[at..bytes.len().min(at + 10_000)]);
    }
    b.write(at(1), bytes.len() as u64, &data(&[0; 50])).unwrap();
    let states = |objects: &Objects| objects.block_states(at(1), 0, 100).unwrap();
    assert_eq!(states(a), states(b));
    assert_eq!(states(a).len(), 4);

    flip(&file(dirs[0].path(), 1), 8 * BLOCK);
    flip(&file(dirs[0].path(), 1), 8 * 3 * BLOCK);
    assert_eq!(states(a), states(b), "the sums are those of the data that were written");
    for block in [1, 3] {
        assert_eq!(a.check_block(at(1), block), Err(ObjectError::Damaged));
        assert_eq!(states(a)[block as usize], BlockState::Damaged);
        let good = b.read(at(1), block * BLOCK, BLOCK_BYTES).unwrap().data;
        let other = BlockState::Summed(7);
        assert_eq!(a.rewrite_block(at(1), block, &good, other), Ok(false), "it was written meanwhile");
        assert_eq!(a.rewrite_block(at(1), block, &good, BlockState::Damaged), Ok(true));
        assert_eq!(a.check_block(at(1), block), Ok(()));
    }
    assert!(get(a, 1).unwrap()[..bytes.len()] == bytes);
    assert_eq!((states(a), a.checksum_counts().damaged_now), (states(b), 0));
    assert_eq!(a.rewrite_block(at(1), u64::MAX, b"x", BlockState::Damaged), Err(ObjectError::TooLarge));
    assert_eq!(a.block_states(at(1), u64::MAX, u64::MAX), Ok(vec![]));
}

#[test]
fn where_only_the_scrubber_verifies_a_read_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let target = open(dir.path());
    let objects = target.objects();
    put(objects, 1, 0, &text(BLOCK, 1));
    flip(&file(dir.path(), 1), 0);
    objects.set_verify(Verify::Scrub);
    assert!(objects.read(at(1), 0, 10).is_ok());
    // For the object of another member, whose sums would fit.
    assert_eq!(objects.read_runs(at(1), 0, 10), Err(ObjectError::Damaged));
    assert_eq!(objects.check_block(at(1), 0), Err(ObjectError::Damaged));
    objects.set_verify(Verify::Read);
    assert_eq!(objects.read(at(1), 0, 10), Err(ObjectError::Damaged));
}

/// A removal that a crash cut short may leave the sum file, and a column may come back to its target.
#[test]
fn an_object_that_is_made_does_not_get_the_sums_of_an_earlier_one() {
    let dir = tempfile::tempdir().unwrap();
    let target = open(dir.path());
    put(target.objects(), 1, 0, &text(2 * BLOCK, 1));
    target.objects().settle_all(&Settling::default());
    drop(target);
    std::fs::remove_file(file(dir.path(), 1)).unwrap();
    let target = open(dir.path());
    put(target.objects(), 1, BLOCK, b"new");
    assert_eq!(get(target.objects(), 1).unwrap()[BLOCK as usize..], *b"new");
    target.objects().remove(&[name(1)]).unwrap();
    assert!(!sum_file(dir.path(), 1).exists(), "it goes with its object");
    assert_eq!(target.objects().count(), 0);
    assert!(target.objects().list(None, 10).unwrap().objects.is_empty());
}

#[test]
fn room_that_is_reserved_and_never_written_is_no_object_without_sums() {
    let dir = tempfile::tempdir().unwrap();
    let target = open(dir.path());
    target.objects().make(&[name(1)]).unwrap();
    target.objects().settle_all(&Settling::default());
    target.objects().allocate(at(1), 0, 3 * BLOCK).unwrap();
    target.objects().settle_all(&Settling::default());
    drop(target);
    let target = open(dir.path());
    assert!(get(target.objects(), 1).unwrap() == vec![0; 3 * BLOCK_BYTES]);
    assert_eq!(target.objects().checksum_counts(), dataserver::ChecksumCounts::default());
    flip(&file(dir.path(), 1), 8 * BLOCK);
    assert_eq!(get(target.objects(), 1), Err(ObjectError::Damaged));
}
