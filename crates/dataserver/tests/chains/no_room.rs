//! Members whose disks are full beyond what they told, or turn read-only.

use std::sync::Arc;

use rustix::io::Errno;
use tokio::sync::Semaphore;
use wire::data::{Procedure, Status, TargetCondition, allocate};
use wire::handle::ObjectHandle;

use crate::refusals::refuses;
use crate::{Away, In, Refilling, World, call, key, until};

fn condition(world: &World, node: usize) -> TargetCondition {
    world.nodes[node].ds.space()[0].condition
}

/// Its chain has gone on without it, and needs nothing of it. The test sends the change, as the head does.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_is_dropped_while_its_disk_turns_read_only_has_not_failed() {
    let mut world = World::of(2).await;
    world.make(0, 5).await.unwrap();
    world.nodes[1].disk.hold(true);
    let handle = ObjectHandle { chain_version: world.version, ..world.object(1, 5) }.seal(&key());
    let peer = world.peer(1);
    let args = allocate::Args { handle, offset: 0, len: 4096, ask: false };
    let allocate =
        tokio::spawn(async move { call::<allocate::Res>(&peer, Procedure::Allocate, &args).await });
    until("it is at work", || world.nodes[1].disk.held() > 0).await;
    world.change(&[In, Away]);
    world.tell(1, &[In, Away]);
    world.nodes[1].disk.fail(Errno::ROFS);
    world.nodes[1].disk.hold(false);
    assert_eq!(allocate.await.unwrap().unwrap(), Err(Status::StaleChain));
    assert_ne!(condition(&world, 1), TargetCondition::Failed);
}

/// Of a MAKE that is refused no member has anything.
#[tokio::test(flavor = "multi_thread")]
async fn a_make_without_room_that_a_refilled_member_refuses_fails_no_target() {
    let mut world = World::of(2).await;
    let refuses = refuses(Status::StaleEpoch, b"", Arc::new(Semaphore::new(10))).await;
    world.instead.insert(1, refuses.address());
    world.change(&[In, Refilling]);
    world.nodes[0].disk.fail(Errno::NOSPC);
    assert_eq!(world.make(0, 5).await.map(drop), Err(Status::StaleEpoch));
    assert!(world.nodes[0].disk.refused() > 0);
    assert_eq!(condition(&world, 0), TargetCondition::Ok);
    world.nodes[0].disk.work();
    world.change(&[In, Away]);
    world.make(0, 5).await.unwrap();
}

/// A part of the write may be at the head: it is not refused before all of it is there.
#[tokio::test(flavor = "multi_thread")]
async fn a_head_without_room_waits_for_it_when_a_refilled_member_refuses() {
    let mut world = World::of(2).await;
    world.make(0, 5).await.unwrap();
    let refuses = refuses(Status::NoSpace, b"", Arc::new(Semaphore::new(1000))).await;
    world.instead.insert(1, refuses.address());
    world.change(&[In, Refilling]);
    world.nodes[0].disk.fail(Errno::NOSPC);
    let write = world.begin_write(0, 5, 0, &b"abcd"[..]);
    until("the head tries again", || world.nodes[0].disk.refused() > 2).await;
    assert!(!write.is_finished());
    assert_eq!(condition(&world, 0), TargetCondition::Ok);
    world.instead.clear();
    world.change(&[In, Refilling]);
    world.nodes[0].disk.work();
    write.await.unwrap().unwrap();
    assert_eq!(world.equal(5).unwrap(), b"abcd");
}
