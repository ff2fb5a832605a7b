//! Opens for reading that the leader has in memory only, and what makes it write them.

use std::time::Duration;

use cluster::Rules;
use namespace::{InodeId, StateId, read};
use wire::nfs4::open::{Delegation, OpenHow};
use wire::nfs4::{ArgOp, FileHandle, ResOp, Stateid, Status, close, free_stateid, open_downgrade};
use wire::nfs4::{remove, test_stateid};

use crate::raw::{Client, null, putfh};
use crate::three::Three;
use crate::world::World;

const READ: u32 = 1;
const BOTH: u32 = 3;
const DENY_READ: u32 = 1;
const NO_DELEGATION: u32 = 0x400;

/// Makes /f, and closes it.
async fn make(client: &mut Client) -> FileHandle {
    let (file, open) = client.open("f", BOTH, 0).await.expect("opens");
    client.ok(vec![putfh(&file), closed(open)]).await;
    file
}

fn closed(open: Stateid) -> ArgOp {
    ArgOp::Close(close::Args { seqid: 0, open_stateid: open })
}

fn read_by(open: Stateid) -> ArgOp {
    ArgOp::Read(wire::nfs4::read::Args { stateid: open, offset: 0, count: 10 })
}

fn removed() -> ArgOp {
    ArgOp::Remove(remove::Args { target: bytes::Bytes::from_static(b"f") })
}

/// Opens /f, which exists.
async fn open(client: &mut Client, owner: &'static str, access: u32) -> (Stateid, Delegation) {
    let opens = client.open_how(owner, access, 0, OpenHow::NoCreate, null("f"));
    let results = client.ok(vec![ArgOp::PutRootFh, opens]).await;
    let ResOp::Open(Ok(opened)) = &results[1] else { panic!("{results:?}") };
    (opened.stateid, opened.delegation.clone())
}

/// States of the state machine that /f is opened by.
fn records(world: &World) -> Vec<StateId> {
    let view = world.replica.view().expect("a view");
    match read::lookup(&*view, InodeId::ROOT, b"f").expect("reads") {
        Some(file) => read::opens(&*view, file).expect("reads"),
        None => vec![],
    }
}

/// ```text
/// open /f to read, read, read with the stateid of others, close      no command
/// ```
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_small_file_is_opened_read_and_closed_without_a_command() {
    let world = World::seeing().await;
    let (mut ash, mut elm) = (Client::mount(&world, "ash").await, Client::mount(&world, "elm").await);
    let file = make(&mut ash).await;
    let before = world.replica.status().applied;
    let (open_of_ash, delegation) = open(&mut ash, "o", READ).await;
    assert_eq!(delegation, Delegation::None);
    ash.ok(vec![putfh(&file), read_by(open_of_ash)]).await;
    let tested = test_stateid::Args { stateids: vec![open_of_ash] };
    let results = ash.ok(vec![ArgOp::TestStateid(tested)]).await;
    let ResOp::TestStateid(Ok(tested)) = &results[0] else { panic!("{results:?}") };
    assert_eq!(tested.status_codes, [Status::Ok]);
    for with in [read_by(open_of_ash), closed(open_of_ash)] {
        assert_eq!(elm.status(vec![putfh(&file), with]).await, Status::BadStateid, "it is not elm's");
    }
    // The same owner once more: the same stateid, one later.
    let (again, _) = open(&mut elm, "o", READ).await;
    elm.ok(vec![putfh(&file), closed(again)]).await;
    ash.ok(vec![putfh(&file), closed(open_of_ash)]).await;
    assert_eq!(ash.status(vec![putfh(&file), closed(open_of_ash)]).await, Status::BadStateid);
    for _ in 0..100 {
        let opens = ash.open_how("o", READ | NO_DELEGATION, 0, OpenHow::NoCreate, null("f"));
        let opened = ash.ok(vec![ArgOp::PutRootFh, opens, read_by(Stateid::CURRENT)]).await;
        let ResOp::Open(Ok(opened)) = &opened[1] else { panic!("{opened:?}") };
        ash.ok(vec![putfh(&file), closed(opened.stateid)]).await;
    }
    let commands = world.replica.status().applied - before;
    assert!(commands < 10, "{commands} commands, but for those of the metaserver itself");
}

/// ```text
/// ash open /f to read; close; open /f to read      -> a delegation: it opens again without asking
/// ```
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_opened_again_soon_gets_a_delegation() {
    let world = World::seeing().await;
    let mut ash = Client::mount(&world, "ash").await;
    let file = make(&mut ash).await;
    let (first, _) = open(&mut ash, "o", READ).await;
    ash.ok(vec![putfh(&file), closed(first)]).await;
    let (second, delegation) = open(&mut ash, "o", READ).await;
    assert!(matches!(delegation, Delegation::Read(_)), "{delegation:?}");
    assert_eq!(records(&world).len(), 1);
    ash.ok(vec![putfh(&file), closed(second)]).await;
}

/// ```text
/// ash open /f to read        elm remove /f                -> ok
/// ash read, by its open                                   -> ok
/// ash close                                               the file is gone
/// ```
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_removed_stays_for_those_that_have_it_open() {
    let world = World::seeing().await;
    let (mut ash, mut elm) = (Client::mount(&world, "ash").await, Client::mount(&world, "elm").await);
    let file = make(&mut ash).await;
    let (held, _) = open(&mut ash, "o", READ).await;
    elm.ok(vec![ArgOp::PutRootFh, removed()]).await;
    ash.ok(vec![putfh(&file), read_by(held)]).await;
    ash.ok(vec![putfh(&file), closed(held)]).await;
    assert_eq!(ash.status(vec![putfh(&file), read_by(held)]).await, Status::Stale);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_that_another_operation_needs_is_written_with_its_stateid() {
    let world = World::seeing().await;
    let (mut ash, mut elm) = (Client::mount(&world, "ash").await, Client::mount(&world, "elm").await);
    let file = make(&mut ash).await;
    // A share that denies it.
    let (held, _) = open(&mut ash, "denied", READ).await;
    let denies = elm.open_how("elm", BOTH, DENY_READ, OpenHow::NoCreate, null("f"));
    assert_eq!(elm.status(vec![ArgOp::PutRootFh, denies]).await, Status::ShareDenied);
    assert_eq!(records(&world).len(), 1);
    ash.ok(vec![putfh(&file), closed(held)]).await;
    assert!(records(&world).is_empty());
    world.clock.advance(Duration::from_secs(31)); // it is not opened again soon
    ash.flags().await;
    // More access for the same owner: the same state.
    let (held, _) = open(&mut ash, "more", READ).await;
    let (more, _) = open(&mut ash, "more", BOTH).await;
    assert_eq!((more.other, more.seqid), (held.other, held.seqid + 1));
    let downgrade = |open_stateid| {
        let args = open_downgrade::Args { open_stateid, seqid: 0, share_access: READ, share_deny: 0 };
        vec![putfh(&file), ArgOp::OpenDowngrade(args)]
    };
    let results = ash.ok(downgrade(more)).await;
    let ResOp::OpenDowngrade(Ok(less)) = &results[1] else { panic!("{results:?}") };
    ash.ok(vec![putfh(&file), closed(less.open_stateid)]).await;
    // Operations on the state.
    let (held, _) = open(&mut elm, "locks", READ).await;
    assert_eq!(elm.status(vec![putfh(&file), elm.lock_op("l", held, 0, 10)]).await, Status::OpenMode);
    assert_eq!(
        records(&world).len(),
        1,
        "a lock to write needs an open to write, but the state was asked for"
    );
    let freed = ArgOp::FreeStateid(free_stateid::Args { stateid: held });
    assert_ne!(elm.status(vec![freed]).await, Status::Ok);
    elm.ok(vec![putfh(&file), closed(held)]).await;
    assert!(records(&world).is_empty());
}

/// ```text
/// open /f to read        a second passes        -> in the state machine
/// close                                         -> not there
/// ```
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_that_lasts_is_written() {
    let world = World::seeing().await;
    let mut ash = Client::mount(&world, "ash").await;
    let file = make(&mut ash).await;
    let (held, _) = open(&mut ash, "o", READ).await;
    assert!(records(&world).is_empty());
    ash.flags().await; // it has the answer
    world.clock.advance(Duration::from_secs(1));
    world.until("it is written", || records(&world).len() == 1).await;
    ash.ok(vec![putfh(&file), read_by(held)]).await;
    ash.ok(vec![putfh(&file), closed(held)]).await;
    assert!(records(&world).is_empty());
}

/// ```text
/// ash open /f to read, at the leader                            -> in memory
/// elm open /f to read, at a metaserver that does not lead       -> with a record
/// elm remove /f, there                                          ash reads on
/// ```
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_leader_has_opens_in_memory_and_it_writes_them_before_others_remove_the_file() {
    let three = Three::start(Rules::OPEN).await;
    let (leader, other) = three.leader_and_follower();
    let (here, there) = (&three.worlds[leader], &three.worlds[other]);
    let (mut ash, mut elm) = (Client::mount(here, "ash").await, Client::mount(there, "elm").await);
    let file = make(&mut ash).await;
    let (held, _) = open(&mut ash, "o", READ).await;
    assert!(records(here).is_empty());
    let (second, _) = open(&mut elm, "o", READ | NO_DELEGATION).await;
    assert_eq!(records(there).len(), 1, "elm's metaserver does not lead");
    elm.ok(vec![putfh(&file), closed(second)]).await;
    elm.ok(vec![ArgOp::PutRootFh, removed()]).await;
    ash.ok(vec![putfh(&file), read_by(held)]).await;
    ash.reconnect(there).await;
    ash.ok(vec![putfh(&file), read_by(held)]).await;
    ash.ok(vec![putfh(&file), closed(held)]).await;
    assert_eq!(ash.status(vec![putfh(&file), closed(held)]).await, Status::Stale);
}

/// ```text
/// ash open /f to read, at the leader; read, at another; close, there    -> ok: that one asks the leader
/// ash open /f to read, at the leader; close, at another                 -> ok, and no record is left
/// ```
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_goes_elsewhere_uses_there_what_the_leader_has_in_memory() {
    let three = Three::start(Rules::OPEN).await;
    let (leader, other) = three.leader_and_follower();
    let (here, there) = (&three.worlds[leader], &three.worlds[other]);
    let mut ash = Client::mount(here, "ash").await;
    let file = make(&mut ash).await;
    let (held, _) = open(&mut ash, "o", READ).await;
    assert!(records(here).is_empty());
    ash.reconnect(there).await;
    ash.ok(vec![putfh(&file), read_by(held)]).await;
    assert_eq!(records(there).len(), 1);
    ash.ok(vec![putfh(&file), closed(held)]).await;
    assert!(records(there).is_empty());
    // Its first request at a metaserver may have been sent elsewhere before.
    ash.reconnect(here).await;
    ash.flags().await;
    let opens = ash.open_how("o", READ | NO_DELEGATION, 0, OpenHow::NoCreate, null("f"));
    let opened = ash.ok(vec![ArgOp::PutRootFh, opens]).await;
    let ResOp::Open(Ok(opened)) = &opened[1] else { panic!("{opened:?}") };
    assert!(records(here).is_empty());
    ash.reconnect(there).await;
    ash.ok(vec![putfh(&file), closed(opened.stateid)]).await;
    assert!(records(there).is_empty());
}

/// ```text
/// open /f to read; open /f with creation, to read, by the same owner    -> the same state
/// ```
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_has_one_stateid_for_a_file_however_it_opens_it() {
    let world = World::seeing().await;
    let mut ash = Client::mount(&world, "ash").await;
    let file = make(&mut ash).await;
    let (first, _) = open(&mut ash, "owner", READ).await;
    let (_, second) = ash.open("f", READ, 0).await.expect("opens");
    assert_eq!((second.other, second.seqid), (first.other, first.seqid + 1));
    assert_eq!(records(&world).len(), 1);
    ash.ok(vec![putfh(&file), closed(second)]).await;
    assert!(records(&world).is_empty());
}
