//! Snapshots: what they show, what is kept for them, and that nothing of it changes.

use std::collections::BTreeMap;

use namespace::*;
use store::View;

use crate::counted::Counts;
use crate::world::*;

impl World {
    pub fn snapshot(&mut self, volume: VolumeId, name: &str) -> Snapshot {
        match self.apply(Command::MakeSnapshot { volume, name: name.into() }) {
            Ok(Reply::Snapshot { made: Some(made) }) => made,
            other => panic!("{other:?}"),
        }
    }

    pub fn remove_snapshot(&mut self, volume: VolumeId, name: &str, force: bool) -> Result<Reply, Error> {
        let outcome = self.apply(Command::RemoveSnapshot { volume, name: name.into(), force });
        self.remove_leftovers();
        outcome
    }

    fn remove_snapshot_at_once(&mut self, volume: VolumeId, name: &str) -> Result<Reply, Error> {
        self.apply(Command::RemoveSnapshot { volume, name: name.into(), force: true })
    }

    fn kept(&self, volume: VolumeId) -> u64 {
        read::history(&*self.view(), volume).expect("reads").kept
    }

    fn mark(&mut self, path: &str, value: &str) {
        self.set_xattr(path, "n", value.as_bytes(), XattrExists::Either).expect("sets");
    }
}

/// Mode, data and the extended attribute `n` of each path.
pub type Tree = BTreeMap<String, (u32, Vec<u8>, Option<Vec<u8>>)>;

/// Paths below a directory, with what is there: mode, data and the extended attribute `n`.
pub fn tree(view: &dyn View, dir: InodeId) -> Tree {
    let (mut at, mut tree) = (vec![(String::new(), dir)], BTreeMap::new());
    while let Some((path, dir)) = at.pop() {
        let mut entries = vec![];
        read::list(view, dir, 0, |entry| {
            entries.push(entry);
            std::ops::ControlFlow::Continue(())
        })
        .expect("lists");
        for entry in entries {
            let path = format!("{path}/{}", String::from_utf8_lossy(&entry.name));
            assert_eq!(read::lookup(view, dir, &entry.name).expect("reads"), Some(entry.inode), "{path}");
            let inode = read::inode(view, entry.inode).expect("reads").expect("is there");
            assert_eq!(inode.id, entry.inode);
            if let Some(directory) = inode.directory() {
                assert_eq!(directory.parent, dir, "{path}");
                at.push((path.clone(), inode.id));
            }
            let data = read::inline_data(view, inode.id).expect("reads").to_vec();
            let xattr = read::xattr(view, inode.id, b"n").expect("reads");
            tree.insert(path, (inode.mode, data, xattr));
        }
    }
    tree
}

fn live(w: &World) -> Tree {
    tree(&*w.view(), InodeId::ROOT)
}

fn shown(w: &World, snapshot: &Snapshot) -> Tree {
    tree(&*w.view(), snapshot.id.root())
}

#[test]
fn a_snapshot_shows_the_volume_as_it_was_whatever_is_done_later() {
    let mut w = World::new();
    for dir in ["/d", "/d/e", "/gone"] {
        w.dir(dir);
    }
    for file in ["/a", "/d/b", "/d/e/c", "/gone/x"] {
        w.small_file(file);
        w.write_small(file, 0, file).expect("writes");
        w.mark(file, "before");
    }
    let before = live(&w);
    let first = w.snapshot(VolumeId::FIRST, "first");
    assert_eq!(shown(&w, &first), before);
    assert_eq!(w.kept(VolumeId::FIRST), 0, "nothing was changed since");

    w.write_small("/a", 1, "changed").expect("writes");
    w.mark("/d/b", "after");
    w.remove("/d/e/c").expect("removes");
    w.remove("/gone/x").expect("removes");
    w.remove("/gone").expect("removes");
    w.rename("/d", "/dd").expect("renames");
    w.small_file("/new");
    let between = live(&w);
    let second = w.snapshot(VolumeId::FIRST, "second");
    w.remove("/new").expect("removes");
    w.small_file("/gone");
    w.write_small("/a", 0, "again").expect("writes");
    for (from, to) in [("/dd", "/d"), ("/d", "/dd")] {
        assert_eq!(shown(&w, &first), before);
        assert_eq!(shown(&w, &second), between);
        // What was made after all snapshots leaves nothing.
        let kept = w.kept(VolumeId::FIRST);
        w.small_file("/short");
        w.write_small("/short", 0, "lived").expect("writes");
        w.remove("/short").expect("removes");
        assert_eq!(w.kept(VolumeId::FIRST), kept);
        w.rename(from, to).expect("renames");
    }
    // In either order, and the other one stays as it is.
    w.remove_snapshot(VolumeId::FIRST, "first", false).expect("removes");
    assert_eq!(shown(&w, &second), between);
    assert!(read::inode(&*w.view(), first.id.root()).expect("reads").is_none());
    w.remove_snapshot(VolumeId::FIRST, "second", false).expect("removes");
    assert_eq!(w.kept(VolumeId::FIRST), 0);
}

#[test]
fn what_a_later_snapshot_kept_for_an_earlier_one_outlives_it() {
    let mut w = World::new();
    w.small_file("/a");
    w.write_small("/a", 0, "one").expect("writes");
    let before = live(&w);
    let first = w.snapshot(VolumeId::FIRST, "first");
    w.snapshot(VolumeId::FIRST, "second");
    w.write_small("/a", 0, "two").expect("writes");
    w.snapshot(VolumeId::FIRST, "third");
    w.write_small("/a", 0, "three").expect("writes");
    for name in ["third", "second"] {
        w.remove_snapshot(VolumeId::FIRST, name, false).expect("removes");
        assert_eq!(shown(&w, &first), before, "without {name}");
    }
    assert_eq!(w.kept(VolumeId::FIRST), 2, "the inode, and its data");
}

#[test]
fn snapshots_are_entries_of_a_directory_that_no_listing_shows() {
    let mut w = World::new();
    w.small_file("/f");
    let v = w.volume("/v").expect("makes");
    w.small_file("/v/in");
    let dir = VolumeId::FIRST.snapshots_directory();
    let lookup = |w: &World, dir, name: &str| read::lookup(&*w.view(), dir, name.as_bytes()).expect("reads");
    assert_eq!(lookup(&w, InodeId::ROOT, ".snapshot"), Some(dir), "also without snapshots");
    assert_eq!(tree(&*w.view(), dir).len(), 0);
    let one = w.snapshot(VolumeId::FIRST, "one");
    assert_eq!(lookup(&w, dir, "one"), Some(one.id.root()));
    assert_eq!(lookup(&w, one.id.root(), ".snapshot"), None, "a snapshot has none");
    assert!(!live(&w).keys().any(|path| path.contains(".snapshot")));
    let root = read::inode(&*w.view(), one.id.root()).expect("reads").expect("is there");
    assert_eq!(root.directory().expect("a directory").parent, dir);
    // A volume in the volume is not in its snapshots.
    assert_eq!(shown(&w, &one).keys().collect::<Vec<_>>(), ["/f"]);
    let of_v = w.snapshot(v, "one");
    assert_eq!(shown(&w, &of_v).keys().collect::<Vec<_>>(), ["/in"]);
    let change = |w: &World| read::inode(&*w.view(), dir).expect("reads").expect("is there").change;
    let was = change(&w);
    w.snapshot(VolumeId::FIRST, "two");
    assert!(change(&w) > was, "clients look again");
    let names = |w: &World| {
        let all = read::snapshots(&*w.view(), VolumeId::FIRST).expect("reads");
        all.into_iter().map(|one| String::from_utf8(one.name).expect("text")).collect::<Vec<_>>()
    };
    assert_eq!(names(&w), ["one", "two"]);
    for name in ["", ".", "..", "a/b", "a\0b"] {
        let made = w.apply(Command::MakeSnapshot { volume: v, name: name.into() });
        assert_eq!(made, Err(Error::Invalid), "{name:?}");
    }
    let make = |volume, name: &str| Command::MakeSnapshot { volume, name: name.into() };
    assert_eq!(w.apply(make(v, "one")), Err(Error::Exists));
    assert_eq!(w.apply(make(VolumeId(77), "one")), Err(Error::Stale));
    assert_eq!(w.apply(make(one.id, "of a snapshot")), Err(Error::Stale));
    assert_eq!(w.remove_snapshot(v, "two", true), Err(Error::NoEntry));
    assert_eq!(w.remove_volume("/v", true), Err(Error::HoldsSnapshots));
}

#[test]
fn nothing_in_a_snapshot_is_changed() {
    let mut w = World::new();
    w.dir("/d");
    w.small_file("/d/f");
    w.write_small("/d/f", 0, "data").expect("writes");
    let before = live(&w);
    let one = w.snapshot(VolumeId::FIRST, "one");
    let (f, d) = (w.id("/d/f").in_volume(one.id), w.id("/d").in_volume(one.id));
    let listing = VolumeId::FIRST.snapshots_directory();
    let name = || b"f".to_vec();
    let attributes = NewAttributes { mode: 0o644, uid: 0, gid: 0, accessed: None, modified: None };
    let exists = Exists::Refuse;
    let create = |dir, name: &str, node| {
        let (name, attributes) = (name.into(), attributes);
        Command::Create(Create { dir, name, node, attributes, exists })
    };
    let rename = |from_dir, from: &str, to_dir, to: &str| Command::Rename {
        from_dir,
        from: from.into(),
        to_dir,
        to: to.into(),
    };
    let set = SetAttributes { mode: Some(0), ..SetAttributes::default() };
    let cut = SetAttributes { size: Some(0), ..SetAttributes::default() };
    let expect = Expect::Anything;
    for command in [
        create(d, "new", NewNode::Fifo),
        create(one.id.root(), "new", NewNode::Directory),
        create(listing, "new", NewNode::Directory),
        Command::Remove { dir: d, name: name(), expect },
        Command::Remove { dir: listing, name: b"one".to_vec(), expect },
        Command::Remove { dir: InodeId::ROOT, name: b".snapshot".to_vec(), expect },
        rename(d, "f", d, "g"),
        rename(InodeId::ROOT, ".snapshot", InodeId::ROOT, "x"),
        rename(InodeId::ROOT, "d", InodeId::ROOT, ".snapshot"),
        Command::SetAttributes { inode: f, set },
        Command::SetAttributes { inode: listing, set },
        Command::SetAttributes { inode: f, set: cut },
        Command::WriteInline { inode: f, offset: 0, data: b"x"[..].into() },
        Command::SetXattr { inode: f, name: name(), value: vec![], exists: XattrExists::Either },
        Command::SetStripe { dir: d, policy: None },
        Command::Link { inode: f, dir: d, name: b"g".to_vec() },
        Command::Migrate { inode: f, made: None },
        Command::MakeVolume(NewVolume { dir: d, name: name(), attributes, stripe: None }),
    ] {
        let said = format!("{command:?}");
        let outcome = w.apply(command);
        let is_refused = matches!(outcome, Err(Error::ReadOnly | Error::Exists));
        assert!(is_refused, "{said}: {outcome:?}");
    }
    assert_eq!(w.apply(create(InodeId::ROOT, ".snapshot", NewNode::Fifo)), Err(Error::Exists));
    let link = Command::Link { inode: f, dir: InodeId::ROOT, name: b"g".to_vec() };
    assert_eq!(w.apply(link), Err(Error::OtherVolume));
    assert_eq!(live(&w), before);
    assert_eq!(shown(&w, &one), before);
}

#[test]
fn files_of_a_snapshot_are_opened_to_read_and_keep_it_from_going() {
    let mut w = World::new();
    w.small_file("/f");
    let one = w.snapshot(VolumeId::FIRST, "one");
    let f = w.id("/f").in_volume(one.id);
    w.remove("/f").expect("removes");
    let client = w.client("a");
    let open = |access| {
        let (owner, target) = (b"o".to_vec(), OpenTarget::Inode(f));
        Command::Open(Open {
            client,
            owner,
            target,
            access,
            deny: NONE,
            delegate: false,
            export: InodeId::ROOT,
        })
    };
    assert_eq!(w.apply(open(WRITE)), Err(Error::ReadOnly));
    assert_eq!(w.apply(open(BOTH)), Err(Error::ReadOnly));
    let Ok(Reply::Opened { stateid, delegation: None, .. }) = w.apply(open(READ)) else { panic!("opens") };
    assert_eq!(w.remove_snapshot(VolumeId::FIRST, "one", false), Err(Error::FilesOpen));
    w.apply(Command::Close { client, stateid }).expect("closes");
    assert!(read::inode(&*w.view(), f).expect("reads").is_some(), "the last close of a removed file");
    w.apply(open(READ)).expect("opens");
    w.remove_snapshot(VolumeId::FIRST, "one", true).expect("removes");
    assert_eq!(w.apply(open(READ)), Err(Error::Stale));
    assert!(!read::has_state(&*w.view(), client).expect("reads"), "its opens are gone");
}

#[test]
fn a_snapshot_of_many_files_is_one_small_command_and_its_removal_bounded_ones() {
    let mut w = World::new();
    w.is_large = true;
    let files: Vec<String> = (0..3000).map(|n| format!("/f{n}")).collect();
    for file in &files {
        w.small_file(file);
    }
    let make = Command::MakeSnapshot { volume: VolumeId::FIRST, name: b"one".to_vec() };
    let (made, Counts { reads, changes, time: _ }) = w.counted(make);
    let Reply::Snapshot { made: Some(one) } = made else { panic!("{made:?}") };
    assert!(changes <= 6 && reads.get() <= 10, "{changes} changes, {reads:?} reads");
    w.snapshot(VolumeId::FIRST, "two");
    files.iter().for_each(|file| drop(w.remove(file).expect("removes")));
    assert_eq!(shown(&w, &one).len(), 3000);
    let kept = w.kept(VolumeId::FIRST);
    assert_eq!(kept, 3 * 3000 + 1, "inode, name and cookie of each, and the root");
    w.remove_snapshot(VolumeId::FIRST, "two", false).expect("removes");
    assert_eq!((w.kept(VolumeId::FIRST), shown(&w, &one).len()), (kept, 3000), "the other one needs all");
    w.remove_snapshot(VolumeId::FIRST, "one", false).expect("removes");
    assert_eq!(w.kept(VolumeId::FIRST), 0);
    assert_eq!(check(&*w.view()).expect("checks"), Vec::<String>::new());
}

impl World {
    fn roll_back(&mut self, volume: VolumeId, name: &str, force: bool) -> Result<Reply, Error> {
        self.apply(Command::RollBack { volume, name: name.into(), force })
    }
}

#[test]
fn a_rollback_puts_back_what_was_there_and_takes_away_what_was_made_since() {
    let mut w = World::new();
    for dir in ["/d", "/d/e"] {
        w.dir(dir);
    }
    for file in ["/a", "/d/b", "/d/e/c"] {
        w.small_file(file);
        w.write_small(file, 0, file).expect("writes");
        w.mark(file, "before");
    }
    let before = live(&w);
    let one = w.snapshot(VolumeId::FIRST, "one");
    assert_eq!(w.roll_back(VolumeId::FIRST, "one", false), Ok(Reply::RolledBack { begun: true }));
    assert_eq!(live(&w), before, "nothing was changed");
    for round in 0..3 {
        w.write_small("/a", 1, "changed").expect("writes");
        w.mark("/d/b", "after");
        w.remove("/d/e/c").expect("removes");
        w.remove("/d/e").expect("removes");
        w.rename("/d", "/dd").expect("renames");
        w.dir("/new");
        w.small_file("/new/file");
        w.write_small("/new/file", 0, "new").expect("writes");
        w.mark("/new/file", "new");
        w.dir("/d");
        let was = w.stat("/a");
        assert_eq!(w.roll_back(VolumeId::FIRST, "one", round == 0), Ok(Reply::RolledBack { begun: true }));
        assert_eq!((live(&w), shown(&w, &one)), (before.clone(), before.clone()));
        let is = w.stat("/a");
        assert!(is.change > was.change && is.epoch > was.epoch && is.generation == was.generation);
        assert_eq!(is.id, was.id, "handles stay");
    }
    w.snapshot(VolumeId::FIRST, "two");
    assert_eq!(w.roll_back(VolumeId::FIRST, "one", true), Err(Error::NewerSnapshots));
    assert_eq!(w.roll_back(VolumeId::FIRST, "none", true), Err(Error::NoEntry));
    assert_eq!(w.roll_back(VolumeId(9), "one", true), Err(Error::Stale));
    w.remove_snapshot(VolumeId::FIRST, "two", false).expect("removes");
    let client = w.client("a");
    w.open(client, "/a", READ).expect("opens");
    assert_eq!(w.roll_back(VolumeId::FIRST, "one", false), Err(Error::FilesOpen));
    w.roll_back(VolumeId::FIRST, "one", true).expect("rolls back");
    assert!(!read::has_state(&*w.view(), client).expect("reads"), "its opens are gone");
    let v = w.volume("/v").expect("makes");
    assert_eq!(w.roll_back(VolumeId::FIRST, "one", true), Err(Error::HoldsVolumes));
    w.remove_volume("/v", true).expect("removes");
    assert!(read::volume(&*w.view(), v).expect("reads").is_none());
    w.roll_back(VolumeId::FIRST, "one", true).expect("rolls back");
    w.remove_snapshot(VolumeId::FIRST, "one", false).expect("removes");
    assert_eq!(w.kept(VolumeId::FIRST), 0);
    assert_eq!(live(&w), before);
}

#[test]
fn a_file_gets_the_objects_back_that_it_left_to_the_snapshot() {
    let mut w = World::new();
    let (f, gone) = (w.file("/f"), w.file("/gone"));
    let objects = |w: &World, path: &str| {
        read::objects(&*w.view(), &w.stat(path)).expect("reads").expect("has objects")
    };
    w.wrote("/f", 100_000).expect("writes");
    w.snapshot(VolumeId::FIRST, "one");
    assert_eq!(w.wrote("/f", 200_000), Err(Error::Delay), "a snapshot shows its objects");
    w.apply(Command::CopyObjects { inode: f }).expect("begins");
    let copy = read::copy_of_objects(&*w.view(), f).expect("reads").expect("is being made");
    let epoch = w.stat("/f").epoch;
    w.apply(Command::CopiedObjects { inode: f, copy, epoch }).expect("ends");
    assert_eq!(objects(&w, "/f").id, copy);
    w.wrote("/f", 200_000).expect("writes");
    w.remove("/gone").expect("removes");
    assert!(w.deferred().is_empty(), "the snapshot shows its objects");
    w.roll_back(VolumeId::FIRST, "one", false).expect("rolls back");
    assert_eq!((objects(&w, "/f").id, w.stat("/f").size), (f, 100_000));
    assert_eq!(objects(&w, "/gone").id, gone);
    assert_eq!(w.deferred(), [(copy, DeferredKind::Remove)]);
    assert_eq!(w.wrote("/f", 200_000), Err(Error::Delay), "they are the snapshot's again, too");
    w.remove_snapshot(VolumeId::FIRST, "one", false).expect("removes");
    w.wrote("/f", 200_000).expect("writes");
    assert_eq!(w.deferred(), [(copy, DeferredKind::Remove)], "and are not removed with it");
}

#[test]
fn copies_of_objects_that_were_changed_meanwhile_are_not_taken() {
    let mut w = World::new();
    let f = w.file("/f");
    w.wrote("/f", 100_000).expect("writes");
    w.snapshot(VolumeId::FIRST, "one");
    w.apply(Command::CopyObjects { inode: f }).expect("begins");
    let copy = read::copy_of_objects(&*w.view(), f).expect("reads").expect("is being made");
    let epoch = w.stat("/f").epoch;
    w.remove_snapshot(VolumeId::FIRST, "one", false).expect("removes");
    let client = w.client("a");
    let open = w.open(client, "/f", BOTH).expect("opens");
    w.layout(client, "/f", open, IoMode::Read).expect("no snapshot shows its objects");
    w.apply(Command::LayoutReturn { client, scope: ReturnScope::All }).expect("returns");
    w.wrote("/f", 200_000).expect("writes, with the same epoch");
    let two = w.snapshot(VolumeId::FIRST, "two");
    w.apply(Command::CopiedObjects { inode: f, copy, epoch }).expect("ends");
    let objects =
        |w: &World, inode: &Inode| read::objects(&*w.view(), inode).expect("reads").expect("has objects").id;
    assert_eq!(objects(&w, &w.stat("/f")), f, "the copies have not all data");
    assert_eq!(w.deferred(), [(copy, DeferredKind::Remove)]);
    let shown = read::inode(&*w.view(), f.in_volume(two.id)).expect("reads").expect("is there");
    assert_eq!((objects(&w, &shown), shown.size), (f, 200_000));
}

#[test]
fn a_long_rollback_goes_on_in_bounded_commands_and_nothing_is_changed_meanwhile() {
    let mut w = World::new();
    w.is_large = true;
    let v = w.volume("/v").expect("makes");
    for n in 0..3000 {
        w.small_file(&format!("/v/old{n}"));
    }
    let before = tree(&*w.view(), v.root());
    w.snapshot(v, "one");
    for n in 0..3000 {
        w.remove(&format!("/v/old{n}")).expect("removes");
        w.small_file(&format!("/v/new{n}"));
    }
    let begun = w.bounded(Command::RollBack { volume: v, name: b"one".to_vec(), force: false });
    assert_eq!(begun, Reply::RolledBack { begun: true });
    assert!(read::rolls_back(&*w.view(), v).expect("reads"));
    assert_eq!(check(&*w.view()).expect("checks"), Vec::<String>::new(), "half way");
    let dir = v.root();
    let make = Command::Create(create(dir, b"late", NewNode::Directory, Exists::Refuse));
    assert_eq!(w.apply(make), Err(Error::Delay));
    assert_eq!(w.roll_back(v, "one", true), Err(Error::Delay));
    assert_eq!(w.remove_snapshot_at_once(v, "one"), Err(Error::Delay));
    w.small_file("/elsewhere");
    assert!(w.remove_leftovers() > 3);
    assert!(!read::rolls_back(&*w.view(), v).expect("reads"));
    assert_eq!(tree(&*w.view(), v.root()), before);
    assert_eq!(check(&*w.view()).expect("checks"), Vec::<String>::new());
}

#[test]
fn a_volume_that_was_moved_stays_where_it_is_when_it_is_rolled_back() {
    let mut w = World::new();
    let v = w.volume("/v").expect("makes");
    let d = w.dir("/d");
    w.snapshot(v, "one");
    w.rename("/v", "/d/v").expect("moves");
    w.small_file("/d/v/f");
    w.roll_back(v, "one", false).expect("rolls back");
    assert_eq!(w.stat("/d/v").directory().expect("a directory").parent, d);
    assert_eq!(w.names("/d/v"), Vec::<String>::new());
}

#[test]
fn a_rollback_waits_until_newer_snapshots_are_removed() {
    let mut w = World::new();
    w.is_large = true;
    let v = w.volume("/v").expect("makes");
    for n in 0..2000 {
        w.small_file(&format!("/v/f{n}"));
    }
    w.file("/v/big");
    w.wrote("/v/big", 100_000).expect("writes");
    let before = tree(&*w.view(), v.root());
    w.snapshot(v, "one");
    w.set("/v/big", SetAttributes { mode: Some(0o600), ..SetAttributes::default() }).expect("sets");
    w.snapshot(v, "two");
    for n in 0..2000 {
        w.write_small(&format!("/v/f{n}"), 0, "changed").expect("writes");
    }
    let objects = w.copy("/v/big");
    w.remove_snapshot_at_once(v, "two").expect("removes");
    assert!(read::has_leftovers(&*w.view()).expect("reads"));
    assert_eq!(w.roll_back(v, "one", false), Ok(Reply::RolledBack { begun: false }));
    w.remove_leftovers();
    assert_eq!(w.roll_back(v, "one", false), Ok(Reply::RolledBack { begun: true }));
    w.remove_leftovers();
    assert_eq!(tree(&*w.view(), v.root()), before);
    let now = read::objects(&*w.view(), &w.stat("/v/big")).expect("reads").expect("has objects").id;
    assert!(now != objects && w.deferred() == [(objects, DeferredKind::Remove)]);
    assert_eq!(check(&*w.view()).expect("checks"), Vec::<String>::new());
}
