//! Reads of locked byte ranges, and the conflicts among them.
//!
//! A file can have a million locked ranges, so none of these reads scans all of them. Ranges for writing
//! overlap no other range: in the order of their ends (table 29), the first one that ends after the start of
//! a range is the first possible conflict. Ranges for reading overlap each other. They are indexed as in an
//! interval tree whose nodes are all numbers: a range is stored at its *fork*, the number in it that is
//! divisible by two most often. All ranges that contain a point are at the 64 numbers above it in that tree
//! (Kriegel, Pötke, Seidl: "Managing intervals efficiently in object-relational databases", 2000):
//!
//! ```text
//! node              8
//!           4               12           range 5..8 contains 6, 7 and 8: its fork is 8
//!       2       6       10      14       range 4..6 contains 5 and 6: its fork is 6
//!     1   3   5   7   9  11  13  15      (bytes are counted from 1 here, so that a range ends with `end`)
//! ```
//!
//! A range conflicts with another if its fork is inside it, or above its first byte and the range reaches it
//! (table 2a, by end), or above its last byte and the range reaches that (table 2b, by start).

use std::ops::{ControlFlow, RangeInclusive};

use store::{StoreError, View};

use super::{client, collect_some, scan_records, state};
use crate::keys::Key;
use crate::record::{RangeOf, get};
use crate::{ByteRange, ClientId, Conflict, Held, InodeId, LockKind, LockState, State, StateId, keys};

/// Up to this number of conflicts all are read, and the first one is reported; of more, any one.
const FEW: usize = 64;

/// Ranges read at a time.
const SOME: usize = 16;

/// Lock to test for conflicts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LockTest<'a> {
    pub inode: InodeId,
    pub client: ClientId,
    pub owner: &'a [u8],
    pub kind: LockKind,
    pub range: ByteRange,
}

/// The fork of a range: see the module.
pub(crate) fn fork(range: ByteRange) -> u64 {
    let shift = 63 - (range.start ^ range.end).leading_zeros().min(63);
    range.end >> shift << shift
}

/// Locked ranges of a file, by start. Reads all of them.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn locks(view: &dyn View, inode: InodeId) -> Result<Vec<Held>, StoreError> {
    let mut locks = Vec::new();
    for (tag, kind, at) in
        [(keys::WRITE_LOCKS, LockKind::Write, 9), (keys::READ_LOCKS_BY_END, LockKind::Read, 17)]
    {
        let prefix = keys::of(tag, &[inode.0]);
        scan_records(view, &prefix, &keys::after(&prefix), |key, RangeOf { state, other_end: start }| {
            locks.push(Held { range: ByteRange { start, end: keys::number(key, at) }, kind, state });
            ControlFlow::Continue(())
        })?;
    }
    locks.sort_unstable_by_key(|held| (held.range.start, held.state));
    Ok(locks)
}

/// LOCKT: a range that conflicts with a lock of `range` by `owner` of `client`; the first one if there are
/// few.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn conflicting_lock(
    view: &dyn View,
    inode: InodeId,
    client: ClientId,
    owner: &[u8],
    kind: LockKind,
    range: ByteRange,
) -> Result<Option<Conflict>, StoreError> {
    let mut search = Search::new(view, LockTest { inode, client, owner, kind, range }, usize::MAX)?;
    search.run(&mut |_| Ok(true))?;
    Ok(search.first())
}

/// Search for the conflicts of a lock.
pub(crate) struct Search<'a> {
    view: &'a dyn View,
    test: LockTest<'a>,
    own: Option<LockState>,
    /// Holder of the last checked set; none: its ranges are leftovers.
    last: Option<(u64, Option<LockState>)>,
    looked_at: usize,
    looked_at_max: usize,
    found: Vec<(u64, StateId, Conflict)>,
    /// True if a holder was found that decides the search.
    pub decided: bool,
    /// True if there are more conflicting leftovers than the search checks.
    pub unseen: bool,
}

/// Range in an index.
struct Entry {
    range: ByteRange,
    kind: LockKind,
    state: StateId,
    set: u64,
}

/// Returns true if the holder of a range decides the search, which then ends.
pub(crate) type Decides<'a> = dyn FnMut(ClientId) -> Result<bool, StoreError> + 'a;

impl<'a> Search<'a> {
    pub fn new(view: &'a dyn View, test: LockTest<'a>, looked_at_max: usize) -> Result<Self, StoreError> {
        let own = match get(view, &keys::lock_state(test.inode, test.client, test.owner))? {
            Some(own) => state(view, own)?,
            None => None,
        };
        let own = if let Some(State::Lock(own)) = own { Some(own) } else { None };
        let (last, found) = (None, Vec::new());
        let (looked_at, decided, unseen) = (0, false, false);
        Ok(Self { view, test, own, last, looked_at, looked_at_max, found, decided, unseen })
    }

    /// First range found.
    pub fn first(self) -> Option<Conflict> {
        self.found.into_iter().min_by_key(|(start, state, _)| (*start, *state)).map(|(.., conflict)| conflict)
    }

    pub fn run(&mut self, decides: &mut Decides<'_>) -> Result<(), StoreError> {
        let LockTest { inode, range: ByteRange { start, end }, kind, .. } = self.test;
        let of_file = keys::of(keys::WRITE_LOCKS, &[inode.0]);
        let from = keys::of(keys::WRITE_LOCKS, &[inode.0, start + 1]);
        self.look_by_end(from, keys::after(&of_file), LockKind::Write, decides)?;
        if kind == LockKind::Read || self.is_over() {
            return Ok(());
        }
        let of_file = keys::of(keys::READ_LOCKS_BY_END, &[inode.0]);
        let few: Vec<(Key, RangeOf)> = collect_some(self.view, &of_file, &keys::after(&of_file), FEW + 1)?;
        if few.len() <= FEW {
            for (key, range) in few {
                let entry = by_end(&key, range, LockKind::Read);
                if entry.range.end > start && entry.range.start < end {
                    let _ = self.judge(entry, decides)?;
                }
            }
            return Ok(());
        }
        let inside = start + 1..=end;
        self.look_inside(&inside, decides)?;
        for level in 0..64 {
            let node = above(*inside.start(), level);
            if node < *inside.start() && !self.is_over() {
                let of_node = keys::of(keys::READ_LOCKS_BY_END, &[inode.0, node]);
                let from = keys::of(keys::READ_LOCKS_BY_END, &[inode.0, node, start + 1]);
                self.look_by_end(from, keys::after(&of_node), LockKind::Read, decides)?;
            }
            let node = above(*inside.end(), level);
            if node > *inside.end() && !self.is_over() {
                let of_node = keys::of(keys::READ_LOCKS_BY_START, &[inode.0, node]);
                let to = keys::of(keys::READ_LOCKS_BY_START, &[inode.0, node, end]);
                self.look(
                    of_node,
                    &to,
                    |key, RangeOf { state, other_end: end }| {
                        let range = ByteRange { start: keys::number(key, 17), end };
                        Entry { range, kind: LockKind::Read, state, set: keys::number(key, 25) }
                    },
                    decides,
                )?;
            }
        }
        Ok(())
    }

    /// Searches the ranges for reading whose forks are in the range.
    fn look_inside(
        &mut self,
        inside: &RangeInclusive<u64>,
        decides: &mut Decides<'_>,
    ) -> Result<(), StoreError> {
        let inode = self.test.inode.0;
        let from = keys::of(keys::READ_LOCKS_BY_END, &[inode, *inside.start()]);
        let to = keys::after(&keys::of(keys::READ_LOCKS_BY_END, &[inode, *inside.end()]));
        self.look_by_end(from, to, LockKind::Read, decides)
    }

    fn look_by_end(
        &mut self,
        from: Key,
        to: Key,
        kind: LockKind,
        decides: &mut Decides<'_>,
    ) -> Result<(), StoreError> {
        self.look(from, &to, |key, range| by_end(key, range, kind), decides)
    }

    fn look(
        &mut self,
        mut from: Key,
        to: &[u8],
        entry: impl Fn(&[u8], RangeOf) -> Entry,
        decides: &mut Decides<'_>,
    ) -> Result<(), StoreError> {
        loop {
            let some: Vec<(Key, RangeOf)> = collect_some(self.view, &from, to, SOME)?;
            let is_last = some.len() < SOME;
            for (key, range) in some {
                if self.is_over() || self.judge(entry(&key, range), decides)?.is_break() {
                    return Ok(());
                }
                from = key;
            }
            if is_last {
                return Ok(());
            }
            from.push(0);
        }
    }

    fn is_over(&self) -> bool {
        self.unseen || self.decided && self.looked_at > FEW
    }

    /// Adds a conflicting range. Breaks at a range for writing that begins behind the tested range: all
    /// ranges with later ends begin behind it as well, except leftovers.
    fn judge(&mut self, entry: Entry, decides: &mut Decides<'_>) -> Result<ControlFlow<()>, StoreError> {
        let is_past = entry.kind == LockKind::Write && entry.range.start >= self.test.range.end;
        if self.own.as_ref().is_some_and(|own| own.set == entry.set) {
            return Ok(if is_past { ControlFlow::Break(()) } else { ControlFlow::Continue(()) });
        }
        self.looked_at += 1;
        if self.looked_at > self.looked_at_max {
            self.unseen = true;
            return Ok(ControlFlow::Break(()));
        }
        let Some(holder) = self.holder(&entry)? else { return Ok(ControlFlow::Continue(())) };
        if is_past {
            return Ok(ControlFlow::Break(()));
        }
        let Entry { range, kind, state, .. } = entry;
        let (client, owner) = (holder.client, holder.owner);
        self.decided |= decides(client)?;
        self.found.push((range.start, state, Conflict { range, kind, client, owner }));
        Ok(ControlFlow::Continue(()))
    }

    /// Lock state of a range; none: the range is a leftover.
    fn holder(&mut self, entry: &Entry) -> Result<Option<LockState>, StoreError> {
        if let Some((set, holder)) = &self.last
            && *set == entry.set
        {
            return Ok(holder.clone());
        }
        let holder = match state(self.view, entry.state)? {
            Some(State::Lock(lock)) if lock.set == entry.set && holds(self.view, &lock)? => Some(lock),
            _ => None,
        };
        self.last = Some((entry.set, holder.clone()));
        Ok(holder)
    }
}

/// True if a lock state is valid: its client and its open exist.
pub(crate) fn holds(view: &dyn View, lock: &LockState) -> Result<bool, StoreError> {
    Ok(client(view, lock.client)?.is_some() && view.get(&keys::state(lock.open))?.is_some())
}

fn by_end(key: &[u8], RangeOf { state, other_end: start }: RangeOf, kind: LockKind) -> Entry {
    let at = if kind == LockKind::Write { 9 } else { 17 };
    let range = ByteRange { start, end: keys::number(key, at) };
    Entry { range, kind, state, set: keys::number(key, at + 8) }
}

/// Number above `point` that is divisible by two exactly `level` times; `point` itself at its own level.
fn above(point: u64, level: u32) -> u64 {
    point >> level >> 1 << level << 1 | 1 << level
}
