//! What both protocols do to files is decided alike, and in one order: rights, then deny modes of opens.

use bytes::Bytes;
use wire::nfs3::{self, Procedure, SetAttr, StableHow as StableHow3, Status as Status3};
use wire::nfs4::{ArgOp, Fattr, FileHandle, StableHow, Stateid, Status, close, setattr, write};
use wire::xdr::{Decode, Encode, Payload};

use crate::raw::{Client, putfh};
use crate::world::World;

const BOTH: u32 = 3;
const WRITE: u32 = 2;
const OTHER: u32 = 7;

async fn call<R: Decode>(client: &mut Client, procedure: Procedure, args: &(dyn Encode + Sync)) -> R {
    let program = (nfs3::PROGRAM, nfs3::VERSION);
    let mut d = client.raw.exchange(program, procedure as u32, args).await.expect("accepted");
    R::decode(&mut d).expect("decodes")
}

/// WRITE and SETATTR of a size by NFSv3.
async fn by_v3(client: &mut Client, file: &FileHandle) -> [Option<Status3>; 2] {
    let (data, size) = (Payload::from(Bytes::from_static(b"other")), Some(3));
    let args = nfs3::write::Args {
        file: nfs3::FileHandle(file.0.clone()),
        offset: 0,
        count: 5,
        stable: StableHow3::FileSync,
        data,
    };
    let wrote: nfs3::write::Res = call(client, Procedure::Write, &args).await;
    let new_attributes = SetAttr { size, ..SetAttr::default() };
    let args = nfs3::setattr::Args { object: nfs3::FileHandle(file.0.clone()), new_attributes, guard: None };
    let set: nfs3::setattr::Res = call(client, Procedure::SetAttr, &args).await;
    [wrote.err().map(|e| e.status), set.err().map(|e| e.status)]
}

/// WRITE and SETATTR of a size by NFSv4, without an open.
async fn by_v4(client: &mut Client, file: &FileHandle) -> [Status; 2] {
    let (stateid, data) = (Stateid::ANONYMOUS, Bytes::from_static(b"other").into());
    let write = write::Args { stateid, offset: 0, stable: StableHow::FileSync, data };
    let wrote = client.status(vec![putfh(file), ArgOp::Write(write)]).await;
    let obj_attributes = Box::new(Fattr { size: Some(3), ..Fattr::default() });
    let set = ArgOp::SetAttr(setattr::Args { stateid, obj_attributes });
    [wrote, client.status(vec![putfh(file), set]).await]
}

/// ```text
/// ash opens /f, deny write      user 7 writes and truncates by v3 and v4
///   mode 0644: no rights        -> ACCESS, ACCES: it does not learn of the open
///   mode 0666: rights           -> LOCKED, ACCES
/// ash closes                    -> done by both
/// ```
#[tokio::test]
async fn rights_are_decided_before_deny_modes_by_both_protocols() {
    let world = World::start().await;
    let (mut ash, mut elm) = (Client::mount(&world, "ash").await, Client::mount(&world, "elm").await);
    let (file, open) = ash.open("f", BOTH, WRITE).await.expect("opens");
    elm.raw.uid = OTHER;
    assert_eq!(by_v4(&mut elm, &file).await, [Status::Access; 2]);
    assert_eq!(by_v3(&mut elm, &file).await, [Some(Status3::Acces); 2]);

    let obj_attributes = Box::new(Fattr { mode: Some(0o666), ..Fattr::default() });
    let set = ArgOp::SetAttr(setattr::Args { stateid: open, obj_attributes });
    ash.ok(vec![putfh(&file), set]).await;
    assert_eq!(by_v4(&mut elm, &file).await, [Status::Locked; 2]);
    assert_eq!(by_v3(&mut elm, &file).await, [Some(Status3::Acces); 2]);

    ash.ok(vec![putfh(&file), ArgOp::Close(close::Args { seqid: 0, open_stateid: open })]).await;
    assert_eq!(by_v4(&mut elm, &file).await, [Status::Ok; 2]);
    assert_eq!(by_v3(&mut elm, &file).await, [None; 2]);
}
