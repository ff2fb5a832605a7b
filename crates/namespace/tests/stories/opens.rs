//! OPEN, CLOSE, OPEN_DOWNGRADE.

use namespace::*;

use crate::world::*;

#[test]
fn one_owner_has_one_state_of_a_file_however_often_it_opens() {
    let mut w = World::new();
    let a = w.client("a");
    w.file("/f");
    let first = w.open(a, "/f", READ).unwrap();
    let second = w.open(a, "/f", WRITE).unwrap();
    assert_eq!((first.id, first.sequence, second.sequence), (second.id, 1, 2));
    let Some(State::Open(open)) = w.state(first) else { panic!() };
    assert_eq!((open.access, open.client, open.inode), (BOTH, a, w.id("/f")));
    let other = w.open_as(a, "another", "/f", READ, NONE).unwrap();
    assert_ne!(other.id, first.id);
    assert_eq!(w.close(a, first), Err(Error::OldStateid));
    assert_eq!(w.close(a, with_sequence(first, 3)), Err(Error::BadStateid));
    w.close(a, with_sequence(first, 0)).unwrap();
    assert_eq!(w.close(a, second), Err(Error::BadStateid));
    w.close(a, other).unwrap();
}

#[test]
fn a_stateid_is_good_for_its_client_only() {
    let mut w = World::new();
    let (a, b) = (w.client("a"), w.client("b"));
    w.file("/f");
    let open = w.open(a, "/f", READ).unwrap();
    assert_eq!(w.close(b, open), Err(Error::BadStateid));
    assert_eq!(w.unlock(a, open, 0..1), Err(Error::BadStateid), "an open is no lock");
}

#[test]
fn only_regular_files_are_opened() {
    let mut w = World::new();
    let a = w.client("a");
    w.dir("/d");
    w.make("/s", NewNode::Symlink(b"f".to_vec()), Exists::Refuse).unwrap();
    w.make("/p", NewNode::Fifo, Exists::Refuse).unwrap();
    assert_eq!(w.open(a, "/d", READ), Err(Error::IsDirectory));
    assert_eq!(w.open(a, "/s", READ), Err(Error::IsSymlink));
    assert_eq!(w.open(a, "/p", READ), Err(Error::WrongType));
    assert_eq!(w.open(a, "/x", READ), Err(Error::NoEntry));
    assert_eq!(w.open_create(a, "/d", Exists::Take, false), Err(Error::IsDirectory));
    let target = OpenTarget::Inode(InodeId(99));
    assert_eq!(w.open_target(a, "o", target, READ, NONE), Err(Error::Stale));
}

#[test]
fn shares_that_say_nothing_or_too_much_are_invalid() {
    let mut w = World::new();
    let a = w.client("a");
    w.file("/f");
    assert_eq!(w.open(a, "/f", NONE), Err(Error::Invalid));
    assert_eq!(w.open(a, "/f", Share(4)), Err(Error::Invalid));
    assert_eq!(w.open_as(a, "o", "/f", READ, Share(7)), Err(Error::Invalid));
}

#[test]
fn an_open_creates_takes_or_refuses() {
    let mut w = World::new();
    let a = w.client("a");
    let Ok(Reply::Opened { created: true, deferred: None, dir: Some(dir), inode, .. }) =
        w.open_create(a, "/f", Exists::Refuse, true)
    else {
        panic!()
    };
    assert_eq!((inode.id, dir.after), (w.id("/f"), dir.before + 1));
    assert_eq!(w.open_create(a, "/f", Exists::Refuse, false), Err(Error::Exists));

    w.apply(Command::Migrate { inode: inode.id, made: inode.placed() }).unwrap();
    w.wrote("/f", 50).unwrap();
    let Ok(Reply::Opened { created: false, deferred: None, inode, .. }) =
        w.open_create(a, "/f", Exists::Take, false)
    else {
        panic!()
    };
    assert_eq!(inode.size, 50);
    let Ok(Reply::Opened { created: false, deferred: Some(_), inode, .. }) =
        w.open_create(a, "/f", Exists::Take, true)
    else {
        panic!()
    };
    assert_eq!((inode.size, inode.modified), (0, at(w.seconds)));
    assert_eq!(w.deferred(), [(inode.id, DeferredKind::Truncate(0))]);
}

#[test]
fn an_exclusive_open_sent_again_is_the_same_open() {
    let mut w = World::new();
    let a = w.client("a");
    let Ok(Reply::Opened { stateid: first, created: true, .. }) =
        w.open_create(a, "/f", Exists::Verify([3; 8]), false)
    else {
        panic!()
    };
    let Ok(Reply::Opened { stateid: second, created: true, .. }) =
        w.open_create(a, "/f", Exists::Verify([3; 8]), false)
    else {
        panic!()
    };
    assert_eq!((first.id, second.sequence), (second.id, 2));
    assert_eq!(w.open_create(a, "/f", Exists::Verify([4; 8]), false), Err(Error::Exists));
}

#[test]
fn an_open_denies_what_it_says_to_all_but_its_owner() {
    let mut w = World::new();
    let (a, b) = (w.client("a"), w.client("b"));
    let f = w.file("/f");
    let denies = w.open_as(a, "o", "/f", READ, WRITE).unwrap();
    assert_eq!(w.open(b, "/f", WRITE), Err(Error::ShareDenied));
    assert_eq!(w.open_as(a, "p", "/f", WRITE, NONE), Err(Error::ShareDenied));
    assert_eq!(w.open_as(b, "o", "/f", READ, READ), Err(Error::ShareDenied), "a has it open for reading");
    w.open_as(a, "o", "/f", WRITE, NONE).unwrap();
    let reads = w.open(b, "/f", READ).unwrap();

    let conflict = |w: &World, wanted, except| read::share_conflict(&*w.view(), f, wanted, except).unwrap();
    assert!(conflict(&w, WRITE, None) && conflict(&w, WRITE, Some(b)));
    assert!(!conflict(&w, WRITE, Some(a)) && !conflict(&w, READ, None));

    w.close(a, with_sequence(denies, 0)).unwrap();
    w.close(b, reads).unwrap();
    w.open(b, "/f", WRITE).unwrap();
}

#[test]
fn a_downgrade_goes_back_to_what_was_opened() {
    let mut w = World::new();
    let a = w.client("a");
    w.file("/f");
    let downgrade = |w: &mut World, stateid, access, deny| {
        w.apply(Command::OpenDowngrade { client: a, stateid, access, deny })
    };
    let both = w.open(a, "/f", BOTH).unwrap();
    assert_eq!(downgrade(&mut w, both, READ, NONE), Err(Error::Invalid), "never opened so");
    let read = w.open(a, "/f", READ).unwrap();
    assert_eq!(downgrade(&mut w, both, READ, NONE), Err(Error::OldStateid));
    assert_eq!(downgrade(&mut w, read, NONE, NONE), Err(Error::Invalid));
    let down = stateid(downgrade(&mut w, read, READ, NONE));
    assert_eq!((down.id, down.sequence), (both.id, 3));
    assert_eq!(downgrade(&mut w, down, BOTH, NONE), Err(Error::Invalid), "it was given up");
    let Some(State::Open(open)) = w.state(down) else { panic!() };
    assert_eq!(open.access, READ);
}

#[test]
fn a_downgrade_lets_others_in() {
    let mut w = World::new();
    let (a, b) = (w.client("a"), w.client("b"));
    w.file("/f");
    w.open_as(a, "o", "/f", READ, NONE).unwrap();
    let denies = w.open_as(a, "o", "/f", READ, BOTH).unwrap();
    assert_eq!(w.open(b, "/f", READ), Err(Error::ShareDenied));
    w.apply(Command::OpenDowngrade { client: a, stateid: denies, access: READ, deny: NONE }).unwrap();
    w.open(b, "/f", READ).unwrap();
}
