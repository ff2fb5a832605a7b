//! What a client wrote through a layout counts from the moment in which a data server acknowledged it,
//! whether the client tells a metaserver or not.

use bytes::Bytes;
use namespace::{InodeId, read};
use wire::handle::{FileHandle as Handle, HandleKey};
use wire::nfs3::{self, PostOpAttr};
use wire::nfs4::callback::CbArgOp;
use wire::nfs4::{ArgOp, Bitmap, Fattr, FileHandle, ResOp, Stateid, Status, attr};
use wire::nfs4::{close, getattr, nverify, read as read_op, readdir, seek, setattr, write};

use crate::fake_data::FakeData;
use crate::raw::{Client, Raw, layoutget_op, putfh};
use crate::sessions::says;
use crate::world::World;

const READ: u32 = 1;
const BOTH: u32 = 3;
const DENY_WRITE: u32 = 2;
const TIMES: [u32; 3] = [attr::SIZE, attr::CHANGE, attr::TIME_MODIFY];
const S: u64 = 1_000_000_000;

fn getattr_op(of: &[u32]) -> ArgOp {
    ArgOp::GetAttr(getattr::Args { attr_request: Bitmap::of(of) })
}

/// Inode of a file.
pub fn id(file: &FileHandle) -> u64 {
    Handle::open(&file.0, &HandleKey::new([9; 32])).expect("ours").inode
}

/// Ash has a layout to write of file `name`.
async fn laid_out(world: &World, name: &'static str) -> (Client, FileHandle, Stateid) {
    let mut ash = Client::mount(world, "ash").await;
    ash.raw.minor_version = 2;
    let (file, open) = ash.open(name, BOTH, DENY_WRITE).await.expect("opens");
    ash.ok(vec![putfh(&file), layoutget_op(open)]).await;
    (ash, file, open)
}

async fn told(client: &mut Client, file: &FileHandle) -> Fattr {
    match client.ok(vec![putfh(file), getattr_op(&TIMES)]).await.remove(1) {
        ResOp::GetAttr(Ok(reply)) => *reply.attrs,
        other => panic!("{other:?}"),
    }
}

pub async fn size(client: &mut Client, file: &FileHandle) -> Option<u64> {
    told(client, file).await.size
}

fn is_unsettled(world: &World, file: &FileHandle) -> bool {
    let view = world.replica.view().expect("a view");
    read::unsettled(&*view, InodeId(id(file))).expect("reads").is_some()
}

/// What the inode says, without a question.
fn kept_size(world: &World, file: &FileHandle) -> u64 {
    let view = world.replica.view().expect("a view");
    read::inode(&*view, InodeId(id(file))).expect("reads").expect("is there").size
}

#[tokio::test]
async fn what_a_data_server_acknowledged_is_seen_by_all_at_once() {
    let world = World::start().await;
    let (mut ash, file, _) = laid_out(&world, "f").await;
    let mut birch = Client::mount(&world, "birch").await;
    let before = told(&mut birch, &file).await;
    assert_eq!(before.size, Some(0));
    world.data.wrote(id(&file), 1000, S);
    let first = told(&mut birch, &file).await;
    assert_eq!(first.size, Some(1000));
    assert_ne!(first.change, before.change);
    assert_eq!(told(&mut ash, &file).await.change, first.change, "nothing happened in between");
    // Overwritten: the size is the same, the file is not.
    world.data.wrote(id(&file), 1000, 2 * S);
    let second = told(&mut birch, &file).await;
    assert_ne!(second.change, first.change);
    assert_eq!(second.size, Some(1000));
}

/// Nobody comes back to say what was written.
#[tokio::test]
async fn a_client_that_dies_has_written_what_it_has_written() {
    let mut world = World::start().await;
    let (ash, file, _) = laid_out(&world, "f").await;
    world.data.wrote(id(&file), 10 << 20, S);
    drop(ash);
    world.a_lease_passes().await;
    assert!(is_unsettled(&world, &file), "its layout is out by courtesy");
    let mut birch = Client::mount(&world, "birch").await;
    assert_eq!(size(&mut birch, &file).await, Some(10 << 20));
    world.restart().await;
    birch.reconnect(&world).await;
    assert_eq!(size(&mut birch, &file).await, Some(10 << 20));
    birch.open("f", BOTH, 0).await.expect("ash is in the way, and ends");
    world.until("the file is settled", || !is_unsettled(&world, &file)).await;
    let (asked, _) = world.data.asked();
    assert_eq!(size(&mut birch, &file).await, Some(10 << 20));
    assert_eq!(world.data.asked().0, asked, "a settled file needs no question");
}

/// A metaserver that dies between the end of the layout and the last question finds the file when it starts
/// again.
#[tokio::test]
async fn a_file_that_was_left_is_settled_after_a_restart() {
    let mut world = World::start().await;
    let (mut ash, file, open) = laid_out(&world, "f").await;
    world.data.wrote(id(&file), 5000, S);
    world.data.answer(false);
    let args = close::Args { seqid: 0, open_stateid: open };
    ash.ok(vec![putfh(&file), ArgOp::Close(args)]).await;
    world.restart().await;
    assert_eq!((kept_size(&world, &file), is_unsettled(&world, &file)), (0, true));
    world.data.answer(true);
    world.until("the file is settled", || !is_unsettled(&world, &file)).await;
    assert_eq!(kept_size(&world, &file), 5000);
    assert!(world.data.asked().1 > 0, "and what was written is durable");
}

#[tokio::test]
async fn every_operation_that_depends_on_a_size_knows_it() {
    let world = World::start().await;
    let (mut ash, file, open) = laid_out(&world, "f").await;
    world.data.wrote(id(&file), 1000, S);
    let mut birch = Client::mount(&world, "birch").await;
    birch.raw.minor_version = 2;
    let obj_attributes = Box::new(Fattr { size: Some(1000), ..Fattr::default() });
    let nverify = ArgOp::NVerify(nverify::Args { obj_attributes });
    assert_eq!(birch.status(vec![putfh(&file), nverify]).await, Status::Same);

    world.data.wrote(id(&file), 2000, 2 * S);
    let list = ArgOp::ReadDir(readdir::Args {
        cookie: 0,
        cookieverf: [0; 8],
        dircount: 0,
        maxcount: 8192,
        attr_request: Bitmap::of(&[attr::SIZE]),
    });
    let results = birch.ok(vec![ArgOp::PutRootFh, list]).await;
    let ResOp::ReadDir(Ok(listed)) = &results[1] else { panic!("{results:?}") };
    assert_eq!(kept_size(&world, &file), 2000, "asked for {listed:?}");

    world.data.wrote(id(&file), 3000, 3 * S);
    // The fake data server does not look for holes: that it is asked shows that the offset is within the
    // file.
    let seek = ArgOp::Seek(seek::Args { stateid: open, offset: 2999, what: seek::DATA });
    assert_eq!(ash.status(vec![putfh(&file), seek]).await, Status::Delay);
    assert_eq!(kept_size(&world, &file), 3000);

    let mut raw = Raw::connect(&world).await;
    for (len, s) in [(4000, 4), (5000, 5)] {
        world.data.wrote(id(&file), len, s * S);
        assert_eq!(size3(&mut raw, &file).await, Some(len));
    }
}

/// Size of a file by NFSv3; none: it is not told.
pub async fn size3(raw: &mut Raw, file: &FileHandle) -> Option<u64> {
    let args = nfs3::getattr::Args { object: file.0.clone().into() };
    let mut results = raw.exchange((100_003, 3), 1, &args).await.expect("accepted");
    let res: nfs3::getattr::Res = wire::xdr::Decode::decode(&mut results).expect("a reply");
    let attributes: PostOpAttr = res.ok().map(|found| found.obj_attributes);
    attributes.map(|attributes| attributes.size)
}

/// `cp -p`: what was written before the time was set does not move it afterwards.
#[tokio::test]
async fn a_time_that_was_set_after_a_write_stays() {
    let world = World::start().await;
    let (mut ash, file, _) = laid_out(&world, "f").await;
    world.data.wrote(id(&file), 1000, 5 * S);
    let past = wire::nfs4::Time { seconds: -1000, nanoseconds: 0 };
    let set = Fattr { time_modify_set: Some(wire::nfs4::fattr::SetTime::Client(past)), ..Fattr::default() };
    let set = ArgOp::SetAttr(setattr::Args { stateid: Stateid::ANONYMOUS, obj_attributes: Box::new(set) });
    ash.ok(vec![putfh(&file), set]).await;
    let after = told(&mut ash, &file).await;
    assert_eq!((after.size, after.time_modify), (Some(1000), Some(past)));
    world.data.wrote(id(&file), 1000, 6 * S);
    assert_ne!(told(&mut ash, &file).await.time_modify, Some(past), "a later write counts");
}

/// A data server that does not answer holds its files' attributes up for a moment, not for ever, and no
/// others'.
#[tokio::test]
async fn a_client_is_told_to_come_again_while_a_data_server_is_silent() {
    let world = World::start().await;
    let (mut ash, file, _) = laid_out(&world, "f").await;
    let (other, _) = ash.open("other", READ, 0).await.expect("opens");
    world.data.answer(false);
    assert_eq!(ash.status(vec![putfh(&file), getattr_op(&TIMES)]).await, Status::Delay);
    assert_eq!(ash.status(vec![putfh(&file), getattr_op(&[attr::MODE])]).await, Status::Ok);
    assert_eq!(ash.status(vec![putfh(&other), getattr_op(&TIMES)]).await, Status::Ok);
    world.data.answer(true);
    assert_eq!(size(&mut ash, &file).await, Some(0));
}

/// ```text
/// ash writes through a layout, and dies before a metaserver knows of it
/// the target fails, or loses the object -> no open, no read beyond the known end, no settling
/// the name can be looked up, and removed
/// the object is there again             -> its data count
/// ```
#[tokio::test]
async fn a_file_whose_target_failed_is_an_error_and_not_a_shorter_file() {
    out_of_reach(|data, _| data.fail(true), |data, _| data.fail(false)).await;
}

/// As above.
#[tokio::test]
async fn a_file_with_a_lost_object_is_an_error_and_not_a_shorter_file() {
    out_of_reach(FakeData::lose, |data, file| data.wrote(file, 5000, S)).await;
}

/// Its other files, and those of others, are not held up by it, nor is its log filled.
#[tokio::test]
async fn a_target_that_cannot_settle_a_file_is_asked_less_and_less() {
    let world = World::start().await;
    let (mut ash, file, open) = laid_out(&world, "f").await;
    world.data.wrote(id(&file), 5000, S);
    world.data.fail(true);
    let args = close::Args { seqid: 0, open_stateid: open };
    ash.ok(vec![putfh(&file), ArgOp::Close(args)]).await;
    tokio::time::sleep(std::time::Duration::from_secs(4)).await;
    let (_, asked) = world.data.asked();
    // At once, and after 0.5, 1.5 and 3.5 s; it was each 250 ms.
    assert!((2..=5).contains(&asked), "asked {asked} times in 4 s");
    world.data.fail(false);
    world.until("the file is settled", || !is_unsettled(&world, &file)).await;
}

async fn out_of_reach(ends: impl Fn(&FakeData, u64), comes_back: impl Fn(&FakeData, u64)) {
    let world = World::start().await;
    let (mut ash, file, open) = laid_out(&world, "f").await;
    let mut birch = Client::mount(&world, "birch").await;
    birch.raw.minor_version = 2;
    let (_, read_by_birch) = birch.open("f", READ, 0).await.expect("opens");
    assert_eq!(size(&mut birch, &file).await, Some(0));
    world.data.wrote(id(&file), 5000, S);
    ends(&world.data, id(&file));
    // Linux asks for attributes before CLOSE: the file must be closed all the same.
    let args = close::Args { seqid: 0, open_stateid: open };
    ash.ok(vec![putfh(&file), getattr_op(&TIMES), ArgOp::Close(args)]).await;
    let before = world.data.asked().1;
    world.until("the leader tries to settle it", || world.data.asked().1 > before + 2).await;
    assert!(is_unsettled(&world, &file), "while its data are out of reach");
    let listed = world.metaserver.cluster().files_on("0000000000000001", None).expect("there is the target");
    assert_eq!(listed.paths, [b"/f"], "its known size is 0, but it may have data there");

    assert_eq!(birch.open("f", READ, 0).await, Err(Status::Io));
    let read = read_op::Args { stateid: Stateid::ANONYMOUS, offset: 0, count: 100 };
    assert_eq!(birch.status(vec![putfh(&file), ArgOp::Read(read)]).await, Status::Io);
    assert_eq!(birch.status(vec![putfh(&file), getattr_op(&TIMES)]).await, Status::Io);
    let args = close::Args { seqid: 0, open_stateid: read_by_birch };
    birch.ok(vec![putfh(&file), ArgOp::Close(args)]).await;
    // `rm` and `ls -l` ask for what is known.
    assert_eq!(birch.status(vec![putfh(&file), getattr_op(&TIMES)]).await, Status::Ok);
    let mut raw = Raw::connect(&world).await;
    assert_eq!(size3(&mut raw, &file).await, None);
    // `rm` looks it up.
    let lookup = ArgOp::Lookup(wire::nfs4::lookup::Args { objname: Bytes::from_static(b"f") });
    birch.ok(vec![ArgOp::PutRootFh, lookup, getattr_op(&TIMES)]).await;

    comes_back(&world.data, id(&file));
    world.until("the file is settled", || !is_unsettled(&world, &file)).await;
    birch.open("f", READ, 0).await.expect("opens");
    assert_eq!(size(&mut birch, &file).await, Some(5000));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_who_ask_at_the_same_time_share_a_question() {
    let world = World::start().await;
    let (_ash, file, _) = laid_out(&world, "f").await;
    world.data.answer(false);
    let mut asking = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let (mut raw, file) = (Raw::connect(&world).await, file.clone());
        asking.spawn(async move { size3(&mut raw, &file).await });
    }
    world.until("one asks", || world.data.asked().0 > 0).await;
    world.data.wrote(id(&file), 77, S);
    // Those that wait behind the first question share the second.
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    world.data.answer(true);
    while let Some(size) = asking.join_next().await {
        assert_eq!(size.expect("it ends"), Some(77));
    }
    assert!(world.data.asked().0 <= 4, "{:?} questions for 16 askers", world.data.asked());
}

/// What a client has written through here is there already: no question for a file without a layout.
#[tokio::test]
async fn a_file_without_a_layout_needs_no_question() {
    let world = World::start().await;
    let mut ash = Client::mount(&world, "ash").await;
    let (file, stateid) = ash.open("small", BOTH, 0).await.expect("opens");
    let data = Bytes::from_static(b"bytes").into();
    let write = write::Args { stateid, offset: 0, stable: wire::nfs4::StableHow::FileSync, data };
    ash.ok(vec![putfh(&file), ArgOp::Write(write)]).await;
    assert_eq!(size(&mut ash, &file).await, Some(5));
    assert_eq!(world.data.asked(), (0, 0));
}

/// Ash keeps its layout to write and writes nothing; birch looks again and again, each time with a question.
#[tokio::test]
async fn an_idle_layout_of_a_file_that_others_look_at_is_called_back() {
    let world = World::start().await;
    let (mut ash, file, _) = laid_out(&world, "f").await;
    let mut birch = Client::mount(&world, "birch").await;
    let called = ash.raw.called_back(|call| says(call, Status::NoMatchingLayout));
    tokio::pin!(called);
    let mut looks = 0;
    let (_, compound) = loop {
        tokio::select! {
            called = &mut called => break called,
            _ = size(&mut birch, &file) => looks += 1,
        }
        // A holder that writes keeps it: each of these looks brings news.
        if looks < 100 {
            world.data.wrote(id(&file), 1000, looks * S);
        }
        assert!(looks < 10_000, "nothing is called back");
    };
    assert!(matches!(compound.ops[1], CbArgOp::LayoutRecall(_)), "{compound:?}");
    assert!(looks >= 100 + 31, "called back after {looks} looks");
}

/// Its lease has run out: it keeps its state by courtesy, which looks do not end.
#[tokio::test]
async fn looks_do_not_end_a_client_that_keeps_its_layout_by_courtesy() {
    let world = World::start().await;
    let (ash, file, _) = laid_out(&world, "f").await;
    let id = ash.id;
    drop(ash);
    world.a_lease_passes().await;
    let mut birch = Client::mount(&world, "birch").await;
    for _ in 0..100 {
        assert_eq!(size(&mut birch, &file).await, Some(0));
    }
    assert!(is_unsettled(&world, &file));
    assert!(world.client(id).is_some_and(|client| client.lapsed.is_some()));
}
