//! Names that no directory can have, for every operation that takes one, in both protocols.
//!
//! Bytes that are not UTF-8 are a name like any other, on purpose: Linux clients pass what programs give
//! them, in whatever encoding, and RFC 8881, section 14.4, lets a server take names as bytes.

use bytes::Bytes;
use wire::nfs3::{self, Call, DirOpArgs, FileHandle, Reply, SetAttr};
use wire::nfs4::{
    ArgOp, ClientId, Fattr, ResOp, StateOwner, Status, create, link, lookup, open, remove, rename, secinfo,
};
use wire::xdr::Decode;

use crate::Scene;
use crate::client::{Client, MOUNT, NFS3, Raw, encoded};

fn bad_names() -> Vec<(Vec<u8>, Status, nfs3::Status)> {
    vec![
        (vec![], Status::Inval, nfs3::Status::Acces),
        (vec![b'a'; 256], Status::NameTooLong, nfs3::Status::NameTooLong),
        (vec![b'a'; 100_000], Status::NameTooLong, nfs3::Status::NameTooLong),
        (b"a/b".to_vec(), Status::BadChar, nfs3::Status::Inval),
        (b"/".to_vec(), Status::BadChar, nfs3::Status::Inval),
        (b"a\0b".to_vec(), Status::BadChar, nfs3::Status::Inval),
        (b".".to_vec(), Status::BadName, nfs3::Status::Inval),
        (b"..".to_vec(), Status::BadName, nfs3::Status::Inval),
    ]
}

fn create_open(name: &Bytes) -> ArgOp {
    open_as(name, open::OpenHow::Create(open::CreateHow::Unchecked(Box::default())))
}

fn open_as(name: &Bytes, openhow: open::OpenHow) -> ArgOp {
    ArgOp::Open(open::Args {
        seqid: 0,
        share_access: open::SHARE_ACCESS_READ,
        share_deny: open::SHARE_DENY_NONE,
        owner: StateOwner { clientid: ClientId(0), owner: Bytes::from_static(b"o").into() },
        openhow,
        claim: open::Claim::Null(name.clone()),
    })
}

fn make(name: &Bytes, objtype: create::CreateType) -> ArgOp {
    ArgOp::Create(create::Args { objtype, objname: name.clone(), createattrs: Box::<Fattr>::default() })
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_names_in_every_operation_of_version_4() {
    let scene = Scene::start().await;
    let mut client = Client::mount(&scene, "c").await;
    let (file, dir) = (Bytes::from_static(b"file"), Bytes::from_static(b"dir"));
    assert_eq!(client.status(vec![ArgOp::PutRootFh, create_open(&file)]).await, Status::Ok);
    let mkdir = make(&dir, create::CreateType::Directory);
    assert_eq!(client.status(vec![ArgOp::PutRootFh, mkdir]).await, Status::Ok);
    for (name, expected, _) in bad_names() {
        let name = Bytes::from(name);
        let shown = String::from_utf8_lossy(&name[..name.len().min(10)]).into_owned();
        let look = |name: &Bytes| ArgOp::Lookup(lookup::Args { objname: name.clone() });
        let both = [ArgOp::PutRootFh, look(&file), ArgOp::SaveFh, ArgOp::PutRootFh];
        let saved_dir = [ArgOp::PutRootFh, ArgOp::SaveFh];
        let rename = |from: &Bytes, to: &Bytes| {
            ArgOp::Rename(rename::Args { oldname: from.clone(), newname: to.clone() })
        };
        let table = [
            ("LOOKUP", vec![], look(&name)),
            ("CREATE of a directory", vec![], make(&name, create::CreateType::Directory)),
            ("CREATE of a link", vec![], make(&name, create::CreateType::Symlink(file.clone()))),
            ("OPEN", vec![], open_as(&name, open::OpenHow::NoCreate)),
            ("OPEN that creates", vec![], create_open(&name)),
            ("REMOVE", vec![], ArgOp::Remove(remove::Args { target: name.clone() })),
            ("SECINFO", vec![], ArgOp::SecInfo(secinfo::Args { name: name.clone() })),
            ("LINK", both.to_vec(), ArgOp::Link(link::Args { newname: name.clone() })),
            ("RENAME from", saved_dir.to_vec(), rename(&name, &file)),
            ("RENAME to", saved_dir.to_vec(), rename(&file, &name)),
        ];
        for (what, before, op) in table {
            let ops = [vec![ArgOp::PutRootFh], before, vec![op]].concat();
            assert_eq!(client.status(ops).await, expected, "{what} {shown:?} ({} bytes)", name.len());
        }
    }
    let latin = Bytes::from_static(b"caf\xe9");
    assert_eq!(client.status(vec![ArgOp::PutRootFh, create_open(&latin)]).await, Status::Ok);
    let found = vec![ArgOp::PutRootFh, ArgOp::Lookup(lookup::Args { objname: latin })];
    assert_eq!(client.status(found).await, Status::Ok);
    scene.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn targets_of_links_are_bounded() {
    let scene = Scene::start().await;
    let mut client = Client::mount(&scene, "c").await;
    let link = |target: Vec<u8>| {
        let made = make(&Bytes::from_static(b"l"), create::CreateType::Symlink(target.into()));
        vec![ArgOp::PutRootFh, made]
    };
    assert_eq!(client.status(link(vec![])).await, Status::Inval);
    assert_eq!(client.status(link(b"a\0b".to_vec())).await, Status::Inval);
    assert_eq!(client.status(link(vec![b'a'; 4096])).await, Status::NameTooLong);
    assert_eq!(client.status(link(vec![b'a'; 1 << 19])).await, Status::NameTooLong);
    assert_eq!(client.status(link(vec![b'a'; 4095])).await, Status::Ok);
    scene.stop();
}

/// The root's handle of version 3.
pub async fn root3(raw: &mut Raw) -> FileHandle {
    let path = wire::mount3::DirPath(Bytes::from_static(b"/"));
    let mut d = raw.call_bytes(MOUNT, 1, encoded(&wire::mount3::mnt::Args { path })).await.unwrap();
    wire::mount3::mnt::Res::decode(&mut d).unwrap().unwrap().handle
}

/// How a call of version 3 ends.
pub async fn status3(raw: &mut Raw, call: Call) -> Result<(), nfs3::Status> {
    let mut d = raw.call_bytes(NFS3, call.procedure() as u32, encoded(&call)).await.unwrap();
    let mut words = d.clone();
    Reply::decode(call.procedure(), &mut d).expect("a reply that can be read");
    assert_eq!(d.remaining(), 0);
    match words.u32().unwrap() {
        0 => Ok(()),
        other => Err(nfs3::Status::from_u32(other).expect("a status of version 3")),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_names_in_every_procedure_of_version_3() {
    let scene = Scene::start().await;
    let mut raw = Raw::connect(&scene).await;
    let root = root3(&mut raw).await;
    let at = |name: &[u8]| DirOpArgs { dir: root.clone(), name: Bytes::copy_from_slice(name) };
    let create = |name: &[u8]| {
        let how = nfs3::create::CreateHow::Unchecked(SetAttr { mode: Some(0o644), ..SetAttr::default() });
        Call::Create(nfs3::create::Args { at: at(name), how })
    };
    assert_eq!(status3(&mut raw, create(b"file")).await, Ok(()));
    let lookup = nfs3::lookup::Args { what: at(b"file") };
    let found: nfs3::lookup::Res = raw.call(NFS3, 3, &lookup).await;
    let file = found.unwrap().object;
    for (name, _, expected) in bad_names() {
        let attributes = SetAttr::default();
        let device = nfs3::mknod::MkNodData::Fifo(attributes);
        let table = [
            ("LOOKUP", Call::Lookup(nfs3::lookup::Args { what: at(&name) })),
            ("CREATE", create(&name)),
            ("MKDIR", Call::MkDir(nfs3::mkdir::Args { at: at(&name), attributes })),
            ("SYMLINK", Call::SymLink(nfs3::symlink::Args { at: at(&name), attributes, data: "x".into() })),
            ("MKNOD", Call::MkNod(nfs3::mknod::Args { at: at(&name), what: device })),
            ("REMOVE", Call::Remove(nfs3::remove::Args { object: at(&name) })),
            ("RMDIR", Call::RmDir(nfs3::rmdir::Args { object: at(&name) })),
            ("RENAME from", Call::Rename(nfs3::rename::Args { from: at(&name), to: at(b"file") })),
            ("RENAME to", Call::Rename(nfs3::rename::Args { from: at(b"file"), to: at(&name) })),
            ("LINK", Call::Link(nfs3::link::Args { file: file.clone(), link: at(&name) })),
        ];
        for (what, call) in table {
            let shown = String::from_utf8_lossy(&name[..name.len().min(10)]).into_owned();
            let outcome = status3(&mut raw, call).await;
            // `.` and `..` are names that version 3 can look up (RFC 1813, section 3.3.3).
            let fine = what == "LOOKUP" && (name == b"." || name == b"..");
            let expected = if fine { Ok(()) } else { Err(expected) };
            let made_of_dots = name == b"." || name == b"..";
            let other =
                matches!(outcome, Err(nfs3::Status::Exist | nfs3::Status::NotEmpty | nfs3::Status::Acces));
            assert!(outcome == expected || (made_of_dots && other), "{what} {shown:?}: {outcome:?}");
        }
    }
    assert_eq!(status3(&mut raw, create(b"caf\xe9")).await, Ok(()));
    scene.stop();
}

/// What a LOOKUP and GETFH find.
pub async fn handle(client: &mut Client, name: &'static str) -> Bytes {
    let ops = vec![
        ArgOp::PutRootFh,
        ArgOp::Lookup(lookup::Args { objname: Bytes::from_static(name.as_bytes()) }),
        ArgOp::GetFh,
    ];
    let ResOp::GetFh(Ok(found)) = client.last(ops).await else { panic!("no {name}") };
    found.object.0
}

/// Makes a file and opens it for both; its stateid.
pub async fn opened(client: &mut Client, name: &'static str) -> wire::nfs4::Stateid {
    let ArgOp::Open(args) = create_open(&Bytes::from_static(name.as_bytes())) else { unreachable!() };
    let open = ArgOp::Open(open::Args { share_access: open::SHARE_ACCESS_BOTH, ..args });
    let ResOp::Open(Ok(opened)) = client.last(vec![ArgOp::PutRootFh, open]).await else {
        panic!("no {name}")
    };
    opened.stateid
}
