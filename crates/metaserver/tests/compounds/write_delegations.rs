//! Write delegations: what a client may do under one, and what others wait for.

use std::time::Duration;

use bytes::Bytes;
use namespace::{VolumeId, read};
use wire::nfs4::callback::{CbArgOp, CbCompound, CbReply, CbResOp, RecallAnyArgs};
use wire::nfs4::open::{
    Claim, CreateHow, Delegation, OpenHow, RESULT_NO_OPEN_STATEID, SpaceLimit, WriteDelegation,
};
use wire::nfs4::{ArgOp, Bitmap, FileHandle, ResOp, StableHow, Stateid, Status, attr};
use wire::nfs4::{close, delegreturn, getattr, readdir, sequence, setattr, verify, write};

use crate::lock_waiters::says;
use crate::raw::{Client, Raw, null, putfh};
use crate::unsettled::{size, size3};
use crate::world::World;

const READ: u32 = 1;
const BOTH: u32 = 3;
const WANT_WRITE: u32 = 0x200;
const WANT_ANY: u32 = 0x300;
const NO_OPEN: u32 = 0x20_0000;
/// What a client has written under its delegation, unknown to the server.
const UNWRITTEN: &[u8] = b"written later";

/// Makes a file that is closed, with a delegation if there is one.
pub async fn made(client: &mut Client, name: &'static str) -> (FileHandle, Option<WriteDelegation>) {
    let opens = client.open_how(
        "o",
        BOTH | WANT_WRITE,
        0,
        OpenHow::Create(CreateHow::Unchecked(Box::default())),
        null(name),
    );
    let (file, open, delegation) = opened(client, opens).await;
    client.ok(vec![putfh(&file), closed(open)]).await;
    (file, delegation)
}

async fn opened(client: &mut Client, open: ArgOp) -> (FileHandle, Stateid, Option<WriteDelegation>) {
    let results = client.ok(vec![ArgOp::PutRootFh, open, ArgOp::GetFh]).await;
    let [_, ResOp::Open(Ok(opened)), ResOp::GetFh(Ok(file))] = &results[..] else { panic!("{results:?}") };
    let delegation = match &opened.delegation {
        Delegation::Write(delegation) => Some(delegation.clone()),
        _ => None,
    };
    (file.object.clone(), opened.stateid, delegation)
}

fn closed(open: Stateid) -> ArgOp {
    ArgOp::Close(close::Args { seqid: 0, open_stateid: open })
}

pub fn write_by(stateid: Stateid) -> ArgOp {
    let data = Bytes::from_static(UNWRITTEN).into();
    ArgOp::Write(write::Args { stateid, offset: 0, stable: StableHow::FileSync, data })
}

fn read_by(stateid: Stateid) -> ArgOp {
    ArgOp::Read(wire::nfs4::read::Args { stateid, offset: 0, count: 100 })
}

fn returned(stateid: Stateid) -> ArgOp {
    ArgOp::DelegReturn(delegreturn::Args { stateid })
}

pub fn obeys(call: &CbCompound) -> CbReply {
    let mut reply = says(call, Status::Ok);
    reply.ops[1] = match &call.ops[1] {
        CbArgOp::Recall(_) => CbResOp::Recall(Ok(())),
        CbArgOp::RecallAny(_) => CbResOp::RecallAny(Ok(())),
        other => panic!("{other:?}"),
    };
    reply
}

/// Waits for the recall of a delegation; the first one from a client asks for all of closed files, too.
async fn is_recalled(client: &mut Client, file: &FileHandle, first: bool) {
    let (mut recalled, mut any) = (false, !first);
    while !recalled || !any {
        let (_, call) = client.raw.called_back(obeys).await;
        match &call.ops[1] {
            CbArgOp::Recall(args) => recalled = args.fh == *file,
            CbArgOp::RecallAny(args) => any = args.type_mask == RecallAnyArgs::WRITE_DELEGATIONS,
            other => panic!("{other:?}"),
        }
    }
}

/// Writes what it has, and gives the delegation back.
async fn gives_back(client: &mut Client, file: &FileHandle, delegation: &WriteDelegation, first: bool) {
    is_recalled(client, file, first).await;
    client.ok(vec![putfh(file), write_by(delegation.stateid)]).await;
    client.ok(vec![putfh(file), returned(delegation.stateid)]).await;
}

pub fn holders(world: &World) -> usize {
    read::write_delegations(&*world.replica.view().expect("a view"), VolumeId::FIRST, 100)
        .expect("reads")
        .len()
}

/// ```text
/// ash make /f, close                        -> a delegation to write, of 64 KiB that close() need not wait for
/// ash write, read, truncate by it           -> ok; getattr recalls nothing
/// ash open /f to read and write             -> no other one
/// ```
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_creator_writes_after_it_has_closed() {
    let world = World::seeing().await;
    let mut ash = Client::mount(&world, "ash").await;
    let (file, delegation) = made(&mut ash, "f").await;
    let delegation = delegation.expect("of a new file");
    assert_eq!((delegation.space_limit, delegation.recall), (SpaceLimit::Size(64 * 1024), false));
    let by = delegation.stateid;
    let size_of_3 = Box::new(wire::nfs4::Fattr { size: Some(3), ..Default::default() });
    let truncates = ArgOp::SetAttr(setattr::Args { stateid: by, obj_attributes: size_of_3 });
    ash.ok(vec![putfh(&file), write_by(by), read_by(by), truncates]).await;
    assert_eq!(size(&mut ash, &file).await, Some(3));
    let again = ash.open_how("p", BOTH | WANT_ANY, 0, OpenHow::NoCreate, null("f"));
    let (_, open, second) = opened(&mut ash, again).await;
    assert_eq!(second, None);
    ash.ok(vec![putfh(&file), closed(open)]).await;
    ash.ok(vec![putfh(&file), returned(by)]).await;
    assert_eq!(ash.status(vec![putfh(&file), write_by(by)]).await, Status::BadStateid);
    world.until("it has ended", || holders(&world) == 0).await;
}

/// Whatever shows data, size or times to others waits until the client has told them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn others_wait_for_what_the_client_has_not_written_yet() {
    let world = World::seeing().await;
    let (mut ash, mut elm) = (Client::mount(&world, "ash").await, Client::mount(&world, "elm").await);
    let attributes = Bitmap::of(&[attr::SIZE]);
    let told =
        |file: &FileHandle| vec![putfh(file), ArgOp::GetAttr(getattr::Args { attr_request: attributes })];
    let listed = || {
        let (attr_request, maxcount) = (Bitmap::of(&[attr::SIZE]), 4096);
        let args = readdir::Args { cookie: 0, cookieverf: [0; 8], dircount: 4096, maxcount, attr_request };
        vec![ArgOp::PutRootFh, ArgOp::ReadDir(args)]
    };
    let same_size = |file: &FileHandle| {
        let size = Some(UNWRITTEN.len() as u64);
        let obj_attributes = Box::new(wire::nfs4::Fattr { size, ..Default::default() });
        vec![putfh(file), ArgOp::Verify(verify::Args { obj_attributes })]
    };
    let names = ["a", "b", "c", "d", "e"];
    let mut files = vec![];
    for name in names {
        files.push(made(&mut ash, name).await);
    }
    for (n, (name, (file, delegation))) in names.into_iter().zip(files).enumerate() {
        let delegation = delegation.expect("of a new file");
        let opens = elm.open_how("o", READ, 0, OpenHow::NoCreate, null(name));
        let asks = match n {
            0 => told(&file),
            1 => vec![ArgOp::PutRootFh, opens, read_by(Stateid::CURRENT)],
            2 => vec![putfh(&file), read_by(Stateid::ANONYMOUS)],
            3 => same_size(&file),
            _ => listed(),
        };
        let (results, ()) = tokio::join!(elm.ok(asks), gives_back(&mut ash, &file, &delegation, n == 0));
        match results.last().expect("a result") {
            ResOp::GetAttr(Ok(told)) => assert_eq!(told.attrs.size, Some(UNWRITTEN.len() as u64)),
            ResOp::Read(Ok(read)) => assert_eq!(read.data.to_bytes(), UNWRITTEN, "{name}"),
            ResOp::ReadDir(Ok(_)) | ResOp::Verify(Ok(())) => {}
            other => panic!("{other:?}"),
        }
        assert_eq!(holders(&world), names.len() - n - 1, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn version_3_waits_for_it_too() {
    let world = World::seeing().await;
    let mut ash = Client::mount(&world, "ash").await;
    let (file, delegation) = made(&mut ash, "f").await;
    let delegation = delegation.expect("of a new file");
    let mut raw = Raw::connect(&world).await;
    let (size, ()) = tokio::join!(size3(&mut raw, &file), gives_back(&mut ash, &file, &delegation, true));
    assert_eq!(size, Some(UNWRITTEN.len() as u64));
}

/// ```text
/// elm write 70 KiB to /f, without an open     nothing is sent to a data server before ash has given it back:
///                                             what ash writes for the recall is older
/// ```
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_without_an_open_waits_before_its_first_byte() {
    let world = World::seeing().await;
    let (mut ash, mut elm) = (Client::mount(&world, "ash").await, Client::mount(&world, "elm").await);
    let (file, delegation) = made(&mut ash, "f").await;
    delegation.expect("of a new file");
    let (stateid, stable) = (Stateid::ANONYMOUS, StableHow::FileSync);
    let write = write::Args { stateid, offset: 0, stable, data: Bytes::from(vec![1; 70 * 1024]).into() };
    let (status, ()) =
        tokio::join!(elm.status(vec![putfh(&file), ArgOp::Write(write)]), is_recalled(&mut ash, &file, true));
    assert_eq!((status, world.data.writes()), (Status::Delay, 0));
}

/// ```text
/// ash make /f                   elm getattr /f      -> recalled, and all of closed files
/// ash make /g                   no delegation: others use its files
/// ash open /g, 30 s later       a delegation
/// ```
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_whose_files_others_use_gets_none_for_a_while() {
    let world = World::seeing().await;
    let (mut ash, mut elm) = (Client::mount(&world, "ash").await, Client::mount(&world, "elm").await);
    let (file, delegation) = made(&mut ash, "f").await;
    let delegation = delegation.expect("of a new file");
    tokio::join!(size(&mut elm, &file), gives_back(&mut ash, &file, &delegation, true));
    assert_eq!(made(&mut ash, "g").await.1, None);
    assert!(made(&mut elm, "i").await.1.is_some(), "elm's are used by elm alone");
    world.clock.advance(Duration::from_secs(31));
    ash.flags().await;
    let again = ash.open_how("o", BOTH | WANT_WRITE, 0, OpenHow::NoCreate, null("g"));
    assert!(opened(&mut ash, again).await.2.is_some());
}

/// ```text
/// elm open /f to read (in the leader's memory)      ash open /f to write   -> no delegation
/// ```
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_in_memory_is_seen_by_an_open_for_writing() {
    let world = World::seeing().await;
    let (mut ash, mut elm) = (Client::mount(&world, "ash").await, Client::mount(&world, "elm").await);
    let (file, open) = ash.open("f", BOTH, 0).await.expect("opens");
    ash.ok(vec![putfh(&file), closed(open)]).await;
    let reads = elm.open_how("o", READ, 0, OpenHow::NoCreate, null("f"));
    let (_, held, _) = opened(&mut elm, reads).await;
    assert_ne!(held.other[0] & 0x80, 0, "it has no record");
    let writes = ash.open_how("o", BOTH | WANT_WRITE, 0, OpenHow::NoCreate, null("f"));
    let (_, open, delegation) = opened(&mut ash, writes).await;
    assert_eq!(delegation, None);
    elm.ok(vec![putfh(&file), closed(held)]).await;
    ash.ok(vec![putfh(&file), closed(open)]).await;
    // The only opener gets one, also of a file that exists.
    let writes = ash.open_how("o", BOTH | WANT_WRITE, 0, OpenHow::NoCreate, null("f"));
    assert!(opened(&mut ash, writes).await.2.is_some());
}

/// ```text
/// ash make five files, and is silent for a lease      elm open each of them: none waits
/// ```
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_dies_with_many_holds_nobody_up_after_a_lease() {
    const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
    let world = World::seeing().await;
    let mut ash = Client::mount(&world, "ash").await;
    for name in NAMES {
        assert!(made(&mut ash, name).await.1.is_some());
    }
    world.a_lease_passes().await;
    let mut elm = Client::mount(&world, "elm").await;
    for name in NAMES {
        elm.open(name, BOTH, 0).await.expect("ash is silent");
    }
    assert_eq!(holders(&world), 0);
    assert_eq!(world.client(ash.id), None);
}

/// ```text
/// elm getattr /f      ash does not give its delegation back, for a lease      -> revoked
/// ash write by it     -> DELEG_REVOKED, and SEQUENCE says so
/// ```
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_is_not_given_back_is_revoked() {
    let world = World::seeing().await;
    let (mut ash, mut elm) = (Client::mount(&world, "ash").await, Client::mount(&world, "elm").await);
    let (file, delegation) = made(&mut ash, "f").await;
    let delegation = delegation.expect("of a new file");
    let told = vec![putfh(&file), ArgOp::GetAttr(getattr::Args { attr_request: Bitmap::of(&[attr::SIZE]) })];
    let (status, ()) = tokio::join!(elm.status(told), is_recalled(&mut ash, &file, true));
    assert_eq!(status, Status::Delay);
    for _ in 0..4 {
        world.clock.advance(crate::world::LEASE / 3);
        ash.flags_answering(obeys).await;
        elm.flags().await;
    }
    let (size, ()) = tokio::join!(size(&mut elm, &file), async {});
    assert_eq!(size, Some(0));
    assert_ne!(ash.flags_answering(obeys).await & sequence::RECALLABLE_STATE_REVOKED, 0);
    assert_eq!(ash.status(vec![putfh(&file), write_by(delegation.stateid)]).await, Status::DelegRevoked);
    assert_eq!(holders(&world), 0);
}

/// ```text
/// ash make /f, and a delegation is enough for it    -> no open stateid; write and read by the delegation
/// ash opens it for a recall                         -> an open; delegreturn
/// ash make /g, elm has used its files               -> no delegation, but an open
/// ```
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delegation_takes_the_place_of_an_open() {
    let world = World::seeing().await;
    let (mut ash, mut elm) = (Client::mount(&world, "ash").await, Client::mount(&world, "elm").await);
    let asked = Bitmap::of(&[attr::OPEN_ARGUMENTS]);
    let results = ash.ok(vec![ArgOp::PutRootFh, ArgOp::GetAttr(getattr::Args { attr_request: asked })]).await;
    let ResOp::GetAttr(Ok(told)) = &results[1] else { panic!("{results:?}") };
    let arguments = told.attrs.open_arguments.expect("it is told");
    assert!(arguments.share_access_want.contains(21), "OPEN_ARGS_SHARE_ACCESS_WANT_OPEN_XOR_DELEGATION");

    let create = || OpenHow::Create(CreateHow::Unchecked(Box::default()));
    let opens = ash.open_how("o", BOTH | WANT_ANY | NO_OPEN, 0, create(), null("f"));
    let ops = vec![ArgOp::PutRootFh, opens, ArgOp::GetFh, write_by(Stateid::CURRENT)];
    let results = ash.ok(ops).await;
    let [_, ResOp::Open(Ok(opened)), ResOp::GetFh(Ok(file)), _] = &results[..] else { panic!("{results:?}") };
    assert_ne!(opened.rflags & RESULT_NO_OPEN_STATEID, 0);
    assert_eq!(opened.stateid, Stateid::ANONYMOUS);
    let Delegation::Write(delegation) = opened.delegation.clone() else { panic!("{opened:?}") };
    let file = file.object.clone();
    ash.ok(vec![putfh(&file), read_by(delegation.stateid)]).await;
    let reads = elm.open_how("o", READ, 0, OpenHow::NoCreate, null("f"));
    let gives = async {
        is_recalled(&mut ash, &file, true).await;
        let told = ash.open_how("o", BOTH, 0, OpenHow::NoCreate, Claim::DelegCurFh(delegation.stateid));
        let results = ash.ok(vec![putfh(&file), told]).await;
        let ResOp::Open(Ok(opened)) = &results[1] else { panic!("{results:?}") };
        assert_eq!(opened.rflags & RESULT_NO_OPEN_STATEID, 0);
        ash.ok(vec![putfh(&file), returned(delegation.stateid)]).await;
        ash.ok(vec![putfh(&file), closed(opened.stateid)]).await;
    };
    tokio::join!(elm.ok(vec![ArgOp::PutRootFh, reads, read_by(Stateid::CURRENT)]), gives);
    let opens = ash.open_how("o", BOTH | WANT_ANY | NO_OPEN, 0, create(), null("g"));
    let results = ash.ok(vec![ArgOp::PutRootFh, opens]).await;
    let ResOp::Open(Ok(opened)) = &results[1] else { panic!("{results:?}") };
    assert_eq!(opened.rflags & RESULT_NO_OPEN_STATEID, 0);
    assert!(matches!(opened.delegation, Delegation::NoneExt(_)), "{:?}", opened.delegation);
}
