//! A call to a data server without an answer may be carried out later: the file's epoch is raised before its
//! client may come again.

use std::sync::Arc;

use bytes::Bytes;
use namespace::{InodeId, read};
use nfs::Server;
use parking_lot::Mutex;
use wire::data::{self, ObjectStat, Reply, stat};
use wire::handle::{FileHandle, HandleKey, ObjectHandle};
use wire::nfs4::{ArgOp, StableHow, Status, write};

use crate::fake_data::{Answers, serve};
use crate::ranges::grow;
use crate::raw::{Client, Raw, putfh};
use crate::world::{World, register_at};

const BOTH: u32 = 3;

/// A data server that notes the epochs of WRITEs, and answers them or not.
struct Noting {
    epochs: Mutex<Vec<u32>>,
    answers: bool,
}

impl Answers for Noting {
    async fn answer(&self, call: data::Call) -> Option<Reply> {
        match call {
            data::Call::Stat(args) => {
                let objects = vec![Some(ObjectStat::default()); args.handles.len()];
                Some(Reply::Stat(Ok(stat::ResOk { objects })))
            }
            data::Call::Write(args) => {
                let object = ObjectHandle::open(&args.handle, &HandleKey::new([9; 32]));
                self.epochs.lock().push(object.expect("a metaserver's").epoch);
                if !self.answers {
                    std::future::pending::<()>().await;
                }
                let count = args.data.len() as u32;
                Some(Reply::Write(Ok(data::write::ResOk { count, verifier: [1; 8] })))
            }
            _ => None,
        }
    }
}

impl Noting {
    async fn start(world: &World, answers: bool) -> (Arc<Self>, Server) {
        let noting = Arc::new(Self { epochs: Mutex::default(), answers });
        let server = serve(&noting).await;
        register_at(&world.server, &server.address().to_string()).await;
        (noting, server)
    }
}

/// A file with data at the data server, and a WRITE to it.
async fn written(world: &World, slots: u32) -> (Client, InodeId, Vec<ArgOp>) {
    let mut ash = Client::mount_with_slots(Raw::connect(world).await, "ash", slots).await;
    let (file, open) = ash.open("f", BOTH, 0).await.expect("opens");
    grow(&mut ash, &file, open, 1 << 20).await;
    let inode = InodeId(FileHandle::open(&file.0, &HandleKey::new([9; 32])).expect("ours").inode);
    let (offset, stable) = (0, StableHow::FileSync);
    let data = Bytes::from(vec![7; 70_000]).into();
    let write = ArgOp::Write(write::Args { stateid: open, offset, stable, data });
    (ash, inode, vec![putfh(&file), write])
}

fn epoch(world: &World, inode: InodeId) -> u32 {
    let view = world.replica.view().expect("a view");
    read::inode(&*view, inode).expect("reads").expect("it is there").epoch
}

/// ```text
/// client   WRITE ─▶ data server … dies         DELAY, WRITE ─▶ data server
/// epoch           3                      4                     4
/// ```
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_data_without_an_answer_raises_the_epoch() {
    let world = World::start().await;
    let mut data_server = Noting::start(&world, false).await;
    let (mut ash, inode, write) = written(&world, 1).await;
    let before = epoch(&world, inode);
    for n in 0..2 {
        let (noting, server) = data_server;
        let dies = async {
            world.until("the call is there", || !noting.epochs.lock().is_empty()).await;
            server.stop();
        };
        let (status, ()) = tokio::join!(ash.status(write.clone()), dies);
        assert_eq!(status, Status::Delay);
        assert_eq!(*noting.epochs.lock(), [before + n]);
        assert_eq!(epoch(&world, inode), before + n + 1);
        data_server = Noting::start(&world, false).await;
    }
}

/// The client is told nothing of all this.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_write_goes_to_the_data_server_that_returns_with_a_later_epoch() {
    let world = World::start().await;
    let (noting, server) = Noting::start(&world, false).await;
    let (mut ash, inode, write) = written(&world, 8).await;
    let before = epoch(&world, inode);
    let restarts = async {
        world.until("the call is there", || !noting.epochs.lock().is_empty()).await;
        server.stop();
        world.until("the epoch is raised", || epoch(&world, inode) != before).await;
        Noting::start(&world, true).await
    };
    let (status, (answers, _server)) = tokio::join!(ash.status(write), restarts);
    assert_eq!(status, Status::Ok);
    assert_eq!(
        (noting.epochs.lock().clone(), answers.epochs.lock().clone()),
        (vec![before], vec![before + 1])
    );
}

/// A client that has ended has lost its locks: others may have them, and have written since.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_write_is_not_carried_out_after_the_end_of_its_client() {
    let world = World::start().await;
    let (noting, server) = Noting::start(&world, false).await;
    let (mut ash, inode, write) = written(&world, 8).await;
    let before = epoch(&world, inode);
    let client_ends = async {
        world.until("the call is there", || !noting.epochs.lock().is_empty()).await;
        server.stop();
        world.until("the epoch is raised", || epoch(&world, inode) != before).await;
        let mut raw = Raw::connect(&world).await;
        let reborn = raw.exchange_id("ash", 2, 0).await.expect("a client that started again");
        raw.create_session(reborn.clientid, reborn.sequenceid).await.expect("confirms");
        Noting::start(&world, true).await
    };
    let (status, (answers, _server)) = tokio::join!(ash.status(write), client_ends);
    assert_eq!((status, answers.epochs.lock().len()), (Status::Delay, 0));
}
