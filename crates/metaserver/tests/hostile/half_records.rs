//! Half records of strangers: 560 connections to a port, each with the beginning of a call of a megabyte.
//! Nobody else waits for them. Seen by what is still there: a server that took room for them would have to
//! end some before it went on.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cluster::{JoinServer, serve_members};
use host::SeededEntropy;
use nfs::Peer;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};
use wire::consensus::{self, Procedure, Status, call};
use wire::handle::{FileHandle, Holder};
use wire::nfs4::{ArgOp, ResOp, StableHow, Stateid, putfh, write};
use wire::rpc::{AuthSys, CallHeader, Credential, FragmentHeader};
use wire::xdr::{Encode, Encoder};

use crate::client::{Client, NFS3, NFS4};
use crate::names::{handle, opened};
use crate::{CLUSTER, Scene, key, object};

const HALVES: usize = 560;
const RECORD_BYTES: u32 = 1 << 20;
/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Connections from an address of their own, each with half a record.
struct Halves(Vec<TcpStream>);

impl Halves {
    async fn connect(to: SocketAddr, beginning: &[u8]) -> Self {
        let mut all = Vec::new();
        for _ in 0..HALVES {
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind(([127, 0, 0, 2], 0).into()).unwrap();
            let mut stream = socket.connect(to).await.unwrap();
            let announced = FragmentHeader { last: true, len: RECORD_BYTES }.to_bytes();
            stream.write_all(&[&announced[..], beginning].concat()).await.unwrap();
            all.push(stream);
        }
        Self(all)
    }

    fn are_all_there(&self) {
        let mut byte = [0];
        let outcome = |stream: &TcpStream| stream.try_read(&mut byte).map_err(|e| e.kind());
        let ended = self.0.iter().map(outcome).filter(|o| *o != Err(ErrorKind::WouldBlock)).count();
        assert_eq!(ended, 0, "of {HALVES} had to be ended before others were served");
    }
}

/// The beginning of a call: a few bytes of nothing, or a header with more behind it than anybody may send.
fn beginnings(program: (u32, u32), procedure: u32) -> [Vec<u8>; 2] {
    let credential = Credential::Sys(AuthSys::default());
    let mut e = Encoder::new();
    CallHeader { xid: 1, program: program.0, version: program.1, procedure, credential }.encode(&mut e);
    [vec![0; 71], [e.finish().into_bytes().to_vec(), vec![0; 20_000]].concat()]
}

fn put(handle: &Bytes) -> ArgOp {
    ArgOp::PutFh(putfh::Args { object: handle.clone().into() })
}

fn writing(stateid: Stateid, len: usize) -> ArgOp {
    let data = Bytes::from(vec![7; len]).into();
    ArgOp::Write(write::Args { stateid, offset: 0, stable: StableHow::Unstable, data })
}

#[tokio::test(flavor = "multi_thread")]
async fn half_records_at_the_port_of_clients_hold_up_no_client() {
    let scene = Scene::start().await;
    for program in [NFS4, NFS3] {
        for beginning in beginnings(program, 1) {
            let halves = Halves::connect(scene.server.address(), &beginning).await;
            let mut good = Client::mount(&scene, "good").await;
            opened(&mut good, "f").await;
            let handle = handle(&mut good, "f").await;
            let written = good.last(vec![put(&handle), writing(Stateid::ANONYMOUS, 60_000)]).await;
            assert!(matches!(written, ResOp::Write(Ok(_))), "{written:?}");
            halves.are_all_there();
        }
    }
    scene.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn half_records_at_the_port_of_data_hold_up_no_write() {
    let scene = Scene::start().await;
    let (program, entropy) = ((wire::data::PROGRAM, wire::data::VERSION), Arc::new(SeededEntropy::new(4)));
    let peer = nfs::Peer::new(scene.data.address(), program, crate::peer_key(), entropy);
    let mut inode = 7;
    for program in [NFS4, program] {
        for beginning in beginnings(program, wire::data::Procedure::Write as u32) {
            let halves = Halves::connect(scene.data.address(), &beginning).await;
            let mut good = Client::mount_at(scene.data.address(), "good").await;
            // A new one each time: the metaserver knows no such files, and removes their objects when it looks for orphans.
            inode += 1;
            let file = FileHandle { volume: 1, inode, generation: 1 };
            let object = object(file, scene.target(), scene.incarnation());
            let handle = object.seal_for(Holder::Writer, &key());
            // As a metaserver does before it hands a layout out.
            let args = wire::data::make::Args { handles: vec![object.seal(&key())] };
            let made: Result<wire::data::make::Res, _> = peer
                .call(wire::data::Procedure::Make as u32, &args, std::time::Duration::from_secs(60))
                .await;
            made.expect("it answers").expect("the object is made");
            let written = good.last(vec![put(&handle), writing(Stateid::ANONYMOUS, 1 << 20)]).await;
            assert!(matches!(written, ResOp::Write(Ok(_))), "{written:?}");
            halves.are_all_there();
        }
    }
    scene.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn half_records_at_the_port_of_consensus_hold_up_no_member() {
    let scene = Scene::start().await;
    let (peer_key, entropy) = (crate::peer_key(), Arc::new(SeededEntropy::new(3)));
    let version = "0.1.0";
    let join_server = JoinServer { cluster: CLUSTER, secret: [1; 32], tokens: [2; 32], version };
    let anywhere = "127.0.0.1:0".parse().unwrap();
    let served =
        serve_members(scene.replica.clone(), anywhere, peer_key.clone(), join_server, entropy.clone());
    let server = served.await.unwrap();
    let program = (consensus::PROGRAM, consensus::VERSION);
    for beginning in beginnings(program, Procedure::Call as u32) {
        let halves = Halves::connect(server.address(), &beginning).await;
        let member = Peer::new(server.address(), program, peer_key.clone(), entropy.clone());
        // Nothing that a member says, at the length of many entries: it is read, and refused for what it is.
        for len in [10, 1 << 20] {
            let args = call::Args { body: Bytes::from(vec![0xff; len]) };
            let answered: call::Res = member.call(Procedure::Call as u32, &args, PATIENCE).await.unwrap();
            assert_eq!(answered.map(|_| ()), Err(Status::Invalid));
        }
        halves.are_all_there();
    }
    server.stop();
    scene.stop();
}
