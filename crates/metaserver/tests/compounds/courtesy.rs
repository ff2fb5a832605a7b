//! Clients whose lease ran out keep what they have until somebody wants it.

use namespace::read;
use wire::nfs4::open::Delegation;
use wire::nfs4::{ArgOp, Bitmap, ResOp, Stateid, Status, attr};
use wire::nfs4::{close, delegreturn, getattr, lockt, locku, write};

use crate::drc;
use crate::raw::{Client, Raw, layoutget_op, putfh};
use crate::world::World;

const READ: u32 = 1;
const BOTH: u32 = 3;
const DENY_WRITE: u32 = 2;

/// ```text
/// ash open /f, lock 0..10      (a lease passes, and another)
/// ash unlock 0..10, close      -> ok; no status flag says that anything was lost
/// ```
#[tokio::test]
async fn a_client_that_comes_back_carries_on() {
    let world = World::start().await;
    let mut ash = Client::mount(&world, "ash").await;
    let (file, open) = ash.open("f", BOTH, 0).await.expect("opens");
    let locked = ash.ok(vec![putfh(&file), ash.lock_op("l", open, 0, 10)]).await;
    let ResOp::Lock(Ok(locked)) = &locked[1] else { panic!("{locked:?}") };
    world.a_lease_passes().await;
    world.a_lease_passes().await;
    assert!(world.client(ash.id).expect("it is kept").lapsed.is_some());
    assert_eq!(ash.flags().await, 0);
    assert_eq!(world.client(ash.id).expect("it is there").lapsed, None);
    let unlock = locku::Args {
        locktype: wire::nfs4::LockType::Write,
        seqid: 0,
        lock_stateid: locked.lock_stateid,
        offset: 0,
        length: 10,
    };
    let close = ArgOp::Close(close::Args { seqid: 0, open_stateid: open });
    ash.ok(vec![putfh(&file), ArgOp::LockU(unlock), close]).await;
}

/// ```text
/// ash open /f, deny write      (a lease passes)
/// elm open /f to write         -> ok, at once
/// ash anything                 -> bad session
/// ```
#[tokio::test]
async fn an_open_that_is_denied_by_a_silent_client_goes_on() {
    let world = World::start().await;
    let mut ash = Client::mount(&world, "ash").await;
    let mut elm = Client::mount(&world, "elm").await;
    ash.open("f", BOTH, DENY_WRITE).await.expect("opens");
    assert_eq!(elm.open("f", BOTH, 0).await, Err(Status::ShareDenied));
    world.a_lease_passes().await;
    let mut elm = Client::mount(&world, "elm").await; // it had nothing, and was forgotten
    elm.open("f", BOTH, 0).await.expect("ash is silent");
    assert_eq!(world.client(ash.id), None);
    assert_eq!(ash.run(vec![]).await.expect_err("it is gone"), Status::BadSession);
    let known = ash.raw.exchange_id("ash", 1, 0).await.expect("exchanges ids");
    assert_ne!(known.clientid, ash.id);
}

#[tokio::test]
async fn a_lock_that_a_silent_client_holds_is_given_to_the_next() {
    let world = World::start().await;
    let mut ash = Client::mount(&world, "ash").await;
    let mut elm = Client::mount(&world, "elm").await;
    let (file, open) = ash.open("f", BOTH, 0).await.expect("opens");
    ash.ok(vec![putfh(&file), ash.lock_op("l", open, 0, 10)]).await;
    let (_, open) = elm.open("f", BOTH, 0).await.expect("opens");
    let lock = elm.lock_op("l", open, 5, 10);
    assert_eq!(elm.status(vec![putfh(&file), lock.clone()]).await, Status::Denied);
    world.a_lease_passes().await;
    assert_eq!(elm.status(vec![putfh(&file), lock]).await, Status::Ok);
    assert_eq!(world.client(ash.id), None);
}

/// ```text
/// ash open /f, deny write, and 1,400 locks     (a lease passes)
/// elm open /f to write         -> ok, at once; the server dies
/// (a server begins)            -> nothing of ash is left
/// ```
#[tokio::test]
async fn what_a_client_with_much_leaves_is_removed_also_by_the_next_server() {
    let mut world = World::start().await;
    let mut ash = Client::mount(&world, "ash").await;
    let (file, open) = ash.open("f", BOTH, DENY_WRITE).await.expect("opens");
    for compound in 0..100 {
        let locks = (0..14).map(|n| ash.lock_op("l", open, compound * 1000 + n * 10, 5));
        ash.ok([putfh(&file)].into_iter().chain(locks).collect()).await;
    }
    world.a_lease_passes().await;
    let mut elm = Client::mount(&world, "elm").await;
    elm.open("f", BOTH, 0).await.expect("ash is silent");
    assert_eq!(world.client(ash.id), None);
    world.restart().await;
    world
        .until("leftovers are removed", || {
            let view = world.replica.view().expect("a view");
            let held = read::locks(&*view, namespace::InodeId(3)).expect("reads");
            !read::has_leftovers(&*view).expect("reads") && held.is_empty()
        })
        .await;
}

/// LOCKT and I/O without an open change nothing themselves: they are told to come again, and the lapsed
/// client goes.
#[tokio::test]
async fn a_silent_client_in_conflict_with_a_question_goes_soon() {
    let world = World::start().await;
    let mut ash = Client::mount(&world, "ash").await;
    let mut elm = Client::mount(&world, "elm").await;
    let (file, open) = ash.open("f", BOTH, DENY_WRITE).await.expect("opens");
    ash.ok(vec![putfh(&file), ash.lock_op("l", open, 0, 10)]).await;
    let test = ArgOp::LockT(lockt::Args {
        locktype: wire::nfs4::LockType::Write,
        offset: 0,
        length: 10,
        owner: elm.owner("l"),
    });
    let write = ArgOp::Write(write::Args {
        stateid: wire::nfs4::Stateid::ANONYMOUS,
        offset: 0,
        stable: wire::nfs4::StableHow::FileSync,
        data: bytes::Bytes::new().into(),
    });
    assert_eq!(elm.status(vec![putfh(&file), test.clone()]).await, Status::Denied);
    assert_eq!(elm.status(vec![putfh(&file), write.clone()]).await, Status::Locked);
    world.a_lease_passes().await;
    let mut elm = Client::mount(&world, "elm").await; // it had nothing, and was forgotten
    assert_eq!(elm.status(vec![putfh(&file), write.clone()]).await, Status::Delay);
    world.until("ash is gone", || world.client(ash.id).is_none()).await;
    assert_eq!(elm.status(vec![putfh(&file), write]).await, Status::Ok);
    assert_eq!(elm.status(vec![putfh(&file), test]).await, Status::Ok);
}

#[tokio::test]
async fn a_silent_client_that_has_nothing_is_forgotten() {
    let world = World::start().await;
    let ash = Client::mount(&world, "ash").await;
    let unconfirmed = Raw::connect(&world).await.exchange_id("elm", 1, 0).await.expect("exchanges ids");
    world.a_lease_passes().await;
    assert_eq!(world.client(ash.id), None);
    assert_eq!(world.client(unconfirmed.clientid), None);
}

/// That it lapsed is known to the state machine: a server that starts again knows it, too.
#[tokio::test]
async fn courtesy_outlives_the_server() {
    let mut world = World::start().await;
    let mut ash = Client::mount(&world, "ash").await;
    ash.open("f", BOTH, DENY_WRITE).await.expect("opens");
    world.a_lease_passes().await;
    world.restart().await;
    ash.reconnect(&world).await;
    ash.ok(vec![]).await;
    assert_eq!(world.client(ash.id).expect("it is there").lapsed, None);
    let mut elm = Client::mount(&world, "elm").await;
    assert_eq!(elm.open("f", BOTH, 0).await, Err(Status::ShareDenied), "ash is back");
}

/// A layout that is to come back: nobody waits for a silent client to give it.
#[tokio::test]
async fn a_layout_of_a_silent_client_is_in_nobodys_way() {
    let world = World::start().await;
    let mut ash = Client::mount(&world, "ash").await;
    let (file, open) = ash.open("f", BOTH, 0).await.expect("opens");
    ash.ok(vec![putfh(&file), layoutget_op(open)]).await;
    world.a_lease_passes().await;
    assert!(world.client(ash.id).is_some());
    let mut raw = Raw::connect(&world).await;
    let root = drc::root(&mut raw).await;
    // The recall is over; there is no data server to truncate the objects.
    assert_eq!(drc::truncate(&mut raw, &root, "f").await, Some(wire::nfs3::Status::Jukebox));
    assert_eq!(world.client(ash.id), None);
}

/// A client takes what it reads of a file's attributes together with its DELEGRETURN for its own doing.
///
/// ```text
/// ash open /f to read                  -> a delegation
/// ash getattr, return it               -> ok
/// ash open /f to read                  -> a delegation      (a lease passes)
/// elm open /f to write                 -> ok, and ash has nothing any more
/// ash getattr, return it               -> access
/// ash return it                        -> bad stateid
/// ```
#[tokio::test]
async fn no_attributes_are_told_with_the_return_of_a_delegation_that_is_gone() {
    let world = World::start().await;
    let mut elm = Client::mount(&world, "elm").await;
    let (file, open) = elm.open("f", BOTH, 0).await.expect("opens");
    elm.ok(vec![putfh(&file), ArgOp::Close(close::Args { seqid: 0, open_stateid: open })]).await;
    let mut ash = Client::mount(&world, "ash").await;
    let attributes = || ArgOp::GetAttr(getattr::Args { attr_request: Bitmap::of(&[attr::CHANGE]) });
    let given_back = |stateid| ArgOp::DelegReturn(delegreturn::Args { stateid });
    let held = delegation(&mut ash).await;
    ash.ok(vec![putfh(&file), attributes(), given_back(held)]).await;

    let held = delegation(&mut ash).await;
    world.a_lease_passes().await;
    let mut elm = Client::mount(&world, "elm").await;
    while elm.open("f", BOTH, 0).await == Err(Status::Delay) {}
    let mut ash = Client::mount(&world, "ash").await;
    assert_eq!(ash.status(vec![putfh(&file), attributes(), given_back(held)]).await, Status::Access);
    assert_eq!(ash.status(vec![putfh(&file), given_back(held)]).await, Status::BadStateid);
    ash.ok(vec![putfh(&file), attributes()]).await;
}

async fn delegation(client: &mut Client) -> Stateid {
    let opened = client.ok(vec![ArgOp::PutRootFh, client.open_op("reader", "f", READ, 0)]).await;
    let ResOp::Open(Ok(opened)) = &opened[1] else { panic!("{opened:?}") };
    match &opened.delegation {
        Delegation::Read(read) => read.stateid,
        other => panic!("{other:?}"),
    }
}
