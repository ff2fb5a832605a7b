//! NFSv3: what each procedure answers when it succeeds and when it does not, with the attributes around it.
//!
//! A failure is told with what the directory or file is like all the same; "before" and "after" agree then.

use bytes::Bytes;
use wire::handle::{FileHandle as Sealed, HandleKey};
use wire::nfs3::create::CreateHow;
use wire::nfs3::mknod::MkNodData;
use wire::nfs3::{
    self, DirOpArgs, Failure, Fattr, FileHandle, FileType, Procedure, SetAttr, SetTime, StableHow, Status,
    Time, WccData,
};
use wire::nfs3::{
    access, commit, create, fsinfo, fsstat, getattr, link, lookup, mkdir, mknod, pathconf, read, readdir,
    readdirplus, readlink, remove, rename, rmdir, setattr, symlink, write,
};
use wire::xdr::{Decode, Encode, Payload};

use crate::drc::root;
use crate::raw::Raw;
use crate::world::World;

const LONG: &str = "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789\
                    0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789\
                    01234567890123456789012345678901234567890123456789012345";

/// A client that asks as a user, and the root's handle.
struct Three {
    raw: Raw,
    root: Bytes,
}

impl Three {
    async fn start(world: &World) -> Self {
        let mut raw = Raw::connect(world).await;
        let root = root(&mut raw).await;
        Self { raw, root }
    }

    async fn call<R: Decode>(&mut self, procedure: Procedure, args: &(dyn Encode + Sync)) -> R {
        let program = (nfs3::PROGRAM, nfs3::VERSION);
        let mut d = self.raw.exchange(program, procedure as u32, args).await.expect("accepted");
        R::decode(&mut d).expect("decodes")
    }

    fn at(&self, name: &str) -> DirOpArgs {
        below(&self.root, name)
    }

    async fn mkdir(&mut self, at: DirOpArgs) -> mkdir::Res {
        self.call(Procedure::MkDir, &mkdir::Args { at, attributes: mode(0o755) }).await
    }

    async fn create(&mut self, at: DirOpArgs, how: CreateHow) -> create::Res {
        self.call(Procedure::Create, &create::Args { at, how }).await
    }

    async fn symlink(&mut self, at: DirOpArgs, text: &'static str) -> symlink::Res {
        let data = Bytes::from_static(text.as_bytes());
        self.call(Procedure::SymLink, &symlink::Args { at, attributes: mode(0o777), data }).await
    }

    async fn setattr(&mut self, object: &Bytes, new: SetAttr, guard: Option<Time>) -> setattr::Res {
        let args = setattr::Args { object: object.clone().into(), new_attributes: new, guard };
        self.call(Procedure::SetAttr, &args).await
    }

    async fn attributes(&mut self, object: &Bytes) -> Fattr {
        let args = getattr::Args { object: object.clone().into() };
        let res: getattr::Res = self.call(Procedure::GetAttr, &args).await;
        res.expect("attributes").obj_attributes
    }

    /// A directory, a file and a link in the root, and their handles.
    async fn furnish(&mut self) -> [Bytes; 3] {
        let dir = self.mkdir(self.at("dir")).await.expect("mkdir").obj;
        let file = self.create(self.at("file"), CreateHow::Guarded(mode(0o644))).await.expect("create").obj;
        let symbolic = self.symlink(self.at("link"), "file").await.expect("symlink").obj;
        [dir, file, symbolic].map(|handle| handle.expect("a handle").0)
    }
}

fn below(dir: &Bytes, name: &str) -> DirOpArgs {
    DirOpArgs { dir: FileHandle::from(dir.clone()), name: Bytes::from(name.to_owned()) }
}

fn mode(mode: u32) -> SetAttr {
    SetAttr { mode: Some(mode), ..SetAttr::default() }
}

/// Handles that are refused, and how: one that nobody minted, one of what is gone, one of another volume.
fn refused_handles(known: &Bytes) -> [(Bytes, Status); 3] {
    let key = HandleKey::new([9; 32]);
    let known = Sealed::open(known, &key).expect("ours");
    let gone = Sealed { generation: known.generation + 1, ..known }.seal(&key);
    let foreign = Sealed { volume: 7, ..known }.seal(&key);
    [(Bytes::from_static(b"forged"), Status::BadHandle), (gone, Status::Stale), (foreign, Status::Stale)]
}

#[track_caller]
fn refused<T: std::fmt::Debug, F: std::fmt::Debug>(result: Result<T, Failure<F>>, expected: Status) -> F {
    let failure = result.expect_err("this should be refused");
    assert_eq!(failure.status, expected);
    *failure.body
}

/// After a change: what was before, and what is now, which differ.
#[track_caller]
fn changed(wcc: WccData) -> Fattr {
    let (before, after) = (wcc.before.expect("before"), wcc.after.expect("after"));
    assert!(before.ctime <= after.ctime);
    after
}

/// After a refusal: both are there and agree.
#[track_caller]
fn unchanged(wcc: WccData) {
    let (before, after) = (wcc.before.expect("before"), wcc.after.expect("after"));
    assert_eq!((before.size, before.mtime, before.ctime), (after.size, after.mtime, after.ctime));
}

#[tokio::test]
async fn getattr_and_access_answer_for_every_kind_and_refuse_handles_that_name_nothing() {
    let world = World::start().await;
    let mut ash = Three::start(&world).await;
    let [dir, file, symbolic] = ash.furnish().await;
    for (handle, kind, links) in
        [(&dir, FileType::Directory, 2), (&file, FileType::Regular, 1), (&symbolic, FileType::SymLink, 1)]
    {
        let found = ash.attributes(handle).await;
        assert_eq!((found.kind, found.nlink, found.uid), (kind, links, 0));
        let args = access::Args { object: handle.clone().into(), access: 0x3f };
        let res: access::Res = ash.call(Procedure::Access, &args).await;
        let granted = res.expect("access");
        assert_eq!(granted.obj_attributes, Some(found));
        // READ LOOKUP MODIFY EXTEND DELETE, or READ MODIFY EXTEND and EXECUTE, which nobody may.
        let expected = match kind {
            FileType::Directory => 0x1f,
            FileType::SymLink => 0x2d,
            _ => 0x0d,
        };
        assert_eq!(granted.access, expected, "{kind:?}");
    }
    for (handle, status) in refused_handles(&file) {
        let res: getattr::Res =
            ash.call(Procedure::GetAttr, &getattr::Args { object: handle.clone().into() }).await;
        refused(res, status);
        let res: access::Res =
            ash.call(Procedure::Access, &access::Args { object: handle.into(), access: 1 }).await;
        assert_eq!(refused(res, status).obj_attributes, None);
    }
}

#[tokio::test]
async fn setattr_sets_what_it_is_told_and_refuses_what_cannot_be() {
    let world = World::start().await;
    let mut ash = Three::start(&world).await;
    let [dir, file, symbolic] = ash.furnish().await;
    let time = Time { seconds: u32::MAX, nanoseconds: 999_999_999 };
    let all = SetAttr {
        mode: Some(0o640),
        uid: Some(7),
        gid: Some(70),
        size: None,
        atime: SetTime::ClientTime(time),
        mtime: SetTime::ClientTime(Time::default()),
    };
    let after = changed(ash.setattr(&file, all, None).await.expect("sets").obj_wcc);
    assert_eq!((after.mode, after.uid, after.gid), (0o640, 7, 70));
    assert_eq!((after.atime, after.mtime), (time, Time::default()));

    // What chown(2) calls "no change" is none.
    let nobody = SetAttr { uid: Some(u32::MAX), gid: Some(u32::MAX), ..SetAttr::default() };
    let after = ash.setattr(&file, nobody, None).await.expect("sets").obj_wcc.after.expect("after");
    assert_eq!((after.uid, after.gid), (7, 70));

    let guard = Some(Time { seconds: 1, nanoseconds: 1 });
    unchanged(refused(ash.setattr(&file, mode(0o600), guard).await, Status::NotSync).obj_wcc);
    let ctime = ash.attributes(&file).await.ctime;
    changed(ash.setattr(&file, mode(0o600), Some(ctime)).await.expect("sets").obj_wcc);

    let second = SetTime::ClientTime(Time { seconds: 1, nanoseconds: 1_000_000_000 });
    let second = SetAttr { mtime: second, ..SetAttr::default() };
    unchanged(refused(ash.setattr(&file, second, None).await, Status::Inval).obj_wcc);
    let size = SetAttr { size: Some(0), ..SetAttr::default() };
    unchanged(refused(ash.setattr(&dir, size, None).await, Status::IsDir).obj_wcc);
    unchanged(refused(ash.setattr(&symbolic, size, None).await, Status::Inval).obj_wcc);
    for (handle, status) in refused_handles(&file) {
        assert_eq!(refused(ash.setattr(&handle, mode(0), None).await, status).obj_wcc, WccData::default());
    }
    ash.raw.uid = 1000;
    unchanged(refused(ash.setattr(&file, mode(0o777), None).await, Status::Perm).obj_wcc);
    unchanged(refused(ash.setattr(&file, size, None).await, Status::Acces).obj_wcc);
}

#[tokio::test]
async fn lookup_finds_names_dot_and_dotdot_and_tells_of_the_directory_always() {
    let world = World::start().await;
    let mut ash = Three::start(&world).await;
    let [dir, file, _] = ash.furnish().await;
    let root = ash.root.clone();
    for (what, found) in [
        (below(&root, "file"), &file),
        (below(&dir, "."), &dir),
        (below(&dir, ".."), &root),
        (below(&root, ".."), &root),
    ] {
        let res: lookup::Res = ash.call(Procedure::Lookup, &lookup::Args { what }).await;
        let res = res.expect("found");
        assert_eq!(&res.object.0, found);
        assert!(res.obj_attributes.is_some() && res.dir_attributes.is_some());
    }
    for (what, status, told) in [
        (below(&root, "none"), Status::NoEnt, true),
        (below(&root, LONG), Status::NameTooLong, true),
        (below(&root, ""), Status::Acces, true),
        (below(&root, "a/b"), Status::Inval, true),
        (below(&file, "x"), Status::NotDir, true),
        (below(&Bytes::from_static(b"forged"), "x"), Status::BadHandle, false),
    ] {
        let res: lookup::Res = ash.call(Procedure::Lookup, &lookup::Args { what }).await;
        assert_eq!(refused(res, status).dir_attributes.is_some(), told, "{status:?}");
    }
    ash.setattr(&dir, mode(0o700), None).await.expect("chmod");
    ash.raw.uid = 1000;
    let res: lookup::Res = ash.call(Procedure::Lookup, &lookup::Args { what: below(&dir, "x") }).await;
    assert!(refused(res, Status::Acces).dir_attributes.is_some());
}

#[tokio::test]
async fn what_is_made_is_returned_and_what_is_there_is_not_made_again() {
    let world = World::start().await;
    let mut ash = Three::start(&world).await;
    let [_, file, _] = ash.furnish().await;
    let made = ash.mkdir(ash.at("new")).await.expect("mkdir");
    let parent = changed(made.dir_wcc);
    assert_eq!((parent.nlink, made.obj_attributes.map(|a| a.mode)), (4, Some(0o755)));
    let special = |what| mknod::Args { at: below(&ash.root, "special"), what };
    let device = mknod::DeviceData { attributes: mode(0o600), spec: nfs3::SpecData { major: 8, minor: 17 } };
    let args = special(MkNodData::Block(device.clone()));
    let made: mknod::Res = ash.call(Procedure::MkNod, &args).await;
    let made = made.expect("mknod").obj_attributes.expect("attributes");
    assert_eq!((made.kind, made.rdev, made.mode), (FileType::Block, device.spec, 0o600));
    for (name, what, kind) in [
        ("fifo", MkNodData::Fifo(mode(0o644)), FileType::Fifo),
        ("socket", MkNodData::Socket(mode(0o644)), FileType::Socket),
        ("char", MkNodData::Character(device.clone()), FileType::Character),
    ] {
        let args = mknod::Args { at: ash.at(name), what };
        let made: mknod::Res = ash.call(Procedure::MkNod, &args).await;
        assert_eq!(made.expect("mknod").obj_attributes.map(|a| a.kind), Some(kind));
    }
    for what in [MkNodData::Regular, MkNodData::Directory, MkNodData::SymLink] {
        let args = mknod::Args { at: ash.at("bad"), what };
        let res: mknod::Res = ash.call(Procedure::MkNod, &args).await;
        unchanged(refused(res, Status::BadType).dir_wcc);
    }
    let guarded = || CreateHow::Guarded(mode(0o644));
    for (name, status) in [
        ("file", Status::Exist),
        (".", Status::Exist),
        ("..", Status::Exist),
        ("", Status::Acces),
        ("a/b", Status::Inval),
        (LONG, Status::NameTooLong),
    ] {
        unchanged(refused(ash.mkdir(ash.at(name)).await, status).dir_wcc);
        unchanged(refused(ash.create(ash.at(name), guarded()).await, status).dir_wcc);
        unchanged(refused(ash.symlink(ash.at(name), "x").await, status).dir_wcc);
        let args = mknod::Args { at: ash.at(name), what: MkNodData::Fifo(mode(0)) };
        let res: mknod::Res = ash.call(Procedure::MkNod, &args).await;
        unchanged(refused(res, status).dir_wcc);
    }
    unchanged(refused(ash.mkdir(below(&file, "x")).await, Status::NotDir).dir_wcc);
    unchanged(refused(ash.symlink(ash.at("new2"), "").await, Status::Inval).dir_wcc);
    for (handle, status) in refused_handles(&file) {
        assert_eq!(refused(ash.mkdir(below(&handle, "x")).await, status).dir_wcc, WccData::default());
    }
    ash.raw.uid = 1000;
    unchanged(refused(ash.mkdir(ash.at("new3")).await, Status::Acces).dir_wcc);
    unchanged(refused(ash.create(ash.at("new3"), guarded()).await, Status::Acces).dir_wcc);
    let args = mknod::Args { at: ash.at("new3"), what: MkNodData::Character(device) };
    let res: mknod::Res = ash.call(Procedure::MkNod, &args).await;
    unchanged(refused(res, Status::Perm).dir_wcc);
}

#[tokio::test]
async fn create_takes_refuses_or_recognises_the_file_that_is_there() {
    let world = World::start().await;
    let mut ash = Three::start(&world).await;
    let [_, file, _] = ash.furnish().await;
    let taken = ash.create(ash.at("file"), CreateHow::Unchecked(mode(0o777))).await.expect("takes it");
    assert_eq!(taken.obj.map(|h| h.0), Some(file.clone()));
    assert_eq!(taken.obj_attributes.map(|a| a.mode), Some(0o644), "of an existing file only a size is set");
    refused(ash.create(ash.at("dir"), CreateHow::Unchecked(mode(0o777))).await, Status::Exist);

    let exclusive = |verifier| CreateHow::Exclusive([verifier; 8]);
    let first = ash.create(ash.at("new"), exclusive(1)).await.expect("creates");
    let again = ash.create(ash.at("new"), exclusive(1)).await.expect("the same, sent again");
    assert_eq!(again.obj, first.obj);
    unchanged(refused(ash.create(ash.at("new"), exclusive(2)).await, Status::Exist).dir_wcc);
    unchanged(refused(ash.create(ash.at("file"), exclusive(1)).await, Status::Exist).dir_wcc);
}

#[tokio::test]
async fn names_go_move_and_multiply_with_both_directories_told() {
    let world = World::start().await;
    let mut ash = Three::start(&world).await;
    let [dir, file, _] = ash.furnish().await;
    let root = ash.root.clone();
    let link_to = |file: &Bytes, at| link::Args { file: file.clone().into(), link: at };
    let linked: link::Res = ash.call(Procedure::Link, &link_to(&file, below(&dir, "other"))).await;
    let linked = linked.expect("link");
    assert_eq!(linked.file_attributes.map(|a| a.nlink), Some(2));
    changed(linked.linkdir_wcc);
    let renaming = |from: (&Bytes, &str), to: (&Bytes, &str)| rename::Args {
        from: below(from.0, from.1),
        to: below(to.0, to.1),
    };
    let moved: rename::Res = ash.call(Procedure::Rename, &renaming((&root, "link"), (&dir, "link"))).await;
    let moved = moved.expect("rename");
    changed(moved.fromdir_wcc);
    changed(moved.todir_wcc);
    // Over another name of the same file nothing happens (RFC 1813, section 3.3.14).
    let same: rename::Res = ash.call(Procedure::Rename, &renaming((&root, "file"), (&dir, "other"))).await;
    unchanged(same.expect("rename").fromdir_wcc);
    assert_eq!(ash.attributes(&file).await.nlink, 2);

    ash.mkdir(below(&dir, "sub")).await.expect("mkdir");
    ash.mkdir(below(&root, "empty")).await.expect("mkdir");
    for (from, to, status) in [
        ((&root, "none"), (&root, "x"), Status::NoEnt),
        ((&root, "file"), (&root, "dir"), Status::IsDir),
        ((&root, "dir"), (&root, "file"), Status::NotDir),
        ((&root, "empty"), (&root, "dir"), Status::NotEmpty),
        ((&root, "dir"), (&dir, "sub"), Status::Inval),
        ((&root, "file"), (&root, LONG), Status::NameTooLong),
    ] {
        let res: rename::Res = ash.call(Procedure::Rename, &renaming(from, to)).await;
        let told = refused(res, status);
        unchanged(told.fromdir_wcc);
        unchanged(told.todir_wcc);
    }
    for (args, status) in [
        (link_to(&file, below(&root, "dir")), Status::Exist),
        (link_to(&dir, below(&root, "x")), Status::IsDir),
        (link_to(&file, below(&file, "x")), Status::NotDir),
    ] {
        let res: link::Res = ash.call(Procedure::Link, &args).await;
        let told = refused(res, status);
        unchanged(told.linkdir_wcc);
        assert!(told.file_attributes.is_some());
    }
    for (name, status) in [("none", Status::NoEnt), ("dir", Status::IsDir)] {
        let res: remove::Res =
            ash.call(Procedure::Remove, &remove::Args { object: below(&root, name) }).await;
        unchanged(refused(res, status).dir_wcc);
    }
    for (name, status) in [("none", Status::NoEnt), ("dir", Status::NotEmpty), ("file", Status::NotDir)] {
        let res: rmdir::Res = ash.call(Procedure::RmDir, &rmdir::Args { object: below(&root, name) }).await;
        unchanged(refused(res, status).dir_wcc);
    }
    let res: remove::Res = ash.call(Procedure::Remove, &remove::Args { object: below(&root, "file") }).await;
    changed(res.expect("remove").dir_wcc);
    let res: rmdir::Res = ash.call(Procedure::RmDir, &rmdir::Args { object: below(&root, "empty") }).await;
    changed(res.expect("rmdir").dir_wcc);
    assert_eq!(ash.attributes(&file).await.nlink, 1);
    // In a sticky directory only owners take names away.
    ash.setattr(&dir, mode(0o1777), None).await.expect("chmod");
    ash.raw.uid = 1000;
    let res: remove::Res = ash.call(Procedure::Remove, &remove::Args { object: below(&dir, "other") }).await;
    unchanged(refused(res, Status::Perm).dir_wcc);
    let res: rename::Res = ash.call(Procedure::Rename, &renaming((&dir, "other"), (&dir, "mine"))).await;
    unchanged(refused(res, Status::Perm).todir_wcc);
}

#[tokio::test]
async fn a_link_is_read_and_data_are_those_of_files_alone() {
    let world = World::start().await;
    let mut ash = Three::start(&world).await;
    let [dir, file, symbolic] = ash.furnish().await;
    let res: readlink::Res =
        ash.call(Procedure::ReadLink, &readlink::Args { symlink: symbolic.clone().into() }).await;
    let read_link = res.expect("reads");
    assert_eq!(read_link.data, "file");
    assert!(read_link.symlink_attributes.is_some());
    let res: readlink::Res =
        ash.call(Procedure::ReadLink, &readlink::Args { symlink: file.clone().into() }).await;
    assert!(refused(res, Status::Inval).symlink_attributes.is_some());

    let reading = |handle: &Bytes| read::Args { file: handle.clone().into(), offset: 0, count: 10 };
    let res: read::Res = ash.call(Procedure::Read, &reading(&file)).await;
    let empty = res.expect("reads");
    assert!(empty.eof && empty.count == 0 && empty.file_attributes.is_some());
    let writing = |handle: &Bytes, offset, data: &'static [u8]| write::Args {
        file: handle.clone().into(),
        offset,
        count: data.len() as u32,
        stable: StableHow::FileSync,
        data: Payload::from(Bytes::from_static(data)),
    };
    let committing = |handle: &Bytes| commit::Args { file: handle.clone().into(), offset: 0, count: 0 };
    for (handle, status) in [(&dir, Status::IsDir), (&symbolic, Status::Inval)] {
        let res: read::Res = ash.call(Procedure::Read, &reading(handle)).await;
        assert!(refused(res, status).file_attributes.is_some());
        let res: write::Res = ash.call(Procedure::Write, &writing(handle, 0, b"x")).await;
        unchanged(refused(res, status).file_wcc);
        let res: commit::Res = ash.call(Procedure::Commit, &committing(handle)).await;
        unchanged(refused(res, status).file_wcc);
    }
    let res: write::Res = ash.call(Procedure::Write, &writing(&file, 0, b"")).await;
    assert_eq!(res.expect("writes nothing").count, 0);
    let res: write::Res = ash.call(Procedure::Write, &writing(&file, u64::MAX, b"x")).await;
    unchanged(refused(res, Status::FBig).file_wcc);
    ash.raw.uid = 1000;
    let res: write::Res = ash.call(Procedure::Write, &writing(&file, 0, b"x")).await;
    unchanged(refused(res, Status::Acces).file_wcc);
    let res: commit::Res = ash.call(Procedure::Commit, &committing(&file)).await;
    unchanged(refused(res, Status::Acces).file_wcc);
    for (handle, status) in refused_handles(&file) {
        let res: read::Res = ash.call(Procedure::Read, &reading(&handle)).await;
        assert_eq!(refused(res, status).file_attributes, None);
    }
}

#[tokio::test]
async fn listings_have_dot_and_dotdot_fit_their_bounds_and_refuse_what_is_no_directory() {
    let world = World::start().await;
    let mut ash = Three::start(&world).await;
    let [dir, file, _] = ash.furnish().await;
    let root = ash.root.clone();
    let listing = |dir: &Bytes, cookie, count| readdir::Args {
        dir: dir.clone().into(),
        cookie,
        cookieverf: [0; 8],
        count,
    };
    let (mut names, mut cookie) = (vec![], 0);
    loop {
        let res: readdir::Res = ash.call(Procedure::ReadDir, &listing(&root, cookie, 160)).await;
        let page = res.expect("lists");
        assert!(page.dir_attributes.is_some());
        assert!(page.entries.len() < 5, "as much as fits");
        names.extend(page.entries.iter().map(|entry| String::from_utf8_lossy(&entry.name).into_owned()));
        if page.eof {
            break;
        }
        cookie = page.entries.last().expect("an entry").cookie;
    }
    names.sort();
    assert_eq!(names, [".", "..", "dir", "file", "link"]);
    let plus = |dir: &Bytes, maxcount| readdirplus::Args {
        dir: dir.clone().into(),
        cookie: 0,
        cookieverf: [0; 8],
        dircount: maxcount,
        maxcount,
    };
    let res: readdirplus::Res = ash.call(Procedure::ReadDirPlus, &plus(&root, 8192)).await;
    let page = res.expect("lists");
    assert!(page.eof);
    for entry in page.entries.iter() {
        let attributes = entry.name_attributes.expect("attributes");
        assert_eq!(attributes.fileid, entry.fileid);
        let handle = entry.name_handle.clone().expect("a handle").0;
        assert_eq!(ash.attributes(&handle).await, attributes);
    }
    let res: readdir::Res = ash.call(Procedure::ReadDir, &listing(&root, 0, 20)).await;
    refused(res, Status::TooSmall);
    let res: readdirplus::Res = ash.call(Procedure::ReadDirPlus, &plus(&root, 20)).await;
    refused(res, Status::TooSmall);
    let res: readdir::Res = ash.call(Procedure::ReadDir, &listing(&file, 0, 8192)).await;
    assert!(refused(res, Status::NotDir).dir_attributes.is_some());
    let res: readdirplus::Res = ash.call(Procedure::ReadDirPlus, &plus(&file, 8192)).await;
    assert!(refused(res, Status::NotDir).dir_attributes.is_some());
    ash.setattr(&dir, mode(0o711), None).await.expect("chmod");
    ash.raw.uid = 1000;
    let res: readdir::Res = ash.call(Procedure::ReadDir, &listing(&dir, 0, 8192)).await;
    assert!(refused(res, Status::Acces).dir_attributes.is_some());
}

#[tokio::test]
async fn the_file_system_says_its_bounds_and_they_are_those_of_v4() {
    let world = World::start().await;
    let mut ash = Three::start(&world).await;
    let [_, file, _] = ash.furnish().await;
    let res: fsstat::Res = ash.call(Procedure::FsStat, &fsstat::Args { fsroot: file.clone().into() }).await;
    let stat = res.expect("FSSTAT");
    assert_eq!(
        (stat.tbytes, stat.fbytes, stat.abytes),
        (1 << 40, 1 << 40, 1 << 40),
        "what data servers report"
    );
    assert_eq!((stat.tfiles, stat.ffiles, stat.afiles), (1 << 40, (1 << 40) - 4, (1 << 40) - 4));
    let res: fsinfo::Res = ash.call(Procedure::FsInfo, &fsinfo::Args { fsroot: file.clone().into() }).await;
    let info = res.expect("FSINFO");
    assert_eq!((info.rtmax, info.wtmax, info.rtpref, info.wtpref), (1 << 20, 1 << 20, 1 << 20, 1 << 20));
    assert_eq!(info.time_delta, Time { seconds: 0, nanoseconds: 1 });
    assert_eq!(info.maxfilesize, i64::MAX as u64);
    // LINK, SYMLINK, HOMOGENEOUS, CANSETTIME.
    assert_eq!(info.properties, 0x1b);
    let res: pathconf::Res =
        ash.call(Procedure::PathConf, &pathconf::Args { object: file.clone().into() }).await;
    let conf = res.expect("PATHCONF");
    assert_eq!((conf.linkmax, conf.name_max), (65_000, 255));
    assert!(conf.no_trunc && conf.chown_restricted && conf.case_preserving && !conf.case_insensitive);
    for (handle, status) in refused_handles(&file) {
        let res: fsstat::Res =
            ash.call(Procedure::FsStat, &fsstat::Args { fsroot: handle.clone().into() }).await;
        refused(res, status);
        let res: fsinfo::Res =
            ash.call(Procedure::FsInfo, &fsinfo::Args { fsroot: handle.clone().into() }).await;
        refused(res, status);
        let res: pathconf::Res =
            ash.call(Procedure::PathConf, &pathconf::Args { object: handle.into() }).await;
        refused(res, status);
    }
}
