//! Offsets and counts at the ends of what their types hold.

use bytes::Bytes;
use wire::nfs3::{self, Call};
use wire::nfs4::{
    ArgOp, Bitmap, ClientId, Fattr, LayoutIoMode, LayoutType, LockType, ResOp, StableHow, StateOwner,
    Stateid, Status, commit, getdeviceinfo, layoutget, lock, putfh, read, readdir, setattr, write,
};
use wire::xdr::Encoder;

use crate::Scene;
use crate::client::{Client, NFS4, Raw};
use crate::names::{handle, opened, root3, status3};

/// TIME_ACCESS_SET, TIME_MODIFY_SET, MODE_SET_MASKED, MODE_UMASK: attributes that are only written.
const WRITE_ONLY: [u32; 4] = [48, 54, 74, 81];
const LAST: u64 = i64::MAX as u64;

fn on(handle: &Bytes, op: ArgOp) -> Vec<ArgOp> {
    vec![ArgOp::PutFh(putfh::Args { object: handle.clone().into() }), op]
}

fn write_at(stateid: Stateid, offset: u64) -> ArgOp {
    let data = Bytes::from_static(b"0123").into();
    ArgOp::Write(write::Args { stateid, offset, stable: StableHow::Unstable, data })
}

#[tokio::test(flavor = "multi_thread")]
async fn offsets_near_the_end_of_64_bits() {
    let scene = Scene::start().await;
    let mut client = Client::mount(&scene, "c").await;
    let stateid = opened(&mut client, "f").await;
    let file = handle(&mut client, "f").await;
    let size = |size| {
        let obj_attributes = Box::new(Fattr { size: Some(size), ..Fattr::default() });
        ArgOp::SetAttr(setattr::Args { stateid, obj_attributes })
    };
    let lock = |offset, length| {
        let lock_owner = StateOwner { clientid: ClientId(0), owner: Bytes::from_static(b"l").into() };
        let new = lock::OpenToLockOwner { open_seqid: 0, open_stateid: stateid, lock_seqid: 0, lock_owner };
        let locker = lock::Locker::New(new);
        ArgOp::Lock(lock::Args { locktype: LockType::Write, reclaim: false, offset, length, locker })
    };
    let read = |offset, count| ArgOp::Read(read::Args { stateid, offset, count });
    let layout = |offset, length| {
        ArgOp::LayoutGet(layoutget::Args {
            signal_layout_avail: false,
            layout_type: LayoutType::FILES,
            iomode: LayoutIoMode::ReadWrite,
            offset,
            length,
            minlength: 1,
            stateid,
            maxcount: 4096,
        })
    };
    let commit = |offset, count| ArgOp::Commit(commit::Args { offset, count });
    let table = [
        ("WRITE at the last byte", write_at(stateid, u64::MAX), Status::FBig),
        ("WRITE over the last byte", write_at(stateid, u64::MAX - 3), Status::FBig),
        ("WRITE over what a signed offset holds", write_at(stateid, LAST - 1), Status::FBig),
        ("READ beyond everything", read(u64::MAX, u32::MAX), Status::Ok),
        ("READ of as much as can be said", read(0, u32::MAX), Status::Ok),
        ("SETATTR of a size", size(u64::MAX), Status::FBig),
        ("SETATTR of a size", size(LAST + 1), Status::FBig),
        ("LOCK of nothing", lock(5, 0), Status::Inval),
        ("LOCK over the end", lock(u64::MAX, 2), Status::Inval),
        ("LOCK over the end", lock(2, u64::MAX - 1), Status::Inval),
        ("COMMIT over the end", commit(u64::MAX, 10), Status::Inval),
        ("COMMIT of all", commit(0, 0), Status::Ok),
        ("LAYOUTGET over the end", layout(u64::MAX - 1, 10), Status::Inval),
        ("LAYOUTGET of nothing", layout(0, 0), Status::Inval),
    ];
    let mut wrong = Vec::new();
    for (what, op, expected) in table {
        let shown = format!("{what}: {op:?}");
        let outcome = client.status(on(&file, op)).await;
        if outcome != expected {
            wrong.push(format!("{shown}\n  -> {outcome:?}, not {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    scene.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn offsets_near_the_end_of_64_bits_in_version_3() {
    let scene = Scene::start().await;
    let mut client = Client::mount(&scene, "c").await;
    opened(&mut client, "f").await;
    let file = nfs3::FileHandle(handle(&mut client, "f").await);
    let mut raw = Raw::connect(&scene).await;
    let root = root3(&mut raw).await;
    let write = |offset| {
        let data = Bytes::from_static(b"0123").into();
        let (file, stable) = (file.clone(), nfs3::StableHow::Unstable);
        Call::Write(nfs3::write::Args { file, offset, count: 4, stable, data })
    };
    let read = |offset, count| Call::Read(nfs3::read::Args { file: file.clone(), offset, count });
    let size = |size| {
        let new_attributes = nfs3::SetAttr { size: Some(size), ..nfs3::SetAttr::default() };
        Call::SetAttr(nfs3::setattr::Args { object: file.clone(), new_attributes, guard: None })
    };
    let list = |count| {
        Call::ReadDir(nfs3::readdir::Args { dir: root.clone(), cookie: 0, cookieverf: [0; 8], count })
    };
    let plus = |maxcount| {
        let (dir, cookieverf) = (root.clone(), [0; 8]);
        Call::ReadDirPlus(nfs3::readdirplus::Args {
            dir,
            cookie: 0,
            cookieverf,
            dircount: maxcount,
            maxcount,
        })
    };
    let table = [
        ("WRITE", write(u64::MAX), Err(nfs3::Status::FBig)),
        ("WRITE", write(LAST), Err(nfs3::Status::FBig)),
        ("READ", read(u64::MAX, u32::MAX), Ok(())),
        ("SETATTR", size(u64::MAX), Err(nfs3::Status::FBig)),
        ("READDIR of as much as can be said", list(u32::MAX), Ok(())),
        ("READDIR of nothing", list(0), Err(nfs3::Status::TooSmall)),
        ("READDIRPLUS of as much as can be said", plus(u32::MAX), Ok(())),
        ("READDIRPLUS of nothing", plus(0), Err(nfs3::Status::TooSmall)),
    ];
    for (what, call, expected) in table {
        assert_eq!(status3(&mut raw, call).await, expected, "{what}");
    }
    scene.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn counts_of_as_much_as_can_be_said_get_what_there_is() {
    let scene = Scene::start().await;
    let mut client = Client::mount(&scene, "c").await;
    let stateid = opened(&mut client, "f").await;
    let file = handle(&mut client, "f").await;
    let readdir = |dircount, maxcount| {
        let attr_request = Fattr::KNOWN.difference(&Bitmap::of(&WRITE_ONLY));
        ArgOp::ReadDir(readdir::Args { cookie: 0, cookieverf: [0; 8], dircount, maxcount, attr_request })
    };
    let all = client.last(vec![ArgOp::PutRootFh, readdir(u32::MAX, u32::MAX)]).await;
    assert!(
        matches!(&all, ResOp::ReadDir(Ok(found)) if found.entries.decode().unwrap().len() == 1 && found.eof),
        "{all:?}"
    );
    assert_eq!(client.status(vec![ArgOp::PutRootFh, readdir(0, 0)]).await, Status::TooSmall);
    let get = ArgOp::LayoutGet(layoutget::Args {
        signal_layout_avail: false,
        layout_type: LayoutType::FILES,
        iomode: LayoutIoMode::Read,
        offset: 0,
        length: u64::MAX,
        minlength: 0,
        stateid,
        maxcount: u32::MAX,
    });
    let ResOp::LayoutGet(Ok(layout)) = client.last(on(&file, get)).await else { panic!("no layout") };
    let device_id = wire::nfs4::DeviceId(layout.layouts[0].body[..16].try_into().unwrap());
    let device = |maxcount| {
        let (layout_type, notify_types) = (LayoutType::FILES, Bitmap::EMPTY);
        ArgOp::GetDeviceInfo(getdeviceinfo::Args { device_id, layout_type, maxcount, notify_types })
    };
    assert_eq!(client.status(vec![device(u32::MAX)]).await, Status::Ok);
    assert_eq!(client.status(vec![device(1)]).await, Status::TooSmall);
    scene.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bitmap_of_a_thousand_words_is_not_read() {
    let scene = Scene::start().await;
    let mut client = Client::mount(&scene, "c").await;
    let mut e = Encoder::new();
    let bytes = client.compound_bytes(Bytes::new(), 2, vec![ArgOp::PutRootFh]);
    e.fixed(&bytes[..8]);
    e.u32(3);
    e.fixed(&bytes[12..]);
    [9, 1000].iter().for_each(|word| e.u32(*word)); // GETATTR
    (0..1000).for_each(|_| e.u32(u32::MAX));
    let reply = client.raw.call_bytes(NFS4, 1, e.finish().into_bytes()).await.unwrap();
    let reply = wire::nfs4::compound::CompoundReply::decode_all(reply).unwrap();
    assert_eq!(reply.status, Status::BadXdr);
    scene.stop();
}
