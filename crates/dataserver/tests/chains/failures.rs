//! Members that die, and chains that change, while writes are under way.

use std::time::Duration;

use wire::data::Status;

use crate::{Away, In, Refilling, World, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_write_waits_for_a_dead_member_until_the_chain_is_without_it() {
    for dead in [1, 2] {
        let mut world = World::of(3).await;
        world.make(0, 5).await.unwrap();
        world.nodes[dead].kill();
        let write = world.begin_write(0, 5, 0, &b"abc"[..]);
        until("the head has written", || world.bytes_at(0, 5).unwrap() == b"abc").await;
        let retries =
            || world.nodes.iter().map(|node| node.ds.chain_metrics().forward_retries.get()).sum::<u64>();
        until("it is sent again", || retries() > 0).await;
        assert!(!write.is_finished());
        let mut states = [In; 3];
        states[dead] = Away;
        world.change(&states);
        write.await.unwrap().unwrap();
        assert_eq!(world.bytes_at(3 - dead, 5).unwrap(), b"abc");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_head_carries_on_what_the_dead_one_began() {
    let mut world = World::of(3).await;
    world.make(0, 5).await.unwrap();
    world.write(0, 5, 0, &b"old"[..]).await.unwrap();
    // So that the write stays in the middle.
    world.nodes[2].kill();
    let write = world.begin_write(0, 5, 0, &b"new"[..]);
    until("the middle has written", || world.bytes_at(1, 5).unwrap() == b"new").await;
    world.nodes[0].kill();
    assert!(write.await.is_err(), "nobody acknowledges it");
    world.restart(2).await;
    assert_eq!(world.bytes_at(2, 5).unwrap(), b"old");
    world.change(&[Away, In, In]);
    // A read at the new head waits for the bytes to be on the tail.
    assert_eq!(world.read(1, 5, 0, 10).await.unwrap(), &b"new"[..]);
    assert_eq!(world.bytes_at(2, 5).unwrap(), b"new");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_was_taken_out_acknowledges_nothing() {
    let mut world = World::of(2).await;
    world.make(0, 5).await.unwrap();
    // The first is cut off from the leader: it knows the old version, and its lease runs on by its clock.
    world.change(&[Away, In]);
    let stale = world.begin_write(0, 5, 0, &b"stale"[..]);
    until("it was sent again", || world.nodes[0].ds.chain_metrics().forward_retries.get() > 0).await;
    assert_eq!(world.bytes_at(1, 5).unwrap(), b"");
    world.write(1, 5, 0, &b"right"[..]).await.unwrap();
    assert!(!stale.is_finished());
    world.tell(0, &[Away, In]);
    assert_eq!(stale.await.unwrap(), Err(Status::StaleChain));
    assert_eq!(world.bytes_at(1, 5).unwrap(), b"right");
    assert_eq!(world.write(0, 5, 0, &b"x"[..]).await, Err(Status::StaleChain), "and it serves nothing");
    assert_eq!(world.read(0, 5, 0, 1).await, Err(Status::StaleChain));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_is_refilled_sends_no_old_change_to_another_member_that_is() {
    let mut world = World::of(3).await;
    world.make(0, 5).await.unwrap();
    // The first two are cut off from each other. The first hears of a version when it is refilled, with the third.
    let second = world.nodes[1].server.address();
    world.instead.insert(1, "127.0.0.1:1".parse().unwrap());
    world.change_for(&[In; 3], &[0]);
    let stale = world.begin_write(0, 5, 0, &b"stale"[..]);
    until("the head has written", || world.bytes_at(0, 5).unwrap() == b"stale").await;
    world.instead.insert(1, second);
    world.change_for(&[Away, In, Away], &[1]);
    world.write(1, 5, 0, &b"right"[..]).await.unwrap();
    world.change(&[Refilling, In, Refilling]);
    assert_eq!(stale.await.unwrap(), Err(Status::StaleChain));
    assert_eq!(world.bytes_at(2, 5).unwrap(), b"");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relayed_write_goes_to_the_next_head_when_the_head_has_died() {
    let mut world = World::of(3).await;
    world.make(0, 5).await.unwrap();
    world.nodes[0].kill();
    let write = world.begin_write(2, 5, 0, &b"abc"[..]);
    until("it is relayed", || world.nodes[2].ds.chain_metrics().relays.get() > 0).await;
    world.change(&[Away, In, In]);
    write.await.unwrap().unwrap();
    assert_eq!(world.bytes_at(1, 5).unwrap(), b"abc");
    assert_eq!(world.bytes_at(2, 5).unwrap(), b"abc");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_hears_of_a_version_later_than_the_head() {
    let mut world = World::of(3).await;
    world.make(0, 5).await.unwrap();
    world.version += 1;
    let states = [In, In, Away];
    world.nodes[2].kill();
    world.tell(0, &states);
    let write = world.begin_write(0, 5, 0, &b"abc"[..]);
    until("the head sends it", || world.nodes[0].ds.chain_metrics().forwards.get() > 1).await;
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert!(!write.is_finished());
    world.tell(1, &states);
    write.await.unwrap().unwrap();
    assert_eq!(world.bytes_at(1, 5).unwrap(), b"abc");
}
