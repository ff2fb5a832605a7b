//! The private `data` program.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use host::SystemEntropy;
use nfs::{CallFailure, Peer, PeerKey};
use wire::data::{PROGRAM, Piece, Procedure, Run, Status, TargetCondition, VERSION};
use wire::data::{
    allocate, commit, copy, list, make, punch, read, read_plus, remove, seek, status, truncate, usage, write,
};
use wire::handle::HandleKey;
use wire::xdr::{Decode, Encode};

use crate::client::Raw;
use crate::{Served, peer_key};

pub fn peer(served: &Served, key: PeerKey) -> Peer {
    Peer::new(served.server.address(), (PROGRAM, VERSION), key, Arc::new(SystemEntropy))
}

pub async fn call<R: Decode>(peer: &Peer, procedure: Procedure, args: &(dyn Encode + Sync)) -> R {
    peer.call(procedure as u32, args, Duration::from_secs(10)).await.unwrap()
}

pub async fn make(peer: &Peer, handles: &[Bytes]) -> make::Res {
    call(peer, Procedure::Make, &make::Args { handles: handles.to_vec() }).await
}

pub async fn remove(peer: &Peer, handles: &[Bytes]) -> remove::Res {
    call(peer, Procedure::Remove, &remove::Args { handles: handles.to_vec(), only: remove::Only::All }).await
}

pub async fn put(peer: &Peer, handle: &Bytes, offset: u64, stable: bool, data: &'static [u8]) -> write::Res {
    let data = Bytes::from_static(data).into();
    call(peer, Procedure::Write, &write::Args { handle: handle.clone(), offset, stable, sums: vec![], data })
        .await
}

pub async fn get(peer: &Peer, handle: &Bytes, offset: u64, count: u32) -> Result<(Bytes, bool), Status> {
    let args = read::Args { handle: handle.clone(), offset, count };
    let res: read::Res = call(peer, Procedure::Read, &args).await;
    res.map(|r| (r.payload.to_bytes(), r.eof))
}

#[tokio::test]
async fn a_metaserver_writes_reads_truncates_lists_and_removes() {
    let served = Served::start().await;
    let peer = peer(&served, peer_key());
    let handle = served.server_handle(5);

    assert_eq!(get(&peer, &handle, 0, 100).await, Err(Status::ObjectLost));
    assert_eq!(put(&peer, &handle, 2, false, b"hwaet").await, Err(Status::ObjectLost), "a write makes none");
    assert_eq!(make(&peer, &[handle.clone(), served.server_handle(6)]).await, Ok(()));
    assert_eq!(get(&peer, &handle, 0, 100).await, Ok((Bytes::new(), true)));
    let written = put(&peer, &handle, 2, false, b"hwaet").await.unwrap();
    assert_eq!(written.count, 5);
    assert_eq!(get(&peer, &handle, 0, 4).await, Ok((Bytes::from_static(b"\0\0hw"), false)));
    assert_eq!(get(&peer, &handle, 0, 100).await, Ok((Bytes::from_static(b"\0\0hwaet"), true)));
    let committed: commit::Res =
        call(&peer, Procedure::Commit, &commit::Args { handle: handle.clone() }).await;
    assert_eq!(committed.unwrap().verifier, written.verifier);

    let args = truncate::Args { handle: handle.clone(), len: 4 };
    let truncated: truncate::Res = call(&peer, Procedure::Truncate, &args).await;
    assert_eq!(truncated, Ok(()));
    assert_eq!(get(&peer, &handle, 0, 100).await, Ok((Bytes::from_static(b"\0\0hw"), true)));

    put(&peer, &served.server_handle(6), 0, true, b"Gar-Dena").await.unwrap();
    let page: list::Res =
        call(&peer, Procedure::List, &list::Args { target: served.target(), after: None, max: 10, chain: 0 })
            .await;
    let page = page.unwrap();
    assert!(page.done);
    assert_eq!(page.objects.iter().map(|o| o.inode).collect::<Vec<_>>(), [5, 6]);

    let args = usage::Args { target: served.target(), after: None };
    let usage: usage::Res = call(&peer, Procedure::Usage, &args).await;
    let usage = usage.unwrap();
    assert_eq!((usage.chains.len(), usage.chains[0].chain, usage.next), (1, 0, None), "without copies");
    assert!(usage.chains[0].bytes >= 4096, "{usage:?}");
    let elsewhere = usage::Args { target: 999, after: None };
    let unknown: usage::Res = call(&peer, Procedure::Usage, &elsewhere).await;
    assert_eq!(unknown, Err(Status::NotFound));

    let removed: remove::Res = call(
        &peer,
        Procedure::Remove,
        &remove::Args { handles: vec![handle.clone(), served.server_handle(9)], only: remove::Only::All },
    )
    .await;
    assert_eq!(removed, Ok(()));
    assert_eq!(put(&peer, &handle, 0, false, b"late").await, Err(Status::Stale));
    assert_eq!(make(&peer, std::slice::from_ref(&handle)).await, Err(Status::Stale));

    let status: status::Res = call(&peer, Procedure::Status, &status::Args {}).await;
    let targets = status.unwrap().targets;
    assert_eq!((targets.len(), targets[0].objects, targets[0].condition), (1, 1, TargetCondition::Ok));
    assert_eq!(served.ds.data_metrics().file_bytes_written.get(), 13);
    assert_eq!(served.ds.metrics().file_bytes_written.get(), 0, "clients wrote nothing themselves");
}

#[tokio::test]
async fn who_does_not_hold_the_secret_gets_nothing() {
    let served = Served::start().await;
    for key in [PeerKey { secret: [8; 32], ..peer_key() }, PeerKey { cluster: [1; 16], ..peer_key() }] {
        let stranger = peer(&served, key);
        let args = commit::Args { handle: served.server_handle(1) };
        let outcome: Result<commit::Res, _> =
            stranger.call(Procedure::Commit as u32, &args, Duration::from_secs(10)).await;
        assert!(matches!(outcome, Err(CallFailure::Connect(_))), "{outcome:?}");
    }
    // Neither does who leaves the handshake out, or does it by halves.
    let mut raw = Raw::connect(&served).await;
    let to = (PROGRAM, VERSION);
    let read = read::Args { handle: served.server_handle(1), offset: 0, count: 1 };
    let refused: read::Res = raw.call(to, Procedure::Read as u32, &read).await;
    assert_eq!(refused, Err(Status::NotProven));
    let hello = wire::handshake::hello::Args { cluster: crate::CLUSTER, nonce: [1; 32] };
    let greeted: wire::handshake::hello::Res =
        raw.call(to, wire::handshake::Procedure::Hello as u32, &hello).await;
    let greeted = greeted.unwrap();
    let refused: read::Res = raw.call(to, Procedure::Read as u32, &read).await;
    assert_eq!(refused, Err(Status::NotProven));
    // A server's proof sent back is not a client's.
    let prove = wire::handshake::prove::Args { proof: greeted.proof };
    let refused: wire::handshake::prove::Res =
        raw.call(to, wire::handshake::Procedure::Prove as u32, &prove).await;
    assert_eq!(refused, Err(Status::NotProven));
    // There is one try for each HELLO.
    let proof = wire::handshake::client_proof(&peer_key().secret, &[1; 32], &greeted.nonce);
    let prove = wire::handshake::prove::Args { proof };
    let refused: wire::handshake::prove::Res =
        raw.call(to, wire::handshake::Procedure::Prove as u32, &prove).await;
    assert_eq!(refused, Err(Status::NotProven));
}

#[tokio::test]
async fn an_altered_handle_is_refused() {
    let served = Served::start().await;
    let peer = peer(&served, peer_key());
    let good = served.made_for_calls(1).await;
    put(&peer, &good, 0, false, b"a").await.unwrap();
    for byte in 0..good.len() {
        let mut altered = good.to_vec();
        altered[byte] ^= 1;
        assert_eq!(get(&peer, &altered.into(), 0, 1).await, Err(Status::BadHandle), "byte {byte}");
    }
    let forged = served.object(1).seal(&HandleKey::new([8; 32]));
    assert_eq!(get(&peer, &forged, 0, 1).await, Err(Status::BadHandle));
    let elsewhere = wire::handle::ObjectHandle { target: 1, ..served.object(1) };
    assert_eq!(get(&peer, &elsewhere.seal(&crate::key()), 0, 1).await, Err(Status::NotFound));
    let args = remove::Args { handles: vec![good.clone(), Bytes::new()], only: remove::Only::All };
    let refused: remove::Res = call(&peer, Procedure::Remove, &args).await;
    assert_eq!(refused, Err(Status::BadHandle));
    assert_eq!(get(&peer, &good, 0, 1).await, Ok((Bytes::from_static(b"a"), true)), "nothing was removed");
}

#[tokio::test]
async fn garbage_is_answered_and_the_connection_lives_on() {
    let served = Served::start().await;
    let mut raw = Raw::connect(&served).await;
    let (to, garbage) = ((PROGRAM, VERSION), 0xffff_fffe_u32);
    for procedure in [wire::handshake::Procedure::Hello, wire::handshake::Procedure::Prove] {
        let rejected = raw.exchange(to, procedure as u32, &garbage).await.unwrap_err();
        assert_eq!(rejected, wire::rpc::Rejection::GarbageArguments, "{}", procedure.name());
    }
    let beyond = Procedure::ALL.len() as u32 + 3;
    for procedure in 3..=beyond {
        let refused: remove::Res = raw.call(to, procedure, &garbage).await;
        assert_eq!(refused, Err(Status::NotProven), "procedure {procedure}, before a proof");
    }
    prove(&mut raw).await;
    for procedure in Procedure::ALL.iter().filter(|procedure| **procedure != Procedure::Status) {
        let rejected = raw.exchange(to, *procedure as u32, &garbage).await.unwrap_err();
        assert_eq!(rejected, wire::rpc::Rejection::GarbageArguments, "{}", procedure.name());
    }
    let rejected = raw.exchange(to, beyond, &()).await.unwrap_err();
    assert_eq!(rejected, wire::rpc::Rejection::ProcedureUnavailable);
    raw.exchange(to, 0, &()).await.unwrap();
}

/// Goes through the handshake with the cluster's secret.
async fn prove(raw: &mut Raw) {
    let (to, nonce) = ((PROGRAM, VERSION), [1; 32]);
    let hello = wire::handshake::hello::Args { cluster: peer_key().cluster, nonce };
    let hello: wire::handshake::hello::Res =
        raw.call(to, wire::handshake::Procedure::Hello as u32, &hello).await;
    let proof = wire::handshake::client_proof(&peer_key().secret, &nonce, &hello.expect("greets").nonce);
    let args = wire::handshake::prove::Args { proof };
    let proven: wire::handshake::prove::Res =
        raw.call(to, wire::handshake::Procedure::Prove as u32, &args).await;
    assert_eq!(proven, Ok(()));
}

#[tokio::test]
async fn a_metaserver_seeks_allocates_punches_and_reads_with_holes() {
    let served = Served::start().await;
    let peer = peer(&served, peer_key());
    let handle = served.made_for_calls(5).await;
    put(&peer, &handle, 1 << 20, true, b"hwaet").await.unwrap();
    for (what, found) in [
        (seek::What::Data, Some(1 << 20)),
        (seek::What::Hole, Some(0)),
        (seek::What::End, Some((1 << 20) + 5)),
    ] {
        let args = seek::Args { handle: handle.clone(), offset: 0, what };
        let res: seek::Res = call(&peer, Procedure::Seek, &args).await;
        assert_eq!(res, Ok(seek::ResOk { found }), "{what:?}");
    }
    let args = read::Args { handle: handle.clone(), offset: (1 << 20) - 10, count: 100 };
    let res: read_plus::Res = call(&peer, Procedure::ReadPlus, &args).await;
    let runs = res.unwrap().runs;
    let [Run::Hole(10), Run::Data(data)] = &runs[..] else { panic!("{runs:?}") };
    assert_eq!(data.to_bytes(), &b"hwaet"[..]);

    let args = punch::Args { handle: handle.clone(), offset: (1 << 20) + 1, len: 2 };
    let res: punch::Res = call(&peer, Procedure::Punch, &args).await;
    assert_eq!(res, Ok(()));
    assert_eq!(get(&peer, &handle, 1 << 20, 9).await, Ok((Bytes::from_static(b"h\0\0et"), true)));
    for ask in [true, false] {
        let args = allocate::Args { handle: handle.clone(), offset: 0, len: 2 << 20, ask };
        let res: allocate::Res = call(&peer, Procedure::Allocate, &args).await;
        assert!(res.unwrap().needed >= 1 << 20);
        let length = if ask { (1 << 20) + 5 } else { 2 << 20 };
        let args = seek::Args { handle: handle.clone(), offset: 0, what: seek::What::End };
        let res: seek::Res = call(&peer, Procedure::Seek, &args).await;
        assert_eq!(res, Ok(seek::ResOk { found: Some(length) }));
    }
}

#[tokio::test]
async fn a_data_server_copies_what_it_has_and_fetches_the_rest_from_another() {
    let (here, there) = (Served::start().await, Served::start_with(7).await);
    let (near, far) = (peer(&here, peer_key()), peer(&there, peer_key()));
    put(&near, &here.made_for_calls(5).await, 3, false, b"near").await.unwrap();
    put(&far, &there.made_for_calls(6).await, (5 << 20) - 2, false, b"far").await.unwrap();
    put(&near, &here.made_for_calls(7).await, 0, false, b"overwritten").await.unwrap();

    let copy = async |source: Bytes, pieces: Vec<Piece>| {
        let address = Bytes::from(there.server.address().to_string());
        let args = copy::Args { source, address, handle: here.server_handle(7), pieces, stable: true };
        call::<copy::Res>(&near, Procedure::Copy, &args).await
    };
    copy(here.server_handle(5), vec![Piece { from: 3, to: 5, len: 4 }]).await.unwrap();
    assert_eq!(
        get(&near, &here.server_handle(7), 0, 20).await,
        Ok((Bytes::from_static(b"overwnearen"), true))
    );
    // Holes and what lies beyond the end come over as such.
    copy(there.server_handle(6), vec![Piece { from: 0, to: 2, len: (5 << 20) + 100 }]).await.unwrap();
    assert_eq!(get(&near, &here.server_handle(7), 0, 20).await.unwrap().0, [&b"ov"[..], &[0; 18]].concat());
    assert_eq!(get(&near, &here.server_handle(7), 5 << 20, 20).await, Ok((Bytes::from_static(b"far"), true)));
    let sent = there.ds.data_metrics().file_bytes_read.get();
    assert!(sent < 100_000, "{sent} bytes were sent: holes are not");

    let mut altered = there.server_handle(6).to_vec();
    altered[20] ^= 1;
    assert_eq!(copy(altered.into(), vec![]).await.unwrap_err(), Status::BadHandle);
    let args = copy::Args {
        source: there.server_handle(6),
        address: Bytes::from_static(b"nowhere"),
        handle: here.server_handle(7),
        pieces: vec![Piece { from: 0, to: 0, len: 1 }],
        stable: false,
    };
    let res: copy::Res = call(&near, Procedure::Copy, &args).await;
    assert_eq!(res, Err(Status::Invalid));
}

/// ```text
/// a bit flips on the disk
/// READ of a metaserver  -> DAMAGED, which it answers with NFS4ERR_IO
/// READ of a client      -> NFS4ERR_PNFS_NO_LAYOUT: it asks a metaserver
/// STATUS                -> the target is damaged
/// ```
#[tokio::test]
async fn a_damaged_block_is_told_to_metaservers_and_sends_clients_to_them() {
    let served = Served::start().await;
    let peer = peer(&served, peer_key());
    let handle = served.made_for_calls(9).await;
    put(&peer, &handle, 0, false, b"hwaet").await.unwrap();
    let file = served.dir.path().join("target/objects/09/00000001.0000000000000009.00000001.00000000");
    std::fs::write(file, b"hwaat").unwrap();
    assert_eq!(get(&peer, &handle, 4, 1).await, Err(Status::Damaged));
    let mut client = crate::client::Client::mount(&served, "a").await;
    let read = crate::ops::get(&mut client, &served.handle(9), 0, 1).await;
    assert_eq!(read, Err(wire::nfs4::Status::PnfsNoLayout));
    let status: status::Res = call(&peer, Procedure::Status, &status::Args {}).await;
    assert_eq!(status.unwrap().targets[0].condition, TargetCondition::Damaged);
}
