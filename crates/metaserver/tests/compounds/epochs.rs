//! A call to a data server without an answer may be carried out later: the file's epoch is raised before its
//! client may come again.

use std::sync::Arc;

use bytes::Bytes;
use host::SeededEntropy;
use namespace::{InodeId, read};
use nfs::{Answer, Authenticated, Call, Limits, PeerAuth, PrivateProgram, Programs, Server, encoded};
use parking_lot::Mutex;
use wire::data::{self, ObjectStat, Reply, stat};
use wire::handle::{FileHandle, HandleKey, ObjectHandle};
use wire::nfs4::{ArgOp, StableHow, Status, write};
use wire::rpc::Rejection;

use crate::ranges::grow;
use crate::raw::{Client, putfh};
use crate::world::{World, peer_key, register_at};

const BOTH: u32 = 3;

/// A data server that answers no change of data, and notes the epochs of these calls.
struct Silent {
    peer_auth: PeerAuth,
    epochs: Mutex<Vec<u32>>,
}

impl PrivateProgram for Silent {
    fn number(&self) -> u32 {
        data::PROGRAM
    }

    fn version(&self) -> u32 {
        data::VERSION
    }

    fn peer_auth(&self) -> &PeerAuth {
        &self.peer_auth
    }

    fn call_of_peer(self: Arc<Self>, mut call: Call) -> Answer {
        Box::pin(async move {
            let handle = match data::Call::of_number(call.header.procedure, &mut call.arguments)? {
                data::Call::Make(_) => return Ok(encoded(&Reply::Make(Ok(())))),
                data::Call::Stat(args) => {
                    let objects = vec![ObjectStat::default(); args.handles.len()];
                    return Ok(encoded(&Reply::Stat(Ok(stat::ResOk { objects }))));
                }
                data::Call::Write(args) => args.handle,
                _ => return Err(Rejection::ProcedureUnavailable),
            };
            let object = ObjectHandle::open(&handle, &HandleKey::new([9; 32])).expect("a metaserver's");
            self.epochs.lock().push(object.epoch);
            std::future::pending().await
        })
    }
}

impl Silent {
    async fn start(world: &World) -> (Arc<Self>, Server) {
        let peer_auth = PeerAuth::new(peer_key(), Arc::new(SeededEntropy::new(5)));
        let silent = Arc::new(Self { peer_auth, epochs: Mutex::default() });
        let programs =
            Programs::new(vec![Arc::new(Authenticated(Arc::clone(&silent))) as Arc<dyn nfs::Program>]);
        let address = ([127, 0, 0, 1], 0).into();
        let server = Server::start(address, programs, Limits::default(), Arc::default()).await;
        let server = server.expect("it listens");
        register_at(&world.server, &server.address().to_string()).await;
        (silent, server)
    }
}

/// ```text
/// client   WRITE ─▶ data server … dies         DELAY, WRITE ─▶ data server
/// epoch           3                      4                     4
/// ```
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_data_without_an_answer_raises_the_epoch() {
    let world = World::start().await;
    let (first, server) = Silent::start(&world).await;
    let mut ash = Client::mount(&world, "ash").await;
    let (file, open) = ash.open("f", BOTH, 0).await.expect("opens");
    grow(&mut ash, &file, open, 1 << 20).await;
    let inode = InodeId(FileHandle::open(&file.0, &HandleKey::new([9; 32])).expect("ours").inode);
    let epoch = || {
        let view = world.replica.view().expect("a view");
        read::inode(&*view, inode).expect("reads").expect("it is there").epoch
    };
    let before = epoch();
    let (offset, stable) = (0, StableHow::FileSync);
    let data = Bytes::from(vec![7; 70_000]).into();
    let write = ArgOp::Write(write::Args { stateid: open, offset, stable, data });

    let mut data_server = (first, server);
    for n in 0..2 {
        let (silent, server) = data_server;
        let dies = async {
            world.until("the call is there", || !silent.epochs.lock().is_empty()).await;
            server.stop();
        };
        let (status, ()) = tokio::join!(ash.status(vec![putfh(&file), write.clone()]), dies);
        assert_eq!(status, Status::Delay);
        assert_eq!(*silent.epochs.lock(), [before + n]);
        assert_eq!(epoch(), before + n + 1);
        data_server = Silent::start(&world).await;
    }
}
