//! Byte-range locks.

use namespace::LockKind::{Read, Write};
use namespace::*;

use crate::world::*;

/// A file `/f` that `a` and `b` have open for both.
fn two_clients() -> (World, ClientId, ClientId, Stateid, Stateid) {
    let mut w = World::new();
    let (a, b) = (w.client("a"), w.client("b"));
    w.file("/f");
    let (by_a, by_b) = (w.open(a, "/f", BOTH).unwrap(), w.open(b, "/f", BOTH).unwrap());
    (w, a, b, by_a, by_b)
}

#[test]
fn a_lock_excludes_others_and_says_whose_it_is() {
    let (mut w, a, b, by_a, by_b) = two_clients();
    let first = stateid(w.lock_new(a, by_a, "x", Write, 10..20));
    assert_eq!(first.sequence, 1);
    let conflict =
        Conflict { range: ByteRange { start: 10, end: 20 }, kind: Write, client: a, owner: b"x".to_vec() };
    assert_eq!(w.lock_new(b, by_b, "x", Read, 0..11), Ok(Reply::Denied(conflict.clone())));
    assert_eq!(w.lock_new(a, by_a, "y", Read, 19..30), Ok(Reply::Denied(conflict.clone())), "another owner");
    stateid(w.lock_new(b, by_b, "x", Write, 20..u64::MAX));
    stateid(w.lock_new(b, by_b, "z", Write, 0..10));

    let test = |w: &World, client, owner: &[u8], kind, start, end| {
        let range = ByteRange { start, end };
        read::conflicting_lock(&*w.view(), w.id("/f"), client, owner, kind, range).unwrap()
    };
    assert_eq!(test(&w, b, b"n", Read, 12, 13), Some(conflict));
    assert_eq!(test(&w, a, b"x", Write, 10, 20), None, "its own");
}

#[test]
fn read_locks_share() {
    let (mut w, a, b, by_a, by_b) = two_clients();
    stateid(w.lock_new(a, by_a, "x", Read, 0..10));
    let second = stateid(w.lock_new(b, by_b, "x", Read, 5..15));
    assert!(
        matches!(w.lock_more(b, second, Write, 5..15), Ok(Reply::Denied(_))),
        "an upgrade needs it alone"
    );
    stateid(w.lock_more(b, second, Write, 10..15));
    assert_eq!(w.held("/f"), ["r 0..10", "r 5..10", "w 10..15"]);
}

#[test]
fn locks_split_and_merge() {
    let (mut w, a, _, by_a, _) = two_clients();
    let x = stateid(w.lock_new(a, by_a, "x", Read, 0..100));
    let x = stateid(w.lock_more(a, x, Write, 40..60));
    assert_eq!(w.held("/f"), ["r 0..40", "w 40..60", "r 60..100"], "upgraded in the middle");
    let x = stateid(w.unlock(a, x, 10..20));
    assert_eq!(w.held("/f"), ["r 0..10", "r 20..40", "w 40..60", "r 60..100"], "split");
    let x = stateid(w.lock_more(a, x, Read, 10..20));
    assert_eq!(w.held("/f"), ["r 0..40", "w 40..60", "r 60..100"], "merged with both neighbours");
    let x = stateid(w.lock_more(a, x, Read, 50..70));
    assert_eq!(w.held("/f"), ["r 0..40", "w 40..50", "r 50..100"], "downgraded over an edge");
    let x = stateid(w.lock_more(a, x, Write, 0..u64::MAX));
    assert_eq!(w.held("/f"), ["w 0.."], "covered");
    assert_eq!(x.sequence, 6);
    stateid(w.unlock(a, x, 5..u64::MAX));
    assert_eq!(w.held("/f"), ["w 0..5"]);
}

#[test]
fn a_lock_needs_its_kind_of_access() {
    let mut w = World::new();
    let a = w.client("a");
    w.file("/f");
    let read = w.open_as(a, "r", "/f", READ, NONE).unwrap();
    let write = w.open_as(a, "w", "/f", WRITE, NONE).unwrap();
    assert_eq!(w.lock_new(a, read, "x", Write, 0..1), Err(Error::OpenMode));
    assert_eq!(w.lock_new(a, write, "x", Read, 0..1), Err(Error::OpenMode));
    let x = stateid(w.lock_new(a, read, "x", Read, 0..1));
    assert_eq!(w.lock_more(a, x, Write, 0..1), Err(Error::OpenMode));
    let again = stateid(w.lock_new(a, write, "x", Write, 0..1));
    assert_eq!((again.id, again.sequence), (x.id, 2), "one state for each owner and file");
}

#[test]
fn ranges_must_have_a_byte() {
    let (mut w, a, _, by_a, _) = two_clients();
    assert_eq!(w.lock_new(a, by_a, "x", Read, 5..5), Err(Error::BadRange));
    let (owner, range) = (b"x".to_vec(), ByteRange { start: 6, end: 5 });
    let owner = LockOwner::New { open: by_a, owner };
    let inode = w.id("/f");
    let backwards = Command::Lock { client: a, inode, owner, kind: Read, range };
    assert_eq!(w.apply(backwards), Err(Error::BadRange));
    let x = stateid(w.lock_new(a, by_a, "x", Read, 0..5));
    assert_eq!(w.unlock(a, x, 3..3), Err(Error::BadRange));
    stateid(w.lock_more(a, x, Read, u64::MAX - 1..u64::MAX));
}

#[test]
fn stateids_of_locks_move_on() {
    let (mut w, a, b, by_a, _) = two_clients();
    let other = w.file("/g");
    let one = stateid(w.lock_new(a, by_a, "x", Read, 0..5));
    let two = stateid(w.lock_more(a, one, Read, 5..6));
    assert_eq!((two.id, two.sequence), (one.id, 2));
    assert_eq!(w.lock_more(a, one, Read, 6..7), Err(Error::OldStateid));
    assert_eq!(w.unlock(a, with_sequence(one, 3), 0..1), Err(Error::BadStateid));
    assert_eq!(w.unlock(b, two, 0..1), Err(Error::BadStateid));
    assert_eq!(w.lock(a, other, LockOwner::Known { lock: two }, Read, 0..1), Err(Error::BadStateid));
    stateid(w.unlock(a, with_sequence(two, 0), 0..1));
}

#[test]
fn a_lock_state_is_freed_when_it_holds_nothing() {
    let (mut w, a, _, by_a, _) = two_clients();
    let x = stateid(w.lock_new(a, by_a, "x", Write, 0..5));
    let free = |w: &mut World, stateid| w.apply(Command::FreeState { client: a, stateid });
    assert_eq!(free(&mut w, x), Err(Error::LocksHeld));
    assert_eq!(free(&mut w, by_a), Err(Error::LocksHeld), "an open is freed by CLOSE");
    let x = stateid(w.unlock(a, x, 0..u64::MAX));
    free(&mut w, x).unwrap();
    assert_eq!(free(&mut w, x), Err(Error::BadStateid));
}

#[test]
fn close_releases_the_locks_that_came_through_the_open() {
    let (mut w, a, b, by_a, by_b) = two_clients();
    let second = w.open_as(a, "second", "/f", BOTH, NONE).unwrap();
    stateid(w.lock_new(a, by_a, "x", Write, 0..5));
    stateid(w.lock_new(a, second, "y", Write, 5..10));
    stateid(w.lock_new(b, by_b, "x", Write, 10..15));
    w.close(a, by_a).unwrap();
    assert_eq!(w.held("/f"), ["w 5..10", "w 10..15"]);
    w.close(a, second).unwrap();
    assert_eq!(w.held("/f"), ["w 10..15"]);
}
