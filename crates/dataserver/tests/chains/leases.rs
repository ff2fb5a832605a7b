//! Leases: without one nothing is served.

use std::time::Duration;

use host::Clock;
use wire::data::Status;
use wire::nfs4::{ArgOp, ResOp, Status as NfsStatus, read};

use crate::client::Client;
use crate::{In, LEASE, World};

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_served_without_a_lease() {
    let world = World::of(2).await;
    world.make(0, 5).await.unwrap();
    world.write(0, 5, 0, &b"abc"[..]).await.unwrap();
    world.advance(LEASE);
    for node in 0..2 {
        assert_eq!(world.read(node, 5, 0, 3).await, Err(Status::ChainWaits));
        assert_eq!(world.write(node, 5, 0, &b"x"[..]).await, Err(Status::ChainWaits));
        assert_eq!(world.stat(node, world.at(node, 5)).await, Err(Status::ChainWaits));
    }
    let mut client = Client::mount(&world.nodes[1], "client").await;
    let args = read::Args { stateid: Default::default(), offset: 0, count: 3 };
    let refused = client.on(&world.of_client(1, 5), ArgOp::Read(args)).await;
    assert_eq!(refused.status(), NfsStatus::PnfsNoLayout);
    // It counts from when it was asked for.
    let asked = world.nodes[1].clock.monotonic();
    world.advance(Duration::from_secs(2));
    world.nodes[1].ds.extend_lease(asked, Duration::from_secs(2));
    assert_eq!(world.read(1, 5, 0, 3).await, Err(Status::ChainWaits));
    world.nodes[1].ds.extend_lease(asked, Duration::from_secs(3));
    assert_eq!(world.read(1, 5, 0, 3).await.unwrap(), &b"abc"[..]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_is_held_until_the_lease_comes() {
    let world = World::of(2).await;
    world.make(0, 5).await.unwrap();
    world.write(0, 5, 0, &b"abc"[..]).await.unwrap();
    world.advance(LEASE);
    let mut client = Client::mount(&world.nodes[1], "client").await;
    let handle = world.of_client(1, 5);
    let args = read::Args { stateid: Default::default(), offset: 0, count: 3 };
    let held = tokio::spawn(async move { client.on(&handle, ArgOp::Read(args)).await });
    crate::until("it waits", || world.nodes[1].ds.chain_metrics().waiting.get() == 1).await;
    assert!(!held.is_finished());
    world.tell(1, &[In, In]);
    let ResOp::Read(Ok(read)) = held.await.unwrap() else { panic!() };
    assert_eq!(read.data.to_bytes(), &b"abc"[..]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_has_started_again_serves_nothing_until_it_is_told_its_chains() {
    let mut world = World::of(1).await;
    world.make(0, 5).await.unwrap();
    world.write(0, 5, 0, &b"abc"[..]).await.unwrap();
    let process = world.nodes[0].ds.process();
    world.restart(0).await;
    assert_ne!(world.nodes[0].ds.process(), process);
    assert_eq!(world.nodes[0].ds.chains_of_map(), 0);
    assert_eq!(world.read(0, 5, 0, 3).await, Err(Status::ChainWaits));
    world.tell(0, &[In]);
    assert_eq!(world.nodes[0].ds.chains_of_map(), 1);
    assert_eq!(world.read(0, 5, 0, 3).await.unwrap(), &b"abc"[..]);
}
