//! Members that die and come back, one after another, while clients write through all of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use wire::data::{Procedure, read, write};

use crate::caller::{Caller, Members};
use crate::{Away, In, PATIENCE, Refilling, World};

const WRITERS: u64 = 6;
const INODES: u64 = 3;
/// Bytes of a slot of an object: each writer has one to itself in each object, and all share the last.
const SLOT: u64 = 300_000;

async fn write(caller: &mut Caller, inode: u64, offset: u64, data: Bytes) {
    let args =
        |handle| write::Args { handle, offset, stable: false, sums: vec![], data: data.clone().into() };
    caller.call::<write::ResOk, _>((inode, 0), Procedure::Write, args).await;
}

async fn read(caller: &mut Caller, inode: u64, offset: u64, count: u32) -> Bytes {
    let args = |handle| read::Args { handle, offset, count };
    caller.call::<read::ResOk, _>((inode, 0), Procedure::Read, args).await.payload.to_bytes()
}

impl World {
    fn members(&self) -> Vec<(std::net::SocketAddr, u64)> {
        self.nodes.iter().map(|node| (node.server.address(), node.target)).collect()
    }

    async fn until_refilled(&self) {
        let is_refilled = || self.nodes.iter().any(|node| !node.ds.refilled().is_empty());
        crate::until("the member is refilled", is_refilled).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_writes_stay_and_members_are_equal_whoever_dies() {
    let mut world = World::of(3).await;
    for inode in 0..INODES {
        world.make(0, inode).await.unwrap();
    }
    for node in 0..3 {
        world.refills(node);
    }
    let members: Members = Arc::new(Mutex::new(world.members()));
    let (ends, written) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let writers: Vec<_> = (0..WRITERS)
        .map(|n| {
            let (members, ends, written) = (Arc::clone(&members), Arc::clone(&ends), Arc::clone(&written));
            tokio::spawn(async move {
                let mut caller = Caller::new(&members, 1000 + n);
                let mut last = [0u8; INODES as usize];
                for round in 1u64.. {
                    if ends.load(Ordering::Relaxed) {
                        break;
                    }
                    let inode = round % INODES;
                    let byte = (round % 250) as u8 + 1;
                    // Its own slot, whole, and some of the one that all share.
                    write(&mut caller, inode, n * SLOT, vec![byte; SLOT as usize].into()).await;
                    last[inode as usize] = byte;
                    let read = read(&mut caller, inode, n * SLOT, SLOT as u32).await;
                    assert!(read.iter().all(|found| *found == byte), "writer {n} reads what it wrote");
                    let at = WRITERS * SLOT + caller.below(SLOT);
                    write(&mut caller, inode, at, vec![byte; 50_000].into()).await;
                    written.fetch_add(1, Ordering::Relaxed);
                }
                last
            })
        })
        .collect();
    for round in 0..6 {
        let progress = written.load(Ordering::Relaxed);
        crate::until("clients write", || written.load(Ordering::Relaxed) > progress).await;
        let dead = round % 3;
        let with = |state| {
            let mut states = [In; 3];
            states[dead] = state;
            states
        };
        if round % 2 == 0 {
            // Under the writes.
            let ds = Arc::clone(&world.nodes[dead].ds);
            tokio::task::spawn_blocking(move || ds.settle(&|| false)).await.unwrap();
        }
        world.nodes[dead].kill();
        tokio::time::sleep(Duration::from_millis(50 * (round as u64 % 3))).await;
        world.change(&with(Away));
        world.restart(dead).await;
        *members.lock() = world.members();
        world.refills(dead);
        world.change(&with(Refilling));
        world.until_refilled().await;
        world.change(&with(In));
    }
    ends.store(true, Ordering::Relaxed);
    let mut lasts = Vec::new();
    for writer in writers {
        lasts.push(tokio::time::timeout(PATIENCE, writer).await.unwrap().unwrap());
    }
    // Changes whose callers got no answer may still be under way.
    let are_equal = |inode| (1..3).all(|node| world.bytes_at(node, inode) == world.bytes_at(0, inode));
    crate::until("the members are equal", || (0..INODES).all(are_equal)).await;
    for (n, last) in lasts.into_iter().enumerate() {
        for (inode, byte) in last.into_iter().enumerate() {
            let found = world.equal(inode as u64).unwrap();
            let slot = &found[n * SLOT as usize..][..SLOT as usize];
            assert!(slot.iter().all(|found| *found == byte), "writer {n}, object {inode}");
        }
    }
    let by_logs: u64 = world.nodes.iter().map(|node| node.ds.chain_metrics().refills_by_logs.get()).sum();
    assert!(by_logs > 0, "dirty logs were used");
    println!("{} rounds", written.load(Ordering::Relaxed));
}
