//! Data of clones and snapshots: whose objects a file has.

use namespace::*;

use super::clones::*;
use crate::world::*;

#[test]
fn a_file_has_the_objects_of_the_origin_until_it_is_written() {
    let mut w = World::new();
    let v = w.volume("/v").expect("makes");
    let (f, g) = (w.file("/v/f"), w.file("/v/g"));
    for file in ["/v/f", "/v/g"] {
        w.wrote(file, 100_000).expect("writes");
    }
    let snapshot = w.snapshot(v, NAME);
    let c = w.clone_of(&snapshot, "/c").expect("makes");
    assert_eq!((w.objects_of("/c/f"), w.objects_of("/c/g")), (f, g));
    let owner = |w: &World, object| read::owner(&*w.view(), object).expect("reads").map(|owner| owner.file);
    assert_eq!((owner(&w, f), owner(&w, w.id("/c/f"))), (Some(f), None));
    assert_eq!(w.wrote("/c/f", 200_000), Err(Error::Delay), "they are the origin's");
    let client = w.client("a");
    let open = w.open(client, "/c/f", BOTH).expect("opens");
    assert_eq!(w.layout(client, "/c/f", open, IoMode::ReadWrite), Err(Error::Delay));
    w.layout(client, "/c/f", open, IoMode::Read).expect("to read them");
    w.apply(Command::LayoutReturn { client, scope: ReturnScope::All }).expect("returns");
    w.close(client, open).expect("closes");
    // The volume's own copies: the clone keeps the old ones.
    let of_volume = w.copy("/v/f");
    w.wrote("/v/f", 300_000).expect("writes");
    assert_eq!((w.objects_of("/c/f"), w.objects_of("/v/f")), (f, of_volume));
    let one = w.snapshot(c, "one");
    let own = w.copy("/c/f");
    w.wrote("/c/f", 200_000).expect("writes");
    assert_eq!((w.objects_of("/c/f"), own.volume()), (own, c));
    let shown = |w: &World, snapshot: &Snapshot| {
        let inode = read::inode(&*w.view(), f.in_volume(snapshot.id)).expect("reads").expect("is there");
        (read::objects(&*w.view(), &inode).expect("reads").expect("has objects").id, inode.size)
    };
    assert_eq!(shown(&w, &one), (f, 100_000));
    let two = w.snapshot(c, "two");
    let newer = w.copy("/c/f");
    assert_eq!((shown(&w, &one), shown(&w, &two)), ((f, 100_000), (own, 200_000)));
    assert_eq!(w.objects_of("/c/f"), newer);
    w.remove_snapshot(c, "two", false).expect("removes");
    assert_eq!(w.deferred(), [(own, DeferredKind::Remove)]);
    // What was shared when the snapshot was made is shared again.
    w.apply(Command::RollBack { volume: c, name: b"one".to_vec(), force: false }).expect("rolls back");
    w.remove_leftovers();
    assert_eq!(w.objects_of("/c/f"), f);
    assert_eq!(w.deferred(), [(own, DeferredKind::Remove), (newer, DeferredKind::Remove)]);
    w.remove("/c/g").expect("removes");
    w.remove_snapshot(c, "one", false).expect("removes");
    w.remove_volume("/c", true).expect("removes");
    assert_eq!(w.deferred().len(), 2, "the origin's objects stay");
    w.remove_snapshot(v, NAME, false).expect("removes");
    assert_eq!(w.deferred().len(), 3, "but the volume has its own of one of them");
}

#[test]
fn a_small_file_that_grows_in_a_clone_has_objects_of_its_own() {
    let (mut w, _, snapshot) = base();
    w.clone_of(&snapshot, "/c").expect("makes");
    let a = w.id("/c/a");
    assert_eq!(w.objects_of("/c/a"), a, "those that are about to be made");
    assert_eq!(read::owner(&*w.view(), a).expect("reads").map(|owner| owner.file), Some(a));
    w.apply(Command::Migrate { inode: a, made: None }).expect("begins");
    let (layout, epoch) = (w.stat("/c/a").layout().expect("a file"), w.stat("/c/a").epoch);
    w.apply(Command::Migrated { inode: a, layout, epoch }).expect("ends");
    assert_eq!(w.objects_of("/c/a"), a);
    w.wrote("/c/a", 200_000).expect("writes");
    w.remove("/c/a").expect("removes");
    assert_eq!(w.deferred(), [(a, DeferredKind::Remove)]);
}

#[test]
fn files_of_a_snapshot_are_read_by_layouts_while_the_volume_goes_on() {
    let mut w = World::new();
    let v = w.volume("/v").expect("makes");
    let f = w.file("/v/f");
    w.wrote("/v/f", 100_000).expect("writes");
    w.small_file("/v/small");
    w.snapshot(v, NAME);
    let client = w.client("a");
    let shown = "/v/.snapshot/base/f";
    let open = w.open(client, shown, READ).expect("opens");
    let layout = w.layout(client, shown, open, IoMode::Read).expect("to read it");
    assert_eq!(w.layout(client, shown, open, IoMode::ReadWrite), Err(Error::LayoutUnavailable));
    let small = w.open(client, "/v/.snapshot/base/small", READ).expect("opens");
    let refused = w.layout(client, "/v/.snapshot/base/small", small, IoMode::Read);
    assert_eq!(refused, Err(Error::LayoutUnavailable), "its data are at the metaserver");
    // The layout of the snapshot does not hold up the copies of the volume's file.
    let own = w.copy("/v/f");
    assert_eq!((w.objects_of(shown), w.objects_of("/v/f")), (f, own));
    w.wrote("/v/f", 200_000).expect("writes");
    assert!(w.state(layout).is_some());
    w.remove_snapshot(v, NAME, true).expect("removes");
    assert!(w.state(layout).is_none(), "it goes with the snapshot");
    assert_eq!(w.deferred(), [(f, DeferredKind::Remove)]);
}
