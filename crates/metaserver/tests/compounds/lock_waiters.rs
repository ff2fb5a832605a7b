//! LOCKs that wait, in a group of metaservers of which each may be killed: their clients must have reason to
//! ask again.

use std::cell::{Cell, RefCell};

use cluster::Rules;
use wire::nfs4::callback::{CbArgOp, CbCompound, CbReply, CbResOp, SequenceOk};
use wire::nfs4::open::RESULT_MAY_NOTIFY_LOCK;
use wire::nfs4::{ArgOp, LockType, OwnerName, ResOp, Stateid, Status, locku};

use crate::raw::{Client, putfh};
use crate::three::Three;

const BOTH: u32 = 3;
/// After so many in a row Linux pauses for 1.6 s, and for longer if it is not told to begin again.
const DELAYS: usize = 5;

pub fn waiting(lock: ArgOp) -> ArgOp {
    let ArgOp::Lock(args) = lock else { panic!("{lock:?}") };
    ArgOp::Lock(wire::nfs4::lock::Args { locktype: LockType::WriteWait, ..args })
}

pub fn unlock(lock_stateid: Stateid) -> ArgOp {
    ArgOp::LockU(locku::Args { locktype: LockType::Write, seqid: 0, lock_stateid, offset: 0, length: 10 })
}

pub fn says(call: &CbCompound, status: Status) -> CbReply {
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

fn drains(_: &CbCompound) -> CbReply {
    CbReply {
        status: Status::Delay,
        tag: OwnerName::default(),
        ops: vec![CbResOp::Sequence(Err(Status::Delay))],
    }
}

/// A LOCK that is answered only once the client has answered CB_NOTIFY_LOCK; and is denied then.
async fn told_and_denied(client: &mut Client, lock: &[ArgOp], answer: impl Fn(&CbCompound) -> CbReply) {
    client.sequence += 1;
    let ask = [vec![client.sequence_op(0, client.sequence, true)], lock.to_vec()].concat();
    let calls = Cell::new(0);
    let answer = |call: &CbCompound| {
        assert!(matches!(call.ops[1], CbArgOp::NotifyLock(_)), "{call:?}");
        calls.set(calls.get() + 1);
        answer(call)
    };
    let reply = client.raw.compound_answering(ask, answer).await;
    assert_eq!(reply.status, Status::Denied);
    assert!(calls.get() > 0, "it was not told");
}

/// ```text
/// A lock 0..10                  -> ok
/// B lock 0..10, waits           -> delay          it asks again after 0.1, 0.2, 0.4, 0.8, 1.6 s, or as soon as it is woken
/// B the same, the sixth time    -> told to ask, and then denied
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

    for _ in 0..DELAYS {
        assert_eq!(elm.status(lock.clone()).await, Status::Delay);
    }
    told_and_denied(&mut elm, &lock, |call| says(call, Status::Ok)).await;
    assert_eq!(elm.status(lock.clone()).await, Status::Delay, "it begins again");

    ash.ok(vec![putfh(&file), unlock(locked.lock_stateid)]).await;
    let (_, told) = elm.raw.called_back(|call| says(call, Status::Ok)).await;
    assert!(matches!(told.ops[1], CbArgOp::NotifyLock(_)), "{told:?}");
    elm.ok(lock).await;
}

/// The metaserver that a client comes to does not know what was called back before: the client refuses a slot
/// that somebody else used, and the next one is tried.
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
    let slots = RefCell::new(vec![]);
    let answer = |call: &CbCompound| {
        let CbArgOp::Sequence(args) = &call.ops[0] else { panic!("{call:?}") };
        slots.borrow_mut().push((args.slotid, args.sequenceid));
        match slots.borrow().len() {
            1 => out_of_step(call),
            2 => says(call, Status::RetryUncachedRep),
            _ => says(call, Status::Ok),
        }
    };
    told_and_denied(&mut elm, &lock, answer).await;
    let slots = slots.take();
    let [refused, repeated, told] = slots[..] else { panic!("it was called so: {slots:?}") };
    assert_ne!(refused.0, repeated.0);
    assert_eq!(told, (repeated.0, repeated.1 + 1), "the client had that number already");

    assert_eq!(elm.status(lock.clone()).await, Status::Delay);
    ash.ok(vec![putfh(&file), unlock(locked.lock_stateid)]).await;
    elm.raw.called_back(|call| says(call, Status::Ok)).await;
    elm.ok(lock).await;
    assert_eq!(elm.flags().await, 0, "nothing is broken");
}

/// Its pauses may be long, from the metaserver where it was before.
///
/// ```text
/// A lock 0..10                            -> ok
/// B comes to another metaserver, opens    -> ok, and its locks are notified
/// B lock 0..10, waits                     -> delay     there is no back channel to tell it over
/// B binds a back channel                  -> told to ask; drains; told again
/// B lock 0..10, waits                     -> told to ask, and then denied
/// ```
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_comes_from_another_metaserver_begins_anew_as_soon_as_it_can_be_told() {
    let three = Three::start(Rules::OPEN).await;
    let (first, second) = three.leader_and_follower();
    let mut ash = Client::mount(&three.worlds[first], "ash").await;
    let mut elm = Client::mount(&three.worlds[first], "elm").await;
    let (file, open) = ash.open("f", BOTH, 0).await.expect("opens");
    ash.ok(vec![putfh(&file), ash.lock_op("l", open, 0, 10)]).await;

    elm.reconnect(&three.worlds[second]).await;
    let opened = elm.ok(vec![ArgOp::PutRootFh, elm.open_op("owner", "f", BOTH, 0)]).await;
    let ResOp::Open(Ok(opened)) = &opened[1] else { panic!("{opened:?}") };
    assert_ne!(opened.rflags & RESULT_MAY_NOTIFY_LOCK, 0, "or it would not listen");
    let lock = vec![putfh(&file), waiting(elm.lock_op("l", opened.stateid, 0, 10))];
    assert_eq!(elm.status(lock.clone()).await, Status::Delay);

    let calls = Cell::new(0);
    let answer = |call: &CbCompound| {
        calls.set(calls.get() + 1);
        if calls.get() == 1 { drains(call) } else { says(call, Status::Ok) }
    };
    let bound = elm.raw.compound_answering(vec![elm.bind_op()], answer).await;
    assert_eq!(bound.status, Status::Ok);
    while calls.get() < 2 {
        elm.raw.called_back(answer).await;
    }
    told_and_denied(&mut elm, &lock, |call| says(call, Status::Ok)).await;
    assert_eq!(elm.status(lock).await, Status::Delay, "its pauses are short");
}
