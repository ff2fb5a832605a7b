//! Strict and lazy: what a client of one metaserver sees of what was done at another, whose word has not
//! arrived yet.

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use cluster::{Consistency, Rules};
use wire::nfs3::{self, Procedure, Status as Status3};
use wire::nfs4::{ArgOp, Status, lookup};
use wire::xdr::{Decode, Encode};

use crate::drc::{at, root};
use crate::raw::{Client, Raw};
use crate::three::Three;
use crate::world::LEASE;

const LAZY: Rules = Rules { consistency: Consistency::Lazy, ..Rules::OPEN };
const BOTH: u32 = 3;
const DENY_WRITE: u32 = 2;
/// What waits for others waits longer than this.
const MOMENT: Duration = Duration::from_millis(300);

fn lookup(name: &'static str) -> Vec<ArgOp> {
    let objname = Bytes::from_static(name.as_bytes());
    vec![ArgOp::PutRootFh, ArgOp::Lookup(lookup::Args { objname })]
}

async fn call<R: Decode>(raw: &mut Raw, procedure: Procedure, args: &(dyn Encode + Sync)) -> R {
    let program = (nfs3::PROGRAM, nfs3::VERSION);
    let mut d = raw.exchange(program, procedure as u32, args).await.expect("accepted");
    R::decode(&mut d).expect("decodes")
}

/// Makes a directory where nothing is held up.
async fn mkdir(three: &Three, n: usize, name: &'static str) {
    let mut raw = Raw::connect(&three.worlds[n]).await;
    let root = root(&mut raw).await;
    let args = nfs3::mkdir::Args { at: at(&root, name), attributes: nfs3::SetAttr::default() };
    let made: nfs3::mkdir::Res = call(&mut raw, Procedure::MkDir, &args).await;
    made.expect("it is made");
}

/// `work` comes to no end before the others' word arrives.
async fn waits<T: Send + 'static>(three: &Three, work: impl Future<Output = T> + Send + 'static) -> T {
    let work = tokio::spawn(work);
    tokio::time::sleep(MOMENT).await;
    assert!(!work.is_finished(), "it does not wait for what others were told");
    three.let_go();
    work.await.expect("it ends")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lazy_reads_wait_for_nobody_and_an_open_sees_all_that_was_answered() {
    let three = Three::start(LAZY).await;
    let (leader, other) = three.leader_and_follower();
    let mut client = Client::mount(&three.worlds[other], "a").await;
    client.ok(vec![ArgOp::PutRootFh]).await;
    three.hold(other);
    mkdir(&three, leader, "d").await;
    assert_eq!(
        client.status(lookup("d")).await,
        Status::NoEnt,
        "the word has not arrived, nor is it asked for"
    );
    let opened = waits(&three, async move {
        let refused = client.open("d", BOTH, 0).await.expect_err("a directory is there");
        (refused, client.status(lookup("d")).await)
    });
    assert_eq!(opened.await, (Status::IsDir, Status::Ok), "and what is read after it is as new");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lazy_reads_show_a_client_its_own_changes_after_it_moved() {
    let three = Three::start(LAZY).await;
    let (leader, other) = three.leader_and_follower();
    let mut client = Client::mount(&three.worlds[leader], "a").await;
    client.open("before", BOTH, 0).await.expect("it opens");
    three.hold(other);
    client.open("mine", BOTH, 0).await.expect("it opens");
    client.reconnect(&three.worlds[other]).await;
    assert_eq!(waits(&three, async move { client.status(lookup("mine")).await }).await, Status::Ok);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_moved_and_binds_its_back_channel_first_sees_its_own_changes() {
    let three = Three::start(LAZY).await;
    let (leader, other) = three.leader_and_follower();
    let mut client = Client::mount(&three.worlds[leader], "a").await;
    client.open("before", BOTH, 0).await.expect("it opens");
    Client::mount(&three.worlds[other], "another").await; // so that this one has heard the leader a moment ago
    three.hold(other);
    client.open("mine", BOTH, 0).await.expect("it opens");
    client.reconnect(&three.worlds[other]).await;
    let found = waits(&three, async move {
        client.bind().await;
        client.status(lookup("mine")).await
    });
    assert_eq!(found.await, Status::Ok);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_lazy_reads_show_is_not_older_than_a_second() {
    let three = Three::start(LAZY).await;
    let (leader, other) = three.leader_and_follower();
    let mut client = Client::mount(&three.worlds[other], "a").await;
    client.ok(vec![ArgOp::PutRootFh]).await;
    three.hold(other);
    mkdir(&three, leader, "d").await;
    three.clock.advance(Duration::from_secs(1));
    assert_eq!(waits(&three, async move { client.status(lookup("d")).await }).await, Status::Ok);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strict_reads_see_all_that_was_answered() {
    let three = Three::start(Rules::OPEN).await;
    let (leader, other) = three.leader_and_follower();
    let mut client = Client::mount(&three.worlds[other], "a").await;
    client.ok(vec![ArgOp::PutRootFh]).await;
    three.hold(other);
    mkdir(&three, leader, "d").await;
    assert_eq!(waits(&three, async move { client.status(lookup("d")).await }).await, Status::Ok);
}

/// Its metaserver does not hear the others until then. If anything of it were carried out, the client would
/// take what it has cached under delegations that are gone for new.
///
/// ```text
/// ash, at a metaserver that hears nobody, opens /f, deny write     (a lease passes)
/// elm, at another one, opens /f to write                           -> ok, and ash is expired
/// ash anything                                                     -> nothing, until the others are heard: bad session
/// ```
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_waited_while_its_client_was_expired_is_not_carried_out() {
    let three = Three::start(Rules::OPEN).await;
    let (leader, other) = three.leader_and_follower();
    let mut ash = Client::mount(&three.worlds[other], "ash").await;
    ash.open("f", BOTH, DENY_WRITE).await.expect("opens");
    three.hold(other);
    let world = &three.worlds[leader];
    let lapses = || {
        three.clock.advance(LEASE);
        world.client(ash.id).is_some_and(|client| client.lapsed.is_some())
    };
    world.until("ash has lapsed", lapses).await;
    let mut elm = Client::mount(world, "elm").await;
    elm.open("f", BOTH, 0).await.expect("ash is silent");
    let told = waits(&three, async move {
        let mut all = vec![];
        for _ in 0..3 {
            all.push(ash.status(vec![ArgOp::PutRootFh]).await);
        }
        all
    });
    assert_eq!(told.await, [Status::BadSession; 3]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lazy_client_of_nfsv3_sees_all_that_was_answered_when_it_opens() {
    let three = Three::start(LAZY).await;
    let (leader, other) = three.leader_and_follower();
    let mut raw = Raw::connect(&three.worlds[other]).await;
    let root = root(&mut raw).await;
    let access = |root: &Bytes| nfs3::access::Args { object: root.clone().into(), access: 1 };
    let links = |res: nfs3::access::Res| res.expect("it may").obj_attributes.expect("attributes").nlink;
    assert_eq!(links(call(&mut raw, Procedure::Access, &access(&root)).await), 2);
    three.hold(other);
    mkdir(&three, leader, "d").await;
    assert_eq!(links(call(&mut raw, Procedure::Access, &access(&root)).await), 2, "as it was");
    let found = waits(&three, async move {
        let args = nfs3::lookup::Args { what: at(&root, "d") };
        let found: nfs3::lookup::Res = call(&mut raw, Procedure::Lookup, &args).await;
        let again: nfs3::access::Res = call(&mut raw, Procedure::Access, &access(&root)).await;
        (found.err().map(|failure| failure.status), links(again))
    });
    assert_eq!(found.await, (None::<Status3>, 3));
}
