//! Files with many locked ranges: no LOCK, LOCKU or CLOSE reads or changes more than its bound.

use namespace::LockKind::{Read, Write};
use namespace::*;

use crate::world::*;

/// A file that two clients have open, in a world that is too large to be looked at after each command.
fn two_clients() -> (World, ClientId, ClientId, Stateid, Stateid) {
    let mut w = World::new();
    let (a, b) = (w.client("a"), w.client("b"));
    w.file("/f");
    let (by_a, by_b) = (w.open(a, "/f", BOTH).unwrap(), w.open(b, "/f", BOTH).unwrap());
    w.is_large = true;
    (w, a, b, by_a, by_b)
}

impl World {
    /// Locks `count` ranges of 5 bytes, each 10 bytes after the one before; `owners` take turns.
    fn lock_many(&mut self, client: ClientId, open: Stateid, kind: LockKind, count: u64, owners: u64) {
        let inode = self.id("/f");
        self.many(count, |n| {
            let owner = LockOwner::New { open, owner: (n % owners).to_be_bytes().to_vec() };
            let range = ByteRange { start: n * 10, end: n * 10 + 5 };
            (None, Command::Lock { client, inode, owner, kind, range })
        });
        assert_eq!(read::locks(&*self.view(), inode).unwrap().len(), count as usize);
    }

    /// The same with an owner for each of them.
    fn lock_many_from(&mut self, client: ClientId, open: Stateid, count: u64) {
        let inode = self.id("/f");
        self.many(count, |n| {
            let owner = LockOwner::New { open, owner: n.to_be_bytes().to_vec() };
            let range = ByteRange { start: 10 + n * 10, end: 15 + n * 10 };
            (None, Command::Lock { client, inode, owner, kind: Write, range })
        });
    }

    fn bounded_lock(
        &mut self,
        client: ClientId,
        open: Stateid,
        owner: &[u8],
        kind: LockKind,
        range: std::ops::Range<u64>,
    ) -> Reply {
        let (inode, owner) = (self.id("/f"), LockOwner::New { open, owner: owner.to_vec() });
        let range = ByteRange { start: range.start, end: range.end };
        self.bounded(Command::Lock { client, inode, owner, kind, range })
    }

    fn bounded_unlock(&mut self, client: ClientId, stateid: Stateid, range: std::ops::Range<u64>) -> Reply {
        let range = ByteRange { start: range.start, end: range.end };
        self.bounded(Command::Unlock { client, stateid, range })
    }

    fn ranges(&self) -> usize {
        read::locks(&*self.view(), self.id("/f")).unwrap().len()
    }
}

#[test]
fn a_lock_among_100_000_ranges_looks_at_few() {
    for kind in [Write, Read] {
        let (mut w, a, b, by_a, by_b) = two_clients();
        w.lock_many(a, by_a, kind, 100_000, 100);
        for (start, is_free) in [(5, true), (499_995, true), (999_995, true), (500_004, false), (0, false)] {
            let inode = w.id("/f");
            let owner = LockOwner::New { open: by_b, owner: start.to_string().into_bytes() };
            let range = ByteRange { start, end: start + 5 };
            let lock = Command::Lock { client: b, inode, owner, kind: Write, range };
            let (reply, counts) = w.counted(lock);
            assert_eq!(matches!(reply, Reply::State { .. }), is_free, "{kind:?} at {start}: {reply:?}");
            assert!(counts.reads.get() < 300 && counts.changes < 20, "{kind:?} at {start}: {counts:?}");
        }
        assert_eq!(w.findings(), Vec::<String>::new());
    }
}

#[test]
fn an_owner_with_100_000_ranges_locks_and_unlocks_the_whole_file_in_one_command() {
    let (mut w, a, b, by_a, by_b) = two_clients();
    w.lock_many(a, by_a, Write, 100_000, 1);
    let owner = 0_u64.to_be_bytes();
    let x = stateid(Ok(w.bounded_lock(a, by_a, &owner, Read, 0..u64::MAX)));
    assert_eq!(w.findings(), Vec::<String>::new());
    assert!(matches!(
        w.bounded_lock(b, by_b, b"b", Write, 3..4),
        Reply::Denied(_) | Reply::Refused(Error::Delay)
    ));
    w.remove_leftovers();
    assert_eq!(w.held("/f"), ["r 0.."]);
    stateid(Ok(w.bounded_unlock(a, x, 0..u64::MAX)));

    w.lock_many(a, by_a, Read, 100_000, 1);
    let x = stateid(Ok(w.bounded_lock(a, by_a, &owner, Read, 5..6)));
    // All but the first and a part of the last.
    stateid(Ok(w.bounded_unlock(a, x, 6..999_992)));
    assert_eq!(w.findings(), Vec::<String>::new());
    w.remove_leftovers();
    assert_eq!(w.held("/f"), ["r 0..6", "r 999992..999995"]);
    assert!(matches!(w.bounded_lock(b, by_b, b"b", Write, 10..900_000), Reply::State { .. }));
    assert_eq!(w.findings(), Vec::<String>::new());
}

#[test]
fn what_a_lock_state_let_go_of_conflicts_with_nothing() {
    let (mut w, a, b, by_a, by_b) = two_clients();
    w.lock_many(a, by_a, Write, 5_000, 1);
    let x = stateid(Ok(w.bounded_lock(a, by_a, &0_u64.to_be_bytes(), Write, 0..1)));
    stateid(Ok(w.bounded_unlock(a, x, 0..u64::MAX)));
    assert!(w.ranges() > 3_000, "they are still there");
    assert!(matches!(w.bounded_lock(b, by_b, b"b", Write, 49_000..49_500), Reply::State { .. }));
    assert_eq!(w.bounded_lock(b, by_b, b"b", Write, 0..50_000), Reply::Refused(Error::Delay), "too many");
    w.remove_leftovers();
    assert!(matches!(w.bounded_lock(b, by_b, b"b", Write, 0..50_000), Reply::State { .. }));
    assert_eq!(w.findings(), Vec::<String>::new());
}

#[test]
fn a_change_of_many_ranges_with_many_others_beside_it_is_refused() {
    let (mut w, a, _, by_a, _) = two_clients();
    w.lock_many(a, by_a, Write, 5_000, 1);
    let owner = 0_u64.to_be_bytes();
    let x = stateid(Ok(w.bounded_lock(a, by_a, &owner, Write, 0..1)));
    assert_eq!(w.bounded_unlock(a, x, 0..25_000), Reply::Refused(Error::LockRange));
    assert_eq!(w.bounded_lock(a, by_a, &owner, Read, 0..25_000), Reply::Refused(Error::LockRange));
    assert_eq!(w.ranges(), 5_000);
    let x = stateid(Ok(w.bounded_unlock(a, x, 0..2_000)));
    stateid(Ok(w.bounded_unlock(a, x, 4_000..50_000)));
    w.remove_leftovers();
    assert_eq!(w.ranges(), 200);
    assert_eq!(w.findings(), Vec::<String>::new());
}

#[test]
fn close_frees_the_locks_of_5_000_owners_in_bounded_commands() {
    let (mut w, a, b, by_a, by_b) = two_clients();
    let second = w.open_as(a, "second", "/f", BOTH, NONE).unwrap();
    let kept = stateid(Ok(w.bounded_lock(a, second, b"kept", Write, 7..8)));
    w.lock_many_from(a, by_a, 5_000);
    assert_eq!(w.bounded(Command::Close { client: a, stateid: by_a }), Reply::State { stateid: None });
    assert!(w.ranges() > 3_000);
    assert_eq!(w.findings(), Vec::<String>::new());
    assert!(matches!(w.bounded_lock(b, by_b, b"b", Write, 49_990..49_995), Reply::State { .. }));
    // The same owner begins anew.
    let again = 4_990_u64.to_be_bytes();
    let x = stateid(Ok(w.bounded_lock(a, second, &again, Write, 100_000..100_001)));
    assert_eq!(x.sequence, 1);
    w.remove_leftovers();
    assert_eq!(w.held("/f"), ["w 7..8", "w 49990..49995", "w 100000..100001"]);
    assert!(w.state(kept).is_some());
    assert_eq!(w.findings(), Vec::<String>::new());
}

#[test]
fn a_client_with_100_000_ranges_ends_in_bounded_commands() {
    let (mut w, a, _, by_a, _) = two_clients();
    w.lock_many(a, by_a, Read, 100_000, 3);
    w.lapse(a).unwrap();
    assert_eq!(w.bounded(Command::ExpireClient { client: a }), Reply::Done);
    assert_eq!(w.findings(), Vec::<String>::new());
    assert!(w.remove_leftovers() > 200);
    assert_eq!((w.ranges(), w.findings()), (0, vec![]));
}

/// Of many ranges for reading that overlap each other, those in the way are found as if all were looked at.
#[test]
fn a_conflict_is_found_among_many_ranges_that_overlap() {
    let (mut w, a, b, by_a, _) = two_clients();
    let inode = w.id("/f");
    let mut random = 1_u64;
    let mut next = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    let mut some_range = || {
        let start = next(3_000);
        let len = match next(20) {
            0 => 500,
            1 => u64::MAX - 3_000,
            _ => 6,
        };
        let end = (start + 1 + next(len)).max(start + 1);
        ByteRange { start, end: if next(200) == 0 { u64::MAX } else { end } }
    };
    let ranges: Vec<ByteRange> = (0..300).map(|_| some_range()).filter(|range| range.end < 3_500).collect();
    w.many(ranges.len() as u64, |n| {
        let owner = LockOwner::New { open: by_a, owner: n.to_be_bytes().to_vec() };
        (None, Command::Lock { client: a, inode, owner, kind: Read, range: ranges[n as usize] })
    });
    assert!(w.ranges() > 200);
    assert_eq!(w.findings(), Vec::<String>::new());
    let (mut free, mut denied) = (0, 0);
    let view = w.view();
    for _ in 0..3_000 {
        let range = some_range();
        let overlaps = |held: &ByteRange| held.start < range.end && range.start < held.end;
        let found = read::conflicting_lock(&*view, inode, b, b"b", Write, range).unwrap();
        assert_eq!(found.is_some(), ranges.iter().any(overlaps), "{range:?}: {found:?}");
        assert!(found.iter().all(|conflict| overlaps(&conflict.range) && ranges.contains(&conflict.range)));
        assert_eq!(read::conflicting_lock(&*view, inode, b, b"b", Read, range).unwrap(), None);
        *if found.is_some() { &mut denied } else { &mut free } += 1;
    }
    assert!(free > 100 && denied > 100, "{free} were free, {denied} denied");
}
