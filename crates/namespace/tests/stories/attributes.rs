//! Attributes, sizes, and the truncations that sizes leave.

use namespace::*;

use crate::world::*;

fn size(size: u64) -> SetAttributes {
    SetAttributes { size: Some(size), ..SetAttributes::default() }
}

#[test]
fn attributes_are_set_and_the_change_time_moves() {
    let mut w = World::new();
    w.file("/f");
    let before = w.stat("/f");
    let set = SetAttributes {
        mode: Some(0o104_755),
        uid: Some(1),
        gid: Some(2),
        accessed: Some(at(-5)),
        modified: Some(at(77)),
        ..SetAttributes::default()
    };
    let Ok(Reply::Attributes { inode, deferred: None }) = w.set("/f", set) else { panic!() };
    assert_eq!((inode.mode, inode.uid, inode.gid), (0o4755, 1, 2));
    assert_eq!((inode.accessed, inode.modified, inode.changed), (at(-5), at(77), at(w.seconds)));
    assert_eq!(inode.change, before.change + 1);
    assert_eq!(inode, w.stat("/f"));
}

#[test]
fn a_new_owner_clears_the_set_id_bits_of_a_file() {
    let mut w = World::new();
    w.file("/f");
    w.dir("/d");
    for path in ["/f", "/d"] {
        w.set(path, SetAttributes { mode: Some(0o6755), ..SetAttributes::default() }).unwrap();
        w.set(path, SetAttributes { gid: Some(5), ..SetAttributes::default() }).unwrap();
    }
    assert_eq!((w.stat("/f").mode, w.stat("/d").mode), (0o755, 0o6755));
    w.set("/f", SetAttributes { uid: Some(5), mode: Some(0o4755), ..SetAttributes::default() }).unwrap();
    assert_eq!(w.stat("/f").mode, 0o4755);
}

#[test]
fn a_guard_that_does_not_hold_refuses() {
    let mut w = World::new();
    w.file("/f");
    let made = w.stat("/f").changed;
    let guarded = |guard| SetAttributes { mode: Some(0), guard: Some(guard), ..SetAttributes::default() };
    assert_eq!(w.set("/f", guarded(at(999))), Err(Error::NotSync));
    w.set("/f", guarded(made)).unwrap();
}

#[test]
fn a_size_is_for_regular_files() {
    let mut w = World::new();
    w.dir("/d");
    w.make("/p", NewNode::Fifo, Exists::Refuse).unwrap();
    w.file("/f");
    assert_eq!(w.set("/d", size(0)), Err(Error::IsDirectory));
    assert_eq!(w.set("/p", size(0)), Err(Error::Invalid));
    assert_eq!(w.set("/f", size(SIZE_BYTES_MAX + 1)), Err(Error::TooLarge));
    w.set("/f", size(SIZE_BYTES_MAX)).unwrap();
}

#[test]
fn every_new_size_leaves_a_truncation_and_two_merge_to_the_smaller() {
    let mut w = World::new();
    let f = w.file("/f");
    w.wrote("/f", 1000).unwrap();
    let Ok(Reply::Attributes { inode, deferred: Some(first) }) = w.set("/f", size(600)) else { panic!() };
    assert_eq!((inode.size, inode.modified), (600, at(w.seconds)));
    assert_eq!(w.deferred(), [(f, DeferredKind::Truncate(600))]);
    let Ok(Reply::Attributes { deferred: Some(second), .. }) = w.set("/f", size(800)) else { panic!() };
    assert!(second > first);
    assert_eq!(w.stat("/f").size, 800);
    assert_eq!(w.deferred(), [(f, DeferredKind::Truncate(600))], "bytes 600..800 must read as zeros");

    w.apply(Command::DeferredDone { ids: vec![first] }).unwrap();
    assert!(
        read::pending_truncation(&*w.view(), f).unwrap(),
        "the outcome of the first is not that of the second"
    );
    w.apply(Command::DeferredDone { ids: vec![first, second, 999] }).unwrap();
    assert!(!read::pending_truncation(&*w.view(), f).unwrap());
    assert_eq!(w.deferred(), []);

    w.set("/f", size(800)).unwrap();
    assert_eq!(
        w.deferred(),
        [(f, DeferredKind::Truncate(800))],
        "bytes beyond the end may never have been committed"
    );
}

#[test]
fn a_removed_file_needs_no_truncation() {
    let mut w = World::new();
    let f = w.file("/f");
    w.set("/f", size(0)).unwrap();
    w.remove("/f").unwrap();
    assert_eq!(w.deferred(), [(f, DeferredKind::Remove)]);
    let ids = w.deferred_ops().iter().map(|deferred| deferred.id).collect();
    w.apply(Command::DeferredDone { ids }).unwrap();
    assert_eq!(w.deferred(), []);
}

#[test]
fn a_write_grows_the_file_and_never_shrinks_it() {
    let mut w = World::new();
    w.file("/f");
    let before = w.stat("/f").change;
    w.wrote("/f", 10).unwrap();
    w.wrote("/f", 5).unwrap();
    let inode = w.stat("/f");
    assert_eq!((inode.size, inode.change, inode.modified), (10, before + 2, at(w.seconds)));
    assert_eq!(w.wrote("/f", u64::MAX), Err(Error::TooLarge));
    assert_eq!(w.wrote("/", 1), Err(Error::IsDirectory));
}

#[test]
fn deferred_ops_are_read_in_order_and_by_pieces() {
    let mut w = World::new();
    for name in ["/a", "/b", "/c"] {
        w.file(name);
        w.set(name, size(0)).unwrap();
    }
    let all = w.deferred_ops();
    assert_eq!(all.len(), 3);
    assert!(all.is_sorted_by_key(|deferred| deferred.id));
    assert_eq!(read::deferred_ops(&*w.view(), 2).unwrap(), all[..2]);
    assert_eq!(read::deferred_ops_after(&*w.view(), all[0].id, 1).unwrap(), all[1..2]);
    assert_eq!(read::deferred_ops(&*w.view(), 0).unwrap(), []);
}

#[test]
fn a_write_that_a_truncation_overtook_is_done_again() {
    let mut w = World::new();
    let inode = w.file("/f");
    w.wrote("/f", 100).unwrap();
    let before = w.stat("/f").epoch;
    // The data are at the data servers; then another client truncates the file, and the data with it.
    w.set("/f", SetAttributes { size: Some(0), ..SetAttributes::default() }).unwrap();
    assert_eq!(w.apply(Command::Wrote { inode, end: 200, bytes: 1 << 40, epoch: before }), Err(Error::Delay));
    assert_eq!(w.stat("/f").size, 0, "or the file would be 200 bytes of zeros that were acknowledged");
    w.wrote("/f", 200).unwrap();
}
