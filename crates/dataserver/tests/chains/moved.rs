//! Empty columns that move between two chains which share targets: the object at a shared target is of the chain of the
//! last call that is not from before the move.

use bytes::Bytes;
use host::Clock;
use wire::data::{Chain, MemberState, Procedure, Status, make, write};
use wire::handle::ObjectHandle;

use crate::{Away, CHAIN, In, LEASE, Refilling, Served, World, call, key, until};

/// Another chain of the same targets.
const OTHER: u64 = CHAIN + 1;
/// Epoch of the file after the move.
const MOVED: u32 = 4;

impl World {
    fn on_other(&self, node: usize, inode: u64) -> Bytes {
        let object = self.object(node, inode);
        ObjectHandle { chain: OTHER, epoch: MOVED, ..object }.seal(&key())
    }

    /// Tells these data servers a version of the other chain, beside the first one.
    fn tell_other<const N: usize>(&self, version: u32, states: [MemberState; N], hear: &[usize]) {
        self.tell_of(OTHER, version, states, hear);
    }

    /// Tells these data servers a version of the first chain, beside the other one.
    fn tell_beside(&self, version: u32, states: [MemberState; 2], hear: &[usize]) {
        self.tell_of(CHAIN, version, states, hear);
    }

    fn tell_of<const N: usize>(&self, id: u64, version: u32, states: [MemberState; N], hear: &[usize]) {
        let mut members = self.chain(&states).members;
        members.sort_by_key(|member| member.state != In); // the head first
        let chain = Chain { id, version, verifier: 42, members };
        for node in hear {
            let Served { ds, clock, .. } = &self.nodes[*node];
            ds.tell_chains(std::slice::from_ref(&chain));
            ds.extend_lease(clock.monotonic(), LEASE);
        }
    }

    /// MAKE of the first chain with an epoch from before the move.
    async fn make_late(&self, node: usize, inode: u64) -> make::Res {
        let handles = vec![self.of_epoch(node, inode, MOVED - 1)];
        call(&self.peer(node), Procedure::Make, &make::Args { handles }).await.unwrap()
    }

    async fn make_on_other(&self, node: usize, inode: u64) {
        let args = make::Args { handles: vec![self.on_other(node, inode)] };
        let made: make::Res = call(&self.peer(node), Procedure::Make, &args).await.unwrap();
        made.unwrap();
    }

    async fn write_on_other(&self, node: usize, inode: u64, data: &'static [u8]) {
        let data = Bytes::from_static(data).into();
        let args =
            write::Args { handle: self.on_other(node, inode), offset: 0, stable: false, sums: vec![], data };
        let written: write::Res = call(&self.peer(node), Procedure::Write, &args).await.unwrap();
        written.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_member_has_left_behind_does_not_come_over_the_object_of_another_chain() {
    for is_whole in [false, true] {
        let mut world = World::of(2).await;
        world.make(0, 5).await.unwrap();
        world.make(0, 6).await.unwrap();
        // The column moves to a chain of the first target alone. The second one has not removed its object yet.
        world.tell_other(1, [In, Away], &[0]);
        world.make_on_other(0, 5).await;
        world.write_on_other(0, 5, b"on the other chain").await;
        world.change(&[Away, In]);
        if is_whole {
            world.restart(0).await;
            std::fs::remove_file(world.dirs[0].path().join("target/chains")).unwrap();
            world.restart(0).await;
        }
        world.write(1, 6, 0, &b"meanwhile"[..]).await.unwrap();
        world.refills(1);
        world.change(&[Refilling, In]);
        until("the member is refilled", || !world.nodes[1].ds.refilled().is_empty()).await;
        assert_eq!(world.bytes_at(0, 5).unwrap(), b"on the other chain", "{is_whole}");
        assert_eq!(world.equal(6).unwrap(), b"meanwhile");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_change_log_of_an_object_that_has_moved_is_of_its_new_chain() {
    let mut world = World::of(2).await;
    world.make(0, 5).await.unwrap();
    world.tell_other(1, [In, In], &[0, 1]);
    world.tell_other(2, [In, In], &[0, 1]);
    world.make_on_other(0, 5).await;
    world.write_on_other(0, 5, b"on the other chain").await;
    until("its records of both chains are written", || {
        let _ = world.nodes[0].ds.refilled(); // as a registration does
        let text = std::fs::read_to_string(world.dirs[0].path().join("target/chains")).unwrap_or_default();
        text.lines().any(|line| line.starts_with(&format!("{OTHER:016x} 2 ")))
    })
    .await;
    world.nodes[0].kill();
    std::fs::write(world.file(0, 5), b"").unwrap(); // nothing was synced
    world.tell_beside(2, [Away, In], &[1]);
    world.tell_other(3, [Away, In], &[1]);
    world.restart(0).await;
    world.refills(1);
    world.tell_beside(3, [Refilling, In], &[0, 1]);
    world.tell_other(4, [Refilling, In], &[0, 1]);
    until("the member of both chains is refilled", || world.nodes[1].ds.refilled().len() == 2).await;
    assert_eq!(world.nodes[1].ds.chain_metrics().refills_by_logs.get(), 2);
    assert_eq!(world.equal(5).unwrap(), b"on the other chain");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_move_that_was_refused_the_object_is_of_its_old_chain() {
    let mut world = World::of(2).await;
    world.make(0, 5).await.unwrap();
    world.tell_other(1, [In, Away], &[0]);
    let handle = ObjectHandle { chain: OTHER, ..world.object(0, 5) }.seal(&key());
    let made: make::Res =
        call(&world.peer(0), Procedure::Make, &make::Args { handles: vec![handle] }).await.unwrap();
    made.unwrap();
    world.write(0, 5, 0, &b"before"[..]).await.unwrap();
    world.change(&[In, Away]);
    world.write(0, 5, 0, &b"behind"[..]).await.unwrap();
    world.refills(0);
    world.change(&[In, Refilling]);
    until("the member is refilled", || !world.nodes[0].ds.refilled().is_empty()).await;
    assert_eq!(world.equal(5).unwrap(), b"behind");
}

/// The first placement of a small file gets no answer, and the second one is on another chain.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_make_does_not_take_the_object_back() {
    // At the first chain's head, and at its other member.
    for shared in [0, 1] {
        let mut world = World::of(2).await;
        let states = [[In, Away], [Away, In]][shared];
        world.tell_other(1, states, &[shared]);
        world.make_on_other(shared, 5).await;
        world.write_on_other(shared, 5, b"on the other chain").await;
        assert_eq!(world.make_late(0, 5).await, Err(Status::StaleEpoch));
        let mut states = [In; 2];
        states[shared] = Away;
        world.change(&states);
        world.refills(1 - shared);
        states[shared] = Refilling;
        world.change(&states);
        until("the member is refilled", || !world.nodes[1 - shared].ds.refilled().is_empty()).await;
        assert_eq!(world.bytes_at(shared, 5).unwrap(), b"on the other chain");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_later_placement_begins_with_an_empty_object() {
    let world = World::of(2).await;
    world.make(0, 5).await.unwrap();
    world.write(0, 5, 0, &b"of the first placement"[..]).await.unwrap();
    world.tell_other(1, [In, Away], &[0]);
    world.make_on_other(0, 5).await;
    assert_eq!(world.bytes_at(0, 5).unwrap(), b"");
    world.write_on_other(0, 5, b"second").await;
    // It comes again.
    world.make_on_other(0, 5).await;
    assert_eq!(world.bytes_at(0, 5).unwrap(), b"second");
}

/// The column was placed elsewhere in between, and what was written here stayed.
#[tokio::test(flavor = "multi_thread")]
async fn a_column_that_comes_back_begins_with_an_empty_object() {
    let world = World::of(2).await;
    world.make(0, 5).await.unwrap();
    world.write(0, 5, 0, &b"of the first placement"[..]).await.unwrap();
    world.make_late(0, 5).await.unwrap();
    assert_eq!(world.equal(5).unwrap(), b"");
    let handle = world.of_epoch(0, 5, MOVED - 1);
    let args = write::Args {
        handle,
        offset: 4,
        stable: false,
        sums: vec![],
        data: Bytes::from_static(b"new").into(),
    };
    let written: write::Res = call(&world.peer(0), Procedure::Write, &args).await.unwrap();
    written.unwrap();
    // The first placement's MAKE, and this one's, again.
    world.make(0, 5).await.unwrap();
    world.make_late(0, 5).await.unwrap();
    assert_eq!(world.equal(5).unwrap(), b"\0\0\0\0new");
}

/// A move that was refused: the column has got data meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn an_object_with_data_does_not_move_without_a_later_epoch() {
    let world = World::of(2).await;
    world.make(0, 5).await.unwrap();
    world.write(0, 5, 0, &b"data"[..]).await.unwrap();
    world.tell_other(1, [In, Away], &[0]);
    let handles = vec![ObjectHandle { chain: OTHER, ..world.object(0, 5) }.seal(&key())];
    let made: make::Res = call(&world.peer(0), Procedure::Make, &make::Args { handles }).await.unwrap();
    assert_eq!(made, Err(Status::StaleEpoch));
    assert_eq!(world.read(0, 5, 0, 10).await.unwrap(), &b"data"[..]);
}

/// Offset of the old bytes.
const OLD: u64 = 100 << 20;

/// The second member was away when its column was truncated and moved, and the head has started again since.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_was_away_does_not_keep_old_bytes_of_a_column_that_moved() {
    for changes_first in [false, true] {
        let mut world = World::of(2).await;
        world.tell_other(1, [In, In], &[0, 1]);
        world.make(0, 5).await.unwrap();
        world.write(0, 5, OLD, vec![7; 1 << 20]).await.unwrap();
        world.tell_beside(2, [In, Away], &[0]);
        world.tell_other(2, [In, Away], &[0]);
        world.make_on_other(0, 5).await;
        let handle = ObjectHandle { chain: OTHER, epoch: MOVED, ..world.object(0, 5) }.seal(&key());
        let data = Bytes::from_static(b"at the end").into();
        let args = write::Args { handle, offset: 2 * OLD, stable: false, sums: vec![], data };
        let written: write::Res = call(&world.peer(0), Procedure::Write, &args).await.unwrap();
        written.unwrap();
        until("its records are written", || {
            let _ = world.nodes[0].ds.refilled(); // as a registration does
            let text =
                std::fs::read_to_string(world.dirs[0].path().join("target/chains")).unwrap_or_default();
            text.lines().any(|line| line.starts_with(&format!("{OTHER:016x} 2 ")))
        })
        .await;
        // What is not settled is in its change log, in pieces of 64 MiB.
        world.restart(0).await;
        world.tell_beside(3, [In, Away], &[0]);
        world.tell_other(3, [In, Away], &[0]);
        world.tell_other(4, [In, Refilling], &[0, 1]);
        if changes_first {
            world.write_on_other(0, 5, b"at the beginning").await;
        }
        world.refills(0);
        until("the member is refilled", || !world.nodes[0].ds.refilled().is_empty()).await;
        assert_eq!(world.nodes[0].ds.chain_metrics().refills_by_logs.get(), 1);
        let bytes = world.equal(5).unwrap();
        assert_eq!((bytes.len(), bytes[OLD as usize]), (2 * OLD as usize + 10, 0), "{changes_first}");
    }
}

/// The move was refused, since the column has data by now; but the other chain's head has made its object.
#[tokio::test(flavor = "multi_thread")]
async fn a_refill_of_a_chain_that_a_column_did_not_move_to_leaves_the_column_alone() {
    let mut world = World::of(3).await;
    world.change(&[Away, In, In]);
    world.make(1, 5).await.unwrap();
    world.write(1, 5, 0, &b"data"[..]).await.unwrap();
    world.tell_other(1, [In, Away, Away], &[0]);
    let handles = vec![ObjectHandle { chain: OTHER, ..world.object(0, 5) }.seal(&key())];
    let made: make::Res = call(&world.peer(0), Procedure::Make, &make::Args { handles }).await.unwrap();
    made.unwrap();
    world.refills(0);
    world.tell_other(2, [In, Refilling, Away], &[0, 1]);
    until("the member is refilled", || !world.nodes[0].ds.refilled().is_empty()).await;
    assert_eq!(world.read(1, 5, 0, 10).await.unwrap(), &b"data"[..]);
    assert_eq!(
        (world.bytes_at(1, 5), world.bytes_at(2, 5)),
        (Some(b"data".to_vec()), Some(b"data".to_vec()))
    );
}

/// The column has moved to a chain with the same targets in another order, while its MAKE of before is still on its way:
/// each MAKE has the object's lock at its head, and asks for it at the other one's.
///
/// ```text
/// chain      0 -> 1      MAKE holds 0, waits for 1
/// OTHER      1 -> 0      MAKE holds 1, waits for 0
/// ```
#[tokio::test(flavor = "multi_thread")]
async fn makes_on_two_chains_of_the_same_targets_do_not_wait_for_each_other() {
    let world = World::of(2).await;
    let other = |version, hear: &[usize]| {
        let mut members = world.chain(&[In, In]).members;
        members.reverse();
        let chain = Chain { id: OTHER, version, verifier: 42, members };
        hear.iter().for_each(|node| world.nodes[*node].ds.tell_chains(std::slice::from_ref(&chain)));
    };
    // Each head alone has heard of the present version: its MAKE is refused by the next member, again and again.
    other(1, &[0, 1]);
    other(2, &[1]);
    world.tell_beside(2, [In, In], &[0]);
    let retries = |node: usize| world.nodes[node].ds.chain_metrics().forward_retries.get();
    let make = async {
        let args = make::Args { handles: vec![world.on_other(1, 5)] };
        loop {
            let made: make::Res = call(&world.peer(1), Procedure::Make, &args).await.unwrap();
            if made != Err(Status::ChainWaits) {
                return made;
            }
        }
    };
    let all_hear = async {
        until("both have the lock of their head", || retries(0) > 0 && retries(1) > 0).await;
        world.tell_beside(2, [In, In], &[1]);
        other(2, &[0]);
    };
    let both = async { tokio::join!(world.make_late(0, 5), make, all_hear) };
    let (_late, made, ()) = tokio::time::timeout(LEASE, both).await.expect("they give way");
    made.unwrap();
    assert_eq!(world.equal(5).unwrap(), b"");
}
