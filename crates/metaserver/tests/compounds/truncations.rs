//! A truncation that is carried out twice takes what was written in between: one metaserver does it, once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cluster::Rules;
use host::{ManualClock, watch};
use namespace::Stamp;
use nfs::Server;
use replica::{Replica, ReplicaConfig};
use store::{Durability, MemoryStore, Store};
use wire::data::{self, Reply};
use wire::nfs4::{ArgOp, close, remove};

use crate::drc;
use crate::fake_data::{Answers, serve};
use crate::ranges::grow;
use crate::raw::{Client, Raw, putfh};
use crate::three::Three;
use crate::world::{PATIENCE, World, register_at};

const BOTH: u32 = 3;

/// A data server that counts what it is asked to do, and answers a truncation when it is told to.
struct Counting {
    truncations: AtomicUsize,
    removals: AtomicUsize,
    answers: watch::Sender<bool>,
}

impl Answers for Counting {
    async fn answer(&self, call: data::Call) -> Option<Reply> {
        match call {
            data::Call::Truncate(_) => {
                self.truncations.fetch_add(1, Ordering::Relaxed);
                let _ = self.answers.subscribe().wait_for(|answers| *answers).await;
                Some(Reply::Truncate(Ok(())))
            }
            data::Call::Remove(_) => {
                self.removals.fetch_add(1, Ordering::Relaxed);
                Some(Reply::Remove(Ok(())))
            }
            _ => None,
        }
    }
}

impl Counting {
    async fn start() -> (Arc<Self>, Server) {
        let answers = watch::Sender::new(false);
        let counting = Arc::new(Self { truncations: 0.into(), removals: 0.into(), answers });
        let server = serve(&counting).await;
        (counting, server)
    }

    fn counted(&self) -> (usize, usize) {
        (self.truncations.load(Ordering::Relaxed), self.removals.load(Ordering::Relaxed))
    }
}

/// ```text
/// asked    SETATTR f 0  ─▶ ds: truncate … (its disk is slow)                    ─▶ ok
/// leader                   REMOVE g, REMOVE h: it goes through all records
/// ```
async fn one_truncation(asked: &World, leader: &World, all: &[&World]) {
    let (data, data_server) = Counting::start().await;
    for world in all {
        register_at(&world.server, &data_server.address().to_string()).await;
    }
    let mut ash = Client::mount(asked, "ash").await;
    for name in ["f", "g", "h"] {
        let (file, open) = ash.open(name, BOTH, 0).await.expect("opens");
        grow(&mut ash, &file, open, 1 << 20).await;
        let args = close::Args { seqid: 0, open_stateid: open };
        ash.ok(vec![putfh(&file), ArgOp::Close(args)]).await;
    }
    let mut raw = Raw::connect(asked).await;
    let truncation = tokio::spawn(async move {
        let root = drc::root(&mut raw).await;
        drc::truncate(&mut raw, &root, "f").await
    });
    asked.until("the data server truncates", || data.counted().0 == 1).await;
    let mut birch = Client::mount(leader, "birch").await;
    for (name, removals) in [("g", 1), ("h", 2)] {
        let target = bytes::Bytes::from_static(name.as_bytes());
        birch.ok(vec![ArgOp::PutRootFh, ArgOp::Remove(remove::Args { target })]).await;
        // What is removed second is removed after all records were gone through for the first.
        let gone = || data.counted().1 == removals || data.counted().0 > 1;
        leader.until("its object goes", gone).await;
    }
    assert_eq!(data.counted(), (1, 2), "truncations and removals");
    data.answers.set(true);
    let outcome = tokio::time::timeout(PATIENCE, truncation).await.expect("in time").expect("it ends");
    assert_eq!(outcome, None, "the file is truncated");
    assert_eq!(data.counted().0, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_truncation_is_not_done_again_by_the_scan_of_the_records() {
    let world = World::start().await;
    one_truncation(&world, &world, &[&world]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_truncation_that_another_metaserver_was_asked_for_is_done_once() {
    let three = Three::start(Rules::OPEN).await;
    let (leader, other) = three.leader_and_follower();
    let all: Vec<&World> = three.worlds.iter().collect();
    one_truncation(&three.worlds[other], &three.worlds[leader], &all).await;
}

/// ```text
/// (a damaged store has a mark of leftovers that no command understands)
/// REMOVE f     -> its object goes all the same
/// ```
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leftovers_that_cannot_be_removed_hold_no_removal_of_objects_up() {
    let dir = tempfile::tempdir().expect("a folder");
    let store = Arc::new(MemoryStore::new());
    let config = ReplicaConfig::alone(dir.path().into(), 0);
    let stamp = Stamp { random: 1, ..Stamp::default() };
    let replica = Replica::open(config, Arc::clone(&store) as _, stamp, Arc::new(()), Arc::new(()));
    let replica = replica.expect("a replica");
    // Table 32, of a kind of leftovers that there is not.
    let mark: Vec<u8> = [0x32].into_iter().chain(99u64.to_be_bytes()).chain([0; 8]).collect();
    store.batch(Durability::Immediate, &mut |edit| edit.put(&mark, &[])).expect("writes");
    let world = World::over(replica, dir, Arc::new(ManualClock::default()), Rules::OPEN).await;
    let (data, data_server) = Counting::start().await;
    register_at(&world.server, &data_server.address().to_string()).await;
    let mut ash = Client::mount(&world, "ash").await;
    let (file, open) = ash.open("f", BOTH, 0).await.expect("opens");
    grow(&mut ash, &file, open, 1 << 20).await;
    let args = close::Args { seqid: 0, open_stateid: open };
    ash.ok(vec![putfh(&file), ArgOp::Close(args)]).await;
    let target = bytes::Bytes::from_static(b"f");
    ash.ok(vec![ArgOp::PutRootFh, ArgOp::Remove(remove::Args { target })]).await;
    world.until("its object goes", || data.counted().1 == 1).await;
    let view = world.replica.view().expect("a view");
    assert!(namespace::read::has_leftovers(&*view).expect("reads"), "the mark was in the way");
}
