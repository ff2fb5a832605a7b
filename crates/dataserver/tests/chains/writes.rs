//! Writes without failures.

use wire::data::{Procedure, Status, commit};
use wire::nfs4::{ArgOp, ResOp, StableHow, write};

use crate::client::Client;
use crate::{In, World, call};

#[tokio::test(flavor = "multi_thread")]
async fn a_write_through_any_member_is_on_all() {
    let world = World::of(3).await;
    world.make(1, 5).await.unwrap();
    for (node, text) in [b"head", b"next", b"tail"].into_iter().enumerate() {
        let written = world.write(node, 5, node as u64 * 4, &text[..]).await.unwrap();
        assert_eq!((written.count, written.verifier), (4, 42u64.to_be_bytes()), "the chain's verifier");
        assert_eq!(world.equal(5).unwrap().len(), 4 * (node + 1));
    }
    assert_eq!(world.equal(5).unwrap(), b"headnexttail");
    for node in 0..3 {
        assert_eq!(world.read(node, 5, 2, 100).await.unwrap(), &b"adnexttail"[..]);
        let committed = world.commit(node, world.at(node, 5)).await.unwrap();
        assert_eq!(committed.verifier, 42u64.to_be_bytes());
    }
    assert_eq!(world.nodes[0].ds.chain_metrics().relays.get(), 0);
    assert_eq!(world.nodes[2].ds.chain_metrics().relays.get(), 2, "its write and its COMMIT");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_writes_and_commits_at_any_member() {
    let world = World::of(2).await;
    world.make(0, 5).await.unwrap();
    for (node, owner) in ["one", "other"].into_iter().enumerate() {
        let mut client = Client::mount(&world.nodes[node], owner).await;
        let handle = world.of_client(node, 5);
        let args = write::Args {
            stateid: Default::default(),
            offset: 3 * node as u64,
            stable: StableHow::Unstable,
            data: bytes::Bytes::from_static(b"abc").into(),
        };
        let ResOp::Write(Ok(written)) = client.on(&handle, ArgOp::Write(args.clone())).await else {
            panic!()
        };
        assert_eq!((written.committed, written.writeverf), (StableHow::Unstable, 42u64.to_be_bytes()));
        let stable = write::Args { stable: StableHow::FileSync, ..args };
        let ResOp::Write(Ok(written)) = client.on(&handle, ArgOp::Write(stable)).await else { panic!() };
        assert_eq!(written.committed, StableHow::DataSync);
    }
    assert_eq!(world.equal(5).unwrap(), b"abcabc");
    assert_eq!(world.nodes[0].ds.metrics().file_bytes_written.get(), 6);
    assert_eq!(
        world.nodes[0].ds.data_metrics().file_bytes_written.get(),
        0,
        "relayed bytes are not counted again"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn overlapping_writes_through_different_members_leave_equal_members() {
    let world = World::of(3).await;
    world.make(0, 5).await.unwrap();
    let mut writes = Vec::new();
    for n in 0..60u64 {
        let data = vec![n as u8; 50_000];
        writes.push(world.begin_write(n as usize % 3, 5, n % 7 * 10_000, data));
    }
    for write in writes {
        write.await.unwrap().unwrap();
    }
    assert_eq!(world.equal(5).unwrap().len(), 110_000);
    let waiting: i64 = world.nodes.iter().map(|node| node.ds.chain_metrics().waiting.get()).sum();
    assert_eq!(waiting, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_makes_no_object() {
    let world = World::of(2).await;
    for node in 0..2 {
        assert_eq!(world.write(node, 5, 0, &b"x"[..]).await, Err(Status::ObjectLost));
    }
    assert_eq!(world.equal(5), None);
    world.make(1, 5).await.unwrap();
    world.make(0, 5).await.unwrap();
    assert_eq!(world.equal(5).unwrap(), b"");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_of_one_member_left_needs_no_other() {
    let mut world = World::of(2).await;
    world.make(0, 5).await.unwrap();
    world.change(&[crate::Away, In]);
    world.nodes[0].kill();
    world.write(1, 5, 0, &b"alone"[..]).await.unwrap();
    let handle = world.at(1, 5);
    let committed: commit::Res =
        call(&world.peer(1), Procedure::Commit, &commit::Args { handle }).await.unwrap();
    assert!(committed.is_ok());
    assert_eq!(world.bytes_at(1, 5).unwrap(), b"alone");
}

/// A COMMIT that is sent again, after a connection broke or a version changed, may come after a later epoch.
#[tokio::test(flavor = "multi_thread")]
async fn a_forwarded_commit_of_an_earlier_epoch_is_done() {
    let world = World::of(2).await;
    world.make(0, 5).await.unwrap();
    world.write(0, 5, 0, &b"x"[..]).await.unwrap();
    let raised = world.stat(0, world.of_epoch(0, 5, 3)).await;
    assert!(raised.is_ok());
    let forwarded = wire::handle::ObjectHandle { epoch: 2, chain_version: 1, ..world.object(1, 5) };
    assert_eq!(world.commit(1, forwarded.seal(&crate::key())).await.map(drop), Ok(()));
    assert_eq!(
        world.commit(1, world.of_epoch(1, 5, 2)).await.map(drop),
        Err(Status::StaleEpoch),
        "of a caller"
    );
}
