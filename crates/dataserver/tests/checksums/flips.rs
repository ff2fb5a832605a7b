//! Flipped bits on the disk.

use super::*;
use dataserver::Settling;

/// Of a sum file.
const HEADER_BYTES: u64 = 64;

/// Bytes at the begin, in the middle and at the end of each kind of block: of a whole one, one that begins
/// with a hole, one that the object ends in.
fn object() -> Vec<u8> {
    let mut bytes = text(3 * BLOCK + 5000, 1);
    bytes[BLOCK as usize..BLOCK as usize + 20_000].fill(0);
    bytes
}

#[test]
fn a_flipped_bit_in_the_data_is_found_by_any_read_of_its_block_and_by_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = object();
    let target = open(dir.path());
    let objects = target.objects();
    put(objects, 1, 0, &bytes);
    let len = bytes.len() as u64;
    let places =
        (0..4).flat_map(|block| [0, 1, 4095, 4096, 20_000, 40_000, BLOCK - 1].map(|at| block * BLOCK + at));
    for place in places.filter(|place| *place < len).chain([len - 1]) {
        flip(&file(dir.path(), 1), place * 8 + place % 8);
        let block = place / BLOCK * BLOCK;
        for (offset, count) in
            [(place, 1), (block, 1), (block, BLOCK), (block + 10, 3), (0, len), (place, len)]
        {
            let read = objects.read(at(1), offset, count as usize);
            assert_eq!(read, Err(ObjectError::Damaged), "byte {place}, read {offset}+{count}");
        }
        let after = block + BLOCK;
        if after < len {
            assert!(objects.read(at(1), after, 1 << 20).unwrap().data == bytes[after as usize..]);
        }
        if block > 0 {
            assert!(objects.read(at(1), 0, block as usize).unwrap().data == bytes[..block as usize]);
        }
        flip(&file(dir.path(), 1), place * 8 + place % 8);
    }
    assert!(get(objects, 1).unwrap() == bytes);
    assert_eq!(objects.checksum_counts().damaged_now, 4, "each block was logged once");
}

#[test]
fn damage_is_found_after_a_restart_and_eviction_and_ends_when_the_block_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = object();
    let target = open_on(dir.path(), Arc::new(SystemDisk), 2);
    put(target.objects(), 1, 0, &bytes);
    target.objects().settle_all(&Settling::default());
    drop(target);
    flip(&file(dir.path(), 1), 9);
    let target = open_on(dir.path(), Arc::new(SystemDisk), 2);
    let objects = target.objects();
    assert_eq!(objects.read(at(1), 5, 1), Err(ObjectError::Damaged));
    (2..10).for_each(|inode| put(objects, inode, 0, b"evicts"));
    assert_eq!(objects.read(at(1), 5, 1), Err(ObjectError::Damaged));
    // A write to a part of the block would vouch for the rest of it.
    assert_eq!(objects.write(at(1), 100, &data(b"part")).map(drop), Err(ObjectError::Damaged));
    assert_eq!(objects.punch(at(1), 100, 10), Err(ObjectError::Damaged));
    objects.write(at(1), 0, &data(&bytes[..BLOCK as usize])).unwrap();
    assert!(get(objects, 1).unwrap() == bytes);
    assert_eq!(objects.checksum_counts().damaged_now, 0);
}

#[test]
fn a_flipped_bit_in_the_sum_file_is_told_apart_from_damaged_data() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = object();
    let target = open(dir.path());
    put(target.objects(), 1, 0, &bytes);
    target.objects().settle_all(&Settling::default());
    drop(target);
    let bits = std::fs::metadata(sum_file(dir.path(), 1)).unwrap().len() * 8;
    // One bit of each byte of the header, which is read when the object is opened.
    for bit in (0..HEADER_BYTES * 8).step_by(9) {
        flip(&sum_file(dir.path(), 1), bit);
        let target = open(dir.path());
        assert!(get(target.objects(), 1).unwrap() == bytes, "bit {bit}");
        target.objects().settle_all(&Settling::default());
        assert!(get(target.objects(), 1).unwrap() == bytes);
        assert_eq!(target.objects().checksum_counts().sums_damaged, 1, "bit {bit}");
    }
    // And each bit of each sum.
    let target = open(dir.path());
    for bit in HEADER_BYTES * 8..bits {
        flip(&sum_file(dir.path(), 1), bit);
        for _ in 0..2 {
            assert!(get(target.objects(), 1).unwrap() == bytes, "bit {bit}");
        }
        let found = target.objects().checksum_counts().sums_damaged;
        assert_eq!(found, bit + 1 - HEADER_BYTES * 8, "it is found once, and mended");
    }
}

#[test]
fn an_object_that_lost_its_end_is_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let target = open(dir.path());
    put(target.objects(), 1, 0, &text(2 * BLOCK, 3));
    for len in [2 * BLOCK - 1, BLOCK, 0] {
        std::fs::OpenOptions::new().write(true).open(file(dir.path(), 1)).unwrap().set_len(len).unwrap();
        assert_eq!(target.objects().read(at(1), BLOCK, 100), Err(ObjectError::Damaged), "{len}");
    }
}

/// Of an earlier version, or whose sum file was removed.
#[test]
fn an_object_without_sums_is_read_unverified_until_it_is_summed() {
    let dir = tempfile::tempdir().unwrap();
    let mut bytes = object();
    let target = open(dir.path());
    put(target.objects(), 1, 0, &bytes);
    target.objects().settle_all(&Settling::default());
    drop(target);
    std::fs::remove_file(sum_file(dir.path(), 1)).unwrap();
    let target = open(dir.path());
    assert!(get(target.objects(), 1).unwrap() == bytes);
    assert_eq!(target.objects().checksum_counts().unsummed, 1);
    put(target.objects(), 1, 100, b"written before it is summed");
    bytes[100..127].copy_from_slice(b"written before it is summed");
    assert!(get(target.objects(), 1).unwrap() == bytes);
    target.objects().settle_all(&Settling::default());
    assert!(get(target.objects(), 1).unwrap() == bytes);
    drop(target);
    flip(&file(dir.path(), 1), 2 * BLOCK * 8);
    let target = open(dir.path());
    assert_eq!(get(target.objects(), 1), Err(ObjectError::Damaged));
    assert_eq!(target.objects().checksum_counts().summed_anew, 0);
}
