//! Attributes of NFSv4: which can be asked for, set, compared, and what is said of what was set.

use bytes::Bytes;
use metaserver::Idmap;
use wire::nfs4::create::CreateType;
use wire::nfs4::fattr::{ModeMasked, ModeUmask, SetTime};
use wire::nfs4::open::{CreateHow, OpenHow};
use wire::nfs4::{ArgOp, Bitmap, Fattr, FileHandle, NetAddr, ResOp, Stateid, Status, Time, attr};
use wire::nfs4::{create, getattr, nverify, readdir, remove, setattr, verify};

use crate::raw::{Client, null, putfh};
use crate::world::World;

const READ: u32 = 1;
const BOTH: u32 = 3;

fn asking(attributes: &[u32]) -> ArgOp {
    ArgOp::GetAttr(getattr::Args { attr_request: Bitmap::of(attributes) })
}

fn setting(attrs: Fattr) -> ArgOp {
    ArgOp::SetAttr(setattr::Args { stateid: Stateid::ANONYMOUS, obj_attributes: Box::new(attrs) })
}

fn listing(attributes: &[u32]) -> ArgOp {
    ArgOp::ReadDir(readdir::Args {
        cookie: 0,
        cookieverf: [0; 8],
        dircount: 0,
        maxcount: 8192,
        attr_request: Bitmap::of(attributes),
    })
}

fn making(name: &'static str, objtype: CreateType, attrs: Fattr) -> ArgOp {
    let objname = Bytes::from_static(name.as_bytes());
    ArgOp::Create(create::Args { objtype, objname, createattrs: Box::new(attrs) })
}

async fn attributes(client: &mut Client, file: &FileHandle, of: &[u32]) -> Fattr {
    match client.ok(vec![putfh(file), asking(of)]).await.remove(1) {
        ResOp::GetAttr(Ok(reply)) => *reply.attrs,
        other => panic!("{other:?}"),
    }
}

/// RFC 8881, section 5.5, and RFC 8275, section 4.
#[tokio::test]
async fn what_can_only_be_set_is_neither_asked_for_nor_compared() {
    let world = World::start().await;
    let mut ash = Client::mount(&world, "ash").await;
    for number in [attr::TIME_ACCESS_SET, attr::TIME_MODIFY_SET, attr::MODE_SET_MASKED, attr::MODE_UMASK] {
        assert_eq!(ash.status(vec![ArgOp::PutRootFh, asking(&[number])]).await, Status::Inval);
        assert_eq!(ash.status(vec![ArgOp::PutRootFh, listing(&[number])]).await, Status::Inval);
    }
    for attrs in [
        Fattr { time_access_set: Some(SetTime::Server), ..Fattr::default() },
        Fattr { mode_umask: Some(ModeUmask { mode: 0, umask: 0 }), ..Fattr::default() },
        Fattr { rdattr_error: Some(Status::Ok), ..Fattr::default() },
    ] {
        let obj_attributes = Box::new(attrs);
        let compared = ArgOp::Verify(verify::Args { obj_attributes: obj_attributes.clone() });
        assert_eq!(ash.status(vec![ArgOp::PutRootFh, compared]).await, Status::Inval);
        let compared = ArgOp::NVerify(nverify::Args { obj_attributes });
        assert_eq!(ash.status(vec![ArgOp::PutRootFh, compared]).await, Status::Inval);
    }
}

#[tokio::test]
async fn all_that_linux_asks_for_is_there() {
    let world = World::start().await;
    let mut ash = Client::mount(&world, "ash").await;
    let (file, _) = ash.open("f", BOTH, 0).await.expect("opens");
    // The bitmaps of the Linux client: of an inode, of a mount, of df and of pathconf.
    let asked = [
        vec![1, 3, 4, 8, 20, 33, 35, 36, 37, 41, 45, 47, 52, 53, 55],
        vec![0, 2, 5, 6, 13, 16, 17, 75],
        vec![27, 30, 31, 10, 51, 62, 65, 79],
        vec![21, 22, 23, 42, 43, 44],
        vec![28, 29],
    ];
    for numbers in asked {
        let found = attributes(&mut ash, &file, &numbers).await;
        assert_eq!(found.mask(), Bitmap::of(&numbers));
    }
    let found = attributes(&mut ash, &file, &[0]).await.supported_attrs.expect("supported");
    // No access control lists, of any kind: not even asked for (12, 58, 59).
    assert!([12, 58, 59].iter().all(|number| !found.contains(*number)));
    let found = attributes(&mut ash, &file, &[13, 21, 23, 42, 44]).await;
    assert_eq!((found.aclsupport, found.space_total), (Some(0), Some(1 << 40)));
    assert_eq!((found.files_total, found.files_avail), (Some(1 << 40), Some((1 << 40) - 2)));
}

#[tokio::test]
async fn what_is_read_only_or_unknown_is_not_set() {
    let world = World::start().await;
    let mut ash = Client::mount(&world, "ash").await;
    let (file, _) = ash.open("f", BOTH, 0).await.expect("opens");
    let umask = ModeUmask { mode: 0o666, umask: 0o022 };
    let nanosecond = Time { seconds: 0, nanoseconds: 1_000_000_000 };
    let masked = ModeMasked { value: 0o7, mask: 0o2 };
    let default = Fattr::default;
    for (attrs, status) in [
        (Fattr { fileid: Some(7), ..default() }, Status::Inval),
        (Fattr { change: Some(7), ..default() }, Status::Inval),
        (Fattr { numlinks: Some(7), ..default() }, Status::Inval),
        (Fattr { lease_time: Some(7), ..default() }, Status::Inval),
        (Fattr { mode_umask: Some(umask), ..default() }, Status::Inval),
        (Fattr { mode: Some(0o10_000), ..default() }, Status::Inval),
        (Fattr { mode_set_masked: Some(masked), ..default() }, Status::Inval),
        (Fattr { time_modify_set: Some(SetTime::Client(nanosecond)), ..default() }, Status::Inval),
        (Fattr { layout_alignment: Some(7), ..default() }, Status::AttrNotSupp),
        (Fattr { owner: Some("5@example.org".into()), ..default() }, Status::BadOwner),
        (Fattr { owner: Some("007".into()), ..default() }, Status::BadOwner),
        (Fattr { owner_group: Some("users".into()), ..default() }, Status::BadOwner),
    ] {
        let results = ash.run(vec![putfh(&file), setting(attrs.clone())]).await.expect("runs");
        let ResOp::SetAttr(res) = &results[1] else { panic!("{results:?}") };
        assert_eq!((res.status, res.attrsset), (status, Bitmap::EMPTY), "{attrs:?}");
    }
    let attrs = Fattr { mode: Some(0o600), owner: Some("7".into()), ..default() };
    let results = ash.ok(vec![putfh(&file), setting(attrs)]).await;
    let ResOp::SetAttr(res) = &results[1] else { panic!("{results:?}") };
    assert_eq!(res.attrsset, Bitmap::of(&[attr::MODE, attr::OWNER]));
}

/// attrset tells what the server set; what is not in it, the client sets itself.
#[tokio::test]
async fn what_a_create_says_it_set_is_set() {
    let world = World::start().await;
    let mut ash = Client::mount(&world, "ash").await;
    let umask = ModeUmask { mode: 0o7666, umask: 0o027 };
    let attrs = Fattr { mode_umask: Some(umask), size: Some(5), owner: Some("7".into()), ..Fattr::default() };
    let open = |client: &Client, how| client.open_how("owner", BOTH, 0, OpenHow::Create(how), null("f"));
    let how = CreateHow::Unchecked(Box::new(attrs));
    let ops =
        vec![ArgOp::PutRootFh, open(&ash, how), asking(&[attr::MODE, attr::SIZE, attr::OWNER]), ArgOp::GetFh];
    let results = ash.ok(ops).await;
    let [_, ResOp::Open(Ok(opened)), ResOp::GetAttr(Ok(found)), ResOp::GetFh(Ok(file))] = &results[..] else {
        panic!("{results:?}")
    };
    assert_eq!(opened.attrset, Bitmap::of(&[attr::OWNER, attr::MODE_UMASK]), "not the size: it is empty");
    assert_eq!((found.attrs.mode, found.attrs.size), (Some(0o7640), Some(0)));
    assert_eq!(found.attrs.owner.as_deref(), Some(&b"7"[..]));
    let file = file.object.clone();

    // An existing file stays as it is.
    let attrs = Fattr { mode: Some(0o777), ..Fattr::default() };
    let results = ash.ok(vec![ArgOp::PutRootFh, open(&ash, CreateHow::Unchecked(Box::new(attrs)))]).await;
    let ResOp::Open(Ok(opened)) = &results[1] else { panic!("{results:?}") };
    assert_eq!(opened.attrset, Bitmap::EMPTY);
    assert_eq!(attributes(&mut ash, &file, &[attr::MODE]).await.mode, Some(0o7640));

    let target = CreateType::Symlink("f".into());
    let attrs = Fattr { mode: Some(0o700), owner_group: Some("70".into()), ..Fattr::default() };
    let ops = vec![ArgOp::PutRootFh, making("s", target, attrs), asking(&[attr::MODE])];
    let results = ash.ok(ops).await;
    let [_, ResOp::Create(Ok(made)), ResOp::GetAttr(Ok(found))] = &results[..] else { panic!("{results:?}") };
    assert_eq!(made.attrset, Bitmap::of(&[attr::OWNER_GROUP]), "a link has no mode of its own");
    assert_eq!(found.attrs.mode, Some(0o777));
    let sized = Fattr { size: Some(0), ..Fattr::default() };
    let ops = vec![ArgOp::PutRootFh, making("d", CreateType::Directory, sized)];
    assert_eq!(ash.status(ops).await, Status::Inval);

    // Only root makes what is another's.
    ash.ok(vec![ArgOp::PutRootFh, setting(Fattr { mode: Some(0o777), ..Fattr::default() })]).await;
    ash.raw.uid = 1000;
    let given = Fattr { owner: Some("7".into()), ..Fattr::default() };
    let ops = vec![ArgOp::PutRootFh, making("d", CreateType::Directory, given)];
    assert_eq!(ash.status(ops).await, Status::Perm);
}

#[tokio::test]
async fn times_before_1970_and_far_from_now_are_kept() {
    let world = World::start().await;
    let mut ash = Client::mount(&world, "ash").await;
    let (file, _) = ash.open("f", BOTH, 0).await.expect("opens");
    for seconds in [-1, i64::from(i32::MIN) - 1, 1 << 33, i64::MIN, i64::MAX] {
        let time = Time { seconds, nanoseconds: 999_999_999 };
        let attrs = Fattr {
            time_access_set: Some(SetTime::Client(time)),
            time_modify_set: Some(SetTime::Client(time)),
            ..Fattr::default()
        };
        ash.ok(vec![putfh(&file), setting(attrs)]).await;
        let found = attributes(&mut ash, &file, &[attr::TIME_ACCESS, attr::TIME_MODIFY]).await;
        assert_eq!((found.time_access, found.time_modify), (Some(time), Some(time)));
    }
}

#[tokio::test]
async fn a_fileid_is_never_given_again() {
    let mut world = World::start().await;
    let mut ash = Client::mount(&world, "ash").await;
    let mut last = 0;
    for round in 0..6 {
        if round == 3 {
            world.restart().await;
            ash.reconnect(&world).await;
        }
        let ops = vec![
            ArgOp::PutRootFh,
            making("d", CreateType::Directory, Fattr::default()),
            asking(&[attr::FILEID, attr::MOUNTED_ON_FILEID]),
        ];
        let results = ash.ok(ops).await;
        let ResOp::GetAttr(Ok(found)) = &results[2] else { panic!("{results:?}") };
        let fileid = found.attrs.fileid.expect("a fileid");
        assert_eq!(found.attrs.mounted_on_fileid, Some(fileid));
        assert!(fileid > last, "{fileid} after {last}");
        last = fileid;
        let target = Bytes::from_static(b"d");
        ash.ok(vec![ArgOp::PutRootFh, ArgOp::Remove(remove::Args { target })]).await;
    }
}

#[tokio::test]
async fn owners_have_names_when_the_configuration_says_so() {
    let world = World::start().await;
    let mut ash = Client::mount(&world, "ash").await;
    let (file, _) = ash.open("f", BOTH, 0).await.expect("opens");
    let (passwd, group) = ("ann:x:1000:100::/:\n", "users:x:100:\n");
    let by_name = || Fattr {
        owner: Some("ann@example.org".into()),
        owner_group: Some("users@EXAMPLE.org".into()),
        ..Fattr::default()
    };
    assert_eq!(ash.status(vec![putfh(&file), setting(by_name())]).await, Status::BadOwner);
    for (names, user, users) in [(false, "1000", "100"), (true, "ann@example.org", "users@example.org")] {
        world.metaserver.set_idmap(Idmap::new("example.org", names, passwd, group));
        ash.ok(vec![putfh(&file), setting(by_name())]).await;
        let found = attributes(&mut ash, &file, &[attr::OWNER, attr::OWNER_GROUP]).await;
        assert_eq!(found.owner.as_deref(), Some(user.as_bytes()));
        assert_eq!(found.owner_group.as_deref(), Some(users.as_bytes()));
        // The same owner, however it is said.
        for owner in ["1000", "ann@example.org"] {
            let obj_attributes = Box::new(Fattr { owner: Some(owner.into()), ..Fattr::default() });
            let same = ArgOp::Verify(verify::Args { obj_attributes });
            assert_eq!(ash.status(vec![putfh(&file), same]).await, Status::Ok, "{owner}");
        }
    }
    let eve = Fattr { owner: Some("eve@example.org".into()), ..Fattr::default() };
    assert_eq!(ash.status(vec![putfh(&file), setting(eve)]).await, Status::BadOwner);
    let number = Fattr { owner: Some("2000".into()), ..Fattr::default() };
    ash.ok(vec![putfh(&file), setting(number)]).await;
    let found = attributes(&mut ash, &file, &[attr::OWNER]).await;
    assert_eq!(found.owner.as_deref(), Some(&b"2000"[..]), "who has no name");
}

/// A user who may only read a file must not keep its owner from reading it.
#[tokio::test]
async fn denying_others_to_read_takes_permission_to_write() {
    let world = World::start().await;
    let mut ash = Client::mount(&world, "ash").await;
    let (file, stateid) = ash.open("f", BOTH, 0).await.expect("opens");
    ash.ok(vec![putfh(&file), setting(Fattr { mode: Some(0o644), ..Fattr::default() })]).await;
    let close = wire::nfs4::close::Args { seqid: 0, open_stateid: stateid };
    ash.ok(vec![putfh(&file), ArgOp::Close(close)]).await;
    ash.raw.uid = 1000;
    let open = |client: &Client, deny| client.open_how("other", READ, deny, OpenHow::NoCreate, null("f"));
    assert_eq!(ash.status(vec![ArgOp::PutRootFh, open(&ash, READ)]).await, Status::Access);
    assert_eq!(ash.status(vec![ArgOp::PutRootFh, open(&ash, 0)]).await, Status::Ok);
}

/// RFC 8881, sections 11.16 and 11.17.
#[tokio::test]
async fn a_file_system_says_where_it_is_when_it_is_asked_and_only_then() {
    let world = World::start().await;
    let mut ash = Client::mount(&world, "ash").await;
    let (file, _) = ash.open("f", BOTH, 0).await.expect("opens");
    let supported = attributes(&mut ash, &file, &[0]).await.supported_attrs.expect("supported");
    assert!(supported.contains(attr::FS_LOCATIONS) && supported.contains(attr::FS_LOCATIONS_INFO));
    let here = NetAddr::tcp(world.server.address()).uaddr;
    let found = attributes(&mut ash, &file, &[attr::FS_LOCATIONS, attr::FS_LOCATIONS_INFO]).await;
    let places = found.fs_locations.clone().expect("fs_locations");
    assert_eq!(places.locations[0].servers.as_slice(), std::slice::from_ref(&here));
    assert_eq!((places.fs_root.len(), places.locations[0].rootpath.len()), (0, 0));
    let info = found.fs_locations_info.clone().expect("fs_locations_info");
    let [entry] = &info.items[0].entries[..] else { panic!("{info:?}") };
    assert_eq!((&entry.server, entry.info.len(), entry.info[0]), (&here, 12, 0b11));

    let same = ArgOp::Verify(verify::Args { obj_attributes: Box::new(found) });
    assert_eq!(ash.status(vec![putfh(&file), same]).await, Status::Ok);
    let listed = ash.ok(vec![ArgOp::PutRootFh, listing(&[attr::FS_LOCATIONS])]).await.remove(1);
    let ResOp::ReadDir(Ok(listed)) = listed else { panic!("{listed:?}") };
    let entries = listed.entries.decode().expect("entries");
    assert!(entries.iter().all(|entry| entry.attrs.attrs.fs_locations.is_some()), "{entries:?}");
}
