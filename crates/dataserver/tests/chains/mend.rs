//! Damaged blocks are mended from other members.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use dataserver::Checks;
use host::{Entropy, SeededEntropy};
use wire::data::{Status, punch};

use crate::{Away, In, PATIENCE, Refilling, World, call, until};

const BLOCK: usize = 64 << 10;

/// Bytes that differ from block to block.
fn text(bytes: usize, seed: u64) -> Vec<u8> {
    (0..bytes as u64).map(|n| (n / 251 + n % 251 + 31 * seed) as u8 | 1).collect()
}

/// Flips one bit, as a disk might.
fn flip(path: &PathBuf, bit: u64) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, bit / 8).unwrap();
    byte[0] ^= 1 << (bit % 8);
    file.write_all_at(&byte, bit / 8).unwrap();
}

impl World {
    /// The object's file at this member.
    pub fn file(&self, node: usize, inode: u64) -> PathBuf {
        let name = format!("{:02x}/{:08x}.{inode:016x}.{:08x}.{:08x}", inode & 0xff, 1, 1, 0);
        self.dirs[node].path().join("target/objects").join(name)
    }

    fn sums(&self, node: usize, inode: u64) -> PathBuf {
        let mut path = self.file(node, inode).into_os_string();
        path.push(".sums");
        path.into()
    }

    /// Flips a bit of this byte in the member's file.
    pub fn flip(&self, node: usize, inode: u64, byte: usize) {
        flip(&self.file(node, inode), byte as u64 * 8 + byte as u64 % 8);
    }

    /// A chain with one object of these bytes.
    async fn with_object(count: usize, bytes: &[u8]) -> Self {
        let world = Self::of(count).await;
        world.make(0, 5).await.unwrap();
        world.fill(5, bytes).await;
        world
    }

    /// Writes the object's bytes through the first member.
    pub async fn fill(&self, inode: u64, bytes: &[u8]) {
        for (at, part) in bytes.chunks(1 << 20).enumerate() {
            self.write(0, inode, (at << 20) as u64, part.to_vec()).await.unwrap();
        }
    }

    /// All members have these bytes, and serve them.
    async fn is_sound(&self, inode: u64, bytes: &[u8]) {
        for node in 0..self.nodes.len() {
            let read = self.read(node, inode, 0, 1 << 20).await.unwrap();
            assert!(read == bytes[..bytes.len().min(1 << 20)], "member {node}");
            assert_eq!(self.damaged_now(node), 0, "member {node}");
        }
        assert!(self.equal(inode).unwrap() == bytes);
    }

    fn damaged_now(&self, node: usize) -> u64 {
        self.nodes[node].ds.checks_of_targets()[0].counts.damaged_now
    }

    fn mended(&self, node: usize) -> u64 {
        self.nodes[node].ds.checks_of_targets()[0].counts.mended
    }

    /// The data server scrubs its target at once, and mends what it finds, as the process `heorot ds` does.
    fn scrubs(&self, node: usize) {
        let served = &self.nodes[node];
        let (scrub_time, scrub_rate) = (Duration::from_secs(1), 1 << 30);
        served.ds.set_checks(Checks { scrub_time, scrub_rate });
        served.runtime.as_ref().unwrap().spawn(Arc::clone(&served.ds).care_for_targets());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_at_any_member_mends_its_damaged_blocks() {
    let bytes = text(5 * BLOCK + 1000, 1);
    for count in [2, 3] {
        let world = World::with_object(count, &bytes).await;
        // The head, the tail, and all of them in different blocks.
        world.flip(0, 5, 3);
        world.is_sound(5, &bytes).await;
        world.flip(count - 1, 5, 5 * BLOCK + 999);
        world.is_sound(5, &bytes).await;
        for node in 0..count {
            world.flip(node, 5, (node + 1) * BLOCK);
            world.flip(node, 5, (node + 1) * BLOCK + 70);
        }
        world.is_sound(5, &bytes).await;
        let mended: u64 = (0..count).map(|node| world.mended(node)).sum();
        assert_eq!(mended, 2 + count as u64);
        // A block of one member only is sound.
        for node in 1..count {
            world.flip(node, 5, 2 * BLOCK + node);
        }
        world.is_sound(5, &bytes).await;
        // And a lost end.
        File::options().write(true).open(world.file(count - 1, 5)).unwrap().set_len(BLOCK as u64).unwrap();
        world.is_sound(5, &bytes).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_that_is_damaged_at_all_members_is_never_returned() {
    let bytes = text(3 * BLOCK, 2);
    let world = World::with_object(2, &bytes).await;
    for node in 0..2 {
        world.flip(node, 5, BLOCK + 7 + node);
    }
    for node in 0..2 {
        assert_eq!(world.read(node, 5, BLOCK as u64 + 100, 1).await, Err(Status::Damaged));
        assert_eq!(world.read(node, 5, 0, 1 << 20).await, Err(Status::Damaged));
        assert_eq!(world.read(node, 5, 0, BLOCK as u32).await.unwrap(), &bytes[..BLOCK]);
        // A part of it is not written, and no target fails of it.
        assert_eq!(world.write(node, 5, BLOCK as u64 + 9, &b"part"[..]).await, Err(Status::Damaged));
    }
    world.write(1, 5, BLOCK as u64, bytes[BLOCK..2 * BLOCK].to_vec()).await.unwrap();
    world.is_sound(5, &bytes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_of_a_part_of_a_damaged_block_is_done_at_all_members() {
    let mut bytes = text(4 * BLOCK, 3);
    let world = World::with_object(3, &bytes).await;
    for node in 0..3 {
        world.flip(node, 5, node * BLOCK + 10);
        world.write(2 - node, 5, (node * BLOCK + 100) as u64, vec![b'x'; 50]).await.unwrap();
        bytes[node * BLOCK + 100..][..50].fill(b'x');
        world.is_sound(5, &bytes).await;
        world.flip(node, 5, node * BLOCK + 11);
        let (handle, offset) = (world.at(0, 5), (node * BLOCK + 5000) as u64);
        let punched = punch::Args { handle, offset, len: 300 };
        let res: punch::Res = call(&world.peer(0), wire::data::Procedure::Punch, &punched).await.unwrap();
        res.unwrap();
        bytes[node * BLOCK + 5000..][..300].fill(0);
        world.is_sound(5, &bytes).await;
    }
    // Damaged at two members, the head among them, and both ends of the write.
    world.flip(0, 5, 10);
    world.flip(2, 5, 11);
    world.flip(0, 5, 3 * BLOCK - 1);
    world.write(1, 5, 1000, vec![b'y'; 2 * BLOCK]).await.unwrap();
    bytes[1000..][..2 * BLOCK].fill(b'y');
    world.is_sound(5, &bytes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_of_one_damaged_block_at_the_same_time_do_not_wait_for_one_another() {
    for node in 0..3 {
        let mut bytes = text(BLOCK, 4);
        let world = World::with_object(3, &bytes).await;
        for round in 0..10u8 {
            world.flip(node, 5, 20 + usize::from(round));
            let writes: Vec<_> = (0..16)
                .map(|n| world.begin_write(n % 3, 5, (n * 4096) as u64, vec![round + n as u8; 3000]))
                .collect();
            for (n, write) in writes.into_iter().enumerate() {
                tokio::time::timeout(PATIENCE, write).await.unwrap().unwrap().unwrap();
                bytes[n * 4096..][..3000].fill(round + n as u8);
            }
            world.is_sound(5, &bytes).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scrub_mends_what_no_client_reads() {
    let bytes = text(3 * BLOCK, 6);
    for node in 0..2 {
        let world = World::with_object(2, &bytes).await;
        world.flip(node, 5, 2 * BLOCK + 5);
        flip(&world.sums(node, 5), 64 * 8 + 3);
        world.scrubs(node);
        until("both are mended", || world.mended(node) == 2 && world.damaged_now(node) == 0).await;
        world.is_sound(5, &bytes).await;
        assert_eq!(world.nodes[node].ds.space()[0].condition, wire::data::TargetCondition::Ok);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn refilling_mends_the_head_and_does_not_spread_its_damage() {
    let bytes = text(20 * BLOCK + 5, 7);
    let mut world = World::with_object(3, &bytes).await;
    world.change(&[In, In, Away]);
    world.flip(0, 5, 17 * BLOCK);
    // And one of the member that is refilled.
    world.flip(2, 5, 20 * BLOCK + 2);
    // It is compared whole.
    world.drop_all(2);
    world.change(&[In, In, Refilling]);
    world.refills(0);
    until("the member is refilled", || world.nodes[0].ds.refilled().len() == 1).await;
    world.change(&[In, In, In]);
    world.is_sound(5, &bytes).await;
    assert!(world.mended(0) == 1);
}

/// The disk loses what mended the block, as one does that lies about syncs.
#[tokio::test(flavor = "multi_thread")]
async fn a_mended_block_is_not_believed_after_a_crash_unless_it_fits() {
    let bytes = text(3 * BLOCK, 10);
    let mut world = World::with_object(2, &bytes).await;
    world.nodes.iter().for_each(|node| node.ds.settle(&|| false));
    for node in 0..2 {
        world.flip(node, 5, BLOCK + 7);
        world.is_sound(5, &bytes).await;
        world.nodes[node].kill();
        world.flip(node, 5, BLOCK + 7);
        world.restart(node).await;
        world.change(&[In, In]);
        world.nodes[node].ds.settle(&|| false);
        world.is_sound(5, &bytes).await;
        assert_eq!(world.nodes[node].ds.checks_of_targets()[0].counts.summed_anew, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_member_is_mended_from_one_that_is_refilled_and_has_the_block() {
    let bytes = text(20 * BLOCK + 5, 8);
    let mut world = World::with_object(2, &bytes).await;
    world.change(&[In, Away]);
    // The member that was away has the first block as it was, and not the second.
    world.write(0, 5, 3 * BLOCK as u64, vec![7; BLOCK]).await.unwrap();
    for block in [17, 20, 3] {
        world.flip(0, 5, block * BLOCK + 1);
    }
    assert_eq!(
        world.read(0, 5, 17 * BLOCK as u64, 1).await,
        Err(Status::Damaged),
        "there is no other member"
    );
    world.change(&[In, Refilling]);
    assert_eq!(world.read(0, 5, 17 * BLOCK as u64, 4).await.unwrap(), &bytes[17 * BLOCK..][..4]);
    assert_eq!(world.read(0, 5, 20 * BLOCK as u64, 5).await.unwrap(), &bytes[20 * BLOCK..]);
    assert_eq!(world.read(0, 5, 3 * BLOCK as u64, 1).await, Err(Status::Damaged), "it was written meanwhile");
    assert_eq!(world.mended(0), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_that_no_member_has_keeps_nothing_else_from_its_copies() {
    let bytes = text(40 * BLOCK + 5, 9);
    let mut world = World::with_object(2, &bytes).await;
    world.change(&[In, Away]);
    world.drop_all(1);
    // In the middle, side by side at the end of a region, and the last one, which is not whole.
    let lost = [0, 3, 15, 16, 40];
    for block in lost {
        world.flip(0, 5, block * BLOCK + 2);
        world.flip(1, 5, block * BLOCK + 3);
    }
    // A whole one that the member still has mends the head's.
    world.flip(0, 5, 30 * BLOCK);
    world.change(&[In, Refilling]);
    world.refills(0);
    until("the member is refilled", || world.nodes[0].ds.refilled().len() == 1).await;
    world.change(&[In, In]);
    assert!(world.equal(5).is_some(), "the damaged bytes are kept, too");
    for node in 0..2 {
        for block in 0..41 {
            let read = world.read(node, 5, (block * BLOCK) as u64, BLOCK as u32).await;
            if lost.contains(&block) {
                assert_eq!(read, Err(Status::Damaged), "member {node}, block {block}");
            } else {
                assert_eq!(read.unwrap(), &bytes[block * BLOCK..bytes.len().min((block + 1) * BLOCK)]);
            }
        }
        assert_eq!(world.damaged_now(node), lost.len() as u64);
    }
    // One that comes back is mended by nothing but a write of the whole block.
    world.change(&[Away, In]);
    assert_eq!(world.read(1, 5, 0, 1).await, Err(Status::Damaged));
    world.change(&[In, In]);
    for block in lost {
        let end = bytes.len().min((block + 1) * BLOCK);
        world.write(0, 5, (block * BLOCK) as u64, bytes[block * BLOCK..end].to_vec()).await.unwrap();
    }
    world.is_sound(5, &bytes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_flipped_bits_at_one_member_are_mended_and_no_read_returns_one() {
    const OBJECTS: u64 = 12;
    for node in 0..2 {
        let world = World::of(2).await;
        let entropy = SeededEntropy::new(30 + node as u64);
        let mut all = Vec::new();
        for inode in 0..OBJECTS {
            let bytes = text(1 + (entropy.u64() % (10 * BLOCK as u64)) as usize, inode);
            world.make(0, inode).await.unwrap();
            world.fill(inode, &bytes).await;
            all.push(bytes);
        }
        let (world, all) = (Arc::new(world), Arc::new(all));
        let (ends, reads) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let readers: Vec<_> = (0..4)
            .map(|reader| {
                let (world, all) = (Arc::clone(&world), Arc::clone(&all));
                let (ends, reads) = (Arc::clone(&ends), Arc::clone(&reads));
                let entropy = SeededEntropy::new(40 + reader);
                tokio::spawn(async move {
                    while !ends.load(Ordering::Relaxed) {
                        let inode = entropy.u64() % OBJECTS;
                        let bytes = &all[inode as usize];
                        let offset = (entropy.u64() % bytes.len() as u64) as usize;
                        let count = (entropy.u64() % 300_000) as usize;
                        let member = (entropy.u64() % 2) as usize;
                        let read = world.read(member, inode, offset as u64, count as u32).await;
                        let expected = &bytes[offset..bytes.len().min(offset + count)];
                        assert!(read.unwrap() == expected, "object {inode}, {offset}+{count} at {member}");
                        reads.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        for n in 0..1000u64 {
            let inode = entropy.u64() % OBJECTS;
            // A quarter of them in sum files, which are small; their headers are read when they are opened.
            if n % 4 == 0 {
                let sums = world.sums(node, inode);
                let bits = std::fs::metadata(&sums).unwrap().len() * 8 - 64 * 8;
                flip(&sums, 64 * 8 + entropy.u64() % bits);
            } else {
                let bits = all[inode as usize].len() as u64 * 8;
                flip(&world.file(node, inode), entropy.u64() % bits);
            }
            if n % 50 == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        world.scrubs(node);
        let scrubbed = || {
            let checks = world.nodes[node].ds.checks_of_targets();
            checks[0].scrub.last.is_some() && checks[0].counts.damaged_now == 0
        };
        until("the scrub has ended and all is mended", scrubbed).await;
        ends.store(true, Ordering::Relaxed);
        for reader in readers {
            tokio::time::timeout(PATIENCE, reader).await.unwrap().unwrap();
        }
        for inode in 0..OBJECTS {
            world.is_sound(inode, &all[inode as usize]).await;
        }
        println!("{} reads, {} blocks mended", reads.load(Ordering::Relaxed), world.mended(node));
    }
}

/// ```text
/// head: its last block is damaged, and cut in the middle, so that its own checksum is gone ─▶ the other member is
/// refilled, whose block is sound: nothing can tell ─▶ reads fail at both, and the sound bytes stay on the disk
/// ```
#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_block_is_not_put_in_place_of_a_sound_one() {
    let bytes = text(4 * BLOCK, 11);
    let mut world = World::with_object(2, &bytes).await;
    world.change(&[In, Away]);
    world.flip(0, 5, 3 * BLOCK + 7);
    let cut = 3 * BLOCK + 1000;
    assert_eq!(world.truncate(0, world.of_epoch(0, 5, 4), cut as u64).await, Ok(()));
    world.change(&[In, Refilling]);
    world.refills(0);
    until("the member is refilled", || world.nodes[0].ds.refilled().len() == 1).await;
    world.change(&[In, In]);
    for node in 0..2 {
        let read = |offset, count| world.read_by(node, world.of_epoch(node, 5, 4), offset, count);
        assert_eq!(read(3 * BLOCK as u64, 9).await, Err(Status::Damaged), "{node}");
        let sound = read(0, 3 * BLOCK as u32).await.unwrap();
        assert_eq!(sound, &bytes[..3 * BLOCK]);
    }
    assert_eq!(std::fs::read(world.file(1, 5)).unwrap(), &bytes[..cut]);
    assert_ne!(std::fs::read(world.file(0, 5)).unwrap(), &bytes[..cut]);
}
