//! Layouts.

use namespace::*;

use crate::world::*;

#[test]
fn the_first_layout_is_under_an_open_and_the_next_under_itself() {
    let mut w = World::new();
    let a = w.client("a");
    let f = w.file("/f");
    let open = w.open(a, "/f", BOTH).unwrap();
    let first = w.layout(a, "/f", open, IoMode::Read).unwrap();
    let second = w.layout(a, "/f", first, IoMode::ReadWrite).unwrap();
    assert_eq!((first.id, first.sequence, second.sequence), (second.id, 1, 2));
    let third = w.layout(a, "/f", first, IoMode::Read).unwrap();
    assert_eq!(third.sequence, 3, "operations on layouts may pass each other");
    assert_eq!(w.layout(a, "/f", with_sequence(first, 4), IoMode::Read), Err(Error::BadStateid));
    assert_eq!(read::layouts(&*w.view(), f).unwrap(), [(a, third, IoMode::ReadWrite)]);
}

#[test]
fn a_lock_state_is_as_good_as_its_open() {
    let mut w = World::new();
    let a = w.client("a");
    w.file("/f");
    let open = w.open(a, "/f", BOTH).unwrap();
    let lock = stateid(w.lock_new(a, open, "x", LockKind::Read, 0..1));
    w.layout(a, "/f", lock, IoMode::ReadWrite).unwrap();
}

#[test]
fn a_layout_for_writing_needs_an_open_for_writing() {
    let mut w = World::new();
    let (a, b) = (w.client("a"), w.client("b"));
    w.file("/f");
    w.file("/g");
    let open = w.open(a, "/f", READ).unwrap();
    w.open(b, "/f", BOTH).unwrap();
    assert_eq!(w.layout(a, "/f", open, IoMode::ReadWrite), Err(Error::OpenMode));
    assert_eq!(w.layout(b, "/f", open, IoMode::Read), Err(Error::BadStateid));
    assert_eq!(w.layout(a, "/g", open, IoMode::Read), Err(Error::BadStateid));
    let layout = w.layout(a, "/f", open, IoMode::Read).unwrap();
    let inode = w.id("/f");
    let commit = Command::LayoutCommit {
        client: a,
        inode,
        stateid: layout,
        last_write: Some(1),
        modified: None,
        observed: None,
    };
    assert_eq!(w.apply(commit), Err(Error::OpenMode));
}

#[test]
fn no_layout_to_write_of_a_set_id_file() {
    let mut w = World::new();
    let a = w.client("a");
    w.file("/f");
    let open = w.open(a, "/f", BOTH).unwrap();
    for bits in [0o4000, 0o2000] {
        w.set("/f", SetAttributes { mode: Some(bits | 0o755), ..SetAttributes::default() }).unwrap();
        assert_eq!(w.layout(a, "/f", open, IoMode::ReadWrite), Err(Error::LayoutUnavailable));
    }
    w.layout(a, "/f", open, IoMode::Read).unwrap();
    w.set("/f", SetAttributes { mode: Some(0o755), ..SetAttributes::default() }).unwrap();
    w.layout(a, "/f", open, IoMode::ReadWrite).unwrap();
}

/// A holder writes at any moment, unseen: with set-id bits on the file these would be foreign data in a
/// program with its owner's rights.
#[test]
fn set_id_bits_wait_for_the_layouts_of_others() {
    let mut w = World::new();
    let (a, b) = (w.client("a"), w.client("b"));
    w.file("/f");
    let open = w.open(b, "/f", BOTH).unwrap();
    let layout = w.layout(b, "/f", open, IoMode::ReadWrite).unwrap();
    let set =
        |mode, client| SetAttributes { mode: Some(mode), layout_of: client, ..SetAttributes::default() };
    for bits in [0o4000, 0o2000] {
        assert_eq!(w.set("/f", set(bits | 0o755, Some(a))), Err(Error::Delay));
        assert_eq!(w.set("/f", set(bits | 0o755, None)), Err(Error::Delay));
    }
    w.set("/f", set(0o711, Some(a))).unwrap();
    w.set("/f", set(0o4755, Some(b))).unwrap();
    w.set("/f", set(0o4711, Some(a))).expect("the bit was there before");
    w.set("/f", set(0o755, Some(a))).unwrap();
    let scope = ReturnScope::File { inode: w.id("/f"), stateid: layout };
    w.apply(Command::LayoutReturn { client: b, scope }).unwrap();
    w.set("/f", set(0o6755, Some(a))).unwrap();
}

#[test]
fn no_layout_while_objects_are_being_truncated() {
    let mut w = World::new();
    let a = w.client("a");
    w.file("/f");
    let open = w.open(a, "/f", BOTH).unwrap();
    w.set("/f", SetAttributes { size: Some(5), ..SetAttributes::default() }).unwrap();
    assert_eq!(w.layout(a, "/f", open, IoMode::Read), Err(Error::Delay));
    let ids = w.deferred_ops().iter().map(|deferred| deferred.id).collect();
    w.apply(Command::DeferredDone { ids }).unwrap();
    w.layout(a, "/f", open, IoMode::Read).unwrap();
}

#[test]
fn layout_commit_makes_written_bytes_count() {
    let mut w = World::new();
    let a = w.client("a");
    let inode = w.file("/f");
    let open = w.open(a, "/f", BOTH).unwrap();
    let first = w.layout(a, "/f", open, IoMode::ReadWrite).unwrap();
    w.layout(a, "/f", first, IoMode::ReadWrite).unwrap();
    let commit = |w: &mut World, stateid, last_write, modified| {
        w.apply(Command::LayoutCommit { client: a, inode, stateid, last_write, modified, observed: None })
    };
    let before = w.stat("/f").change;
    assert_eq!(commit(&mut w, first, Some(99), None), Ok(Reply::Committed { size: Some(100) }));
    assert_eq!((w.stat("/f").size, w.stat("/f").change), (100, before + 1));
    assert_eq!(w.stat("/f").modified, at(w.seconds));
    assert_eq!(commit(&mut w, first, Some(50), Some(at(1000))), Ok(Reply::Committed { size: None }));
    assert_eq!(
        (w.stat("/f").size, w.stat("/f").modified, w.stat("/f").changed),
        (100, at(1000), at(w.seconds))
    );
    assert_eq!(commit(&mut w, first, None, Some(at(3))), Ok(Reply::Committed { size: None }));
    assert_eq!(w.stat("/f").modified, at(w.seconds), "a time in the past is not taken");
    assert_eq!(commit(&mut w, first, Some(SIZE_BYTES_MAX), None), Err(Error::TooLarge));
    assert_eq!(commit(&mut w, first, Some(u64::MAX), None), Err(Error::TooLarge));
    assert_eq!(commit(&mut w, open, Some(1), None), Err(Error::BadStateid));
}

#[test]
fn layouts_are_returned_one_by_one_all_at_once_or_revoked() {
    let mut w = World::new();
    let a = w.client("a");
    let mut layouts = Vec::new();
    for path in ["/f", "/g", "/h", "/i"] {
        w.file(path);
        let open = w.open(a, path, READ).unwrap();
        layouts.push(w.layout(a, path, open, IoMode::Read).unwrap());
    }
    let ids: Vec<InodeId> = ["/f", "/g", "/h", "/i"].iter().map(|path| w.id(path)).collect();
    let give_back = |w: &mut World, scope| w.apply(Command::LayoutReturn { client: a, scope });
    let none = Ok(Reply::State { stateid: None });
    let one = ReturnScope::File { inode: ids[0], stateid: layouts[0] };
    assert_eq!(give_back(&mut w, one.clone()), none);
    assert_eq!(give_back(&mut w, one), Err(Error::BadStateid));
    let revoke = |layout: Stateid| ReturnScope::Revoke { layout: layout.id };
    assert_eq!(give_back(&mut w, revoke(layouts[1])), none);
    let open = w.open(a, "/g", READ).unwrap();
    let another = w.layout(a, "/g", open, IoMode::Read).unwrap();
    assert_ne!(another.id, layouts[1].id);
    assert_eq!(give_back(&mut w, revoke(layouts[1])), none, "it may have been returned");
    assert_eq!(read::layouts(&*w.view(), ids[1]).unwrap().len(), 1, "and another one granted");
    assert_eq!(read::layouts(&*w.view(), ids[2]).unwrap().len(), 1);
    assert_eq!(give_back(&mut w, ReturnScope::All), none);
    assert!(ids.iter().all(|id| read::layouts(&*w.view(), *id).unwrap().is_empty()));
}

#[test]
fn a_recall_moves_the_sequence_on_once() {
    let mut w = World::new();
    let a = w.client("a");
    let inode = w.file("/f");
    let recall = |w: &mut World| w.apply(Command::LayoutRecall { client: a, inode });
    assert_eq!(recall(&mut w), Ok(Reply::State { stateid: None }), "it may have been returned");
    let open = w.open(a, "/f", BOTH).unwrap();
    let layout = w.layout(a, "/f", open, IoMode::ReadWrite).unwrap();
    let recalled = stateid(recall(&mut w));
    assert_eq!((recalled.id, recalled.sequence), (layout.id, layout.sequence + 1));
    assert_eq!(stateid(recall(&mut w)), recalled, "a call-back sent again carries the same");
    // The client had asked for more before the call-back reached it.
    let more = w.layout(a, "/f", layout, IoMode::Read).unwrap();
    assert_eq!(more.sequence, recalled.sequence + 1);
    assert_eq!(stateid(recall(&mut w)).sequence, more.sequence + 1);
    w.apply(Command::LayoutReturn { client: a, scope: ReturnScope::File { inode, stateid: recalled } })
        .unwrap();
}

#[test]
fn a_layout_ends_with_the_last_close_of_its_client() {
    let mut w = World::new();
    let (a, b) = (w.client("a"), w.client("b"));
    let f = w.file("/f");
    let one = w.open_as(a, "1", "/f", BOTH, NONE).unwrap();
    let two = w.open_as(a, "2", "/f", BOTH, NONE).unwrap();
    w.layout(a, "/f", one, IoMode::ReadWrite).unwrap();
    let by_b = w.open(b, "/f", READ).unwrap();
    let of_b = w.layout(b, "/f", by_b, IoMode::Read).unwrap();
    w.close(a, one).unwrap();
    assert_eq!(read::layouts(&*w.view(), f).unwrap().len(), 2);
    w.close(a, two).unwrap();
    assert_eq!(read::layouts(&*w.view(), f).unwrap(), [(b, of_b, IoMode::Read)]);
}

#[test]
fn the_last_close_of_a_removed_file_takes_its_layout_and_the_file() {
    let mut w = World::new();
    let a = w.client("a");
    let f = w.file("/f");
    let open = w.open(a, "/f", BOTH).unwrap();
    w.layout(a, "/f", open, IoMode::ReadWrite).unwrap();
    w.remove("/f").unwrap();
    assert!(w.inode(f).is_some());
    w.close(a, open).unwrap();
    assert_eq!(w.inode(f), None);
    assert_eq!(w.deferred(), [(f, DeferredKind::Remove)]);
}

#[test]
fn a_modification_time_that_was_set_stands_until_the_second_layout_commit() {
    let mut w = World::new();
    let a = w.client("a");
    let inode = w.file("/f");
    let open = w.open(a, "/f", BOTH).unwrap();
    let layout = w.layout(a, "/f", open, IoMode::ReadWrite).unwrap();
    // cp -p: the data are at the data servers, then the time is set, then the layout is committed.
    w.set("/f", SetAttributes { modified: Some(at(7)), ..SetAttributes::default() }).unwrap();
    let commit = Command::LayoutCommit {
        client: a,
        inode,
        stateid: layout,
        last_write: Some(99),
        modified: None,
        observed: None,
    };
    w.apply(commit.clone()).unwrap();
    assert_eq!((w.stat("/f").size, w.stat("/f").modified), (100, at(7)));
    w.apply(commit).unwrap();
    assert_eq!(w.stat("/f").modified, at(w.seconds), "later writes count again");
}

#[test]
fn a_file_made_longer_takes_no_room_until_it_is_written() {
    let mut w = World::new();
    w.file("/f");
    w.set("/f", SetAttributes { size: Some(1 << 40), ..SetAttributes::default() }).unwrap();
    assert_eq!((w.stat("/f").size, w.stat("/f").written), (1 << 40, 0));
    w.wrote("/f", 5000).unwrap();
    assert_eq!(w.stat("/f").written, 5000);
    w.set("/f", SetAttributes { size: Some(10), ..SetAttributes::default() }).unwrap();
    assert_eq!(w.stat("/f").written, 10);
}

#[test]
fn a_size_is_not_set_while_another_client_has_a_layout() {
    let mut w = World::new();
    let (a, b) = (w.client("a"), w.client("b"));
    w.file("/f");
    w.wrote("/f", 100).unwrap();
    let open = w.open(a, "/f", BOTH).unwrap();
    let layout = w.layout(a, "/f", open, IoMode::ReadWrite).unwrap().id;
    let truncation = |layout_of| SetAttributes { size: Some(0), layout_of, ..SetAttributes::default() };
    // What A writes through its layout would be acknowledged, and then cut away.
    assert_eq!(w.set("/f", truncation(Some(b))), Err(Error::Delay));
    assert_eq!(w.set("/f", truncation(None)), Err(Error::Delay), "NFSv3");
    assert_eq!(w.open_create(b, "/f", Exists::Take, true), Err(Error::Delay));
    assert_eq!((w.stat("/f").size, w.deferred()), (100, vec![]));
    w.set("/f", SetAttributes { mode: Some(0o600), ..SetAttributes::default() }).unwrap();
    w.set("/f", truncation(Some(a))).unwrap();

    w.apply(Command::LayoutReturn { client: a, scope: ReturnScope::Revoke { layout } }).unwrap();
    w.set("/f", truncation(Some(b))).unwrap();
    w.open_create(b, "/f", Exists::Take, true).unwrap();
}

#[test]
fn columns_get_other_targets_when_no_layout_and_no_truncation_names_the_old_ones_and_only_once() {
    let mut w = World::new();
    let a = w.client("a");
    let inode = w.file("/f");
    let open = w.open(a, "/f", BOTH).unwrap();
    w.layout(a, "/f", open, IoMode::ReadWrite).unwrap();
    let before = w.stat("/f");
    let from = before.columns().unwrap();
    let to = FileLayout { device: DeviceId(from.device.0 + 1), ..from };
    let relocate = |w: &World| Command::Relocate { inode, from, to, checked: w.version("/f") };
    let now = relocate(&w);
    assert_eq!(w.apply(now), Err(Error::Delay), "a layout is out");
    w.close(a, open).unwrap();
    let wider = FileLayout { columns: from.columns + 1, ..to };
    let checked = w.version("/f");
    assert_eq!(w.apply(Command::Relocate { inode, from, to: wider, checked }), Err(Error::Invalid));
    let elsewhere = Command::Relocate { inode, from: wider, to, checked };
    assert_eq!(w.apply(elsewhere), Err(Error::Delay), "it is not there");
    w.set("/f", SetAttributes { size: Some(0), ..SetAttributes::default() }).unwrap();
    let now = relocate(&w);
    assert_eq!(w.apply(now), Err(Error::Delay), "objects are being truncated");
    let ids = w.deferred_ops().iter().map(|deferred| deferred.id).collect();
    w.apply(Command::DeferredDone { ids }).unwrap();
    let epoch = w.stat("/f").epoch;
    let relocate = relocate(&w);
    for _ in 0..2 {
        w.apply(relocate.clone()).unwrap();
        assert_eq!((w.stat("/f").columns(), w.stat("/f").epoch), (Some(to), epoch + 1));
    }
    // A write through a metaserver that went to the old place.
    assert_eq!(w.apply(Command::Wrote { inode, end: 1, bytes: 1 << 40, epoch }), Err(Error::Delay));
}
