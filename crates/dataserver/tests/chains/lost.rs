//! Members that have lost the file of an object: they leave the chain, and are refilled.

use std::sync::Arc;

use wire::data::{Status, copy};

use crate::{Away, CHAIN, In, Refilling, World, call, until};

impl World {
    /// Members that have left the chain, in its current version.
    pub fn left(&self) -> Vec<usize> {
        let has_left = |node: &usize| {
            let left = self.nodes[*node].ds.left_chains();
            left.iter().any(|left| {
                (left.chain, left.version, left.target) == (CHAIN, self.version, self.nodes[*node].target)
            })
        };
        (0..self.nodes.len()).filter(has_left).collect()
    }

    /// Refills the last member, by `head`.
    async fn refill(&self, head: usize) {
        let refill = tokio::spawn(self.nodes[head].ds.refill_members());
        until("the member is refilled", || !self.nodes[head].ds.refilled().is_empty()).await;
        refill.abort();
    }
}

/// A chain of two with an object, whose file at `node` is removed below it; no member has the object open.
async fn with_loss(node: usize) -> World {
    let mut world = World::of(2).await;
    world.make(0, 5).await.unwrap();
    world.write(0, 5, 0, &b"abcdef"[..]).await.unwrap();
    world.commit(0, world.at(0, 5)).await.unwrap();
    for node in 0..2 {
        world.restart(node).await;
    }
    world.change(&[In, In]);
    std::fs::remove_file(world.file(node, 5)).unwrap();
    world
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_an_object_that_the_next_member_has_lost_waits_until_that_member_has_left() {
    let mut world = with_loss(1).await;
    let write = world.begin_write(0, 5, 2, &b"XX"[..]);
    until("the member has left", || world.left() == [1]).await;
    assert!(!write.is_finished());
    world.change(&[In, Away]);
    write.await.unwrap().unwrap();
    world.change(&[In, Refilling]);
    world.refill(0).await;
    assert_eq!(world.equal(5).unwrap(), b"abXXef");
    world.change(&[In, In]);
    world.write(0, 5, 6, &b"g"[..]).await.unwrap();
    assert_eq!(world.read(1, 5, 0, 10).await.unwrap(), &b"abXXefg"[..]);
    assert!(world.left().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_has_lost_an_object_leaves_instead_of_answering_so() {
    for asks in 0..4 {
        let mut world = with_loss(0).await;
        let answer = match asks {
            0 => world.read(0, 5, 0, 10).await.map(drop),
            1 => world.write(0, 5, 0, &b"x"[..]).await.map(drop),
            2 => {
                let args = wire::data::stat::Args { handles: vec![world.at(0, 5)], sync: false };
                let stat: wire::data::stat::Res =
                    call(&world.peer(0), wire::data::Procedure::Stat, &args).await.unwrap();
                stat.map(drop)
            }
            _ => {
                world.make(0, 6).await.unwrap();
                let pieces = vec![wire::data::Piece { from: 0, to: 0, len: 6 }];
                let args = copy::Args {
                    handle: world.at(0, 6),
                    source: world.at(0, 5),
                    address: bytes::Bytes::new(),
                    pieces,
                    stable: false,
                };
                let copied: copy::Res =
                    call(&world.peer(0), wire::data::Procedure::Copy, &args).await.unwrap();
                copied.map(drop)
            }
        };
        assert_eq!(answer, Err(Status::ChainWaits), "{asks}");
        until("the member has left", || world.left() == [0]).await;
        world.change(&[Away, In]);
        world.change(&[Refilling, In]);
        world.refill(1).await;
        assert_eq!(world.equal(5).unwrap(), b"abcdef");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_has_lost_an_object_serves_no_read_of_the_chain() {
    let world = with_loss(1).await;
    world.make(0, 6).await.unwrap();
    assert_eq!(world.read(1, 5, 0, 10).await, Err(Status::ChainWaits));
    until("the member has left", || world.left() == [1]).await;
    assert_eq!(world.read(1, 6, 0, 10).await, Err(Status::ChainWaits), "nor of other objects");
    assert_eq!(world.read(0, 5, 0, 10).await.unwrap(), &b"abcdef"[..]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_all_members_have_lost_is_lost_and_none_leaves() {
    let world = with_loss(0).await;
    std::fs::remove_file(world.file(1, 5)).unwrap();
    for node in 0..2 {
        assert_eq!(world.read(node, 5, 0, 10).await, Err(Status::ObjectLost));
        assert_eq!(world.write(node, 5, 0, &b"x"[..]).await.map(drop), Err(Status::ObjectLost));
    }
    assert!(world.left().is_empty());
    // Also the last member that is in.
    let mut world = with_loss(0).await;
    world.change(&[In, Away]);
    assert_eq!(world.read(0, 5, 0, 10).await, Err(Status::ObjectLost));
    assert!(world.left().is_empty());
}

/// The head has removed the object while the member was away, made it again, and the member remembers a removal.
#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_the_head_made_anew_comes_back_at_a_member_that_removed_it() {
    let mut world = with_loss(0).await;
    world.change(&[In, Away]);
    // It is compared whole.
    world.drop_all(1);
    world.change(&[In, Refilling]);
    world.refill(0).await;
    assert_eq!(world.bytes_at(1, 5), None, "what only the refilled member has is removed");
    world.change(&[In, In]);
    // A lost object is made again where nothing is left of it.
    let cut = tokio::spawn({
        let (peer, handle) = (world.peer(0), world.of_epoch(0, 5, 1));
        async move {
            let args = wire::data::truncate::Args { handle, len: 0 };
            call::<wire::data::truncate::Res>(&peer, wire::data::Procedure::Truncate, &args).await.unwrap()
        }
    });
    until("the member has left", || world.left() == [1]).await;
    world.change(&[In, Away]);
    cut.await.unwrap().unwrap();
    world.change(&[In, Refilling]);
    world.refill(0).await;
    world.change(&[In, In]);
    let write = wire::data::write::Args {
        handle: world.of_epoch(0, 5, 1),
        offset: 0,
        stable: true,
        sums: vec![],
        data: bytes::Bytes::from_static(b"new").into(),
    };
    let written: wire::data::write::Res =
        call(&world.peer(0), wire::data::Procedure::Write, &write).await.unwrap();
    written.unwrap();
    assert_eq!(world.equal(5).unwrap(), b"new");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_removal_of_an_open_file_below_the_server_is_noticed() {
    let world = World::of(2).await;
    world.make(0, 5).await.unwrap();
    world.write(0, 5, 0, &b"abc"[..]).await.unwrap();
    std::fs::remove_file(world.file(1, 5)).unwrap();
    let care = tokio::spawn(Arc::clone(&world.nodes[1].ds).care_for_targets());
    until("the member has left", || world.left() == [1]).await;
    care.abort();
}
