//! Clients at a member that is being refilled: it passes their calls on to the head.

use wire::data::Status;
use wire::nfs4::{ArgOp, ResOp, StableHow, Status as NfsStatus, read, write};

use crate::client::Client;
use crate::{Away, In, Refilling, World};

fn read_args(offset: u64, count: u32) -> ArgOp {
    ArgOp::Read(read::Args { stateid: Default::default(), offset, count })
}

fn write_args(data: &'static [u8]) -> ArgOp {
    let data = bytes::Bytes::from_static(data).into();
    ArgOp::Write(write::Args { stateid: Default::default(), offset: 0, stable: StableHow::DataSync, data })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_reads_and_writes_at_a_member_that_is_refilled() {
    let mut world = World::of(2).await;
    world.make(0, 5).await.unwrap();
    world.write(0, 5, 0, &b"before"[..]).await.unwrap();
    world.change(&[In, Away]);
    world.write(0, 5, 0, &b"behind its back"[..]).await.unwrap();
    world.change(&[In, Refilling]);
    let mut client = Client::mount(&world.nodes[1], "client").await;
    let handle = world.of_client(1, 5);
    let ResOp::Read(Ok(read)) = client.on(&handle, read_args(0, 100)).await else { panic!() };
    // The end is a matter of the metaservers, which say that the file is empty.
    assert_eq!((read.data.to_bytes().as_ref(), read.eof), (&b"behind its back"[..], true));
    let ResOp::Write(Ok(written)) = client.on(&handle, write_args(b"BEHIND")).await else { panic!() };
    assert_eq!((written.count, written.committed), (6, StableHow::DataSync));
    assert_eq!(written.writeverf, 42u64.to_be_bytes());
    assert_eq!(world.bytes_at(0, 5).unwrap(), b"BEHIND its back");
    let of = |node: usize| {
        let ds = &world.nodes[node].ds;
        (ds.metrics().file_bytes_read.get(), ds.data_metrics().file_bytes_read.get())
    };
    assert_eq!((of(0), of(1)), ((0, 0), (15, 0)), "relayed bytes are not counted again");
    // Servers know which members are in.
    assert_eq!(world.read(1, 5, 0, 1).await, Err(Status::StaleChain));
    assert_eq!(world.write(1, 5, 0, &b"x"[..]).await.map(drop), Err(Status::StaleChain));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relayed_read_is_sent_again_to_the_next_head() {
    let mut world = World::of(3).await;
    world.make(0, 5).await.unwrap();
    world.write(0, 5, 0, &b"data"[..]).await.unwrap();
    world.change(&[In, In, Refilling]);
    world.nodes[0].kill();
    let mut client = Client::mount(&world.nodes[2], "client").await;
    let handle = world.of_client(2, 5);
    let reads = tokio::spawn(async move { (client.on(&handle, read_args(0, 4)).await, client, handle) });
    crate::until("it is tried", || world.nodes[2].ds.chain_metrics().relays.get() > 1).await;
    world.change(&[Away, In, Refilling]);
    let (answer, mut client, handle) = reads.await.unwrap();
    let ResOp::Read(Ok(read)) = answer else { panic!() };
    assert_eq!(read.data.to_bytes().as_ref(), b"data");
    // A process that has just started hears that its member is away before the member is taken back.
    world.change(&[Away, In, Away]);
    world.tell(2, &[Away, In, Away]);
    let waits = |world: &World| world.nodes[2].ds.chain_metrics().waiting.get() == 1;
    let reads = tokio::spawn(async move { (client.on(&handle, read_args(0, 4)).await, client, handle) });
    crate::until("it waits", || waits(&world)).await;
    world.change(&[Away, In, Refilling]);
    let (answer, mut client, handle) = reads.await.unwrap();
    assert_eq!(answer.status(), NfsStatus::Ok);
    // One that is no member any more has no head to ask.
    world.change(&[Away, In, Away]);
    world.drop_all(2);
    assert_eq!(client.on(&handle, read_args(0, 4)).await.status(), NfsStatus::PnfsNoLayout);
}
