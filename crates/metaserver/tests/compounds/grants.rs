//! A layout that one metaserver has just granted and another one recalls: the client may not have read the
//! reply yet.

use std::sync::Arc;

use cluster::Rules;
use host::ManualClock;
use metaserver::upcalls;
use namespace::{Command, InodeId, IoMode, Proposal, Reply, Stamp, StateId, read};
use replica::{Replica, ReplicaConfig};
use store::MemoryStore;
use wire::handle::{FileHandle, HandleKey};
use wire::nfs4::Status;
use wire::nfs4::callback::CbArgOp;

use crate::drc;
use crate::raw::{Client, Raw};
use crate::sessions::says;
use crate::world::{PATIENCE, World};

const BOTH: u32 = 3;

#[tokio::test]
async fn who_has_no_such_layout_is_asked_again_when_another_metaserver_has_just_granted_it() {
    let dir = tempfile::tempdir().expect("a folder");
    let (observer, follower) = upcalls();
    let config = ReplicaConfig::alone(dir.path().into(), 0);
    let stamp = Stamp { random: 0x1234_5678_9abc_def0, ..Stamp::default() };
    let replica = Replica::open(config, Arc::new(MemoryStore::new()), stamp, Arc::new(()), observer)
        .expect("a replica");
    let world = World::over(replica, dir, Arc::new(ManualClock::default()), Rules::OPEN).await;
    world.metaserver.follow_others(follower);
    let mut ash = Client::mount(&world, "ash").await;
    let (file, open) = ash.open("f", BOTH, 0).await.expect("opens");

    // Not by LAYOUTGET here: the command of another metaserver.
    let inode = InodeId(FileHandle::open(&file.0, &HandleKey::new([9; 32])).expect("ours").inode);
    let id = StateId(u64::from_be_bytes(open.other[..8].try_into().expect("eight")));
    let stateid = namespace::Stateid { sequence: open.seqid, id };
    let client = namespace::ClientId(ash.id.0);
    let view = world.replica.view().expect("a view");
    let made = read::inode(&*view, inode).expect("reads").expect("is there").placed();
    drop(view);
    let command = Command::LayoutGet {
        client,
        inode,
        stateid,
        mode: IoMode::ReadWrite,
        made,
        version: 0,
        export: InodeId::ROOT,
    };
    let granted = world.replica.propose(Proposal::new(stamp, None, command)).await.expect("it is ordered");
    assert!(matches!(granted, Reply::Layout { .. }), "{granted:?}");

    let mut raw = Raw::connect(&world).await;
    let truncation = tokio::spawn(async move {
        let root = drc::root(&mut raw).await;
        drc::truncate(&mut raw, &root, "f").await
    });
    for answer in [Status::NoMatchingLayout, Status::BadHandle, Status::Delay] {
        let called = ash.raw.called_back(|call| says(call, answer));
        let (_, compound) = tokio::time::timeout(PATIENCE / 6, called).await.expect("it is asked again");
        assert!(matches!(compound.ops[1], CbArgOp::LayoutRecall(_)), "{compound:?}");
    }
    truncation.abort();
}
