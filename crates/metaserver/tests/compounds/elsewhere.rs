//! What a client did at one metaserver, and what another one knows of it.

use std::time::Duration;

use bytes::Bytes;
use cluster::Rules;
use wire::nfs3;
use wire::nfs4::open::{CreateHow, Delegation, OpenHow};
use wire::nfs4::sequence::RECALLABLE_STATE_REVOKED;
use wire::nfs4::{ArgOp, Fattr, ResOp, Status, close, free_stateid};
use wire::xdr::Payload;

use crate::drc::{self, at, call, root};
use crate::lock_waiters::{says, unlock, waiting};
use crate::raw::{Client, Raw, null, putfh};
use crate::three::Three;
use crate::world::LEASE;

const READ: u32 = 1;
const BOTH: u32 = 3;

/// Over NFSv3 nothing tells an old write from a new one.
///
/// ```text
/// ash write "old", at a metaserver that hears nobody       (it gives up, and asks another one)
/// ash write "new", there                                   -> ok
/// elm read, when the first hears the others again          -> "new"
/// ```
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_waited_until_its_client_was_gone_is_not_carried_out() {
    let three = Three::start(Rules::OPEN).await;
    let (leader, other) = three.leader_and_follower();
    let mut there = Raw::connect(&three.worlds[leader]).await;
    let root = root(&mut there).await;
    let how = nfs3::create::CreateHow::Guarded(nfs3::SetAttr::default());
    let args = nfs3::create::Args { at: at(&root, "f"), how };
    let made: nfs3::create::Res = call(&mut there, nfs3::Procedure::Create, &args).await;
    let file = made.expect("makes").obj.expect("a handle");
    let write = |data: &'static [u8]| nfs3::write::Args {
        file: file.clone(),
        offset: 0,
        count: data.len() as u32,
        stable: nfs3::StableHow::FileSync,
        data: Payload::from(Bytes::from_static(data)),
    };
    let mut here = Raw::connect(&three.worlds[other]).await;
    drc::root(&mut here).await;
    let ends = || three.worlds[other].server.connections().ends().len();
    let others = ends() - 1;
    three.hold(other);
    let first: nfs3::write::Res = call(&mut there, nfs3::Procedure::Write, &write(b"---")).await;
    first.expect("writes");
    here.send((nfs3::PROGRAM, nfs3::VERSION), nfs3::Procedure::Write as u32, &write(b"old")).await;
    drop(here);
    three.worlds[other].until("it has noticed", || ends() == others).await;
    let second: nfs3::write::Res = call(&mut there, nfs3::Procedure::Write, &write(b"new")).await;
    second.expect("writes");
    three.clock.advance(Duration::from_secs(1));
    three.let_go();
    let mut elm = Raw::connect(&three.worlds[other]).await;
    for _ in 0..20 {
        let args = nfs3::read::Args { file: file.clone(), offset: 0, count: 3 };
        let read: nfs3::read::Res = call(&mut elm, nfs3::Procedure::Read, &args).await;
        assert_eq!(read.expect("reads").data.to_bytes(), &b"new"[..]);
    }
}

/// ```text
/// ash open /f to read, at one metaserver                   -> a delegation
/// elm open /f to write, at another, until a lease is over  -> ok
/// ash at both                                              -> state was revoked
/// ash frees it at one                                      -> at both nothing is revoked
/// ```
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delegation_that_is_acknowledged_at_one_metaserver_is_at_all() {
    let three = Three::start(Rules::OPEN).await;
    let (first, second) = three.leader_and_follower();
    let mut elm = Client::mount(&three.worlds[first], "elm").await;
    let (file, open) = elm.open("f", BOTH, 0).await.expect("opens");
    elm.ok(vec![putfh(&file), ArgOp::Close(close::Args { seqid: 0, open_stateid: open })]).await;
    let mut ash = Client::mount(&three.worlds[second], "ash").await;
    let opened = ash.ok(vec![ArgOp::PutRootFh, ash.open_op("reader", "f", READ, 0)]).await;
    let ResOp::Open(Ok(opened)) = &opened[1] else { panic!("{opened:?}") };
    let Delegation::Read(held) = &opened.delegation else { panic!("{:?}", opened.delegation) };
    assert_eq!(elm.open("f", BOTH, 0).await, Err(Status::Delay));
    for _ in 0..3 {
        three.clock.advance(LEASE / 2);
        assert_eq!(ash.flags().await & RECALLABLE_STATE_REVOKED, 0);
        elm.flags().await;
    }
    elm.open("f", BOTH, 0).await.expect("ash has had its time");
    for world in [first, second] {
        ash.reconnect(&three.worlds[world]).await;
        assert_ne!(ash.flags().await & RECALLABLE_STATE_REVOKED, 0);
    }
    ash.ok(vec![ArgOp::FreeStateid(free_stateid::Args { stateid: held.stateid })]).await;
    for world in [second, first] {
        ash.reconnect(&three.worlds[world]).await;
        // The other one hears of it with the log.
        let heard = async { while ash.flags().await & RECALLABLE_STATE_REVOKED != 0 {} };
        tokio::time::timeout(Duration::from_secs(10), heard).await.expect("it is acknowledged here, too");
    }
}

/// ```text
/// oak lock 0..10                              -> ok
/// elm lock 0..10, waits, at one metaserver    -> delay
/// oak unlock                                  elm is told that it may ask
/// ash lock 0..10, at another metaserver       -> ok, but the answer is lost
/// ash the same again, where elm's turn is     -> ok
/// ```
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_was_granted_is_granted_when_it_is_asked_again_in_anothers_turn() {
    let three = Three::start(Rules::OPEN).await;
    let (first, second) = three.leader_and_follower();
    let mut oak = Client::mount(&three.worlds[first], "oak").await;
    let mut ash = Client::mount(&three.worlds[first], "ash").await;
    let mut elm = Client::mount(&three.worlds[second], "elm").await;
    let (file, open) = oak.open("f", BOTH, 0).await.expect("opens");
    let results = oak.ok(vec![putfh(&file), oak.lock_op("l", open, 0, 10)]).await;
    let ResOp::Lock(Ok(locked)) = &results[1] else { panic!("{results:?}") };
    let (_, open) = elm.open("f", BOTH, 0).await.expect("opens");
    assert_eq!(elm.status(vec![putfh(&file), waiting(elm.lock_op("l", open, 0, 10))]).await, Status::Delay);
    let (_, open) = ash.open("f", BOTH, 0).await.expect("opens");
    let lock = vec![putfh(&file), waiting(ash.lock_op("l", open, 0, 10))];
    ash.sequence += 1;

    oak.ok(vec![putfh(&file), unlock(locked.lock_stateid)]).await;
    elm.raw.called_back(|call| says(call, Status::Ok)).await;
    let granted = ash.at(0, ash.sequence, lock.clone()).await;
    assert_eq!(granted.status, Status::Ok);
    ash.reconnect(&three.worlds[second]).await;
    let again = ash.at(0, ash.sequence, lock).await;
    assert_eq!(again.ops[1..], granted.ops[1..], "but for the flags of SEQUENCE");
}

/// An open that was made is told, or its client would not know that it has it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_truncated_as_it_is_opened_is_open_while_its_data_server_is_away() {
    let three = Three::start(Rules::OPEN).await;
    let mut ash = Client::mount(&three.worlds[0], "ash").await;
    let (file, open) = ash.open("f", BOTH, 0).await.expect("opens");
    crate::ranges::grow(&mut ash, &file, open, 100_000).await;
    let how = OpenHow::Create(CreateHow::Unchecked(Box::new(Fattr { size: Some(0), ..Fattr::default() })));
    let opened = ash.ok(vec![ArgOp::PutRootFh, ash.open_how("another", BOTH, 0, how, null("f"))]).await;
    let ResOp::Open(Ok(opened)) = &opened[1] else { panic!("{opened:?}") };
    assert_eq!(opened.stateid.seqid, 1);
    let write = wire::nfs4::write::Args {
        stateid: opened.stateid,
        offset: 0,
        stable: wire::nfs4::StableHow::FileSync,
        data: Payload::from(Bytes::from_static(b"new")),
    };
    assert_eq!(
        ash.status(vec![putfh(&file), ArgOp::Write(write)]).await,
        Status::Delay,
        "it is not truncated yet"
    );
}
