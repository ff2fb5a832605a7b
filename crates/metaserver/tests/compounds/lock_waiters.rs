//! LOCKs that wait, in a group of metaservers of which each may be killed: their clients must have reason to ask again.

use std::time::Duration;

use metaserver::Rules;
use wire::nfs4::callback::{CbArgOp, CbCompound, CbReply, CbResOp, SequenceOk};
use wire::nfs4::{ArgOp, LockType, OwnerName, ResOp, Stateid, Status, locku};

use crate::raw::{Client, putfh};
use crate::three::Three;

const BOTH: u32 = 3;
/// What Linux pauses for in the end, if it is not told to begin again.
const LONG_PAUSE: Duration = Duration::from_millis(1600);

fn waiting(lock: ArgOp) -> ArgOp {
    let ArgOp::Lock(args) = lock else { panic!("{lock:?}") };
    ArgOp::Lock(wire::nfs4::lock::Args { locktype: LockType::WriteWait, ..args })
}

fn unlock(lock_stateid: Stateid) -> ArgOp {
    ArgOp::LockU(locku::Args { locktype: LockType::Write, seqid: 0, lock_stateid, offset: 0, length: 10 })
}

fn says(call: &CbCompound, status: Status) -> CbReply {
    let CbArgOp::Sequence(args) = &call.ops[0] else { panic!("{call:?}") };
    let sequence = SequenceOk {
        sessionid: args.sessionid,
        sequenceid: args.sequenceid,
        slotid: args.slotid,
        highest_slotid: 0,
        target_highest_slotid: 0,
    };
    let result = if status == Status::Ok { Ok(()) } else { Err(status) };
    let ops = vec![CbResOp::Sequence(Ok(sequence)), CbResOp::NotifyLock(result)];
    CbReply { status, tag: OwnerName::default(), ops }
}

fn out_of_step(_: &CbCompound) -> CbReply {
    CbReply {
        status: Status::SeqMisordered,
        tag: OwnerName::default(),
        ops: vec![CbResOp::Sequence(Err(Status::SeqMisordered))],
    }
}

/// ```text
/// A lock 0..10                  -> ok
/// B lock 0..10, waits           -> delay          it asks again after 0.1 s, 0.2 s, ...
/// B the same, 1.6 s later       -> told to ask, and then denied
/// B the same, at once           -> delay
/// A unlock                      B is told
/// B lock                        -> ok
/// ```
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_waits_asks_often_and_is_told() {
    let three = Three::start(Rules::OPEN).await;
    let (first, second) = three.leader_and_follower();
    let mut ash = Client::mount(&three.worlds[first], "ash").await;
    let mut elm = Client::mount(&three.worlds[second], "elm").await;
    let (file, open) = ash.open("f", BOTH, 0).await.expect("opens");
    let results = ash.ok(vec![putfh(&file), ash.lock_op("l", open, 0, 10)]).await;
    let ResOp::Lock(Ok(locked)) = &results[1] else { panic!("{results:?}") };
    let (_, open) = elm.open("f", BOTH, 0).await.expect("opens");
    let lock = vec![putfh(&file), waiting(elm.lock_op("l", open, 0, 10))];

    assert_eq!(elm.status(lock.clone()).await, Status::Delay);
    three.clock.advance(Duration::from_millis(100));
    assert_eq!(elm.status(lock.clone()).await, Status::Delay);
    three.clock.advance(LONG_PAUSE);
    elm.sequence += 1;
    let again = [vec![elm.sequence_op(0, elm.sequence, true)], lock.clone()].concat();
    elm.raw.send_compound(again).await;
    let (_, told) = elm.raw.called_back(|call| says(call, Status::Ok)).await;
    assert!(matches!(told.ops[1], CbArgOp::NotifyLock(_)), "{told:?}");
    assert_eq!(elm.raw.compound_reply().await.status, Status::Denied, "after it was told");
    assert_eq!(elm.status(lock.clone()).await, Status::Delay, "it begins again");

    ash.ok(vec![putfh(&file), unlock(locked.lock_stateid)]).await;
    let (_, told) = elm.raw.called_back(|call| says(call, Status::Ok)).await;
    assert!(matches!(told.ops[1], CbArgOp::NotifyLock(_)), "{told:?}");
    elm.ok(lock).await;
}

/// The metaserver that a client comes to does not know what was called back before: the client refuses a slot that
/// somebody else used, and the next one is tried.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_came_from_another_metaserver_is_told_over_a_slot_that_is_in_step() {
    let three = Three::start(Rules::OPEN).await;
    let (first, second) = three.leader_and_follower();
    let mut ash = Client::mount(&three.worlds[first], "ash").await;
    let mut elm = Client::mount(&three.worlds[first], "elm").await;
    let (file, open) = ash.open("f", BOTH, 0).await.expect("opens");
    let results = ash.ok(vec![putfh(&file), ash.lock_op("l", open, 0, 10)]).await;
    let ResOp::Lock(Ok(locked)) = &results[1] else { panic!("{results:?}") };
    let (_, open) = elm.open("f", BOTH, 0).await.expect("opens");
    let lock = vec![putfh(&file), waiting(elm.lock_op("l", open, 0, 10))];

    elm.reconnect(&three.worlds[second]).await;
    elm.bind().await;
    assert_eq!(elm.status(lock.clone()).await, Status::Delay);
    ash.ok(vec![putfh(&file), unlock(locked.lock_stateid)]).await;
    let slot = |call: &CbCompound| match &call.ops[0] {
        CbArgOp::Sequence(args) => (args.slotid, args.sequenceid),
        other => panic!("{other:?}"),
    };
    let (_, refused) = elm.raw.called_back(out_of_step).await;
    let (_, repeated) = elm.raw.called_back(|call| says(call, Status::RetryUncachedRep)).await;
    let (_, told) = elm.raw.called_back(|call| says(call, Status::Ok)).await;
    assert_ne!(slot(&refused).0, slot(&repeated).0);
    assert_eq!(slot(&told), (slot(&repeated).0, slot(&repeated).1 + 1), "the client had that number already");
    elm.ok(lock).await;
    assert_eq!(elm.flags().await, 0, "nothing is broken");
}
