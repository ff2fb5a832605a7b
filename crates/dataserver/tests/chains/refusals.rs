//! Members that refuse, hang, or send a change twice.

use std::sync::Arc;

use bytes::Bytes;
use host::SystemEntropy;
use nfs::{Answer, Limits, PeerAuth, PrivateProgram, Programs, Server, encoded};
use tokio::sync::Semaphore;
use wire::data::{Call, PROGRAM, Procedure, Reply, Run, Status, VERSION};
use wire::data::{allocate, list, punch, read_plus, seek, write};
use wire::handle::ObjectHandle;
use wire::rpc::Rejection;

use crate::{Away, In, Refilling, World, call, key, peer_key, until};

/// A member that refuses to write and to make: for want of room, most often.
struct Full {
    auth: PeerAuth,
    status: Status,
    /// Bytes of its object.
    bytes: &'static [u8],
    /// Writes that it may answer.
    answers: Arc<Semaphore>,
}

impl PrivateProgram for Full {
    fn number(&self) -> u32 {
        PROGRAM
    }

    fn version(&self) -> u32 {
        VERSION
    }

    fn peer_auth(&self) -> &PeerAuth {
        &self.auth
    }

    fn call_of_peer(self: Arc<Self>, mut call: nfs::Call) -> Answer {
        Box::pin(async move {
            let reply = match Call::of_number(call.header.procedure, &mut call.arguments)? {
                Call::Write(_) => {
                    self.answers.acquire().await.unwrap().forget();
                    Reply::Write(Err(self.status))
                }
                Call::Make(_) => Reply::Make(Err(self.status)),
                Call::ReadPlus(_) if self.bytes.is_empty() => Reply::ReadPlus(Err(Status::ChainWaits)),
                Call::ReadPlus(args) => {
                    let data = &self.bytes[(args.offset as usize).min(self.bytes.len())..];
                    let runs = vec![Run::Data(Bytes::from_static(data).into())];
                    Reply::ReadPlus(Ok(read_plus::ResOk { runs }))
                }
                Call::Seek(_) => Reply::Seek(Ok(seek::ResOk { found: Some(self.bytes.len() as u64) })),
                _ => return Err(Rejection::SystemError),
            };
            Ok(encoded(&reply))
        })
    }
}

async fn full(bytes: &'static [u8]) -> Server {
    slow_full(bytes, Arc::new(Semaphore::new(10))).await
}

async fn slow_full(bytes: &'static [u8], answers: Arc<Semaphore>) -> Server {
    refuses(Status::NoSpace, bytes, answers).await
}

pub async fn refuses(status: Status, bytes: &'static [u8], answers: Arc<Semaphore>) -> Server {
    let auth = PeerAuth::new(peer_key(), Arc::new(SystemEntropy));
    let full = Arc::new(nfs::Authenticated(Arc::new(Full { auth, status, bytes, answers })));
    let any = "127.0.0.1:0".parse().unwrap();
    Server::start(any, Programs::new(vec![full]), Limits::default(), Arc::default()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_the_next_member_has_no_room_for_is_taken_back() {
    let mut world = World::of(2).await;
    world.make(0, 5).await.unwrap();
    world.write(0, 5, 0, &b"before"[..]).await.unwrap();
    let full = full(b"before").await;
    world.instead.insert(1, full.address());
    world.change(&[In, In]);
    assert_eq!(world.write(0, 5, 2, &b"XX"[..]).await, Err(Status::NoSpace));
    assert_eq!(world.bytes_at(0, 5).unwrap(), b"before");
    assert_eq!(world.read(0, 5, 0, 10).await.unwrap(), &b"before"[..], "the lock is free");
    assert_eq!(world.write(0, 5, 4, &b"XXXX"[..]).await, Err(Status::NoSpace));
    assert_eq!(world.bytes_at(0, 5).unwrap(), b"before", "it is not longer");
}

/// Its file system has shorter files than the head's.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_beyond_the_longest_file_of_the_next_member_is_taken_back() {
    let mut world = World::of(2).await;
    world.make(0, 5).await.unwrap();
    world.write(0, 5, 0, &b"before"[..]).await.unwrap();
    let shorter = refuses(Status::Invalid, b"before", Arc::new(Semaphore::new(10))).await;
    world.instead.insert(1, shorter.address());
    world.change(&[In, In]);
    assert_eq!(world.write(0, 5, 4, &b"XXXX"[..]).await, Err(Status::Invalid));
    assert_eq!(world.bytes_at(0, 5).unwrap(), b"before");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_beyond_the_longest_file_is_refused_and_nothing_waits_for_it() {
    let world = World::of(2).await;
    world.make(0, 5).await.unwrap();
    world.write(0, 5, 0, &b"before"[..]).await.unwrap();
    let file = tempfile::tempfile().unwrap();
    // 16 TiB of ext4.
    let Some(beyond) = (34..63).map(|bits| 1u64 << bits).find(|len| file.set_len(*len).is_err()) else {
        return eprintln!("the file system here refuses no length: nothing to try");
    };
    // More than the places that such changes share.
    for n in 0..100 {
        let node = n as usize % 2;
        let offset = beyond + n * 4096;
        assert_eq!(world.write(node, 5, offset, &b"XX"[..]).await, Err(Status::Invalid), "write {n}");
        // These do not lengthen an object.
        assert_eq!(world.truncate(node, world.at(node, 5), offset).await, Ok(()), "truncate {n}");
        let punch = punch::Args { handle: world.at(node, 5), offset, len: 10 };
        let punched: punch::Res = call(&world.peer(node), Procedure::Punch, &punch).await.unwrap();
        assert!(punched.is_ok(), "punch {n}: {punched:?}");
        let allocate = allocate::Args { handle: world.at(node, 5), offset, len: 10, ask: false };
        let allocated: allocate::Res = call(&world.peer(node), Procedure::Allocate, &allocate).await.unwrap();
        assert_eq!(allocated, Err(Status::Invalid), "allocate {n}");
    }
    assert_eq!(world.equal(5).unwrap(), b"before");
    assert_eq!(world.write(1, 5, 0, &b"after "[..]).await.map(drop), Ok(()));
}

/// The metaserver asks so whether the column may move to another chain.
#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_a_write_sees_nothing_of_it_when_it_is_taken_back() {
    let mut world = World::of(2).await;
    world.make(0, 5).await.unwrap();
    world.write(0, 5, 0, &b"old"[..]).await.unwrap();
    let answers = Arc::new(Semaphore::new(0));
    let full = slow_full(b"old", Arc::clone(&answers)).await;
    world.instead.insert(1, full.address());
    world.change(&[In, In]);
    for _ in 0..20 {
        let write = world.begin_write(0, 5, 3, &b"XX"[..]);
        until("the head has written", || world.bytes_at(0, 5).unwrap() == b"oldXX").await;
        let waits = world.nodes[0].ds.chain_metrics().waiting.get();
        let (peer, handle) = (world.peer(0), world.at(0, 5));
        let end = tokio::spawn(async move {
            let args = seek::Args { handle, offset: 0, what: seek::What::End };
            call::<seek::Res>(&peer, Procedure::Seek, &args).await.unwrap()
        });
        until("it waits for the write", || world.nodes[0].ds.chain_metrics().waiting.get() > waits).await;
        answers.add_permits(1);
        assert_eq!(end.await.unwrap().unwrap().found, Some(3), "nothing is written");
        assert_eq!(write.await.unwrap(), Err(Status::NoSpace));
    }
}

/// The member without room starts again, and has nothing yet.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_is_not_taken_back_from_a_member_that_is_refilled() {
    let mut world = World::of(2).await;
    world.make(0, 5).await.unwrap();
    world.write(0, 5, 0, &b"before"[..]).await.unwrap();
    let full = full(b"").await;
    world.instead.insert(1, full.address());
    world.change(&[In, In]);
    let write = world.begin_write(0, 5, 2, &b"XX"[..]);
    until("the head has written", || world.bytes_at(0, 5).unwrap() == b"beXXre").await;
    assert!(!write.is_finished());
    world.change(&[In, Refilling]);
    assert_eq!(write.await.unwrap(), Err(Status::NoSpace));
    assert_eq!(world.bytes_at(0, 5).unwrap(), b"beXXre");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_waits_for_a_hung_member_until_the_chain_is_without_it() {
    let mut world = World::of(2).await;
    world.make(0, 5).await.unwrap();
    // The kernel accepts the connection, and nothing answers.
    let mute = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    world.instead.insert(1, mute.local_addr().unwrap());
    world.change(&[In, In]);
    let write = world.begin_write(0, 5, 0, &b"abc"[..]);
    until("the head has written", || world.bytes_at(0, 5).unwrap() == b"abc").await;
    assert!(!write.is_finished());
    world.change(&[In, Away]);
    write.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_a_forwarded_change_cannot_come_late() {
    let mut world = World::of(2).await;
    world.make(0, 5).await.unwrap();
    // The head's connections to the tail, in the order in which the tail accepted them.
    let (earlier, later) = (world.peer(1), world.peer(1));
    for peer in [&earlier, &later] {
        let args = list::Args { target: world.nodes[1].target, after: None, max: 1, chain: 0 };
        let listed: list::Res = call(peer, Procedure::List, &args).await.unwrap();
        listed.unwrap();
    }
    let forwarded = |version: u32, data: &'static [u8]| write::Args {
        handle: ObjectHandle { chain_version: version, ..world.object(1, 5) }.seal(&key()),
        offset: 0,
        stable: false,
        sums: vec![],
        data: Bytes::from_static(data).into(),
    };
    let (first, second, third) = (forwarded(1, b"first"), forwarded(1, b"second"), forwarded(2, b"third"));
    let written: write::Res = call(&later, Procedure::Write, &second).await.unwrap();
    written.unwrap();
    let late: write::Res = call(&earlier, Procedure::Write, &first).await.unwrap();
    assert_eq!(late, Err(Status::ChainWaits), "by an earlier connection");
    assert_eq!(world.bytes_at(1, 5).unwrap(), b"second");
    // Of a version that the tail has not heard of: it must be sent again.
    let early: write::Res = call(&later, Procedure::Write, &third).await.unwrap();
    assert_eq!(early, Err(Status::ChainWaits));
    world.change(&[In, In]);
    let written: write::Res = call(&later, Procedure::Write, &third).await.unwrap();
    written.unwrap();
    let stale: write::Res = call(&later, Procedure::Write, &second).await.unwrap();
    assert_eq!(stale, Err(Status::StaleChain), "of an earlier version");
    assert_eq!(world.bytes_at(1, 5).unwrap(), b"thirdd");
}

/// CRC-32C of the pieces of a write in blocks.
fn sums(pieces: &[&[u8]]) -> Vec<u32> {
    pieces.iter().map(|piece| crc32c::crc32c(piece)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_have_changed_on_the_way_are_refused_by_each_member() {
    let mut world = World::of(2).await;
    world.make(0, 5).await.unwrap();
    // Over the border of two blocks.
    let (offset, data) = ((64 << 10) - 2, b"whole");
    let right = sums(&[&data[..2], &data[2..]]);
    let forwarded = |sums: &[u32], handle| write::Args {
        handle,
        offset,
        stable: false,
        sums: sums.to_vec(),
        data: Bytes::from_static(data).into(),
    };
    let tail = ObjectHandle { chain_version: 1, ..world.object(1, 5) }.seal(&key());
    let peer = world.peer(1);
    for wrong in [&[right[0], right[1] ^ 1][..], &right[..1], &[right[0], right[1], 0]] {
        let refused: write::Res =
            call(&peer, Procedure::Write, &forwarded(wrong, tail.clone())).await.unwrap();
        assert_eq!(refused, Err(Status::WrongSum));
    }
    assert_eq!(world.bytes_at(1, 5).unwrap(), b"", "nothing was done");
    let done: write::Res = call(&peer, Procedure::Write, &forwarded(&right, tail)).await.unwrap();
    done.unwrap();
    // From a member that relays it to the head, whose own calls to the tail come by another connection.
    world.change(&[In, In]);
    let head = world.object(0, 5).seal(&key());
    let peer = world.peer(0);
    let wrong = forwarded(&[right[0] ^ 1, right[1]], head.clone());
    let refused: write::Res = call(&peer, Procedure::Write, &wrong).await.unwrap();
    assert_eq!(refused, Err(Status::WrongSum));
    let done: write::Res = call(&peer, Procedure::Write, &forwarded(&right, head)).await.unwrap();
    done.unwrap();
    assert!(world.bytes_at(0, 5).unwrap().ends_with(data) && world.bytes_at(1, 5).unwrap().ends_with(data));
    assert_eq!(world.nodes[1].ds.chain_metrics().wrong_sums.get(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_the_next_member_has_no_room_for_is_taken_back_whole() {
    const MIB: u64 = 1 << 20;
    let mut world = World::of(2).await;
    for inode in [5, 6] {
        world.make(0, inode).await.unwrap();
    }
    world.write(0, 5, 0, &b"before"[..]).await.unwrap();
    for part in 0..3 {
        world.write(0, 6, part * MIB, vec![b'X'; MIB as usize]).await.unwrap();
    }
    let full = full(b"before").await;
    world.instead.insert(1, full.address());
    world.change(&[In, In]);
    let piece = wire::data::Piece { from: 0, to: 2, len: 3 * MIB };
    let (handle, source) = (world.at(0, 5), world.at(0, 6));
    let args =
        wire::data::copy::Args { handle, address: Bytes::new(), source, pieces: vec![piece], stable: false };
    let copied: wire::data::copy::Res = call(&world.peer(0), Procedure::Copy, &args).await.unwrap();
    assert_eq!(copied.map(drop), Err(Status::NoSpace));
    assert!(
        world.bytes_at(0, 5).unwrap() == b"before",
        "the parts after the refused one are taken back, too"
    );
}
