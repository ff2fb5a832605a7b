//! Requests for a data server that is away are held, and answered when it is back.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;
use wire::nfs4::{ArgOp, Bitmap, FileHandle, ResOp, Status, attr, getattr};

use crate::raw::{Client, Raw, layoutget_op, putfh};
use crate::unsettled::id;
use crate::world::World;

const BOTH: u32 = 3;
const S: u64 = 1_000_000_000;
const SLOTS: u32 = 8;
/// A session holds half of its slots for longer than [`SHORT`].
const PLACES: usize = 4;
const SHORT: Duration = Duration::from_secs(2);

fn getattr_op() -> ArgOp {
    ArgOp::GetAttr(getattr::Args { attr_request: Bitmap::of(&[attr::SIZE]) })
}

/// Files with a layout to write: each look asks the data server.
async fn laid_out(world: &World, names: &[&'static str]) -> (Client, Vec<FileHandle>) {
    let mut ash = Client::mount_with_slots(Raw::connect(world).await, "ash", SLOTS).await;
    let mut files = Vec::new();
    for name in names {
        let (file, open) = ash.open(name, BOTH, 0).await.expect("opens");
        ash.ok(vec![putfh(&file), layoutget_op(open)]).await;
        files.push(file);
    }
    (ash, files)
}

/// Longer than a request without a place may wait.
#[tokio::test]
async fn a_request_is_answered_when_its_data_server_returns() {
    let world = World::start().await;
    let (mut ash, files) = laid_out(&world, &["f"]).await;
    let (other, _) = ash.open("other", BOTH, 0).await.expect("opens");
    world.data.wrote(id(&files[0]), 1000, S);
    world.data.answer(false);
    let began = Instant::now();
    let returns = async {
        // The first call has ended without an answer, and the next ones.
        world.until("calls are repeated", || world.data.asked().0 >= 4 && began.elapsed() > SHORT).await;
        world.data.answer(true);
    };
    let (results, ()) = tokio::join!(ash.ok(vec![putfh(&files[0]), getattr_op()]), returns);
    let ResOp::GetAttr(Ok(told)) = &results[1] else { panic!("{results:?}") };
    assert_eq!(told.attrs.size, Some(1000));
    assert!(began.elapsed() > SHORT);
    ash.ok(vec![putfh(&other), getattr_op()]).await;
}

/// ```text
/// slots 0 to 5   GETATTR of six files, whose data server is silent    two of them: DELAY after 2 s
/// slot 6         GETATTR of another file: answered
/// ```
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_keeps_slots_for_other_files() {
    let world = World::start().await;
    let names = ["a", "b", "c", "d", "e", "f"];
    let (ash, files) = laid_out(&world, &names).await;
    world.data.answer(false);
    let mut asking = JoinSet::new();
    for (slot, file) in (1..).zip(files) {
        let mut other = ash.over(Raw::connect(&world).await);
        asking.spawn(async move { other.at(slot, 1, vec![putfh(&file), getattr_op()]).await.status });
    }
    let mut told = Vec::new();
    while told.len() < names.len() - PLACES {
        told.push(asking.join_next().await.expect("some are told").expect("no panic"));
    }
    assert_eq!(told, [Status::Delay; 2]);
    world.data.answer(true);
    assert_eq!(asking.join_all().await, [Status::Ok; PLACES]);
}

/// NFSv3 has no sessions: its connections have places.
#[tokio::test]
async fn a_call_of_nfsv3_is_answered_when_its_data_server_returns() {
    let world = World::start().await;
    let (_ash, files) = laid_out(&world, &["f"]).await;
    world.data.wrote(id(&files[0]), 1000, S);
    world.data.answer(false);
    let began = Instant::now();
    let returns = async {
        world.until("calls are repeated", || world.data.asked().0 >= 4 && began.elapsed() > SHORT).await;
        world.data.answer(true);
    };
    let mut raw = Raw::connect(&world).await;
    let (size, ()) = tokio::join!(crate::unsettled::size3(&mut raw, &files[0]), returns);
    assert_eq!(size, Some(1000));
}
