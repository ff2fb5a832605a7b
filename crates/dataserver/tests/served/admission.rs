//! NFS at a data server is for clients of the exported networks; metaservers and other data servers prove
//! themselves instead.

use std::time::Duration;

use bytes::Bytes;
use wire::nfs4::{ArgOp, ResOp, Stateid, Status, read, write};

use crate::client::{Client, Raw};
use crate::{Served, export_to};

fn read_op() -> ArgOp {
    ArgOp::Read(read::Args { stateid: Stateid::default(), offset: 0, count: 4 })
}

fn write_op() -> ArgOp {
    let data = Bytes::from_static(b"data").into();
    ArgOp::Write(write::Args {
        stateid: Stateid::default(),
        offset: 0,
        stable: wire::nfs4::StableHow::Unstable,
        data,
    })
}

/// ```text
/// 127/8 exported   -> a client mounts and writes
/// 10/8 only        -> its session is there, its handles are stale; a new client is refused; a metaserver is not
/// a lease later    -> its session has ended
/// 127/8 again      -> it mounts and reads
/// ```
#[tokio::test]
async fn a_client_that_nothing_is_exported_to_any_more_reaches_no_object() {
    let served = Served::start().await;
    let mut client = Client::mount(&served, "a").await;
    let handle = served.made(1).await;
    assert_eq!(client.on(&handle, write_op()).await.status(), Status::Ok);
    assert_eq!(served.ds.metrics().refused_clients.get(), 0);

    export_to(&served.ds, 2, &["10.0.0.0/8"]);
    for op in [read_op(), write_op()] {
        assert_eq!(client.on(&handle, op).await.status(), Status::Stale);
    }
    let mut stranger = Raw::connect(&served).await;
    assert_eq!(stranger.exchange_id("b", 1, 0).await.unwrap_err(), Status::Perm);
    assert_eq!(served.ds.metrics().refused_clients.get(), 3);
    served.made(2).await;

    // What it waited for has been answered; only then the session ends.
    served.ds.end_sessions_not_admitted();
    assert!(client.run(vec![]).await.is_ok());
    served.clock.advance(Duration::from_secs(60));
    served.ds.end_sessions_not_admitted();
    assert_eq!(client.run(vec![]).await.unwrap_err(), Status::BadSession);

    export_to(&served.ds, 3, &["127.0.0.1"]);
    let mut client = Client::mount(&served, "a").await;
    match client.on(&handle, read_op()).await {
        ResOp::Read(Ok(read)) => assert_eq!(read.data.to_bytes(), &b"data"[..]),
        other => panic!("{other:?}"),
    }
    // One that is admitted in time keeps its session.
    export_to(&served.ds, 4, &[]);
    served.ds.end_sessions_not_admitted();
    export_to(&served.ds, 5, &["127.0.0.0/8"]);
    served.ds.end_sessions_not_admitted();
    served.clock.advance(Duration::from_secs(60));
    served.ds.end_sessions_not_admitted();
    assert!(client.run(vec![]).await.is_ok());
}

#[tokio::test]
async fn a_data_server_that_starts_while_no_metaserver_answers_admits_the_same_clients_as_before() {
    let served = Served::start().await;
    let handle = served.made(1).await;
    let served = served.restart().await;
    let mut client = Client::mount(&served, "a").await;
    assert_eq!(client.on(&handle, write_op()).await.status(), Status::Ok);
    export_to(&served.ds, 2, &["10.0.0.0/8"]);
    served.ds.client_networks().write_down().unwrap();
    let served = served.restart().await;
    let mut stranger = Raw::connect(&served).await;
    assert_eq!(stranger.exchange_id("a", 1, 0).await.unwrap_err(), Status::Perm);
}

/// A client that mounts in the second in which its network is exported is not refused.
#[tokio::test]
async fn a_new_client_waits_until_its_network_is_told() {
    let served = Served::start().await;
    export_to(&served.ds, 2, &[]);
    let mut client = Raw::connect(&served).await;
    let told = async {
        tokio::task::yield_now().await;
        export_to(&served.ds, 3, &["127.0.0.0/8"]);
    };
    let (answer, ()) = tokio::join!(client.exchange_id("a", 1, 0), told);
    assert!(answer.is_ok(), "{answer:?}");
}

/// 50 connections with 100 calls each: more than wait for a heartbeat at one time.
#[tokio::test]
async fn strangers_that_wait_hold_up_no_client_and_no_metaserver() {
    let served = Served::start().await;
    export_to(&served.ds, 2, &["127.0.0.1"]);
    let mut client = Client::mount(&served, "good").await;
    let mut strangers = Vec::new();
    for _ in 0..50 {
        let mut stranger = Raw::connect_from(&served, [127, 0, 0, 2]).await;
        for _ in 0..100 {
            stranger.send_exchange_id("stranger").await;
        }
        strangers.push(stranger);
    }
    let handle = served.made(1).await;
    assert_eq!(client.on(&handle, write_op()).await.status(), Status::Ok);
    Client::mount(&served, "another").await;
    for mut stranger in strangers {
        for _ in 0..100 {
            assert_eq!(stranger.next_status().await, Status::Perm);
        }
    }
    assert_eq!(served.ds.metrics().refused_clients.get(), 5000);
}
