//! Exports of directories: what their clients see, and that nothing else is to be had through them.
//!
//! ```text
//! /                   exported to 127.0.0.1, where ash is
//! ├── file
//! ├── other           exported to 127.0.0.3, read-only there, where oak is
//! └── projects
//!     ├── a           exported to 127.0.0.2 and 127.0.0.3, where elm and oak are
//!     │   ├── f
//!     │   └── sub
//!     └── secret
//! ```

use std::net::SocketAddr;

use bytes::Bytes;
use metaserver::ExportChange;
use wire::nfs3::{self, DirOpArgs, Procedure};
use wire::nfs4::callback::{CbArgOp, CbCompound, CbReply, CbResOp};
use wire::nfs4::open::{CreateHow, Delegation, OpenHow};
use wire::nfs4::{
    ArgOp, Bitmap, Fattr, FileHandle, ResOp, Stateid, Status, access, attr, clone, copy, create, getattr,
    layoutreturn, link, lookup, readdir, remove, rename, setattr,
};
use wire::xdr::Decode;

use crate::drc::{at, call};
use crate::lock_waiters::{says, waiting};
use crate::raw::{Client, Raw, layoutget_op, null, putfh};
use crate::world::World;

const READ: u32 = 1;
const BOTH: u32 = 3;
const ELM: &str = "127.0.0.2";
const OAK: &str = "127.0.0.3";

async fn connect(world: &World, address: &str) -> Raw {
    Raw::connect_from(world, SocketAddr::new(address.parse().expect("an address"), 0)).await
}

async fn change(world: &World, change: ExportChange, path: &str, network: &str, rules: &str) {
    let networks = [network.parse().expect("a network")];
    world.metaserver.admission().change_exports(change, path, &networks, rules).await.expect("it is changed");
}

fn name(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

fn lookup_op(text: &'static str) -> ArgOp {
    ArgOp::Lookup(lookup::Args { objname: name(text) })
}

fn path(text: &'static str) -> Vec<ArgOp> {
    let names = text.split('/').filter(|name| !name.is_empty()).map(lookup_op);
    std::iter::once(ArgOp::PutRootFh).chain(names).collect()
}

fn and(mut ops: Vec<ArgOp>, more: impl IntoIterator<Item = ArgOp>) -> Vec<ArgOp> {
    ops.extend(more);
    ops
}

fn mkdir_op(text: &'static str) -> ArgOp {
    ArgOp::Create(create::Args {
        objtype: create::CreateType::Directory,
        objname: name(text),
        createattrs: Box::default(),
    })
}

async fn handle(client: &mut Client, of: &'static str) -> FileHandle {
    match client.ok(and(path(of), [ArgOp::GetFh])).await.pop() {
        Some(ResOp::GetFh(Ok(handle))) => handle.object,
        other => panic!("{other:?}"),
    }
}

async fn attributes(client: &mut Client, of: Vec<ArgOp>) -> Fattr {
    let wanted = [attr::CHANGE, attr::FSID, attr::FILEID, attr::MODE, attr::XATTR_SUPPORT];
    let attr_request = Bitmap::of(&wanted);
    match client.ok(and(of, [ArgOp::GetAttr(getattr::Args { attr_request })])).await.pop() {
        Some(ResOp::GetAttr(Ok(reply))) => *reply.attrs,
        other => panic!("{other:?}"),
    }
}

async fn names(client: &mut Client, of: &'static str) -> Vec<String> {
    let args = readdir::Args {
        cookie: 0,
        cookieverf: [0; 8],
        dircount: 0,
        maxcount: 4096,
        attr_request: Bitmap::of(&[attr::FILEID, attr::FSID]),
    };
    match client.ok(and(path(of), [ArgOp::ReadDir(args)])).await.pop() {
        Some(ResOp::ReadDir(Ok(listed))) => {
            let entries = listed.entries.decode().expect("entries");
            entries.into_iter().map(|entry| String::from_utf8(entry.name.to_vec()).expect("a name")).collect()
        }
        other => panic!("{other:?}"),
    }
}

fn layoutreturn_op(stateid: wire::nfs4::Stateid) -> ArgOp {
    let file = layoutreturn::ReturnFile { offset: 0, length: u64::MAX, stateid, body: Bytes::new() };
    ArgOp::LayoutReturn(layoutreturn::Args {
        reclaim: false,
        layout_type: wire::nfs4::LayoutType::FILES,
        iomode: wire::nfs4::LayoutIoMode::Any,
        what: layoutreturn::Return::File(file),
    })
}

/// The tree, and its clients.
async fn furnished() -> (World, Client, Client, Client) {
    let world = World::start().await;
    let mut ash = Client::mount(&world, "ash").await;
    for (above, dirs) in
        [("/", &["other", "projects"][..]), ("/projects", &["a", "secret"]), ("/projects/a", &["sub"])]
    {
        for dir in dirs {
            ash.ok(and(path(above), [mkdir_op(dir)])).await;
        }
    }
    let make = OpenHow::Create(CreateHow::Unchecked(Box::default()));
    let args = ash.open_how("owner", BOTH, 0, make, null("f"));
    let Some(ResOp::Open(Ok(opened))) = ash.ok(and(path("/projects/a"), [args])).await.pop() else {
        panic!()
    };
    let close = ArgOp::Close(wire::nfs4::close::Args { seqid: 0, open_stateid: opened.stateid });
    ash.ok(and(path("/projects/a/f"), [close])).await;
    ash.open("file", BOTH, 0).await.expect("opens");
    let open = "rw,squash=none,insecure";
    change(&world, ExportChange::Add, "/", "127.0.0.1", open).await;
    change(&world, ExportChange::Remove, "/", "0.0.0.0/0", "").await;
    change(&world, ExportChange::Remove, "/", "::/0", "").await;
    change(&world, ExportChange::Add, "/projects/a", ELM, open).await;
    change(&world, ExportChange::Add, "/projects/a", OAK, open).await;
    change(&world, ExportChange::Add, "/other", OAK, "ro,squash=none,insecure").await;
    let elm = Client::mount_over(connect(&world, ELM).await, "elm").await;
    let oak = Client::mount_over(connect(&world, OAK).await, "oak").await;
    (world, ash, elm, oak)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn above_its_exports_a_client_sees_the_names_that_lead_to_them_and_changes_nothing() {
    let (world, mut ash, mut elm, mut oak) = furnished().await;
    assert_eq!(names(&mut ash, "/").await, ["other", "projects", "file"]);
    assert_eq!(names(&mut elm, "/").await, ["projects"]);
    assert_eq!(names(&mut oak, "/").await, ["other", "projects"]);
    assert_eq!(names(&mut oak, "/projects").await, ["a"]);
    assert_eq!(names(&mut elm, "/projects/a").await, ["sub", "f"]);
    for absent in ["/other", "/file", "/projects/secret", "/nothing"] {
        assert_eq!(elm.status(path(absent)).await, Status::NoEnt, "{absent}");
    }
    for (above, expected) in [
        ("/", Status::NoEnt),
        ("/projects", Status::Ok),
        ("/projects/a", Status::NoEnt),
        ("/projects/a/sub", Status::Ok),
    ] {
        assert_eq!(elm.status(and(path(above), [ArgOp::LookupP])).await, expected, "above {above}");
    }

    // Each export is a file system, and so is what is above them.
    let pseudo = attributes(&mut elm, path("/projects")).await;
    let export = attributes(&mut elm, path("/projects/a")).await;
    let volume = attributes(&mut ash, path("/projects/a")).await;
    let other = attributes(&mut oak, path("/other")).await;
    assert_eq!((pseudo.mode, pseudo.xattr_support), (Some(0o555), Some(false)));
    assert_eq!((export.fileid, export.mode), (volume.fileid, volume.mode));
    let fsids = [&pseudo, &export, &volume, &other].map(|attributes| attributes.fsid.expect("an fsid"));
    for (number, fsid) in fsids.iter().enumerate() {
        assert!(!fsids[..number].contains(fsid), "{fsids:?}");
    }

    let all = access::Args {
        access: access::READ | access::LOOKUP | access::MODIFY | access::EXTEND | access::DELETE,
    };
    let granted = elm.ok(and(path("/projects"), [ArgOp::Access(all)])).await.pop();
    let Some(ResOp::Access(Ok(granted))) = granted else { panic!("{granted:?}") };
    assert_eq!(granted.access, access::READ | access::LOOKUP);
    let set = setattr::Args {
        stateid: wire::nfs4::Stateid::ANONYMOUS,
        obj_attributes: Box::new(Fattr { mode: Some(0o777), ..Fattr::default() }),
    };
    let make = OpenHow::Create(CreateHow::Unchecked(Box::default()));
    for op in [
        mkdir_op("new"),
        ArgOp::Remove(remove::Args { target: name("a") }),
        ArgOp::SetAttr(set),
        elm.open_how("owner", BOTH, 0, make, null("new")),
    ] {
        let said = format!("{op:?}");
        assert_eq!(elm.status(and(path("/projects"), [op])).await, Status::RoFs, "{said}");
    }

    // What is renamed, exported, or no longer exported is seen at once.
    let before = attributes(&mut elm, path("/")).await.change;
    let args = rename::Args { oldname: name("projects"), newname: name("work") };
    ash.ok(vec![ArgOp::PutRootFh, ArgOp::SaveFh, ArgOp::PutRootFh, ArgOp::Rename(args)]).await;
    assert_eq!(names(&mut elm, "/").await, ["work"]);
    assert!(attributes(&mut elm, path("/")).await.change > before);
    assert_eq!(names(&mut elm, "/work/a").await, ["sub", "f"]);
    let listed = world.metaserver.admission().exports_report().await.expect("exports");
    assert!(
        listed.iter().any(|one| one.path == "/work/a" && one.exported_as.as_deref() == Some("/projects/a"))
    );
    let before = attributes(&mut oak, path("/")).await.change;
    change(&world, ExportChange::Remove, "/other", OAK, "").await;
    assert_eq!(names(&mut oak, "/").await, ["work"]);
    assert!(attributes(&mut oak, path("/")).await.change > before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handle_is_good_for_the_export_that_it_came_from() {
    let (world, mut ash, mut elm, mut oak) = furnished().await;
    let of_volume = handle(&mut ash, "/projects/a/f").await;
    let of_export = handle(&mut elm, "/projects/a/f").await;
    let of_other = handle(&mut oak, "/other").await;
    let pseudo = handle(&mut oak, "/").await;
    assert_eq!((of_volume.0.len(), of_export.0.len(), pseudo.0.len()), (33, 41, 33));
    assert_eq!(of_export, handle(&mut oak, "/projects/a/f").await, "the same export");
    let look = |handle: &FileHandle| {
        vec![putfh(handle), ArgOp::GetAttr(getattr::Args { attr_request: Bitmap::of(&[attr::SIZE]) })]
    };
    for handle in [&of_volume, &of_other] {
        assert_eq!(elm.status(look(handle)).await, Status::Stale);
    }
    assert_eq!(elm.status(look(&of_export)).await, Status::Ok);
    // The volume's client came to it through another export.
    assert_eq!(ash.status(look(&of_export)).await, Status::Stale);

    // Nothing goes from one export to the other, though a client has both.
    let (a, other) = (handle(&mut oak, "/projects/a").await, handle(&mut oak, "/other").await);
    let args = rename::Args { oldname: name("f"), newname: name("f") };
    let between = |op| vec![putfh(&a), ArgOp::SaveFh, putfh(&other), op];
    assert_eq!(oak.status(between(ArgOp::Rename(args))).await, Status::XDev);
    let file = vec![putfh(&of_export), ArgOp::SaveFh, putfh(&other)];
    assert_eq!(oak.status(and(file, [ArgOp::Link(link::Args { newname: name("f") })])).await, Status::XDev);
    oak.raw.minor_version = 2;
    let (src_stateid, dst_stateid) = (Stateid::ANONYMOUS, Stateid::ANONYMOUS);
    let (src_offset, dst_offset, count) = (0, 0, 0);
    let file = vec![putfh(&of_export), ArgOp::SaveFh, putfh(&other)];
    let args = clone::Args { src_stateid, dst_stateid, src_offset, dst_offset, count };
    assert_eq!(oak.status(and(file.clone(), [ArgOp::Clone(args)])).await, Status::XDev);
    let (consecutive, synchronous, source_server) = (true, true, vec![]);
    let args = copy::Args {
        src_stateid,
        dst_stateid,
        src_offset,
        dst_offset,
        count,
        consecutive,
        synchronous,
        source_server,
    };
    assert_eq!(oak.status(and(file, [ArgOp::Copy(args)])).await, Status::XDev);
    oak.raw.minor_version = 1;
    // And each has its own rules.
    assert_eq!(oak.status(vec![putfh(&other), mkdir_op("new")]).await, Status::RoFs);
    oak.ok(vec![putfh(&a), mkdir_op("new")]).await;

    // What is moved out of an export is out of reach, also for a client that has its handle.
    let sub = handle(&mut elm, "/projects/a/sub").await;
    ash.ok(and(path("/projects/a/sub"), [mkdir_op("below")])).await;
    let below = handle(&mut elm, "/projects/a/sub/below").await;
    let args = rename::Args { oldname: name("sub"), newname: name("sub") };
    ash.ok(and(and(path("/projects/a"), [ArgOp::SaveFh]), and(path("/other"), [ArgOp::Rename(args)]))).await;
    for op in [ArgOp::LookupP, lookup_op("below"), mkdir_op("new")] {
        assert_eq!(elm.status(vec![putfh(&sub), op]).await, Status::Stale);
    }
    assert_eq!(elm.status(vec![putfh(&below), ArgOp::LookupP]).await, Status::Stale);

    // An export that is removed serves nobody, and one whose directory is gone neither.
    change(&world, ExportChange::Remove, "/projects/a", OAK, "").await;
    assert_eq!(oak.status(look(&of_export)).await, Status::Stale);
    change(&world, ExportChange::Remove, "/other", OAK, "").await;
    assert_eq!(oak.status(look(&of_export)).await, Status::Access, "nothing is exported to it");
    ash.ok(and(path("/projects"), [mkdir_op("short-lived")])).await;
    change(&world, ExportChange::Add, "/projects/short-lived", OAK, "insecure").await;
    assert_eq!(names(&mut oak, "/projects").await, ["short-lived"]);
    ash.ok(and(path("/projects"), [ArgOp::Remove(remove::Args { target: name("short-lived") })])).await;
    assert_eq!(oak.status(path("/projects")).await, Status::NoEnt);
    let listed = world.metaserver.admission().exports_report().await.expect("exports");
    assert!(listed.iter().any(|one| one.path == "/projects/short-lived" && one.gone));
}

/// A call-back that names a file names it as its client knows it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn call_backs_name_a_file_by_the_handle_of_the_clients_export() {
    let (_world, mut ash, mut elm, _) = furnished().await;
    let of_export = handle(&mut elm, "/projects/a/f").await;
    let answer = |call: &CbCompound| {
        let mut reply = says(call, Status::Ok);
        reply.ops[1] = match &call.ops[1] {
            CbArgOp::Recall(_) => CbResOp::Recall(Ok(())),
            CbArgOp::LayoutRecall(_) => CbResOp::LayoutRecall(Ok(())),
            CbArgOp::NotifyLock(_) => CbResOp::NotifyLock(Ok(())),
            other => panic!("{other:?}"),
        };
        reply
    };
    let named = |call: &CbCompound| match &call.ops[1] {
        CbArgOp::Recall(args) => args.fh.clone(),
        CbArgOp::NotifyLock(args) => args.fh.clone(),
        CbArgOp::LayoutRecall(args) => match &args.recall {
            wire::nfs4::callback::LayoutRecall::File(file) => file.fh.clone(),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    let answered = |call: &CbCompound| -> CbReply { answer(call) };

    // A delegation.
    let args = elm.open_how("reader", READ, 0, OpenHow::NoCreate, null("f"));
    let opened = elm.ok(and(path("/projects/a"), [args])).await.pop();
    let Some(ResOp::Open(Ok(opened))) = opened else { panic!("{opened:?}") };
    let Delegation::Read(held) = &opened.delegation else { panic!("{:?}", opened.delegation) };
    let open_op = ash.open_how("writer", BOTH, 0, OpenHow::NoCreate, null("f"));
    let writes = async { ash.status(and(path("/projects/a"), [open_op])).await };
    let recalled = async {
        let (_, call) = elm.raw.called_back(answered).await;
        assert_eq!(named(&call), of_export);
        let give_back = wire::nfs4::delegreturn::Args { stateid: held.stateid };
        elm.ok(vec![putfh(&of_export), ArgOp::DelegReturn(give_back)]).await;
    };
    let (status, ()) = tokio::join!(writes, recalled);
    assert_eq!(status, Status::Ok);
    let close = wire::nfs4::close::Args { seqid: 0, open_stateid: opened.stateid };
    elm.ok(vec![putfh(&of_export), ArgOp::Close(close)]).await;

    // A lock that is waited for.
    let of_volume = handle(&mut ash, "/projects/a/f").await;
    let args = ash.open_how("locker", BOTH, 0, OpenHow::NoCreate, null("f"));
    let Some(ResOp::Open(Ok(locker))) = ash.ok(and(path("/projects/a"), [args])).await.pop() else {
        panic!()
    };
    let locked = ash.ok(vec![putfh(&of_volume), ash.lock_op("l", locker.stateid, 0, 10)]).await.pop();
    let Some(ResOp::Lock(Ok(locked))) = locked else { panic!("{locked:?}") };
    let args = elm.open_how("waiter", BOTH, 0, OpenHow::NoCreate, null("f"));
    let Some(ResOp::Open(Ok(waiter))) = elm.ok(and(path("/projects/a"), [args])).await.pop() else {
        panic!()
    };
    let lock = waiting(elm.lock_op("l", waiter.stateid, 0, 10));
    assert_eq!(elm.status(vec![putfh(&of_export), lock]).await, Status::Denied);
    ash.ok(vec![putfh(&of_volume), crate::lock_waiters::unlock(locked.lock_stateid)]).await;
    let (_, call) = elm.raw.called_back(answered).await;
    assert_eq!(named(&call), of_export);

    // A layout.
    crate::ranges::grow(&mut elm, &of_export, waiter.stateid, 100_000).await;
    let Some(ResOp::LayoutGet(Ok(layout))) =
        elm.ok(vec![putfh(&of_export), layoutget_op(waiter.stateid)]).await.pop()
    else {
        panic!()
    };
    let set = setattr::Args {
        stateid: locker.stateid,
        obj_attributes: Box::new(Fattr { size: Some(7), ..Fattr::default() }),
    };
    let truncates = async { ash.status(vec![putfh(&of_volume), ArgOp::SetAttr(set)]).await };
    let recalled = async {
        let (_, call) = elm.raw.called_back(answered).await;
        assert_eq!(named(&call), of_export);
        elm.run(vec![putfh(&of_export), layoutreturn_op(layout.stateid)]).await.expect("SEQUENCE succeeds");
    };
    let (_, ()) = tokio::join!(truncates, recalled);
}

async fn mount3(raw: &mut Raw, path: &'static str) -> wire::mount3::mnt::Res {
    let args = wire::mount3::mnt::Args { path: wire::mount3::DirPath::from(name(path)) };
    let program = (wire::mount3::PROGRAM, wire::mount3::VERSION);
    let mut d = raw.exchange(program, 1, &args).await.expect("accepted");
    wire::mount3::mnt::Res::decode(&mut d).expect("decodes")
}

async fn lookup3(raw: &mut Raw, what: DirOpArgs) -> Result<Bytes, nfs3::Status> {
    let found: nfs3::lookup::Res = call(raw, Procedure::Lookup, &nfs3::lookup::Args { what }).await;
    found.map(|found| found.object.0).map_err(|failure| failure.status)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn version_3_mounts_an_exported_directory_and_does_not_leave_it() {
    let (world, mut ash, _, _) = furnished().await;
    let (mut elm, mut oak, mut volume) =
        (connect(&world, ELM).await, connect(&world, OAK).await, Raw::connect(&world).await);
    for refused in ["/", "/other", "/projects", "/projects/secret", "/projects/a/..", "/nothing"] {
        assert_eq!(mount3(&mut elm, refused).await.err(), Some(wire::mount3::Status::Acces), "{refused}");
    }
    assert_eq!(mount3(&mut elm, "/projects/a/nothing").await.err(), Some(wire::mount3::Status::NoEnt));
    assert_eq!(mount3(&mut elm, "/projects/a/f").await.err(), Some(wire::mount3::Status::NotDir));
    let a = mount3(&mut elm, "/projects/a/").await.expect("mounts").handle.0;
    let sub = mount3(&mut elm, "/projects//a/sub").await.expect("mounts").handle.0;
    assert_eq!(lookup3(&mut elm, at(&a, "..")).await, Ok(a.clone()));
    assert_eq!(lookup3(&mut elm, at(&sub, "..")).await, Ok(a.clone()));
    assert_eq!(lookup3(&mut elm, at(&a, "sub")).await, Ok(sub.clone()));
    let args = nfs3::readdirplus::Args {
        dir: a.clone().into(),
        cookie: 0,
        cookieverf: [0; 8],
        dircount: 4096,
        maxcount: 8192,
    };
    let listed: nfs3::readdirplus::Res = call(&mut elm, Procedure::ReadDirPlus, &args).await;
    let listed = listed.expect("lists").entries.to_vec();
    let of =
        |wanted: &str| listed.iter().find(|entry| entry.name == wanted.as_bytes()).expect("it is listed");
    assert_eq!(of("..").name_handle, of(".").name_handle);
    assert_eq!(of("..").fileid, of(".").fileid);
    assert_eq!(of("sub").name_handle.as_ref().map(|handle| &handle.0), Some(&sub));

    // Handles of another export, and what goes from one to the other.
    let root = mount3(&mut volume, "/").await.expect("mounts").handle.0;
    assert_eq!(lookup3(&mut elm, at(&root, "file")).await, Err(nfs3::Status::Stale));
    let other = mount3(&mut oak, "/other").await.expect("mounts").handle.0;
    let rename = nfs3::rename::Args { from: at(&a, "f"), to: at(&other, "f") };
    let renamed: nfs3::rename::Res = call(&mut oak, Procedure::Rename, &rename).await;
    assert_eq!(renamed.err().map(|failure| failure.status), Some(nfs3::Status::Xdev));
    let file = lookup3(&mut oak, at(&a, "f")).await.expect("it is there");
    let args = nfs3::link::Args { file: file.into(), link: at(&other, "f") };
    let linked: nfs3::link::Res = call(&mut oak, Procedure::Link, &args).await;
    assert_eq!(linked.err().map(|failure| failure.status), Some(nfs3::Status::Xdev));
    let args = nfs3::mkdir::Args { at: at(&other, "new"), attributes: nfs3::SetAttr::default() };
    let made: nfs3::mkdir::Res = call(&mut oak, Procedure::MkDir, &args).await;
    assert_eq!(made.err().map(|failure| failure.status), Some(nfs3::Status::Rofs));

    // Nested: the innermost export on the way.
    change(&world, ExportChange::Add, "/projects/a/sub", ELM, "ro,squash=none,insecure").await;
    let inner = mount3(&mut elm, "/projects/a/sub").await.expect("mounts").handle.0;
    let make = |dir: &Bytes| nfs3::mkdir::Args { at: at(dir, "new"), attributes: nfs3::SetAttr::default() };
    let made: nfs3::mkdir::Res = call(&mut elm, Procedure::MkDir, &make(&inner)).await;
    assert_eq!(made.err().map(|failure| failure.status), Some(nfs3::Status::Rofs));
    let made: nfs3::mkdir::Res = call(&mut elm, Procedure::MkDir, &make(&sub)).await;
    made.expect("a plain directory of the outer export");
    assert_eq!(lookup3(&mut elm, at(&inner, "..")).await, Ok(inner));

    // Moved out of the export.
    let args = rename::Args { oldname: name("sub"), newname: name("sub") };
    ash.ok(and(and(path("/projects/a"), [ArgOp::SaveFh]), and(path("/other"), [ArgOp::Rename(args)]))).await;
    assert_eq!(lookup3(&mut elm, at(&sub, "..")).await, Err(nfs3::Status::Stale));
}

/// ```text
/// ash layoutget, to write                                     -> ok
/// exports change; ash is called back, and its metaserver dies
/// another life of the metaserver, once ash is there           ash is called back again
/// ```
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn layouts_are_called_back_after_exports_changed_also_by_the_next_leader() {
    let mut world = World::start().await;
    let mut ash = Client::mount(&world, "ash").await;
    let (file, open) = ash.open("f", BOTH, 0).await.expect("opens");
    crate::ranges::grow(&mut ash, &file, open, 100_000).await;
    let results = ash.ok(vec![putfh(&file), layoutget_op(open)]).await;
    let Some(ResOp::LayoutGet(Ok(layout))) = results.last() else { panic!("{results:?}") };
    world
        .metaserver
        .admission()
        .change_exports(ExportChange::Set, "/", &[], "squash=root")
        .await
        .expect("it is changed");
    world.restart().await;
    ash.reconnect(&world).await;
    ash.bind().await;
    let answer = |call: &CbCompound| {
        let mut reply = says(call, Status::Ok);
        reply.ops[1] = CbResOp::LayoutRecall(Ok(()));
        reply
    };
    let (_, call) = ash.raw.called_back(answer).await;
    assert!(matches!(call.ops[1], CbArgOp::LayoutRecall(_)), "{call:?}");
    let give_back = layoutreturn_op(layout.stateid);
    ash.ok(vec![putfh(&file), give_back]).await;
    world
        .until("the change of exports is done with", || {
            let view = world.replica.view().expect("a view");
            let settings = namespace::read::cluster_map(&*view).expect("reads").settings;
            settings.keys().all(|key| !key.starts_with("exports_changed"))
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_clients_are_counted_with_the_reason() {
    let (world, mut ash, mut elm, _) = furnished().await;
    let refused = async |count: u64, address: &str, reason: &str| {
        let refused = world.metaserver.status().await.expect("a status").refused;
        assert_eq!(refused.count, count);
        assert_eq!(
            (refused.last_address.as_deref(), refused.last_reason.as_deref()),
            (Some(address), Some(reason))
        );
    };
    let mut stranger = connect(&world, "127.0.0.9").await;
    assert_eq!(stranger.exchange_id("stranger", 1, 0).await.err(), Some(Status::Access));
    refused(1, "127.0.0.9", "address").await;
    mount3(&mut stranger, "/").await.expect_err("no export");
    refused(2, "127.0.0.9", "address").await;
    mount3(&mut connect(&world, ELM).await, "/other").await.expect_err("another export");
    refused(3, ELM, "path").await;
    assert_eq!(elm.status(path("/projects/secret")).await, Status::NoEnt);
    refused(4, ELM, "path").await;
    assert_eq!(elm.status(path("/projects/nothing")).await, Status::NoEnt);
    refused(4, ELM, "path").await;
    let of_volume = handle(&mut ash, "/file").await;
    assert_eq!(elm.status(vec![putfh(&of_volume), ArgOp::LookupP]).await, Status::Stale);
    refused(5, ELM, "handle").await;
    change(&world, ExportChange::Set, "/projects/a", ELM, "secure").await;
    assert_eq!(elm.status(path("/projects")).await, Status::Access);
    refused(6, ELM, "port").await;
}
