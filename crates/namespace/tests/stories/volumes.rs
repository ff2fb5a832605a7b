//! Volumes: trees of their own, and their removal in bounded commands.

use namespace::*;

use crate::world::*;

/// Volume, inodes in it, and volumes in it.
fn counts(w: &World) -> Vec<(u32, u64, u32)> {
    let volumes = read::volumes(&*w.view()).unwrap();
    volumes.iter().map(|volume| (volume.id.0, volume.usage.inodes, volume.volumes)).collect()
}

fn opens(w: &World, path: &str) -> bool {
    read::in_use(&*w.view(), w.id(path)).unwrap()
}

#[test]
fn a_volume_has_inode_numbers_of_its_own_and_its_root_is_in_the_parent() {
    let mut w = World::new();
    w.dir("/home");
    let a = w.volume("/home/a").unwrap();
    let within = w.volume("/home/a/within").unwrap();
    assert_eq!((a, within), (VolumeId(1), VolumeId(2)));
    let file = w.small_file("/home/a/f");
    assert_eq!((w.id("/home/a"), file), (InodeId(1 << 40 | 2), InodeId(1 << 40 | 3)));
    assert_eq!(w.small_file("/home/f"), InodeId(4), "the numbers of the first volume go on");
    assert!(
        file.volume() == a
            && a.root().is_root()
            && !file.is_root()
            && w.id("/home/a/within") == within.root()
    );
    let parent = |path: &str| w.stat(path).directory().unwrap().parent;
    assert_eq!((parent("/home/a"), parent("/home/a/within")), (w.id("/home"), a.root()));
    assert_eq!(w.stat("/home").links, 3, "its root is a directory in it");
    assert_eq!(counts(&w), [(0, 3, 1), (1, 2, 1), (2, 1, 0)]);
    assert_eq!(w.volume("/home/a"), Err(Error::Exists));
    assert_eq!(w.volume("/home/f/x"), Err(Error::NotDirectory));
}

#[test]
fn the_root_of_a_volume_inherits_the_stripe_policy_of_its_parent_or_has_its_own() {
    let mut w = World::new();
    let policy =
        |columns| StripePolicy { unit: StripeUnit::DEFAULT, columns, copies: 2, pool: PoolId::DEFAULT };
    let root = w.volume("/a").unwrap().root();
    w.apply(Command::SetStripe { dir: InodeId::ROOT, policy: Some(policy(3)) }).unwrap();
    assert_eq!(read::stripe_policy(&*w.view(), root).unwrap(), Some(policy(3)));
    let attributes = NewAttributes { mode: 0o700, uid: 1, gid: 2, accessed: None, modified: None };
    let new = NewVolume { dir: root, name: b"b".to_vec(), attributes, stripe: Some(policy(1)) };
    w.apply(Command::MakeVolume(new.clone())).unwrap();
    assert_eq!(read::stripe_policy(&*w.view(), w.id("/a/b")).unwrap(), Some(policy(1)));
    let stat = w.stat("/a/b");
    assert_eq!((stat.mode, stat.uid, stat.gid), (0o700, 1, 2));
    let nowhere = StripePolicy { pool: PoolId(9), ..policy(1) };
    let new = NewVolume { name: b"c".to_vec(), stripe: Some(nowhere), ..new };
    assert_eq!(w.apply(Command::MakeVolume(new)), Err(Error::NoEntry), "there is no such pool");
}

#[test]
fn no_name_goes_from_one_volume_to_another() {
    let mut w = World::new();
    for path in ["/a", "/b", "/a/c"] {
        w.volume(path).unwrap();
    }
    w.small_file("/f");
    w.small_file("/a/f");
    w.dir("/a/d");
    for (from, to) in [("/f", "/a/g"), ("/a/f", "/g"), ("/a/f", "/b/f"), ("/a/d", "/a/c/d"), ("/a/c", "/c")] {
        assert_eq!(w.rename(from, to), Err(Error::OtherVolume), "{from} {to}");
    }
    assert_eq!(w.link("/a/f", "/b/f"), Err(Error::OtherVolume));
    assert_eq!(w.link("/f", "/a/g"), Err(Error::OtherVolume));
    w.rename("/a/f", "/a/d/f").unwrap();
    w.link("/a/d/f", "/a/g").unwrap();
}

#[test]
fn a_root_can_get_another_name_and_nothing_but_its_own_removal_removes_it() {
    let mut w = World::new();
    w.dir("/d");
    w.dir("/e");
    w.volume("/d/a").unwrap();
    w.rename("/d/a", "/b").unwrap();
    assert_eq!(w.stat("/b").directory().unwrap().parent, InodeId::ROOT);
    for expect in [Expect::Anything, Expect::Directory] {
        assert_eq!(w.remove_as("/b", expect), Err(Error::VolumeRoot));
    }
    assert_eq!(w.remove_as("/b", Expect::NotDirectory), Err(Error::IsDirectory));
    assert_eq!(w.rename("/e", "/b"), Err(Error::VolumeRoot), "the empty directory would go");
    assert_eq!(w.remove_volume("/e", true), Err(Error::NotVolume));
    assert_eq!(w.remove_volume("/nothing", true), Err(Error::NoEntry));
    w.remove_volume("/b", false).unwrap();
    assert_eq!((w.find("/b"), counts(&w)), (None, vec![(0, 3, 0)]));
    assert_eq!(w.volume("/b"), Ok(VolumeId(2)), "an id is not used again");
}

#[test]
fn a_volume_in_use_is_removed_by_force_only_and_one_with_volumes_not_at_all() {
    let mut w = World::new();
    let client = w.client("a");
    w.volume("/a").unwrap();
    w.volume("/a/b").unwrap();
    assert_eq!(w.remove_volume("/a", true), Err(Error::HoldsVolumes));
    w.small_file("/a/b/f");
    assert_eq!(w.remove_volume("/a/b", false), Err(Error::NotEmpty));
    let open = w.open(client, "/a/b/f", BOTH).unwrap();
    assert_eq!(w.remove_volume("/a/b", false), Err(Error::FilesOpen));
    w.remove("/a/b/f").unwrap();
    assert_eq!(w.remove_volume("/a/b", false), Err(Error::FilesOpen), "an orphan");
    w.apply(Command::Close { client, stateid: open }).unwrap();
    w.remove_volume("/a/b", false).unwrap();
    w.remove_volume("/a", false).unwrap();
    assert_eq!(counts(&w), [(0, 1, 0)]);
}

#[test]
fn a_volume_with_much_in_it_is_gone_at_once_and_removed_in_bounded_commands() {
    const FILES: u64 = 10_000;
    let mut w = World::new();
    let client = w.client("a");
    let (before, v, after) =
        (w.volume("/before").unwrap(), w.volume("/v").unwrap(), w.volume("/after").unwrap());
    for neighbour in ["/before/f", "/after/f"] {
        w.file(neighbour);
        w.open(client, neighbour, BOTH).unwrap();
    }
    let dir = w.dir("/v/many");
    w.is_large = true;
    w.many(FILES, |n| {
        let name = format!("file-{n}");
        (None, Command::Create(create(dir, name.as_bytes(), NewNode::File(LAYOUT), Exists::Refuse)))
    });
    for path in ["/v/open", "/v/orphan", "/v/laid-out", "/v/delegated", "/v/locked"] {
        w.file(path);
    }
    let removed_objects =
        [w.id("/v/open"), w.id("/v/orphan"), w.id("/v/laid-out"), w.id("/v/delegated"), w.id("/v/locked")];
    w.set_xattr("/v/open", "a", b"value", XattrExists::Create).unwrap();
    w.write_small("/v/many/file-7", 0, "data").unwrap();
    w.open(client, "/v/open", BOTH).unwrap();
    w.open(client, "/v/orphan", BOTH).unwrap();
    w.remove("/v/orphan").unwrap();
    let open = w.open(client, "/v/laid-out", BOTH).unwrap();
    w.layout(client, "/v/laid-out", open, IoMode::ReadWrite).unwrap();
    assert!(w.open_delegated(client, "/v/delegated").unwrap().1.is_some());
    let open = w.open(client, "/v/locked", BOTH).unwrap();
    stateid(w.lock_new(client, open, "l", LockKind::Write, 0..100));
    assert_eq!(w.findings(), Vec::<String>::new());

    let others = |w: &World| {
        let of = |id: VolumeId| {
            (read::volume(&*w.view(), id).unwrap(), w.inode(InodeId(id.root().0 + 1)).unwrap())
        };
        (of(before), of(after), opens(w, "/before/f"), opens(w, "/after/f"))
    };
    let (known, seen) = (others(&w), (w.id("/v/many"), w.id("/v/open")));
    let (root, name) = w.split("/v");
    assert!(matches!(
        w.bounded(Command::RemoveVolume { dir: root, name, force: true }),
        Reply::Removed { .. }
    ));
    assert_eq!((w.find("/v"), read::volume_lives(&*w.view(), v.root()).unwrap()), (None, false));
    assert!(read::volume_lives(&*w.view(), before.root()).unwrap());
    assert_eq!(read::removed_volumes(&*w.view()).unwrap(), [(v, FILES + 7)]);
    // What comes late, by handles of before.
    let make = create(seen.0, b"late", NewNode::Directory, Exists::Refuse);
    assert_eq!(w.apply(Command::Create(make)), Err(Error::Stale));
    assert_eq!(
        w.apply(Command::Link { inode: seen.1, dir: seen.0, name: b"late".to_vec() }),
        Err(Error::Stale)
    );

    let mut left = FILES + 7;
    let mut commands = 0;
    while read::has_leftovers(&*w.view()).unwrap() {
        assert_eq!(w.bounded(Command::RemoveLeftovers), Reply::Done);
        assert_eq!(w.findings(), Vec::<String>::new());
        let now = read::removed_volumes(&*w.view()).unwrap().first().map_or(0, |(_, left)| *left);
        assert!(now <= left, "{now} {left}");
        (left, commands) = (now, commands + 1);
    }
    let records = 3 * FILES;
    assert!((records / 1024..records / 1024 + 10).contains(&commands), "{commands} commands");
    assert_eq!(others(&w), known);
    assert_eq!(counts(&w), [(0, 1, 2), (1, 2, 0), (3, 2, 0)]);
    let keys = w.dump().into_iter().filter(|(key, _)| (0x01..=0x08).contains(&key[0]));
    assert!(keys.into_iter().all(|(key, _)| !key[1..].starts_with(&(2_u64 << 40).to_be_bytes()[..3])));
    let removed: Vec<InodeId> = w
        .deferred()
        .into_iter()
        .map(|(inode, kind)| (kind == DeferredKind::Remove).then_some(inode).unwrap())
        .collect();
    assert_eq!(removed, removed_objects);
    let states = read::state_counts(&*w.view()).unwrap();
    assert_eq!((states.opens, states.locks, states.layouts, states.delegations), (2, 0, 0, 0));
}
