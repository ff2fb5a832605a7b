//! Clones: what they inherit, what of it they change, and how that ends.

use std::collections::BTreeMap;

use namespace::*;

use crate::snapshots::{Tree, tree};
use crate::world::*;

impl World {
    pub fn clone_of(&mut self, snapshot: &Snapshot, path: &str) -> Result<VolumeId, Error> {
        let (dir, name) = self.split(path);
        match self.apply(Command::MakeClone { snapshot: snapshot.id, dir, name })? {
            Reply::Created { inode, existed: false, .. } => Ok(inode.id.volume()),
            other => panic!("{other:?}"),
        }
    }

    pub fn below(&self, volume: VolumeId) -> Tree {
        tree(&*self.view(), volume.root())
    }

    pub fn objects_of(&self, path: &str) -> InodeId {
        read::objects(&*self.view(), &self.stat(path)).expect("reads").expect("has objects").id
    }

    /// The data servers copy the objects of a file, which its volume shares.
    pub fn copy(&mut self, path: &str) -> InodeId {
        let inode = self.id(path);
        self.apply(Command::CopyObjects { inode }).expect("begins");
        let copy = read::copy_of_objects(&*self.view(), inode).expect("reads").expect("is being made");
        let epoch = self.stat(path).epoch;
        self.apply(Command::CopiedObjects { inode, copy, epoch }).expect("ends");
        copy
    }

    pub fn is_clean(&self) {
        assert_eq!(self.findings(), Vec::<String>::new());
    }
}

pub const NAME: &str = "base";

/// A volume with a few files, and a snapshot of it.
pub fn base() -> (World, VolumeId, Snapshot) {
    let mut w = World::new();
    let v = w.volume("/v").expect("makes");
    for dir in ["/v/d", "/v/d/e", "/v/gone"] {
        w.dir(dir);
    }
    for file in ["/v/a", "/v/d/b", "/v/d/e/c", "/v/gone/x"] {
        w.small_file(file);
        w.write_small(file, 0, file).expect("writes");
        w.set_xattr(file, "n", b"before", XattrExists::Either).expect("sets");
    }
    let snapshot = w.snapshot(v, NAME);
    (w, v, snapshot)
}

#[test]
fn a_clone_begins_as_its_snapshot_and_each_goes_its_own_way() {
    let (mut w, v, snapshot) = base();
    let before = w.below(v);
    let usage = w.usage(v, Subject::Volume);
    let c = w.clone_of(&snapshot, "/c").expect("makes");
    assert!(c.is_clone() && !v.is_clone());
    assert_eq!((w.below(c), w.usage(c, Subject::Volume)), (before.clone(), usage));
    assert_eq!(w.stat("/c").directory().expect("a directory").parent, InodeId::ROOT);
    assert_eq!(w.stat("/c/d").directory().expect("a directory").parent, c.root());
    assert_eq!(read::clones(&*w.view(), snapshot.id).expect("reads"), [c]);

    w.write_small("/c/a", 0, "of the clone").expect("writes");
    w.remove("/c/d/e/c").expect("removes");
    w.remove("/c/gone/x").expect("removes");
    w.remove("/c/gone").expect("removes");
    w.small_file("/c/gone");
    w.rename("/c/d", "/c/dd").expect("renames");
    w.link("/c/dd/b", "/c/linked").expect("links");
    w.remove_xattr("/c/a", "n").expect("removes");
    w.write_small("/v/a", 0, "of the volume").expect("writes");
    w.remove("/v/d/b").expect("removes");
    w.small_file("/v/new");
    let mut expected = before.clone();
    let file = |mode: &str, data: &str, xattr: Option<&[u8]>| {
        (before[mode].0, data.as_bytes().to_vec(), xattr.map(<[u8]>::to_vec))
    };
    expected.retain(|path, _| !path.starts_with("/d/") && !path.starts_with("/gone") && path != "/d");
    expected.insert("/a".into(), file("/a", "of the clone", None));
    expected.insert("/gone".into(), (w.stat("/c/gone").mode, vec![], None));
    expected.insert("/dd".into(), before["/d"].clone());
    expected.insert("/dd/e".into(), before["/d/e"].clone());
    expected.insert("/dd/b".into(), before["/d/b"].clone());
    expected.insert("/linked".into(), before["/d/b"].clone());
    assert_eq!(w.below(c), expected);
    assert_eq!(tree(&*w.view(), snapshot.id.root()), before);
    assert_eq!(w.id("/c/gone").in_volume(v), w.id("/v/new"), "numbers go on from the snapshot's volume");
    assert_eq!(w.rename("/c/a", "/v/b"), Err(Error::OtherVolume));
    // The snapshot stays as long as the clone.
    assert_eq!(w.remove_snapshot(v, NAME, true), Err(Error::HoldsClones));
    assert_eq!(w.remove_volume("/v", true), Err(Error::HoldsSnapshots));
    assert_eq!(w.remove_volume("/c", false), Err(Error::NotEmpty));
    w.remove_volume("/c", true).expect("removes");
    w.remove_snapshot(v, NAME, false).expect("removes");
    w.remove_volume("/v", true).expect("removes");
    assert_eq!(w.usage(VolumeId::FIRST, Subject::Volume).1, 1);
}

#[test]
fn listings_of_a_big_directory_are_whole_whatever_of_it_is_the_clones_own() {
    let mut w = World::new();
    let v = w.volume("/v").expect("makes");
    w.is_large = true;
    let mut expected: BTreeMap<String, u32> = BTreeMap::new();
    for n in 0..500 {
        w.small_file(&format!("/v/f{n}"));
        expected.insert(format!("f{n}"), 0);
    }
    let snapshot = w.snapshot(v, NAME);
    w.clone_of(&snapshot, "/c").expect("makes");
    for n in 0..500 {
        let (path, name) = (format!("/c/f{n}"), format!("f{n}"));
        match n % 5 {
            // Long runs of each kind, too.
            _ if (100..300).contains(&n) => {
                w.remove(&path).expect("removes");
                expected.remove(&name);
            }
            0 => {
                w.remove(&path).expect("removes");
                expected.remove(&name);
            }
            1 => {
                w.rename(&path, &format!("/c/g{n}")).expect("renames");
                expected.remove(&name);
                expected.insert(format!("g{n}"), 0);
            }
            2 => {
                w.remove(&path).expect("removes");
                w.small_file(&path);
            }
            3 => {
                w.small_file(&format!("/c/h{n}"));
                expected.insert(format!("h{n}"), 0);
            }
            _ => {}
        }
    }
    let expected: Vec<String> = expected.into_keys().collect();
    let mut names = w.names("/c");
    names.sort();
    assert_eq!(names, expected);
    for page in [1, 3, 64, 65, 400] {
        let (mut paged, mut cookie) = (vec![], 0);
        loop {
            let some = w.list_after("/c", cookie, page);
            let Some((_, last)) = some.last() else { break };
            assert!(*last > cookie);
            cookie = *last;
            paged.extend(some.into_iter().map(|(name, _)| name));
        }
        paged.sort();
        assert_eq!(paged, expected, "{page} at a time");
    }
    assert!(expected.iter().all(|name| w.find(&format!("/c/{name}")).is_some()));
    assert!((100..300).all(|n| w.find(&format!("/c/f{n}")).is_none()));
    assert_eq!(w.names("/v").len(), 500);
    w.is_clean();
}

#[test]
fn a_clone_has_snapshots_and_rollbacks_of_its_own_and_clones_of_these() {
    let (mut w, v, snapshot) = base();
    let c = w.clone_of(&snapshot, "/c").expect("makes");
    w.write_small("/c/d/b", 0, "second").expect("writes");
    w.remove("/c/gone/x").expect("removes");
    let first = w.below(c);
    let of_clone = w.snapshot(c, "one");
    assert_eq!(tree(&*w.view(), of_clone.id.root()), first);
    w.remove("/c/d/e/c").expect("removes");
    w.small_file("/c/gone/x");
    w.write_small("/c/a", 0, "third").expect("writes");
    w.rename("/c/d/b", "/c/b").expect("renames");
    assert_eq!(tree(&*w.view(), of_clone.id.root()), first);
    let deep = w.clone_of(&of_clone, "/deep").expect("makes");
    assert_eq!(w.below(deep), first);
    w.write_small("/deep/a", 0, "of the deep one").expect("writes");
    assert_eq!(
        w.apply(Command::RollBack { volume: c, name: b"one".to_vec(), force: false }),
        Ok(Reply::RolledBack { begun: true })
    );
    w.remove_leftovers();
    assert_eq!((w.below(c), w.small_data("/deep/a").as_str()), (first.clone(), "of the deep one"));
    assert_eq!(w.apply(Command::Promote { volume: c }), Err(Error::HoldsSnapshots));
    assert_eq!(w.remove_volume("/c", true), Err(Error::HoldsSnapshots));
    assert_eq!(w.remove_snapshot(v, NAME, false), Err(Error::HoldsClones));
    w.remove_volume("/deep", true).expect("removes");
    w.remove_snapshot(c, "one", false).expect("removes");
    w.remove_volume("/c", true).expect("removes");
    w.remove_snapshot(v, NAME, false).expect("removes");
}

#[test]
fn clones_of_clones_are_bounded_in_depth_and_promotion_ends_it() {
    let (mut w, _, mut snapshot) = base();
    let expected = w.below(snapshot.volume);
    let mut last = VolumeId::FIRST;
    for n in 0..CLONES_DEEP_MAX {
        last = w.clone_of(&snapshot, &format!("/c{n}")).expect("makes");
        assert_eq!(w.below(last), expected);
        snapshot = w.snapshot(last, NAME);
    }
    assert_eq!(w.clone_of(&snapshot, "/late"), Err(Error::ClonesTooDeep));
    w.remove_snapshot(last, NAME, false).expect("removes");
    w.apply(Command::Promote { volume: last }).expect("promotes");
    w.remove_leftovers();
    assert!(read::origin(&*w.view(), last).expect("reads").is_none());
    let snapshot = w.snapshot(last, NAME);
    let late = w.clone_of(&snapshot, "/late").expect("makes");
    assert_eq!(w.below(late), expected);
}

#[test]
fn a_promotion_takes_over_all_in_bounded_commands_while_the_clone_is_changed() {
    const FILES: usize = 1500;
    let mut w = World::new();
    let v = w.volume("/v").expect("makes");
    w.is_large = true;
    for n in 0..FILES {
        w.small_file(&format!("/v/f{n}"));
        w.write_small(&format!("/v/f{n}"), 0, "data").expect("writes");
    }
    let big = w.file("/v/big");
    w.file("/v/removed");
    let snapshot = w.snapshot(v, NAME);
    let c = w.clone_of(&snapshot, "/c").expect("makes");
    w.remove_leftovers();
    for n in 0..FILES / 3 {
        w.remove(&format!("/c/f{n}")).expect("removes");
    }
    assert_eq!(w.bounded(Command::Promote { volume: c }), Reply::Done);
    assert_eq!(w.apply(Command::MakeSnapshot { volume: c, name: b"late".to_vec() }), Err(Error::Promotes));
    for n in 0..FILES {
        w.remove(&format!("/v/f{n}")).expect("removes");
    }
    for n in FILES / 3..FILES / 2 {
        w.remove(&format!("/c/f{n}")).expect("removes");
        w.small_file(&format!("/c/g{n}"));
    }
    let expected = w.below(c);
    assert_eq!(expected.len(), FILES - FILES / 3 + 2);
    assert!(w.remove_leftovers() > 5);
    w.is_clean();
    assert_eq!(read::clones_to_copy(&*w.view(), InodeId(0), 9).expect("reads").len(), 2);
    assert_eq!(w.remove_snapshot(v, NAME, false), Err(Error::HoldsClones), "big is shared");
    w.copy("/c/big");
    w.remove("/c/removed").expect("removes");
    assert!(read::origin(&*w.view(), c).expect("reads").is_none());
    w.remove_leftovers();
    assert_eq!(w.apply(Command::Promote { volume: c }), Err(Error::NotClone));
    w.remove_snapshot(v, NAME, false).expect("removes");
    w.remove_volume("/v", true).expect("removes");
    w.remove_leftovers();
    w.is_clean();
    let mut expected = expected;
    expected.remove("/removed");
    assert_eq!(w.below(c), expected);
    assert!(w.objects_of("/c/big").volume() == c && big.volume() == v);
    w.wrote("/c/big", 100_000).expect("writes");
    w.snapshot(c, "late");
}

#[test]
fn a_clone_of_many_files_is_made_at_once_and_counted_and_removed_in_bounded_commands() {
    const FILES: u64 = 3000;
    let mut w = World::new();
    let v = w.volume("/v").expect("makes");
    let dir = w.dir("/v/many");
    w.is_large = true;
    w.many(FILES, |n| {
        let name = format!("file-{n}");
        (None, Command::Create(create(dir, name.as_bytes(), NewNode::File(LAYOUT), Exists::Refuse)))
    });
    let client = w.client("a");
    w.file("/v/orphan");
    w.open(client, "/v/orphan", BOTH).expect("opens");
    w.remove("/v/orphan").expect("removes");
    let (before, counted) = (w.usage(v, Subject::Volume), read::counts(&*w.view()).expect("reads"));
    let snapshot = w.snapshot(v, NAME);
    let (root, name) = w.split("/c");
    let make = Command::MakeClone { snapshot: snapshot.id, dir: root, name };
    let Reply::Created { inode, .. } = w.bounded(make) else { panic!("not made") };
    let c = inode.id.volume();
    assert!(w.usage(c, Subject::Volume).1 < FILES, "it is not counted yet");
    w.is_clean();
    // Among those that are counted, and those that are not yet.
    for n in [0, FILES - 1] {
        w.remove(&format!("/c/many/file-{n}")).expect("removes");
    }
    w.small_file("/c/new");
    w.is_clean();
    assert!(w.remove_leftovers() > 4);
    w.is_clean();
    let orphan = 1;
    assert_eq!(w.usage(c, Subject::Volume).1, before.1 - orphan - 1);
    assert_eq!(read::counts(&*w.view()).expect("reads"), counted + before.1 - orphan - 1);
    let limits = Limits { inodes_hard: 9, ..Limits::default() };
    w.limit(c, Subject::User(0), limits).expect("sets");
    w.remove_leftovers();
    w.is_clean();

    // Of a file without a record of its own.
    let open = w.open(client, "/c/many/file-7", BOTH).expect("opens");
    stateid(w.lock_new(client, open, "l", LockKind::Write, 0..100));
    assert!(w.open_delegated(client, "/c/many/file-8").expect("opens").1.is_some());
    let (root, name) = w.split("/c");
    let remove = |force| Command::RemoveVolume { dir: root, name: name.clone(), force };
    assert_eq!(w.apply(remove(false)), Err(Error::FilesOpen));
    assert!(matches!(w.bounded(remove(true)), Reply::Removed { .. }));
    w.is_clean();
    w.remove_snapshot(v, NAME, false).expect("nothing is shared any more");
    w.remove_leftovers();
    w.is_clean();
    assert_eq!(read::counts(&*w.view()).expect("reads"), counted);
    assert_eq!(read::state_counts(&*w.view()).expect("reads").opens, 1, "that of the orphan");
    let tables: Vec<u8> = w.dump().iter().map(|(key, _)| key[0]).collect();
    assert!(!tables.contains(&0x72) && !tables.contains(&0x67) && !tables.contains(&0x68), "{tables:02x?}");
}

#[test]
fn clones_are_made_of_snapshots_that_are_there_and_hold_no_volumes() {
    let (mut w, v, snapshot) = base();
    assert_eq!(w.clone_of(&snapshot, "/v"), Err(Error::Exists));
    assert_eq!(w.clone_of(&snapshot, "/v/a/c"), Err(Error::NotDirectory));
    let at =
        w.apply(Command::MakeClone { snapshot: snapshot.id, dir: snapshot.id.root(), name: b"c".to_vec() });
    assert_eq!(at, Err(Error::ReadOnly), "in a snapshot");
    assert_eq!(w.apply(Command::Promote { volume: v }), Err(Error::NotClone));
    assert_eq!(w.apply(Command::Promote { volume: VolumeId(77) }), Err(Error::Stale));
    // In the volume that it is a clone of, and in a clone.
    let within = w.clone_of(&snapshot, "/v/d/within").expect("makes");
    w.clone_of(&snapshot, "/v/d/within/deeper").expect("makes");
    assert_eq!(w.remove_volume("/v/d/within", true), Err(Error::HoldsVolumes));
    w.apply(Command::Promote { volume: within }).expect("promotes");
    w.remove_leftovers();
    let with_volumes = w.snapshot(v, "with volumes");
    assert_eq!(w.clone_of(&with_volumes, "/c"), Err(Error::HoldsVolumes));
    w.remove_volume("/v/d/within/deeper", true).expect("removes");
    w.remove_volume("/v/d/within", true).expect("removes");
    w.remove_snapshot(v, NAME, false).expect("removes");
    assert_eq!(w.clone_of(&snapshot, "/c"), Err(Error::NoEntry), "it was removed");
}

#[test]
fn a_root_keeps_its_stripe_policy_and_other_directories_have_none() {
    let mut w = World::new();
    let v = w.volume("/v").expect("makes");
    let policy =
        |columns| StripePolicy { unit: StripeUnit::DEFAULT, columns, copies: 2, pool: PoolId::DEFAULT };
    let dir = w.dir("/v/d");
    for (dir, columns) in [(v.root(), 3), (dir, 1)] {
        w.apply(Command::SetStripe { dir, policy: Some(policy(columns)) }).expect("sets");
    }
    let snapshot = w.snapshot(v, NAME);
    w.clone_of(&snapshot, "/c").expect("makes");
    for path in ["/c", "/c/d"] {
        assert_eq!(read::stripe_policy(&*w.view(), w.id(path)).expect("reads"), Some(policy(3)), "{path}");
    }
    w.remove("/c/d").expect("removes");
}

#[test]
fn a_directory_whose_number_ends_in_ones_lists_its_own_entries_alone() {
    let mut w = World::new();
    let v = w.volume("/v").expect("makes");
    w.is_large = true;
    let mut last = v.root();
    while last.0 & 0xff != 0xfe {
        last = w.small_file(&format!("/v/f{}", last.0));
    }
    let dir = w.dir("/v/dir");
    assert_eq!(dir.0 & 0xff, 0xff);
    for path in ["/v/dir/x", "/v/other", "/v/later"] {
        w.small_file(path);
        w.set_xattr(path, "n", b"value", XattrExists::Create).expect("sets");
    }
    w.dir("/v/next");
    w.small_file("/v/next/y");
    let snapshot = w.snapshot(v, NAME);
    let c = w.clone_of(&snapshot, "/c").expect("makes");
    for place in [snapshot.id, c] {
        let mut names = vec![];
        read::list(&*w.view(), dir.in_volume(place), 0, |entry| {
            names.push(entry.name);
            std::ops::ControlFlow::Continue(())
        })
        .expect("lists");
        assert_eq!(names, [b"x"], "{place:?}");
        assert_eq!(read::xattrs(&*w.view(), dir.in_volume(place)).expect("reads"), []);
    }
    w.remove("/c/dir/x").expect("removes");
    w.remove("/c/dir").expect("removes");
    for path in ["/c/other", "/c/later"] {
        let value = read::xattr(&*w.view(), w.id(path), b"n").expect("reads");
        assert_eq!(value.as_deref(), Some(&b"value"[..]), "{path}");
    }
    w.is_clean();
}
