//! NFS for clients with a layout.

use std::time::Duration;

use bytes::Bytes;
use wire::handle::{FileHandle, HandleKey, Holder, ObjectHandle};
use wire::nfs4::{
    ArgOp, OpNum, ResOp, StableHow, Stateid, Status, bind_conn_to_session, commit, create_session,
    destroy_clientid, destroy_session, exchange_id, putfh, read, reclaim_complete, sequence, write,
};

use crate::Served;
use crate::client::{Client, Raw};

fn write_op(offset: u64, stable: StableHow, data: impl Into<Bytes>) -> ArgOp {
    ArgOp::Write(write::Args { stateid: Stateid::default(), offset, stable, data: data.into().into() })
}

fn putfh_op(handle: &Bytes) -> ArgOp {
    ArgOp::PutFh(putfh::Args { object: handle.clone().into() })
}

async fn put(client: &mut Client, handle: &Bytes, offset: u64, data: impl Into<Bytes>) -> write::ResOk {
    match client.on(handle, write_op(offset, StableHow::Unstable, data)).await {
        ResOp::Write(Ok(res)) => res,
        other => panic!("{other:?}"),
    }
}

pub async fn get(
    client: &mut Client,
    handle: &Bytes,
    offset: u64,
    count: u32,
) -> Result<(Bytes, bool), Status> {
    let args = read::Args { stateid: Stateid::default(), offset, count };
    match client.on(handle, ArgOp::Read(args)).await {
        ResOp::Read(res) => res.map(|r| (r.data.to_bytes(), r.eof)),
        other => Err(other.status()),
    }
}

async fn sync(client: &mut Client, handle: &Bytes) -> commit::ResOk {
    match client.on(handle, ArgOp::Commit(commit::Args { offset: 0, count: 0 })).await {
        ResOp::Commit(Ok(res)) => res,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_client_writes_commits_and_reads() {
    let served = Served::start().await;
    let mut client = Client::mount(&served, "a").await;
    let handle = served.made(1).await;
    let block: Bytes = (0..1_000_000u32).map(|i| (i % 251) as u8).collect();
    let written = put(&mut client, &handle, 0, block.clone()).await;
    assert_eq!((written.count, written.committed), (1_000_000, StableHow::Unstable));
    assert_eq!(sync(&mut client, &handle).await.writeverf, written.writeverf);
    let (data, eof) = get(&mut client, &handle, 0, 1_000_000).await.unwrap();
    assert!(data == block, "what was written");
    assert!(!eof, "a whole read says nothing of the end");
    assert_eq!(served.told.asked(), 0, "and asks nobody");
    assert_eq!(served.ds.metrics().file_bytes_written.get(), 1_000_000);
    assert_eq!(served.ds.metrics().file_bytes_read.get(), 1_000_000);
}

#[tokio::test]
async fn the_handle_of_a_layout_to_read_is_not_written_with() {
    let served = Served::start().await;
    let mut client = Client::mount(&served, "a").await;
    let handle = served.made(7).await;
    put(&mut client, &handle, 0, &b"data"[..]).await;
    let to_read = served.object(7).seal_for(Holder::Reader, &crate::key());
    assert_eq!(get(&mut client, &to_read, 0, 4).await.unwrap().0, &b"data"[..]);
    let refused = client.on(&to_read, write_op(0, StableHow::Unstable, &b"more"[..])).await;
    assert_eq!(refused.status(), Status::Access);
    assert_eq!(get(&mut client, &handle, 0, 4).await.unwrap().0, &b"data"[..]);
}

#[tokio::test]
async fn a_stable_write_is_durable_but_leaves_the_size_to_layoutcommit() {
    let served = Served::start().await;
    let mut client = Client::mount(&served, "a").await;
    let handle = served.made(1).await;
    for stable in [StableHow::DataSync, StableHow::FileSync] {
        match client.on(&handle, write_op(0, stable, "abc")).await {
            ResOp::Write(Ok(res)) => assert_eq!(res.committed, StableHow::DataSync),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_hole_at_the_end_of_an_object_reads_as_zeros() {
    let served = Served::start().await;
    let mut client = Client::mount(&served, "a").await;
    let handle = served.made(1).await;
    put(&mut client, &handle, 0, "abcd").await;

    served.told.set(Some(10));
    let expect = |data: &'static [u8], eof| Ok((Bytes::from_static(data), eof));
    assert_eq!(get(&mut client, &handle, 2, 4).await, expect(b"cd\0\0", false));
    assert_eq!(get(&mut client, &handle, 2, 20).await, expect(b"cd\0\0\0\0\0\0", true));
    assert_eq!(get(&mut client, &handle, 6, 4).await, expect(b"\0\0\0\0", false));
    assert_eq!(get(&mut client, &handle, 10, 4).await, expect(b"", true));
    assert_eq!(get(&mut client, &handle, u64::MAX, 4).await, expect(b"", true));
    let empty = served.made(2).await;
    let (zeros, eof) = get(&mut client, &empty, 0, 5).await.unwrap();
    assert_eq!((&zeros[..], eof), (&[0; 5][..], false), "an object without data is all hole");
    let lost = get(&mut client, &served.handle(3), 0, 5).await;
    assert_eq!(
        lost,
        Err(Status::PnfsNoLayout),
        "and one that is not there is none: a metaserver is to be asked"
    );
    let write = client.on(&served.handle(3), write_op(0, StableHow::Unstable, "x")).await;
    assert_eq!(write.status(), Status::PnfsNoLayout);

    served.told.set(Some(1));
    assert_eq!(get(&mut client, &handle, 2, 20).await, expect(b"cd", true), "not reported yet, but written");
    served.told.set(None);
    assert_eq!(get(&mut client, &handle, 0, 4).await, expect(b"abcd", false));
    assert_eq!(get(&mut client, &handle, 2, 20).await, Err(Status::PnfsNoLayout));

    served.told.set(Some(3 << 20));
    let (zeros, eof) = get(&mut client, &empty, 0, 1 << 20).await.unwrap();
    assert!(zeros.len() == 1 << 20 && zeros.iter().all(|b| *b == 0) && !eof);
}

#[tokio::test]
async fn offsets_are_in_the_file_and_only_those_of_the_column_are_here() {
    let served = Served::start().await;
    let mut client = Client::mount(&served, "a").await;
    let object = ObjectHandle { unit: 10, columns: 3, column: 1, ..served.object(1) };
    let handle = object.seal_for(Holder::Writer, &crate::key());
    let peer = crate::data::peer(&served, crate::peer_key());
    assert_eq!(crate::data::make(&peer, &[object.seal(&crate::key())]).await, Ok(()));
    put(&mut client, &handle, 10, "0123456789").await;
    put(&mut client, &handle, 42, "ab").await;
    served.told.set(Some(14));
    let expect = |data: &'static [u8], eof| Ok((Bytes::from_static(data), eof));
    assert_eq!(get(&mut client, &handle, 12, 3).await, expect(b"234", false));
    assert_eq!(get(&mut client, &handle, 12, 30).await, expect(b"23456789", false), "up to the next column");
    assert_eq!(get(&mut client, &handle, 40, 10).await, expect(b"\0\0ab", true), "the file ends here");
    assert_eq!(get(&mut client, &handle, 70, 10).await, expect(b"", true));
    for elsewhere in [0, 9, 20, 39, 50] {
        assert_eq!(get(&mut client, &handle, elsewhere, 1).await, Err(Status::PnfsIoHole), "{elsewhere}");
    }
    for (offset, data) in [(9, "x"), (20, "x"), (15, "123456")] {
        match client.on(&handle, write_op(offset, StableHow::Unstable, data)).await {
            ResOp::Write(Err(Status::PnfsIoHole)) => {}
            other => panic!("{offset}: {other:?}"),
        }
    }
    assert_eq!(served.ds.space()[0].objects, 1);
}

#[tokio::test]
async fn a_repeated_write_is_answered_and_not_done_again() {
    let served = Served::start().await;
    let mut client = Client::mount(&served, "a").await;
    let handle = served.made(1).await;
    let ops = vec![putfh_op(&handle), write_op(0, StableHow::Unstable, "first")];
    let first = client.at(1, 1, ops.clone()).await;
    assert_eq!(first.status, Status::Ok);
    put(&mut client, &handle, 0, "later").await;
    assert_eq!(client.at(1, 1, ops.clone()).await, first);
    assert_eq!(get(&mut client, &handle, 0, 5).await, Ok((Bytes::from_static(b"later"), false)));
    assert_eq!(client.at(1, 4, ops.clone()).await.status, Status::SeqMisordered);
    assert_eq!(client.at(99, 1, ops).await.status, Status::BadSlot);
}

#[tokio::test]
async fn only_handles_of_objects_here_are_taken() {
    let served = Served::start().await;
    let mut client = Client::mount(&served, "a").await;
    let file = FileHandle { volume: 1, inode: 1, generation: 1 };
    let elsewhere = ObjectHandle { target: 1, ..served.object(1) };
    for (handle, status) in [
        (served.object(1).seal(&HandleKey::new([8; 32])), Status::BadHandle),
        (Bytes::new(), Status::BadHandle),
        (Bytes::from_static(&[1; 128]), Status::BadHandle),
        (file.seal(&crate::key()), Status::Stale),
        (elsewhere.seal_for(Holder::Writer, &crate::key()), Status::Stale),
        (served.server_handle(1), Status::BadHandle),
    ] {
        assert_eq!(get(&mut client, &handle, 0, 1).await, Err(status), "{handle:?}");
    }
    let results = client.run(vec![write_op(0, StableHow::Unstable, "x")]).await.unwrap();
    assert_eq!(results[0].status(), Status::NoFileHandle);
    assert_eq!(served.ds.space()[0].objects, 0);
}

#[tokio::test]
async fn a_removed_object_is_stale() {
    let served = Served::start().await;
    let mut client = Client::mount(&served, "a").await;
    let handle = served.made(1).await;
    put(&mut client, &handle, 0, "abc").await;
    let peer = nfs::Peer::new(
        served.server.address(),
        (wire::data::PROGRAM, wire::data::VERSION),
        crate::peer_key(),
        std::sync::Arc::new(host::SystemEntropy),
    );
    let args = wire::data::remove::Args {
        handles: vec![served.server_handle(1)],
        only: wire::data::remove::Only::All,
    };
    let removed: wire::data::remove::Res =
        peer.call(wire::data::Procedure::Remove as u32, &args, Duration::from_secs(10)).await.unwrap();
    assert_eq!(removed, Ok(()));
    let late = client.on(&handle, write_op(0, StableHow::Unstable, "late")).await;
    assert_eq!(late.status(), Status::Stale);
    assert_eq!(get(&mut client, &handle, 0, 3).await, Err(Status::Stale));
}

#[tokio::test]
async fn a_data_server_says_what_it_is_and_nothing_else() {
    let served = Served::start().await;
    let mut raw = Raw::connect(&served).await;
    let role = exchange_id::USE_PNFS_MDS | exchange_id::USE_PNFS_DS;
    let new = raw.exchange_id("a", 1, role).await.unwrap();
    assert_eq!(new.flags, exchange_id::USE_PNFS_DS);
    let name = format!("heorot-ds-{:016x}", served.ds.id());
    assert_eq!(&new.server_owner.major_id[..], name.as_bytes());
    assert_eq!(&new.server_scope[..], name.as_bytes());
    let created = raw.create_session(new.clientid, new.sequenceid).await.unwrap();
    assert_eq!((created.flags, created.fore_chan_attrs.max_requests), (0, 64));
    assert!(created.fore_chan_attrs.max_operations >= 8, "Linux gives up otherwise");
    let again = raw.exchange_id("a", 1, role).await.unwrap();
    assert_eq!(again.clientid, new.clientid);
    assert_eq!(again.flags, exchange_id::USE_PNFS_DS | exchange_id::CONFIRMED_R);
    assert_eq!(raw.exchange_id("a", 1, exchange_id::CONFIRMED_R).await, Err(Status::Inval));
    assert_eq!(raw.exchange_id("b", 1, exchange_id::UPD_CONFIRMED_REC_A).await, Err(Status::NoEnt));
    assert_eq!(raw.exchange_id("a", 2, exchange_id::UPD_CONFIRMED_REC_A).await, Err(Status::NotSame));

    let mut client = Client::mount(&served, "c").await;
    let ok =
        client.run(vec![ArgOp::ReclaimComplete(reclaim_complete::Args { one_fs: false })]).await.unwrap();
    assert_eq!(ok[0].status(), Status::Ok);
    let refused = client.run(vec![ArgOp::Illegal(2)]).await.unwrap();
    assert_eq!(refused[0], ResOp::Illegal);
    let refused = client.run(vec![ArgOp::Unsupported(OpNum::GetDeviceList as u32)]).await.unwrap();
    assert_eq!(refused[0].status(), Status::NotSupp);
}

#[tokio::test]
async fn sessions_are_made_once_and_end_with_their_client() {
    let served = Served::start().await;
    let mut raw = Raw::connect(&served).await;
    let id = raw.exchange_id("a", 1, 0).await.unwrap();
    assert_eq!(raw.create_session(id.clientid, id.sequenceid + 1).await, Err(Status::SeqMisordered));
    let first = raw.create_session(id.clientid, id.sequenceid).await.unwrap();
    assert_eq!(raw.create_session(id.clientid, id.sequenceid).await, Ok(first), "a repetition");
    let second = raw.create_session(id.clientid, id.sequenceid + 1).await.unwrap();
    assert_ne!(second.sessionid, first.sessionid);

    let bind = bind_conn_to_session::Args {
        sessid: first.sessionid,
        dir: bind_conn_to_session::DirFromClient::ForeOrBoth,
        use_conn_in_rdma_mode: false,
    };
    assert_eq!(raw.alone(ArgOp::BindConnToSession(bind)).await.status(), Status::Ok);

    let goodbye = ArgOp::DestroyClientid(destroy_clientid::Args { clientid: id.clientid });
    assert_eq!(raw.alone(goodbye.clone()).await.status(), Status::ClientidBusy);
    for sessionid in [first.sessionid, second.sessionid] {
        let op = ArgOp::DestroySession(destroy_session::Args { sessionid });
        assert_eq!(raw.alone(op.clone()).await.status(), Status::Ok);
        assert_eq!(raw.alone(op).await.status(), Status::BadSession);
    }
    assert_eq!(raw.alone(ArgOp::BindConnToSession(bind)).await.status(), Status::BadSession);
    assert_eq!(raw.alone(goodbye.clone()).await.status(), Status::Ok);
    assert_eq!(raw.alone(goodbye).await.status(), Status::StaleClientid);
}

#[tokio::test]
async fn a_session_is_made_within_another_one_but_not_bound() {
    let served = Served::start().await;
    let mut client = Client::mount(&served, "a").await;
    let id = client.raw.exchange_id("b", 1, 0).await.unwrap();
    let attrs = create_session::ChannelAttrs {
        max_request_size: 512,
        max_response_size: 8192,
        max_response_size_cached: 10,
        max_operations: 8,
        max_requests: 8,
        ..create_session::ChannelAttrs::default()
    };
    let make = create_session::Args {
        clientid: id.clientid,
        sequence: id.sequenceid,
        flags: 0,
        fore_chan_attrs: attrs,
        back_chan_attrs: attrs,
        cb_program: 0,
        sec_parms: Vec::new(),
    };
    let made = client.run(vec![ArgOp::CreateSession(make)]).await.unwrap().remove(0);
    let ResOp::CreateSession(Ok(made)) = made else { panic!("{made:?}") };
    let bind = bind_conn_to_session::Args {
        sessid: made.sessionid,
        dir: bind_conn_to_session::DirFromClient::Fore,
        use_conn_in_rdma_mode: false,
    };
    let bound = client.run(vec![ArgOp::BindConnToSession(bind)]).await.unwrap().remove(0);
    assert_eq!(bound.status(), Status::NotOnlyOp);

    // What the new session has no room for is refused at SEQUENCE, which leaves the slot as it was.
    let sequence = |cachethis| {
        let (sessionid, sequenceid, slotid, highest_slotid) = (made.sessionid, 1, 0, 0);
        ArgOp::Sequence(sequence::Args { sessionid, sequenceid, slotid, highest_slotid, cachethis })
    };
    let long = putfh_op(&Bytes::from_static(&[0; 100]));
    let raw = &mut client.raw;
    assert_eq!(raw.compound(vec![sequence(true)]).await.status, Status::RepTooBigToCache);
    let too_long = [vec![sequence(false)], vec![long; 5]].concat();
    assert_eq!(raw.compound(too_long).await.status, Status::ReqTooBig);
    assert_eq!(raw.compound(vec![sequence(false)]).await.status, Status::Ok);

    let end = ArgOp::DestroySession(destroy_session::Args { sessionid: client.session });
    let results = client.run(vec![end.clone(), end.clone()]).await.unwrap();
    assert_eq!(results.iter().map(ResOp::status).collect::<Vec<_>>(), [Status::NotOnlyOp]);
    assert_eq!(client.run(vec![end]).await.unwrap()[0].status(), Status::Ok);
}

#[tokio::test]
async fn a_client_that_restarted_loses_its_old_sessions_when_it_confirms() {
    let served = Served::start().await;
    let mut old = Client::mount(&served, "a").await;
    let mut raw = Raw::connect(&served).await;
    let id = raw.exchange_id("a", 2, 0).await.unwrap();
    assert_eq!(old.run(vec![]).await, Ok(vec![]), "until then it goes on");
    raw.create_session(id.clientid, id.sequenceid).await.unwrap();
    assert_eq!(old.run(vec![]).await, Err(Status::BadSession));
}

#[tokio::test]
async fn another_user_cannot_take_a_clients_name_while_it_lives() {
    let served = Served::start().await;
    let mut client = Client::mount(&served, "a").await;
    let mut raw = Raw::connect(&served).await;
    raw.uid = 1000;
    assert_eq!(raw.exchange_id("a", 2, 0).await, Err(Status::ClidInUse));
    served.clock.advance(Duration::from_secs(61));
    let id = raw.exchange_id("a", 2, 0).await.unwrap();
    raw.uid = 0;
    assert_eq!(raw.create_session(id.clientid, id.sequenceid).await, Err(Status::ClidInUse));
    raw.uid = 1000;
    raw.create_session(id.clientid, id.sequenceid).await.unwrap();
    assert_eq!(client.run(vec![]).await, Err(Status::BadSession));
}

#[tokio::test]
async fn a_client_that_is_silent_for_long_is_forgotten() {
    let served = Served::start().await;
    let mut silent = Client::mount(&served, "a").await;
    let mut busy = Client::mount(&served, "b").await;
    for _ in 0..11 {
        served.clock.advance(Duration::from_secs(60));
        busy.run(vec![]).await.unwrap();
    }
    Client::mount(&served, "c").await;
    busy.run(vec![]).await.unwrap();
    assert_eq!(silent.run(vec![]).await, Err(Status::BadSession));
}

#[tokio::test]
async fn after_a_restart_the_session_is_unknown_and_the_verifier_new() {
    let served = Served::start().await;
    let mut client = Client::mount(&served, "a").await;
    let handle = served.made(1).await;
    let before = put(&mut client, &handle, 0, "abc").await;
    let session = client.session;
    drop(client);
    let served = served.restart().await;
    let mut client = Client::mount(&served, "a").await;
    assert_eq!(get(&mut client, &handle, 0, 3).await, Ok((Bytes::from_static(b"abc"), false)));
    assert_ne!(sync(&mut client, &handle).await.writeverf, before.writeverf);
    client.session = session;
    assert_eq!(client.run(vec![]).await, Err(Status::BadSession));
}
