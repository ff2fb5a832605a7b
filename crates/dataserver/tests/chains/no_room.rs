//! Members whose disks are full beyond what they told.

use std::sync::Arc;

use tokio::sync::Semaphore;
use wire::data::{Status, TargetCondition};

use crate::refusals::refuses;
use crate::{Away, In, Refilling, World, until};

fn condition(world: &World, node: usize) -> TargetCondition {
    world.nodes[node].ds.space()[0].condition
}

/// Its chain has gone on without it: that it lacks the write is nothing that its disk did wrong.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_is_dropped_while_it_has_no_room_keeps_its_target() {
    let mut world = World::of(2).await;
    world.make(0, 5).await.unwrap();
    world.nodes[1].disk.hold(true);
    let write = world.begin_write(0, 5, 0, &b"abcd"[..]);
    until("the second is at work", || world.nodes[1].disk.held() > 0).await;
    world.change(&[In, Away]);
    write.await.unwrap().unwrap();
    world.tell(1, &[In, Away]);
    world.nodes[1].disk.set_full(true);
    world.nodes[1].disk.hold(false);
    until("it has no room", || world.nodes[1].disk.refused() > 0).await;
    // Its work has ended when the same object can be changed again.
    world.nodes[1].disk.set_full(false);
    world.change(&[In, Refilling]);
    world.write(0, 5, 0, &b"efgh"[..]).await.unwrap();
    assert_eq!(condition(&world, 1), TargetCondition::Ok);
}

/// Of a MAKE that is refused no member has anything.
#[tokio::test(flavor = "multi_thread")]
async fn a_make_without_room_that_a_refilled_member_refuses_fails_no_target() {
    let mut world = World::of(2).await;
    let refuses = refuses(Status::StaleEpoch, b"", Arc::new(Semaphore::new(10))).await;
    world.instead.insert(1, refuses.address());
    world.change(&[In, Refilling]);
    world.nodes[0].disk.set_full(true);
    assert_eq!(world.make(0, 5).await.map(drop), Err(Status::StaleEpoch));
    assert!(world.nodes[0].disk.refused() > 0);
    assert_eq!(condition(&world, 0), TargetCondition::Ok);
    world.nodes[0].disk.set_full(false);
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
    world.nodes[0].disk.set_full(true);
    let write = world.begin_write(0, 5, 0, &b"abcd"[..]);
    until("the head tries again", || world.nodes[0].disk.refused() > 2).await;
    assert!(!write.is_finished());
    assert_eq!(condition(&world, 0), TargetCondition::Ok);
    world.instead.clear();
    world.change(&[In, Refilling]);
    world.nodes[0].disk.set_full(false);
    write.await.unwrap().unwrap();
    assert_eq!(world.equal(5).unwrap(), b"abcd");
}
