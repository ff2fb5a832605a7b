//! Names: create, link, remove, rename, list.

use namespace::*;

use crate::world::*;

#[test]
fn a_new_file_system_has_an_empty_root() {
    let w = World::new();
    let root = w.stat("/");
    assert_eq!((root.id, root.mode, root.uid, root.gid, root.links), (InodeId::ROOT, 0o755, 0, 0, 2));
    assert_eq!(w.names("/"), Vec::<String>::new());
    assert_eq!(read::counts(&*w.view()).unwrap(), 1);
    assert_eq!(check(&*w.view()).unwrap(), Vec::<String>::new());
}

#[test]
fn formatting_twice_changes_nothing() {
    use store::{Durability, MemoryStore, Store};
    let store = MemoryStore::new();
    for random in [1, 2] {
        let stamp = Stamp { time: at(0), random };
        store.batch(Durability::Immediate, &mut |edit| format(edit, &stamp, [random as u8; 16])).unwrap();
    }
    let view = store.snapshot().unwrap();
    let incarnation = Incarnation { id: [1; 16], epoch: 1, began: at(0) };
    assert_eq!(read::incarnation(&*view).unwrap(), Some(incarnation));
    assert_eq!(read::inode(&*view, InodeId::ROOT).unwrap().unwrap().generation, 1);
}

#[test]
fn create_makes_every_kind_of_inode() {
    let mut w = World::new();
    let nodes = [
        ("f", NewNode::File(LAYOUT), 1, 0),
        ("d", NewNode::Directory, 2, 0),
        ("s", NewNode::Symlink(b"where/to".to_vec()), 1, 8),
        ("p", NewNode::Fifo, 1, 0),
        ("k", NewNode::Socket, 1, 0),
        ("c", NewNode::CharacterDevice(1, 3), 1, 0),
        ("b", NewNode::BlockDevice(8, 0), 1, 0),
    ];
    for (name, node, links, size) in nodes {
        let before = w.stat("/").change;
        let path = format!("/{name}");
        let Ok(Reply::Created { inode, existed: false, dir }) = w.make(&path, node, Exists::Refuse) else {
            panic!("{name}")
        };
        assert_eq!(dir, Change { before, after: before + 1 });
        assert_eq!(inode, w.stat(&path));
        assert_eq!((inode.links, inode.size, inode.mode, inode.uid, inode.gid), (links, size, 0o644, 10, 20));
        assert_eq!(
            (inode.accessed, inode.modified, inode.changed),
            (at(w.seconds), at(w.seconds), at(w.seconds))
        );
    }
    let root = w.stat("/");
    assert_eq!((root.links, root.size, root.modified), (3, 7 * 64, at(w.seconds)));
    assert_eq!(read::counts(&*w.view()).unwrap(), 8);
}

#[test]
fn create_where_something_is() {
    let mut w = World::new();
    let file = w.file("/f");
    w.dir("/d");
    let new = || NewNode::File(LAYOUT);
    assert_eq!(w.make("/f", new(), Exists::Refuse), Err(Error::Exists));
    assert_eq!(w.make("/d", new(), Exists::Take), Err(Error::Exists));
    assert_eq!(w.make("/f", NewNode::Directory, Exists::Take), Err(Error::Exists));
    assert_eq!(w.make("/f", new(), Exists::Verify([9; 8])), Err(Error::Exists));
    let Ok(Reply::Created { inode, existed: true, dir }) = w.make("/f", new(), Exists::Take) else {
        panic!()
    };
    assert_eq!((inode.id, dir.before), (file, dir.after));
}

#[test]
fn an_exclusive_create_sent_again_is_the_same_create() {
    let mut w = World::new();
    for _ in 0..2 {
        let Ok(Reply::Created { existed: false, inode, .. }) =
            w.make("/f", NewNode::File(LAYOUT), Exists::Verify([1; 8]))
        else {
            panic!()
        };
        assert_eq!(inode.id, w.id("/f"));
    }
    assert_eq!(w.make("/f", NewNode::File(LAYOUT), Exists::Verify([2; 8])), Err(Error::Exists));
}

#[test]
fn create_in_what_is_not_a_directory() {
    let mut w = World::new();
    let file = w.file("/f");
    let refused =
        |w: &mut World, dir| w.apply(Command::Create(create(dir, b"x", NewNode::Fifo, Exists::Refuse)));
    assert_eq!(refused(&mut w, file), Err(Error::NotDirectory));
    assert_eq!(refused(&mut w, InodeId(999)), Err(Error::Stale));
}

#[test]
fn inode_numbers_and_cookies_are_never_reused() {
    let mut w = World::new();
    let first = w.file("/f");
    let cookie = w.list_after("/", 0, 1)[0].1;
    w.remove("/f").unwrap();
    let second = w.file("/f");
    assert!(second > first);
    assert!(w.list_after("/", 0, 1)[0].1 > cookie);
}

#[test]
fn a_file_has_as_many_links_as_names() {
    let mut w = World::new();
    let file = w.file("/f");
    w.dir("/d");
    let Ok(Reply::Linked { inode, .. }) = w.link("/f", "/d/g") else { panic!() };
    assert_eq!((inode.id, inode.links, inode.changed), (file, 2, at(w.seconds)));
    assert_eq!(w.link("/f", "/d/g"), Err(Error::Exists));
    assert_eq!(w.link("/d", "/e"), Err(Error::IsDirectory));
    let Ok(Reply::Removed { inode, .. }) = w.remove("/f") else { panic!() };
    assert_eq!((inode.links, inode.changed), (1, at(w.seconds)));
    assert_eq!(w.id("/d/g"), file);
    assert_eq!(w.deferred(), []);
    w.remove("/d/g").unwrap();
    assert_eq!(w.inode(file), None);
    assert_eq!(w.deferred(), [(file, DeferredKind::Remove)]);
}

#[test]
fn remove_takes_only_what_was_expected() {
    let mut w = World::new();
    w.file("/f");
    w.dir("/d");
    w.dir("/d/e");
    assert_eq!(w.remove("/x"), Err(Error::NoEntry));
    assert_eq!(w.remove_as("/f", Expect::Directory), Err(Error::NotDirectory));
    assert_eq!(w.remove_as("/d", Expect::NotDirectory), Err(Error::IsDirectory));
    assert_eq!(w.remove("/d"), Err(Error::NotEmpty));
    assert_eq!(w.remove_as("/d", Expect::Directory), Err(Error::NotEmpty));
    w.remove_as("/d/e", Expect::Directory).unwrap();
    assert_eq!(w.stat("/d").links, 2);
    let Ok(Reply::Removed { inode, .. }) = w.remove("/d") else { panic!() };
    assert_eq!(inode.links, 0);
    assert_eq!(w.inode(inode.id), None);
    assert_eq!(w.deferred(), [], "a directory has no objects");
    w.remove_as("/f", Expect::NotDirectory).unwrap();
    assert_eq!((w.stat("/").links, w.stat("/").size), (2, 0));
}

#[test]
fn cookies_stay_good_while_entries_come_and_go() {
    let mut w = World::new();
    for name in ["a", "b", "c", "d", "e"] {
        w.file(&format!("/{name}"));
    }
    let read = w.list_after("/", 0, 3);
    assert_eq!(read.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
    let stopped_at = read[2].1;
    w.remove("/c").unwrap(); // where the listing stopped
    w.remove("/a").unwrap();
    w.file("/a"); // comes back behind it, under a cookie of its own
    w.rename("/e", "/f").unwrap();
    let rest = w.list_after("/", stopped_at, 9);
    assert_eq!(rest.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["d", "a", "f"]);
    assert_eq!(w.list_after("/", u64::MAX, 9), []);
}

#[test]
fn rename_moves_a_name() {
    let mut w = World::new();
    let file = w.file("/f");
    w.dir("/d");
    let (root, dir) = (w.stat("/").change, w.stat("/d").change);
    let reply = w.rename("/f", "/d/g");
    let from = Change { before: root, after: root + 1 };
    let to = Change { before: dir, after: dir + 1 };
    assert_eq!(reply, Ok(Reply::Renamed { from, to, moved: file, replaced: None }));
    assert_eq!((w.find("/f"), w.id("/d/g")), (None, file));
    assert_eq!(w.stat("/d/g").changed, at(w.seconds));
    assert_eq!(w.rename("/f", "/d/g"), Err(Error::NoEntry));
}

#[test]
fn rename_within_one_directory_changes_it_once() {
    let mut w = World::new();
    w.file("/f");
    let before = w.stat("/").change;
    let change = Change { before, after: before + 1 };
    let moved = w.id("/f");
    assert_eq!(w.rename("/f", "/g"), Ok(Reply::Renamed { from: change, to: change, moved, replaced: None }));
    assert_eq!(w.names("/"), ["g"]);
}

#[test]
fn rename_over_a_file_removes_it() {
    let mut w = World::new();
    let (f, g) = (w.file("/f"), w.file("/g"));
    w.link("/g", "/h").unwrap();
    let cookie = w.list_after("/", 0, 9)[1].1;
    let Ok(Reply::Renamed { replaced: Some(replaced), .. }) = w.rename("/f", "/g") else { panic!() };
    assert_eq!((replaced, w.id("/g")), (g, f));
    assert_eq!(w.stat("/h").links, 1);
    assert_eq!(w.list_after("/", 0, 1), [("g".to_string(), cookie)], "a listing meanwhile sees it once");
    w.rename("/g", "/h").unwrap();
    assert_eq!(w.inode(g), None);
    assert_eq!(w.deferred(), [(g, DeferredKind::Remove)]);
    assert_eq!(w.names("/"), ["h"]);
}

#[test]
fn rename_of_a_directory_takes_its_parent_along() {
    let mut w = World::new();
    w.dir("/a");
    w.dir("/a/b");
    w.dir("/c");
    w.rename("/a/b", "/c/b").unwrap();
    assert_eq!((w.stat("/a").links, w.stat("/c").links, w.stat("/").links), (2, 3, 4));
    assert_eq!(w.stat("/c/b").directory().unwrap().parent, w.id("/c"));
    w.dir("/b");
    w.rename("/c/b", "/b").unwrap();
    assert_eq!((w.stat("/c").links, w.stat("/").links), (2, 5));
}

#[test]
fn rename_refuses_what_cannot_be() {
    let mut w = World::new();
    w.file("/f");
    w.dir("/d");
    w.dir("/d/e");
    w.dir("/x");
    assert_eq!(w.rename("/d", "/d/e/g"), Err(Error::Invalid), "into its own descendant");
    assert_eq!(w.rename("/d", "/d/g"), Err(Error::Invalid), "into itself");
    assert_eq!(w.rename("/f", "/x"), Err(Error::IsDirectory));
    assert_eq!(w.rename("/x", "/f"), Err(Error::NotDirectory));
    assert_eq!(w.rename("/x", "/d"), Err(Error::NotEmpty));
    assert_eq!(w.rename("/d/e", "/d"), Err(Error::NotEmpty));
}

#[test]
fn rename_of_one_name_to_another_of_the_same_file_does_nothing() {
    let mut w = World::new();
    let f = w.file("/f");
    w.link("/f", "/g").unwrap();
    let before = w.stat("/").change;
    let none = Change { before, after: before };
    let nothing = Ok(Reply::Renamed { from: none, to: none, moved: f, replaced: None });
    assert_eq!(w.rename("/f", "/g"), nothing);
    assert_eq!(w.rename("/f", "/f"), nothing);
    assert_eq!(w.names("/"), ["f", "g"]);
    w.dir("/d");
    w.rename("/d", "/d").unwrap();
}

#[test]
fn remove_of_an_open_file_keeps_its_data_until_close() {
    let mut w = World::new();
    let (a, b) = (w.client("a"), w.client("b"));
    let file = w.file("/f");
    let by_a = w.open(a, "/f", READ).unwrap();
    let by_b = w.open(b, "/f", BOTH).unwrap();
    let Ok(Reply::Removed { inode, .. }) = w.remove("/f") else { panic!() };
    assert_eq!((inode.links, w.find("/f")), (0, None));
    assert_eq!(
        w.apply(Command::Link { inode: file, dir: InodeId::ROOT, name: b"g".to_vec() }),
        Err(Error::NoEntry)
    );
    w.apply(Command::Wrote { inode: file, end: 100, bytes: 1 << 40, epoch: 1 }).unwrap();
    w.close(a, by_a).unwrap();
    assert_eq!(w.inode(file).unwrap().size, 100);
    assert_eq!(w.deferred(), []);
    w.close(b, by_b).unwrap();
    assert_eq!(w.inode(file), None);
    assert_eq!(w.deferred(), [(file, DeferredKind::Remove)]);
}

#[test]
fn rename_over_an_open_file_keeps_it_until_close() {
    let mut w = World::new();
    let a = w.client("a");
    let (f, g) = (w.file("/f"), w.file("/g"));
    let open = w.open(a, "/g", READ).unwrap();
    w.rename("/f", "/g").unwrap();
    assert_eq!((w.id("/g"), w.inode(g).unwrap().links), (f, 0));
    w.close(a, open).unwrap();
    assert_eq!(w.inode(g), None);
}

#[test]
fn the_stripe_policy_is_that_of_the_nearest_directory_that_has_one() {
    let mut w = World::new();
    for dir in ["/a", "/a/b", "/a/b/c"] {
        w.dir(dir);
    }
    let policy =
        |columns| StripePolicy { unit: StripeUnit::DEFAULT, columns, copies: 1, pool: PoolId::DEFAULT };
    let of = |w: &World, path| read::stripe_policy(&*w.view(), w.id(path)).unwrap();
    assert_eq!(of(&w, "/a/b/c"), None);
    for (path, columns) in [("/", 1), ("/a/b", 4)] {
        w.apply(Command::SetStripe { dir: w.id(path), policy: Some(policy(columns)) }).unwrap();
    }
    assert_eq!(of(&w, "/a"), Some(policy(1)));
    assert_eq!(of(&w, "/a/b/c"), Some(policy(4)));
    w.apply(Command::SetStripe { dir: w.id("/a/b"), policy: None }).unwrap();
    assert_eq!(of(&w, "/a/b/c"), Some(policy(1)));
    let file = w.file("/f");
    assert_eq!(w.apply(Command::SetStripe { dir: file, policy: None }), Err(Error::NotDirectory));
}

/// To see that a directory does not become its own descendant, each directory above the new place is looked
/// at.
#[test]
fn a_directory_is_not_moved_below_more_directories_than_a_path_can_name() {
    let mut w = World::new();
    w.is_large = true;
    let moved = w.dir("/moved");
    let first = moved.0 + 1;
    w.many(4_200, |n| {
        let dir = if n == 0 { InodeId::ROOT } else { InodeId(first + n - 1) };
        (None, Command::Create(create(dir, b"d", NewNode::Directory, Exists::Refuse)))
    });
    let rename = |below: u64| Command::Rename {
        from_dir: InodeId::ROOT,
        from: b"moved".to_vec(),
        to_dir: InodeId(first + below),
        to: b"moved".to_vec(),
    };
    assert_eq!(w.bounded(rename(4_190)), Reply::Refused(Error::TooManyLinks));
    assert!(matches!(w.bounded(rename(4_000)), Reply::Renamed { .. }));
    assert_eq!(w.findings(), Vec::<String>::new());
}
