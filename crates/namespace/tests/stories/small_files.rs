//! Small files: data with the inode, and their way to objects.

use namespace::*;

use crate::world::*;

fn size(size: u64) -> SetAttributes {
    SetAttributes { size: Some(size), ..SetAttributes::default() }
}

fn place(w: &World, path: &str) -> DataPlace {
    w.stat(path).data().expect("a file")
}

/// The data are where the file has its columns now.
fn migrated(w: &World, inode: InodeId) -> Command {
    let file = w.inode(inode).expect("a file");
    Command::Migrated { inode, layout: file.layout().expect("a file"), epoch: file.epoch }
}

#[test]
fn a_small_file_keeps_its_data_with_its_inode_and_defers_nothing() {
    let mut w = World::new();
    w.small_file("/f");
    let before = w.stat("/f");
    w.write_small("/f", 0, "hello").unwrap();
    w.write_small("/f", 3, "p me").unwrap();
    let after = w.stat("/f");
    assert_eq!((w.small_data("/f").as_str(), after.size, after.written), ("help me", 7, 7));
    assert_eq!((after.change, after.modified), (before.change + 2, at(w.seconds)));
    w.set("/f", size(4)).unwrap();
    assert_eq!(w.small_data("/f"), "help");
    w.remove("/f").unwrap();
    assert_eq!((w.deferred(), w.dump().iter().any(|(key, _)| key[0] == 4)), (vec![], false));
}

#[test]
fn holes_of_a_small_file_are_zeros_and_a_longer_size_is_a_hole() {
    let mut w = World::new();
    w.small_file("/f");
    w.write_small("/f", 2, "c").unwrap();
    assert_eq!(w.small_data("/f"), "\0\0c");
    w.set("/f", size(1 << 40)).unwrap();
    assert_eq!((w.small_data("/f").as_str(), w.stat("/f").written), ("\0\0c", 3), "no room for a hole");
    assert_eq!(place(&w, "/f"), DataPlace::Inline);
    w.set("/f", size(1)).unwrap();
    w.write_small("/f", 3, "d").unwrap();
    assert_eq!(w.small_data("/f"), "\0\0\0d", "what a truncation took does not come back");
}

#[test]
fn a_small_file_has_an_end() {
    let mut w = World::new();
    w.small_file("/f");
    w.write_small("/f", INLINE_BYTES_MAX - 1, "z").unwrap();
    assert_eq!(w.write_small("/f", INLINE_BYTES_MAX, "z"), Err(Error::TooLarge));
    assert_eq!(w.write_small("/f", u64::MAX, "z"), Err(Error::TooLarge));
    assert_eq!(w.write_small("/f", 0, ""), Err(Error::Invalid));
    w.dir("/d");
    assert_eq!(w.write_small("/d", 0, "z"), Err(Error::IsDirectory));
}

#[test]
fn data_on_their_way_to_objects_do_not_change_until_they_are_there() {
    let mut w = World::new();
    let a = w.client("a");
    let inode = w.small_file("/f");
    let open = w.open(a, "/f", BOTH).unwrap();
    w.write_small("/f", 0, "data").unwrap();
    w.apply(Command::Migrate { inode, made: None }).unwrap();
    assert_eq!(place(&w, "/f"), DataPlace::Migrating);
    // A crash here: whoever comes next finds the data where they were, and the state that says what to do.
    assert_eq!(w.small_data("/f"), "data");
    assert_eq!(w.write_small("/f", 0, "x"), Err(Error::Delay));
    assert_eq!(w.wrote("/f", 1), Err(Error::Delay));
    assert_eq!(w.set("/f", size(1)), Err(Error::Delay));
    assert_eq!(w.open_create(a, "/f", Exists::Take, true), Err(Error::Delay));
    assert_eq!(w.layout(a, "/f", open, IoMode::Read), Err(Error::Delay));
    w.apply(Command::Migrate { inode, made: None }).unwrap();

    let done = migrated(&w, inode);
    w.apply(done).unwrap();
    let done = migrated(&w, inode);
    w.apply(done).unwrap();
    assert_eq!((place(&w, "/f"), w.small_data("/f").as_str()), (DataPlace::Striped, ""));
    assert_eq!(w.write_small("/f", 0, "x"), Err(Error::Delay), "objects have the data now");
    w.wrote("/f", 9).unwrap();
    w.layout(a, "/f", open, IoMode::ReadWrite).unwrap();
}

#[test]
fn a_file_removed_while_its_data_are_on_their_way_leaves_its_objects_to_be_removed() {
    let mut w = World::new();
    let f = w.small_file("/f");
    w.write_small("/f", 0, "data").unwrap();
    w.apply(Command::Migrate { inode: f, made: None }).unwrap();
    let migrated = migrated(&w, f);
    w.remove("/f").unwrap();
    assert_eq!(w.deferred(), [(f, DeferredKind::Remove)]);
    assert_eq!(w.apply(migrated), Err(Error::Stale));
}

/// ```text
/// A   migrate f to device 1 ─▶ (its disk is slow)        ─▶ migrated, device 1: too late
/// B                          relocate f to device 2
/// ```
#[test]
fn data_copied_to_where_the_file_was_before_do_not_count_as_being_there() {
    let mut w = World::new();
    let inode = w.small_file("/f");
    w.write_small("/f", 0, "data").unwrap();
    w.apply(Command::Migrate { inode, made: None }).unwrap();
    let (late, from) = (migrated(&w, inode), w.stat("/f").layout().unwrap());
    let to = FileLayout { device: DeviceId(2), ..from };
    let checked = w.version("/f");
    w.apply(Command::Relocate { inode, from, to, checked }).unwrap();
    assert_eq!(w.apply(late), Err(Error::Delay));
    assert_eq!((place(&w, "/f"), w.small_data("/f").as_str()), (DataPlace::Migrating, "data"));
    let done = migrated(&w, inode);
    w.apply(done).unwrap();
    assert_eq!((place(&w, "/f"), w.stat("/f").columns()), (DataPlace::Striped, Some(to)));
}

#[test]
fn a_layout_of_an_empty_file_takes_one_command() {
    let mut w = World::new();
    let a = w.client("a");
    let inode = w.small_file("/f");
    let done = migrated(&w, inode);
    assert_eq!(w.apply(done), Err(Error::Invalid), "it never began");
    let open = w.open(a, "/f", BOTH).unwrap();
    w.layout(a, "/f", open, IoMode::ReadWrite).unwrap();
    assert_eq!(place(&w, "/f"), DataPlace::Striped);
    w.remove("/f").unwrap();
    w.close(a, open).unwrap();
    assert_eq!(w.deferred(), [(inode, DeferredKind::Remove)]);
}

#[test]
fn a_file_without_data_is_striped_once_the_objects_of_its_layout_are_made() {
    let mut w = World::new();
    let a = w.client("a");
    let inode = w.small_file("/f");
    let open = w.open(a, "/f", BOTH).unwrap();
    let other = FileLayout { first: LAYOUT.first + 1, ..LAYOUT };
    let late = Placed { layout: LAYOUT, epoch: u32::MAX };
    for made in [None, Some(Placed { layout: other, epoch: 1 }), Some(late)] {
        let get = Command::LayoutGet {
            client: a,
            inode,
            stateid: open,
            mode: IoMode::ReadWrite,
            made,
            version: 0,
            export: InodeId::ROOT,
        };
        assert_eq!(w.apply(get), Err(Error::Delay), "{made:?}");
        assert_eq!(place(&w, "/f"), DataPlace::Inline);
    }
    w.apply(Command::Migrate { inode, made: Some(Placed { layout: other, epoch: 1 }) }).unwrap();
    assert_eq!(place(&w, "/f"), DataPlace::Migrating, "its own objects are still to be made");
    assert_eq!(w.layout(a, "/f", open, IoMode::Read), Err(Error::Delay));
    let done = migrated(&w, inode);
    w.apply(done).unwrap();
    assert_eq!(place(&w, "/f"), DataPlace::Striped);
    w.remove("/f").unwrap();
    w.close(a, open).unwrap();
    assert_eq!(w.deferred(), [(inode, DeferredKind::Remove)]);
}

/// A metaserver that gives a small file another layout, and hangs before the command, while another one migrates it.
#[test]
fn a_file_that_was_migrated_meanwhile_keeps_its_layout() {
    let mut w = World::new();
    let inode = w.small_file("/f");
    w.write_small("/f", 0, "data").unwrap();
    let other = FileLayout { first: LAYOUT.first + 1, ..LAYOUT };
    let relocate = |w: &World| Command::Relocate { inode, from: LAYOUT, to: other, checked: w.version("/f") };
    let while_inline = relocate(&w);
    w.apply(Command::Migrate { inode, made: None }).unwrap();
    let while_migrating = relocate(&w);
    assert_eq!(w.apply(while_inline.clone()), Err(Error::Delay));
    let done = migrated(&w, inode);
    w.apply(done).unwrap();
    for late in [while_inline, while_migrating] {
        assert_eq!(w.apply(late), Err(Error::Delay), "its data are in the objects of the first layout");
    }
    assert_eq!(w.stat("/f").layout(), Some(LAYOUT));
}

#[test]
fn opening_a_small_file_to_truncate_it_leaves_no_deferred_op() {
    let mut w = World::new();
    let a = w.client("a");
    w.small_file("/f");
    w.write_small("/f", 0, "data").unwrap();
    let Ok(Reply::Opened { deferred: None, inode, .. }) = w.open_create(a, "/f", Exists::Take, true) else {
        panic!()
    };
    assert_eq!((inode.size, inode.written, w.small_data("/f").as_str()), (0, 0, ""));
}

/// For a clone of another file, whose data it is to share.
#[test]
fn a_file_can_get_another_place_only_while_it_has_nothing_anywhere() {
    let mut w = World::new();
    let layout = |first| FileLayout { device: DeviceId(1), first, unit: StripeUnit::DEFAULT, columns: 4 };
    let place_as = |w: &mut World, inode, first| {
        w.apply(Command::PlaceAs { inode, layout: layout(first) }).map(|reply| match reply {
            Reply::Attributes { inode, .. } => inode.layout(),
            other => panic!("{other:?}"),
        })
    };
    let empty = w.small_file("/empty");
    assert_eq!(place_as(&mut w, empty, 2), Ok(Some(layout(2))));
    assert_eq!(place_as(&mut w, empty, 3), Ok(Some(layout(3))));
    w.apply(Command::Migrate { inode: empty, made: Some(Placed { layout: layout(3), epoch: 2 }) }).unwrap();
    assert_eq!(place_as(&mut w, empty, 2), Err(Error::Delay), "its objects are made");
    let full = w.small_file("/full");
    w.write_small("/full", 0, "data").unwrap();
    assert_eq!(place_as(&mut w, full, 2), Err(Error::Delay));
    assert_eq!(place_as(&mut w, InodeId::ROOT, 2), Err(Error::IsDirectory));
}
