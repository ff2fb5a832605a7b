//! Truncation, holes, copies, removal, and epochs.

use bytes::Bytes;
use wire::data::{Piece, Procedure, Status};
use wire::data::{allocate, copy, list, punch, seek};
use wire::handle::ObjectHandle;

use crate::{Away, CHAIN, In, World, call, key};

async fn list_of(world: &World, node: usize, chain: u64) -> Vec<u64> {
    let args = list::Args { target: world.nodes[node].target, after: None, max: 2, chain };
    let (mut found, mut args) = (Vec::new(), args);
    loop {
        let page: list::Res = call(&world.peer(node), Procedure::List, &args).await.unwrap();
        let page = page.unwrap();
        found.extend(page.objects.iter().map(|o| o.inode));
        args.after = page.next();
        if args.after.is_none() {
            return found;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_members_truncate_punch_allocate_and_remove() {
    let world = World::of(3).await;
    world.make(0, 5).await.unwrap();
    let data: Vec<u8> = (0..200_000u32).map(|n| n as u8 | 1).collect();
    world.write(2, 5, 0, data.clone()).await.unwrap();
    assert_eq!(world.truncate(1, world.of_epoch(1, 5, 1), 150_000).await, Ok(()));
    let punch = punch::Args { handle: world.of_epoch(1, 5, 1), offset: 65_536, len: 65_536 };
    let punched: punch::Res = call(&world.peer(1), Procedure::Punch, &punch).await.unwrap();
    punched.unwrap();
    let mut expected = data[..150_000].to_vec();
    expected[65_536..131_072].fill(0);
    assert!(world.equal(5).unwrap() == expected);
    let args = allocate::Args { handle: world.of_epoch(2, 5, 1), offset: 0, len: 160_000, ask: false };
    let allocated: allocate::Res = call(&world.peer(2), Procedure::Allocate, &args).await.unwrap();
    allocated.unwrap();
    expected.resize(160_000, 0);
    assert!(world.equal(5).unwrap() == expected);
    let args = seek::Args { handle: world.of_epoch(2, 5, 1), offset: 0, what: seek::What::End };
    let end: seek::Res = call(&world.peer(2), Procedure::Seek, &args).await.unwrap();
    assert_eq!(end.unwrap().found, Some(160_000));
    assert_eq!(world.remove(1, 5).await, Ok(()));
    assert_eq!(world.equal(5), None);
    assert_eq!(world.write(0, 5, 0, &b"late"[..]).await, Err(Status::Stale));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_is_on_all_members() {
    let world = World::of(3).await;
    for inode in [5, 6] {
        world.make(0, inode).await.unwrap();
    }
    let data: Vec<u8> = (0..3_000_000u32).map(|n| (n / 1000) as u8).collect();
    for (at, part) in data.chunks(1_000_000).enumerate() {
        world.write(0, 5, at as u64 * 1_000_000, part.to_vec()).await.unwrap();
    }
    world.write(0, 6, 0, &b"before"[..]).await.unwrap();
    // From an object of the same server, and from another one.
    for (node, inode) in [(0, 6), (1, 6)] {
        let args = copy::Args {
            source: world.at(node, 5),
            address: Bytes::from(world.nodes[node].server.address().to_string()),
            handle: world.at(node, inode),
            pieces: vec![Piece { from: 10, to: 3, len: 2_500_000 }],
            stable: true,
        };
        let copied: copy::Res = call(&world.peer(node), Procedure::Copy, &args).await.unwrap();
        assert_eq!(copied.unwrap().verifier, 42u64.to_be_bytes());
        let copied = world.equal(6).unwrap();
        assert!(copied[..3] == *b"bef" && copied[3..] == data[10..2_500_010]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_listed_by_their_chain() {
    let world = World::of(2).await;
    for inode in [5, 6, 7, 300] {
        world.make(0, inode).await.unwrap();
    }
    let alone = ObjectHandle { chain: world.nodes[1].target, ..world.object(1, 8) }.seal(&key());
    let args = wire::data::make::Args { handles: vec![alone, world.at(1, 9)] };
    let made: wire::data::make::Res = call(&world.peer(1), Procedure::Make, &args).await.unwrap();
    made.unwrap();
    assert_eq!(list_of(&world, 1, CHAIN).await, [5, 6, 7, 9, 300]);
    assert_eq!(list_of(&world, 0, CHAIN).await, [5, 6, 7, 9, 300]);
    assert_eq!(list_of(&world, 1, 0).await, [5, 6, 7, 8, 9, 300]);
    assert_eq!(list_of(&world, 1, 99).await, [0; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_epoch_that_was_raised_through_any_member_holds_at_the_next_head() {
    let mut world = World::of(3).await;
    world.make(0, 5).await.unwrap();
    assert_eq!(world.stat(2, world.of_epoch(2, 5, 3)).await.unwrap().len, 0);
    for node in 0..3 {
        assert_eq!(world.write(node, 5, 0, &b"late"[..]).await, Err(Status::StaleEpoch), "member {node}");
        assert_eq!(world.truncate(node, world.of_epoch(node, 5, 2), 0).await, Err(Status::StaleEpoch));
    }
    world.change(&[Away, In, In]);
    world.nodes[0].kill();
    assert_eq!(world.write(1, 5, 0, &b"late"[..]).await, Err(Status::StaleEpoch));
    assert_eq!(world.write(2, 5, 0, &b"late"[..]).await, Err(Status::StaleEpoch));
    // A read with a later epoch raises it at all members, too.
    let args = wire::data::read::Args { handle: world.of_epoch(2, 5, 4), offset: 0, count: 1 };
    let read: wire::data::read::Res = call(&world.peer(2), Procedure::Read, &args).await.unwrap();
    assert!(read.is_ok());
    assert_eq!(world.stat(1, world.of_epoch(1, 5, 3)).await, Err(Status::StaleEpoch));
}
