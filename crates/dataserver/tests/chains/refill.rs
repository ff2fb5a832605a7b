//! Refilling a member that was away, while clients write.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use wire::data::{Status, punch};

use crate::{Away, In, PATIENCE, Refilling, World, call, until};

impl World {
    /// The data server refills members from now on, as the process `heorot ds` does.
    pub fn refills(&self, node: usize) {
        let served = &self.nodes[node];
        served.runtime.as_ref().unwrap().spawn(served.ds.refill_members());
    }

    async fn refilled_by(&self, node: usize, members: usize) {
        until("the members are refilled", || self.nodes[node].ds.refilled().len() == members).await;
        for refilled in self.nodes[node].ds.refilled() {
            assert_eq!((refilled.chain, refilled.version), (crate::CHAIN, self.version));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_was_away_gets_what_it_lacks_and_nothing_else() {
    let mut world = World::of(3).await;
    for inode in 1..=5 {
        world.make(0, inode).await.unwrap();
        world.write(0, inode, 0, vec![inode as u8; 3_000_000 / 3]).await.unwrap();
    }
    world.change(&[In, In, Away]);
    // 1 is not changed, 2 a little, 3 is shorter, 4 is removed, 5 is punched, 6 and 7 are new.
    world.write(0, 2, 500_000, &b"changed"[..]).await.unwrap();
    assert_eq!(world.truncate(0, world.of_epoch(0, 3, 4), 10).await, Ok(()));
    world.remove(0, 4).await.unwrap();
    let punched = punch::Args { handle: world.at(0, 5), offset: 0, len: 900_000 };
    let res: punch::Res = call(&world.peer(0), wire::data::Procedure::Punch, &punched).await.unwrap();
    res.unwrap();
    for inode in [6, 7] {
        world.make(0, inode).await.unwrap();
    }
    world.write(0, 6, 2_000_000, &b"at the end"[..]).await.unwrap();
    world.change(&[In, In, Refilling]);
    assert_eq!(world.read(2, 1, 0, 1).await, Err(Status::StaleChain), "it serves nothing yet");
    world.refills(0);
    world.refilled_by(0, 1).await;
    for inode in 1..=7 {
        world.equal(inode);
    }
    assert_eq!(world.equal(4), None);
    let sent = world.nodes[0].ds.chain_metrics().refilled.get();
    assert!(sent < 4_100_000, "{sent}: object 1 and others were not sent");
    world.change(&[In, In, In]);
    assert!(world.nodes[0].ds.refilled().is_empty(), "of the version before");
    assert_eq!(world.read(2, 2, 500_000, 7).await.unwrap(), &b"changed"[..]);
    // It has the epochs, too: also that of the truncation, which is not done again.
    assert_eq!(world.write(2, 3, 0, &b"late"[..]).await, Err(Status::StaleEpoch));
    world.change(&[Away, Away, In]);
    assert_eq!(world.write(2, 3, 0, &b"late"[..]).await, Err(Status::StaleEpoch));
    assert_eq!(world.truncate(2, world.of_epoch(2, 3, 4), 1).await, Ok(()));
    assert_eq!(world.bytes_at(2, 3).unwrap().len(), 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_is_refilled_while_clients_write_make_and_remove() {
    let mut world = World::of(2).await;
    for inode in 1..=6 {
        world.make(0, inode).await.unwrap();
        world.write(0, inode, 0, vec![1; 1_000_000]).await.unwrap();
    }
    world.change(&[In, Away]);
    for inode in 1..=6 {
        world.write(0, inode, 100_000, vec![2; 800_000]).await.unwrap();
    }
    world.change(&[In, Refilling]);
    let world = Arc::new(world);
    let ends = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..4u64)
        .map(|writer| {
            let (world, ends) = (Arc::clone(&world), Arc::clone(&ends));
            tokio::spawn(async move {
                let mut n = writer;
                while !ends.load(Ordering::Relaxed) {
                    n += 1;
                    let (inode, offset) = (1 + n % 6, n * 77_777 % 1_200_000);
                    match world.write(0, inode, offset, vec![n as u8; 30_000]).await {
                        Ok(_) => {}
                        // One of the writers removes an object.
                        Err(error) => assert_eq!((inode, error), (6, Status::Stale)),
                    }
                    if writer == 0 && n == 20 {
                        world.remove(0, 6).await.unwrap();
                        world.make(0, 8).await.unwrap();
                        world.write(0, 8, 0, &b"new"[..]).await.unwrap();
                    }
                }
            })
        })
        .collect();
    world.refills(0);
    world.refilled_by(0, 1).await;
    until("there was a removal", || world.bytes_at(0, 8).is_some_and(|new| new == b"new")).await;
    ends.store(true, Ordering::Relaxed);
    for writer in writers {
        tokio::time::timeout(PATIENCE, writer).await.unwrap().unwrap();
    }
    for inode in 1..=8 {
        world.equal(inode);
    }
    assert_eq!(world.equal(8).unwrap(), b"new");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_version_begins_the_refilling_anew() {
    let mut world = World::of(3).await;
    world.make(0, 5).await.unwrap();
    world.write(0, 5, 0, &b"abc"[..]).await.unwrap();
    world.change(&[In, In, Away]);
    world.write(0, 5, 0, &b"ABC"[..]).await.unwrap();
    world.nodes[2].kill();
    world.change(&[In, In, Refilling]);
    world.refills(0);
    world.refills(1);
    // The member does not answer, then the head dies.
    until("it is tried", || world.nodes[0].ds.chain_metrics().refilling.get() == 1).await;
    world.nodes[0].kill();
    world.restart(2).await;
    world.change(&[Away, In, Refilling]);
    world.refilled_by(1, 1).await;
    assert_eq!(world.bytes_at(2, 5).unwrap(), b"ABC");
}
