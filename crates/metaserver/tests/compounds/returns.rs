//! Delegations that a client returns: answered at once, ended many at a time, and not in the way of others meanwhile.

use bytes::Bytes;
use namespace::{Subject, VolumeId, read};
use wire::nfs4::callback::{CbArgOp, CbCompound, CbReply, CbResOp};
use wire::nfs4::{ArgOp, Stateid, Status, delegreturn, destroy_clientid, destroy_session};
use wire::nfs4::{free_stateid, test_stateid};

use crate::lock_waiters::says;
use crate::raw::{Client, putfh};
use crate::world::World;
use crate::write_delegations::{holders, made, obeys, write_by};

const BOTH: u32 = 3;

fn returned(stateid: Stateid) -> ArgOp {
    ArgOp::DelegReturn(delegreturn::Args { stateid })
}

fn applied(world: &World) -> u64 {
    replica::applied_next(&*world.replica.view().expect("a view")).expect("reads")
}

/// ```text
/// ash make 60 files, return their delegations     answered; a few commands, and not one for each
/// ```
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_returns_are_one_command() {
    let world = World::seeing().await;
    let mut ash = Client::mount(&world, "ash").await;
    let names: Vec<&'static str> = (0..60).map(|n| &*format!("f{n}").leak()).collect();
    let mut files = vec![];
    for name in names {
        let (file, delegation) = made(&mut ash, name).await;
        files.push((file, delegation.expect("of a new file").stateid));
    }
    let before = applied(&world);
    for (file, delegation) in &files {
        ash.ok(vec![putfh(file), returned(*delegation)]).await;
    }
    world.until("they have ended", || holders(&world) == 0).await;
    assert!(applied(&world) - before < 30, "{} commands", applied(&world) - before);
}

/// ```text
/// ash return its delegation        its stateid is gone: write, delegreturn, test_stateid, free_stateid
/// ```
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_returned_is_gone_for_its_client() {
    let world = World::seeing().await;
    let mut ash = Client::mount(&world, "ash").await;
    let (file, delegation) = made(&mut ash, "f").await;
    let by = delegation.expect("of a new file").stateid;
    ash.ok(vec![putfh(&file), returned(by)]).await;
    assert_eq!(ash.status(vec![putfh(&file), write_by(by)]).await, Status::BadStateid);
    assert_eq!(ash.status(vec![putfh(&file), returned(by)]).await, Status::BadStateid);
    let (file, delegation) = made(&mut ash, "g").await;
    let by = delegation.expect("of a new file").stateid;
    ash.ok(vec![putfh(&file), returned(by)]).await;
    let results = ash.ok(vec![ArgOp::TestStateid(test_stateid::Args { stateids: vec![by] })]).await;
    assert!(format!("{results:?}").contains("BadStateid"), "{results:?}");
    let free = ArgOp::FreeStateid(free_stateid::Args { stateid: by });
    assert_eq!(ash.status(vec![free]).await, Status::BadStateid);
}

/// ```text
/// ash return its delegation        elm open to write: at once, and ash is not called back
/// ash make another                 it gets a delegation again: others have not used its files, as no recall was needed
/// ash return all, destroy its session and itself      -> ok
/// ```
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_returned_is_not_in_the_way() {
    let world = World::seeing().await;
    let (mut ash, mut elm) = (Client::mount(&world, "ash").await, Client::mount(&world, "elm").await);
    for name in ["a", "b", "c"] {
        let (file, delegation) = made(&mut ash, name).await;
        let by = delegation.expect("others have not used its files").stateid;
        ash.ok(vec![putfh(&file), returned(by)]).await;
        elm.open(name, BOTH, 0).await.expect("it is free");
    }
    // In each round, and here: a call-back of the round before would be read in place of the reply, and fail.
    let (file, delegation) = made(&mut ash, "d").await;
    ash.ok(vec![putfh(&file), returned(delegation.expect("of a new file").stateid)]).await;
    let session = ArgOp::DestroySession(destroy_session::Args { sessionid: ash.session });
    assert_eq!(ash.raw.compound(vec![session]).await.status, Status::Ok);
    let client = ArgOp::DestroyClientid(destroy_clientid::Args { clientid: ash.id });
    assert_eq!(ash.raw.compound(vec![client]).await.status, Status::Ok);
}

/// A removed file whose delegation was returned a moment ago leaves nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_is_removed_right_after_its_delegation_was_returned() {
    let world = World::seeing().await;
    let mut ash = Client::mount(&world, "ash").await;
    let (file, delegation) = made(&mut ash, "f").await;
    ash.ok(vec![putfh(&file), write_by(delegation.as_ref().expect("of a new file").stateid)]).await;
    ash.ok(vec![putfh(&file), returned(delegation.expect("of a new file").stateid)]).await;
    let target = Bytes::from_static(b"f");
    ash.ok(vec![ArgOp::PutRootFh, ArgOp::Remove(wire::nfs4::remove::Args { target })]).await;
    let files = || {
        let view = world.replica.view().expect("a view");
        read::usage(&*view, VolumeId::FIRST, Subject::Volume).expect("reads").expect("there").inodes
    };
    world.until("the file is gone", || holders(&world) == 0 && files() <= 1).await;
    assert_eq!(ash.status(vec![putfh(&file)]).await, Status::Stale);
}

fn knows_none(call: &CbCompound) -> CbReply {
    match &call.ops[1] {
        CbArgOp::Recall(_) => {
            let mut reply = says(call, Status::BadHandle);
            reply.ops[1] = CbResOp::Recall(Err(Status::BadHandle));
            reply
        }
        _ => obeys(call),
    }
}

/// A metaserver has died with what it had in memory: the state machine has a delegation that its client returned.
///
/// ```text
/// elm open /f to write      ash, called back: BADHANDLE, six times, a second apart      -> elm has it
/// ```
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delegation_that_its_client_does_not_know_ends() {
    let world = World::seeing().await;
    let (mut ash, mut elm) = (Client::mount(&world, "ash").await, Client::mount(&world, "elm").await);
    made(&mut ash, "f").await.1.expect("of a new file");
    let answers = async {
        let mut recalls = 0;
        while recalls < 6 {
            let (_, call) = ash.raw.called_back(knows_none).await;
            if let CbArgOp::Recall(_) = &call.ops[1] {
                recalls += 1;
                world.clock.advance(std::time::Duration::from_secs(1));
            }
        }
    };
    let opens = async { while elm.open("f", BOTH, 0).await.is_err_and(|status| status == Status::Delay) {} };
    tokio::join!(answers, opens);
    assert_eq!(holders(&world), 0);
}
