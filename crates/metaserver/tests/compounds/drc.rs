//! NFSv3 has no sessions: a call that comes again over another connection is known by its xid.

use std::net::SocketAddr;

use bytes::Bytes;
use wire::mount3::{DirPath, mnt};
use wire::nfs3::{self, DirOpArgs, FileHandle, Procedure, SetAttr, Status};
use wire::nfs3::{create, link, lookup, mkdir, remove, rename, rmdir, setattr, symlink};
use wire::xdr::{Decode, Encode};

use crate::raw::Raw;
use crate::world::World;

const NFS: (u32, u32) = (nfs3::PROGRAM, nfs3::VERSION);

/// The handle of the root.
pub async fn root(raw: &mut Raw) -> Bytes {
    let args = mnt::Args { path: DirPath::from(Bytes::from_static(b"/")) };
    let mut d =
        raw.exchange((wire::mount3::PROGRAM, wire::mount3::VERSION), 1, &args).await.expect("accepted");
    mnt::Res::decode(&mut d).expect("decodes").expect("mounts").handle.0
}

/// Truncates `name` in the root to nothing; why not, if it was not.
pub async fn truncate(raw: &mut Raw, root: &Bytes, name: &'static str) -> Option<Status> {
    let args = lookup::Args { what: at(root, name) };
    let found: lookup::Res = call(raw, Procedure::Lookup, &args).await;
    let object = found.expect("it is there").object;
    let new_attributes = SetAttr { size: Some(0), ..SetAttr::default() };
    let done: setattr::Res =
        call(raw, Procedure::SetAttr, &setattr::Args { object, new_attributes, guard: None }).await;
    done.err().map(|failure| failure.status)
}

pub fn at(dir: &Bytes, name: &'static str) -> DirOpArgs {
    DirOpArgs { dir: FileHandle::from(dir.clone()), name: Bytes::from_static(name.as_bytes()) }
}

pub async fn call<R: Decode>(raw: &mut Raw, procedure: Procedure, args: &(dyn Encode + Sync)) -> R {
    let mut d = raw.exchange(NFS, procedure as u32, args).await.expect("accepted");
    R::decode(&mut d).expect("decodes")
}

/// A port that is free, from which a client connects as often as it has to.
async fn port(world: &World) -> SocketAddr {
    Raw::connect(world).await.local()
}

/// The same call over two connections: as a client does that lost the first before the reply came.
async fn twice(
    world: &World,
    from: SocketAddr,
    xid: u32,
    procedure: Procedure,
    args: &(dyn Encode + Sync),
) -> [Bytes; 2] {
    let mut replies = [Bytes::new(), Bytes::new()];
    for reply in &mut replies {
        let mut raw = Raw::connect_from(world, from).await;
        raw.xid = xid;
        raw.send(NFS, procedure as u32, args).await;
        *reply = raw.record().await;
    }
    replies
}

/// xid, REPLY, accepted, verifier (two words), success; then the status.
fn status_of(reply: &Bytes) -> u32 {
    u32::from_be_bytes(reply[24..28].try_into().expect("a status"))
}

/// One of each, in an order in which all of them can be done.
fn steps(root: &Bytes) -> Vec<(Procedure, Box<dyn Encode + Sync>)> {
    let attributes = SetAttr::default();
    let new = |name| at(root, name);
    vec![
        (Procedure::MkDir, Box::new(mkdir::Args { at: new("d"), attributes })),
        (
            Procedure::Create,
            Box::new(create::Args { at: new("f"), how: create::CreateHow::Guarded(attributes) }),
        ),
        (
            Procedure::SymLink,
            Box::new(symlink::Args { at: new("s"), attributes, data: Bytes::from_static(b"f") }),
        ),
        (Procedure::Rename, Box::new(rename::Args { from: new("f"), to: new("g") })),
        (Procedure::Remove, Box::new(remove::Args { object: new("g") })),
        (Procedure::Remove, Box::new(remove::Args { object: new("s") })),
        (Procedure::RmDir, Box::new(rmdir::Args { object: new("d") })),
    ]
}

#[tokio::test]
async fn a_change_that_is_sent_again_to_a_server_that_did_not_answer_it_is_answered_and_not_done() {
    let mut world = World::start().await;
    let from = port(&world).await;
    let mut raw = Raw::connect(&world).await;
    let root = root(&mut raw).await;
    for (xid, (procedure, args)) in (100..).zip(&steps(&root)) {
        // The server dies in between, or an address moves: what it had in memory is not there.
        for _ in 0..2 {
            let [reply, _] = twice(&world, from, xid, *procedure, &**args).await;
            assert_eq!(status_of(&reply), 0, "{procedure:?}");
            world.restart().await;
        }
    }
    let [gone, _] = twice(&world, from, 200, Procedure::RmDir, &rmdir::Args { object: at(&root, "d") }).await;
    assert_eq!(status_of(&gone), Status::NoEnt as u32);
}

/// An UNCHECKED create with a size truncates what is there, but not what it has made itself.
#[tokio::test]
async fn a_create_that_is_sent_again_does_not_truncate_what_was_written_since() {
    let mut world = World::start().await;
    let from = port(&world).await;
    let mut raw = Raw::connect(&world).await;
    let root = root(&mut raw).await;
    let how = create::CreateHow::Unchecked(SetAttr { size: Some(0), ..SetAttr::default() });
    let create = create::Args { at: at(&root, "f"), how };
    let [first, _] = twice(&world, from, 300, Procedure::Create, &create).await;
    assert_eq!(status_of(&first), 0);
    let found: lookup::Res = call(&mut raw, Procedure::Lookup, &lookup::Args { what: at(&root, "f") }).await;
    let write = nfs3::write::Args {
        file: found.expect("it is there").object,
        offset: 0,
        count: 3,
        stable: nfs3::StableHow::FileSync,
        data: wire::xdr::Payload::from(Bytes::from_static(b"new")),
    };
    let written: nfs3::write::Res = call(&mut raw, Procedure::Write, &write).await;
    written.expect("writes");
    world.restart().await;
    let [again, _] = twice(&world, from, 300, Procedure::Create, &create).await;
    assert_eq!(status_of(&again), 0);
    let mut raw = Raw::connect(&world).await;
    let read = nfs3::read::Args { file: write.file.clone(), offset: 0, count: 3 };
    let read: nfs3::read::Res = call(&mut raw, Procedure::Read, &read).await;
    assert_eq!(read.expect("reads").data.to_bytes(), &b"new"[..]);
}

#[tokio::test]
async fn a_link_and_a_guarded_setattr_are_done_once_also_by_two_servers() {
    let mut world = World::start().await;
    let from = port(&world).await;
    let mut raw = Raw::connect(&world).await;
    let root = root(&mut raw).await;
    let how = create::CreateHow::Guarded(SetAttr::default());
    let made: create::Res =
        call(&mut raw, Procedure::Create, &create::Args { at: at(&root, "f"), how }).await;
    let made = made.expect("makes");
    let (file, ctime) = (made.obj.expect("a handle"), made.obj_attributes.expect("attributes").ctime);
    world.clock.advance(std::time::Duration::from_millis(1));
    let new_attributes = SetAttr { mode: Some(0o600), ..SetAttr::default() };
    let set = setattr::Args { object: file.clone(), new_attributes, guard: Some(ctime) };
    for _ in 0..2 {
        let [reply, _] = twice(&world, from, 301, Procedure::SetAttr, &set).await;
        assert_eq!(status_of(&reply), 0);
        let args = link::Args { file: file.clone(), link: at(&root, "l") };
        let [reply, _] = twice(&world, from, 302, Procedure::Link, &args).await;
        assert_eq!(status_of(&reply), 0);
        world.restart().await;
    }
}

#[tokio::test]
async fn a_change_that_is_sent_again_over_a_new_connection_gets_the_same_reply() {
    let world = World::start().await;
    let from = port(&world).await;
    let mut raw = Raw::connect(&world).await;
    let root = root(&mut raw).await;
    let attributes = SetAttr::default();
    let new = |name| at(&root, name);
    let steps = steps(&root);
    for (xid, (procedure, args)) in (100..).zip(&steps) {
        let [first, second] = twice(&world, from, xid, *procedure, &**args).await;
        assert_eq!(status_of(&first), 0, "{procedure:?}");
        assert_eq!(first, second, "{procedure:?}");
    }
    // Under a new xid it is a new call.
    let [gone, _] = twice(&world, from, 200, Procedure::RmDir, &rmdir::Args { object: new("d") }).await;
    assert_eq!(status_of(&gone), Status::NoEnt as u32);
    // Other arguments under the same xid, too.
    let [other, _] =
        twice(&world, from, 100, Procedure::MkDir, &mkdir::Args { at: new("e"), attributes }).await;
    assert_eq!(status_of(&other), 0);
}

#[tokio::test]
async fn a_link_and_a_guarded_setattr_are_done_once() {
    let world = World::start().await;
    let from = port(&world).await;
    let mut raw = Raw::connect(&world).await;
    let root = root(&mut raw).await;
    let how = create::CreateHow::Guarded(SetAttr::default());
    let made: create::Res =
        call(&mut raw, Procedure::Create, &create::Args { at: at(&root, "f"), how }).await;
    let made = made.expect("makes");
    let (file, attributes) = (made.obj.expect("a handle"), made.obj_attributes.expect("attributes"));
    let args = link::Args { file: file.clone(), link: at(&root, "l") };
    let [first, second] = twice(&world, from, 300, Procedure::Link, &args).await;
    assert_eq!((status_of(&first), &first), (0, &second));

    let now: nfs3::getattr::Res =
        call(&mut raw, Procedure::GetAttr, &nfs3::getattr::Args { object: file.clone() }).await;
    let ctime = now.expect("attributes").obj_attributes.ctime;
    assert_eq!(ctime, attributes.ctime, "the clock stands still");
    world.clock.advance(std::time::Duration::from_millis(1));
    let new_attributes = SetAttr { mode: Some(0o600), ..SetAttr::default() };
    let args = setattr::Args { object: file, new_attributes, guard: Some(ctime) };
    let [first, second] = twice(&world, from, 301, Procedure::SetAttr, &args).await;
    assert_eq!((status_of(&first), &first), (0, &second));
    let [late, _] = twice(&world, from, 302, Procedure::SetAttr, &args).await;
    assert_eq!(status_of(&late), Status::NotSync as u32);
}
