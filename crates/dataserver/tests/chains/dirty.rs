//! Refilling by dirty logs: a member that comes back is compared in what may be otherwise, and in no more.

use std::os::unix::fs::FileExt;

use wire::data::{MemberState, Procedure, Status, copy, make, remove, stat, write};

use crate::{Away, In, Refilling, World, call, until};

const MIB: u64 = 1 << 20;
/// Length of an object of these tests.
const LEN: u64 = 3 * MIB;

impl World {
    /// Two members with these objects, and all of them settled.
    async fn of_settled(inodes: std::ops::RangeInclusive<u64>) -> Self {
        let world = World::of(2).await;
        for inode in inodes {
            world.make(0, inode).await.unwrap();
            world.fill(inode, &vec![inode as u8; LEN as usize]).await;
        }
        world.settle(0);
        world.settle(1);
        world.refills(0);
        world
    }

    /// Three members with object 5, and all of it settled.
    async fn of_three_settled() -> Self {
        let world = World::of(3).await;
        world.make(0, 5).await.unwrap();
        world.write(0, 5, 0, &b"before"[..]).await.unwrap();
        for node in 0..3 {
            world.settle(node);
            world.refills(node);
        }
        world
    }

    fn settle(&self, node: usize) {
        self.nodes[node].ds.settle(&|| false);
    }

    /// Overwrites bytes below the server, as a disk does that loses what was not synced.
    fn lose(&self, node: usize, inode: u64, offset: u64) {
        let file = std::fs::File::options().write(true).open(self.file(node, inode)).unwrap();
        file.write_all_at(&[0; 1000], offset).unwrap();
    }

    /// Waits until the file of this member's target has the present version of the chain.
    async fn has_record(&self, node: usize) {
        let file = self.dirs[node].path().join("target/chains");
        let version = format!(" {} ", self.version);
        until("its record is written", || {
            // As a registration does, each second.
            let _ = self.nodes[node].ds.refilled();
            std::fs::read_to_string(&file).is_ok_and(|text| text.contains(&version))
        })
        .await;
    }

    /// A version in which `head` refills a member. Returns the bytes that were compared, and whether dirty logs named
    /// them.
    async fn refill_of(&mut self, head: usize, states: &[MemberState]) -> (u64, bool) {
        let metrics = std::sync::Arc::clone(self.nodes[head].ds.chain_metrics());
        let before = (metrics.refill_compared.get(), metrics.refills_by_logs.get());
        self.change(states);
        until("the member is refilled", || !self.nodes[head].ds.refilled().is_empty()).await;
        (metrics.refill_compared.get() - before.0, metrics.refills_by_logs.get() > before.1)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_was_cut_off_is_compared_in_what_changed() {
    let mut world = World::of_settled(1..=3).await;
    world.change(&[In, Away]);
    world.write(0, 2, LEN - 5, &b"longer"[..]).await.unwrap();
    world.write(0, 3, 7, &b"x"[..]).await.unwrap();
    // The last byte of the object is in a region of its own.
    assert_eq!(world.refill_of(0, &[In, Refilling]).await, (2 * MIB + 1, true));
    for inode in 1..=3 {
        world.equal(inode);
    }
    world.change(&[In, In]);
    // From now on nothing is noted, and the next absence begins anew.
    world.write(0, 1, 0, &b"x"[..]).await.unwrap();
    world.change(&[In, Away]);
    assert_eq!(world.refill_of(0, &[In, Refilling]).await, (0, true));
}

/// A later placement has emptied it, and only its end was written since.
#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_was_emptied_meanwhile_has_no_old_bytes_in_its_holes() {
    let mut world = World::of_settled(1..=2).await;
    world.change(&[In, Away]);
    let handle = world.of_epoch(0, 1, 3);
    let made: make::Res =
        call(&world.peer(0), Procedure::Make, &make::Args { handles: vec![handle.clone()] }).await.unwrap();
    made.unwrap();
    let args = write::Args {
        handle,
        offset: 2 * MIB,
        stable: false,
        sums: vec![],
        data: bytes::Bytes::from_static(b"end").into(),
    };
    let written: write::Res = call(&world.peer(0), Procedure::Write, &args).await.unwrap();
    written.unwrap();
    let (_, by_logs) = world.refill_of(0, &[In, Refilling]).await;
    assert!(by_logs);
    assert_eq!(world.equal(1).unwrap()[..2 * MIB as usize], vec![0; 2 * MIB as usize]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_starts_again_is_compared_in_what_it_had_not_settled() {
    let mut world = World::of_settled(1..=3).await;
    world.write(0, 2, MIB, &b"changed"[..]).await.unwrap();
    world.nodes[1].kill();
    world.lose(1, 2, MIB);
    world.lose(1, 2, 0);
    world.change(&[In, Away]);
    world.write(0, 3, 2 * MIB, &b"changed"[..]).await.unwrap();
    world.restart(1).await;
    // The change log has pieces of 64 MiB.
    assert_eq!(world.refill_of(0, &[In, Refilling]).await, (LEN + MIB, true));
    for inode in 1..=3 {
        world.equal(inode);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_process_had_not_settled_is_known_after_further_starts() {
    let mut world = World::of_settled(1..=3).await;
    world.write(0, 2, MIB, &b"changed"[..]).await.unwrap();
    world.nodes[1].kill();
    world.lose(1, 2, MIB);
    world.change(&[In, Away]);
    // It settles what it finds, and dies before it hears of its chain.
    world.restart(1).await;
    world.settle(1);
    world.restart(1).await;
    assert_eq!(world.refill_of(0, &[In, Refilling]).await, (LEN, true));
    world.equal(2);
    world.change(&[In, In]);
    world.has_record(1).await;
    world.settle(1);
    world.restart(1).await;
    world.change(&[In, Away]);
    assert_eq!(world.refill_of(0, &[In, Refilling]).await, (0, true), "all members were in");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_the_death_of_all_members_both_logs_count() {
    let mut world = World::of_settled(1..=4).await;
    world.write(0, 2, MIB, &b"changed"[..]).await.unwrap();
    world.settle(1);
    world.write(0, 3, MIB, &b"changed"[..]).await.unwrap();
    world.nodes[0].kill();
    world.nodes[1].kill();
    world.lose(0, 2, MIB);
    world.lose(1, 3, MIB);
    world.restart(0).await;
    world.restart(1).await;
    world.refills(1);
    world.change(&[Away, In]);
    assert_eq!(world.refill_of(1, &[Refilling, In]).await, (2 * LEN, true));
    for inode in 1..=4 {
        world.equal(inode);
    }
    assert_eq!(&world.bytes_at(0, 2).unwrap()[MIB as usize..][..7], b"changed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_starts_again_meanwhile_knows_what_changed_before() {
    let mut world = World::of_settled(1..=5).await;
    world.change(&[In, Away]);
    world.has_record(0).await;
    world.write(0, 2, 0, &b"settled"[..]).await.unwrap();
    world.remove(0, 3).await.unwrap();
    world.make(0, 6).await.unwrap();
    world.settle(0);
    world.restart(0).await;
    world.refills(0);
    world.change(&[In, Away]);
    world.write(0, 4, MIB, &b"by the second process"[..]).await.unwrap();
    // What is not settled when the process ends is in the change log.
    world.remove(0, 5).await.unwrap();
    world.make(0, 7).await.unwrap();
    world.restart(0).await;
    world.refills(0);
    world.change(&[In, Away]);
    world.write(0, 4, 2 * MIB, &b"by the third"[..]).await.unwrap();
    // Of one object the region that was written, of the other all, as the change log has pieces of 64 MiB.
    assert_eq!(world.refill_of(0, &[In, Refilling]).await, (MIB + LEN, true));
    for inode in 1..=7 {
        world.equal(inode);
    }
    assert!([3, 5].iter().all(|inode| world.bytes_at(1, *inode).is_none()), "they were removed");
    assert!([6, 7].iter().all(|inode| world.bytes_at(1, *inode).is_some()), "they were made");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_is_away_and_starts_again_is_compared_in_what_it_had_changed_alone() {
    let mut world = World::of_settled(1..=3).await;
    // The head cannot reach the next member, which goes on without it.
    world.instead.insert(1, "127.0.0.1:1".parse().unwrap());
    world.change(&[In, In]);
    let late = world.begin_write(0, 2, MIB, &b"of one member"[..]);
    until("the head has written", || world.bytes_at(0, 2).unwrap()[MIB as usize..][..6] == *b"of one").await;
    world.instead.clear();
    // It hears of that, too.
    world.change_for(&[Away, In], &[0, 1]);
    world.has_record(0).await;
    world.settle(0);
    late.abort();
    world.restart(0).await;
    world.settle(0);
    world.restart(0).await;
    world.refills(1);
    let (compared, by_logs) = world.refill_of(1, &[Refilling, In]).await;
    assert!(by_logs && (MIB..=LEN).contains(&compared), "{compared} bytes");
    for inode in 1..=3 {
        world.equal(inode);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_dies_while_it_is_refilled_is_compared_by_logs_again() {
    let mut world = World::of_settled(1..=4).await;
    world.nodes[1].kill();
    // It lacks an object that nothing else names.
    std::fs::remove_file(world.file(1, 3)).unwrap();
    world.change(&[In, Away]);
    world.write(0, 2, 0, &b"while it is away"[..]).await.unwrap();
    world.restart(1).await;
    world.change(&[In, Refilling]);
    world.write(0, 3, MIB, &b"while it is refilled"[..]).await.unwrap();
    assert_eq!(world.bytes_at(1, 3).unwrap()[..10], [0; 10], "made by the forwarded change");
    world.has_record(1).await;
    world.settle(1);
    world.restart(1).await;
    world.change(&[In, Away]);
    let (_, by_logs) = world.refill_of(0, &[In, Refilling]).await;
    assert!(by_logs);
    for inode in 1..=4 {
        world.equal(inode);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_third_member_that_is_away_is_covered_by_the_log_of_a_head_that_started_again() {
    let mut world = World::of_three_settled().await;
    world.change(&[In, In, Away]);
    world.write(0, 5, 0, &b"BEFORE"[..]).await.unwrap();
    (0..2).for_each(|node| world.settle(node));
    world.change(&[In, Away, Away]);
    world.has_record(0).await;
    world.settle(0);
    world.restart(0).await;
    world.refills(0);
    world.change(&[In, Away, Away]);
    assert_eq!(world.refill_of(0, &[In, Refilling, Away]).await, (6, true));
    world.change(&[In, In, Away]);
    assert_eq!(world.refill_of(0, &[In, In, Refilling]).await, (6, true));
    assert_eq!(world.bytes_at(2, 5).unwrap(), b"BEFORE");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_was_dropped_is_compared_whole() {
    let mut world = World::of_settled(1..=2).await;
    world.change(&[In, Away]);
    world.drop_all(1);
    assert_eq!(world.refill_of(0, &[In, Refilling]).await, (2 * LEN, false));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_has_lost_an_object_is_compared_whole() {
    let mut world = World::of_settled(1..=2).await;
    std::fs::remove_file(world.file(1, 2)).unwrap();
    world.restart(1).await;
    world.change(&[In, In]);
    assert_eq!(world.read(1, 2, 0, 1).await, Err(Status::ChainWaits), "it leaves");
    world.change(&[In, Away]);
    assert_eq!(world.refill_of(0, &[In, Refilling]).await, (2 * LEN, false));
    world.equal(2);
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_restore_of_the_metaservers_all_is_compared() {
    let mut world = World::of_settled(1..=2).await;
    world.change(&[In, Away]);
    world.version = (1 << 16) - 1;
    assert_eq!(world.refill_of(0, &[In, Refilling]).await, (2 * LEN, false));
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_made_removed_and_raised_by_a_head_that_died_are_the_same_afterwards() {
    let mut world = World::of_settled(1..=4).await;
    // The next member cannot be reached.
    world.instead.insert(1, "127.0.0.1:1".parse().unwrap());
    world.change(&[In, In]);
    let raise = stat::Args { handles: vec![world.of_epoch(0, 1, 9)], sync: false };
    let make = make::Args { handles: vec![world.at(0, 5)] };
    let remove = remove::Args { handles: vec![world.at(0, 2)], only: remove::Only::All };
    let (raiser, maker, remover) = (world.peer(0), world.peer(0), world.peer(0));
    let begun = [
        tokio::spawn(async move { call::<stat::Res>(&raiser, Procedure::Stat, &raise).await.is_ok() }),
        tokio::spawn(async move { call::<make::Res>(&maker, Procedure::Make, &make).await.is_ok() }),
        tokio::spawn(async move { call::<remove::Res>(&remover, Procedure::Remove, &remove).await.is_ok() }),
    ];
    until("it has begun", || world.bytes_at(0, 5).is_some() && world.bytes_at(0, 2).is_none()).await;
    until("all are sent again", || world.nodes[0].ds.chain_metrics().forward_retries.get() > 12).await;
    world.nodes[0].kill();
    begun.iter().for_each(tokio::task::JoinHandle::abort);
    world.instead.clear();
    world.restart(0).await;
    world.refills(1);
    world.change(&[Away, In]);
    let (_, by_logs) = world.refill_of(1, &[Refilling, In]).await;
    assert!(by_logs);
    world.change(&[In, In]);
    for inode in [1, 3, 4] {
        assert_eq!(
            world.write(1, inode, 0, &b"goes on"[..]).await.map(drop),
            Ok(()),
            "no epoch is in the way"
        );
        world.equal(inode);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_that_was_told_meanwhile_does_not_go_back() {
    let mut world = World::of_settled(1..=1).await;
    // Written long ago, by the clock of the member that goes.
    let file = std::fs::File::options().write(true).open(world.file(1, 1)).unwrap();
    file.set_modified(std::time::SystemTime::now() - std::time::Duration::from_secs(3600)).unwrap();
    world.change(&[In, Away]);
    let told = world.stat(0, world.at(0, 1)).await.unwrap();
    assert_eq!(world.refill_of(0, &[In, Refilling]).await, (0, true));
    world.change(&[In, In]);
    world.change(&[Away, In]);
    assert_eq!(world.stat(1, world.at(1, 1)).await.unwrap(), told);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_copy_and_a_truncation_changed_is_filled() {
    let mut world = World::of_settled(1..=3).await;
    world.change(&[In, Away]);
    let piece = wire::data::Piece { from: 0, to: LEN - 10, len: 20 };
    let (handle, source) = (world.at(0, 2), world.at(0, 1));
    let args = copy::Args { handle, address: Default::default(), source, pieces: vec![piece], stable: false };
    call::<copy::Res>(&world.peer(0), Procedure::Copy, &args).await.unwrap().unwrap();
    assert_eq!(world.truncate(0, world.of_epoch(0, 3, 4), MIB + 7).await, Ok(()));
    let data = bytes::Bytes::from_static(b"behind a hole").into();
    let args =
        write::Args { handle: world.of_epoch(0, 3, 4), offset: 2 * MIB, stable: false, sums: vec![], data };
    call::<write::Res>(&world.peer(0), Procedure::Write, &args).await.unwrap().unwrap();
    let (compared, by_logs) = world.refill_of(0, &[In, Refilling]).await;
    assert!(by_logs && compared < 4 * MIB, "{compared}");
    for inode in 1..=3 {
        world.equal(inode);
    }
    assert_eq!(world.bytes_at(1, 2).unwrap()[LEN as usize - 10..], [1; 20]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_is_settled_while_others_do_not_have_it_is_filled_all_the_same() {
    let mut world = World::of_settled(1..=2).await;
    // The next member cannot be reached.
    world.instead.insert(1, "127.0.0.1:1".parse().unwrap());
    world.change(&[In, In]);
    let late = world.begin_write(0, 2, 7, &b"late"[..]);
    until("the head has written", || world.bytes_at(0, 2).unwrap()[7..11] == *b"late").await;
    world.has_record(0).await;
    world.settle(0);
    world.nodes[0].kill();
    late.abort();
    world.instead.clear();
    world.restart(0).await;
    world.refills(1);
    world.change(&[Away, In]);
    assert_eq!(world.refill_of(1, &[Refilling, In]).await, (LEN, true));
    assert_eq!(world.equal(2).unwrap()[7..11], [2; 4]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_a_stopped_member_has_lost_comes_back_whole_when_it_is_written() {
    let mut world = World::of_settled(1..=4).await;
    world.nodes[1].kill();
    for inode in [2, 3] {
        std::fs::remove_file(world.file(1, inode)).unwrap();
    }
    world.change(&[In, Away]);
    world.write(0, 2, MIB, &b"while it is away"[..]).await.unwrap();
    world.restart(1).await;
    assert_eq!(world.refill_of(0, &[In, Refilling]).await, (LEN, true));
    world.equal(2);
    // The other one is written before the member is in, and nothing was dirty of it.
    world.write(0, 3, MIB, &b"while it is refilled"[..]).await.unwrap();
    assert_eq!(world.bytes_at(1, 3).unwrap()[..10], [0; 10]);
    world.change(&[In, In]);
    until("the member has left", || world.left() == [1]).await;
    world.change(&[In, Away]);
    let (_, by_logs) = world.refill_of(0, &[In, Refilling]).await;
    assert!(!by_logs, "nor what else it may lack");
    world.change(&[In, In]);
    assert!(world.left().is_empty());
    for inode in [1, 2, 3, 4] {
        world.equal(inode);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_member_was_filled_with_reaches_the_third_when_the_first_is_dead() {
    let mut world = World::of_three_settled().await;
    world.change(&[In, Away, Away]);
    world.write(0, 5, 0, &b"BEFORE"[..]).await.unwrap();
    world.refill_of(0, &[In, Refilling, Away]).await;
    world.change(&[In, In, Away]);
    world.nodes[0].kill();
    world.change(&[Away, In, Away]);
    world.refill_of(1, &[Away, In, Refilling]).await;
    assert_eq!(world.bytes_at(2, 5).unwrap(), b"BEFORE");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_a_member_has_done_without_the_next_one_is_noted_by_the_head_that_has_not_heard() {
    let mut world = World::of_three_settled().await;
    // The last member cannot be reached.
    world.instead.insert(2, "127.0.0.1:1".parse().unwrap());
    world.change(&[In, In, In]);
    let late = world.begin_write(0, 5, 0, &b"BEFORE"[..]);
    until("two have it", || (0..2).all(|node| world.bytes_at(node, 5).unwrap() == b"BEFORE")).await;
    // The middle one hears first that the last one is out.
    world.version += 1;
    let without = [In, In, Away];
    world.tell(1, &without);
    until("the head sends it again", || world.nodes[0].ds.chain_metrics().forward_retries.get() > 3).await;
    assert!(!late.is_finished(), "the head would not know that the last one lacks it");
    world.tell(0, &without);
    late.await.unwrap().unwrap();
    world.instead.clear();
    assert_eq!(world.refill_of(0, &[In, In, Refilling]).await, (6, true));
    assert_eq!(world.equal(5).unwrap(), b"BEFORE");
}
