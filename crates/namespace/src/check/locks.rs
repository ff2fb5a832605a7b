//! Locked ranges.

use std::collections::{BTreeMap, BTreeSet};

use store::{StoreError, View};

use super::left::Left;
use super::{Findings, table};
use crate::record::{HeldLock, RangeOf};
use crate::{ByteRange, ClientId, ClientRecord, Held, InodeId, LockKind, State, StateId, keys, read};

pub(super) fn check(
    view: &dyn View,
    clients: &BTreeMap<ClientId, ClientRecord>,
    states: &BTreeMap<StateId, State>,
    left: &Left,
    findings: &mut Findings,
) -> Result<(), StoreError> {
    let holders: BTreeMap<u64, &State> = states
        .values()
        .filter_map(|state| if let State::Lock(lock) = state { Some((lock.set, state)) } else { None })
        .collect();
    let mut indexed = BTreeSet::new();
    let mut ranges: BTreeMap<u64, u32> = BTreeMap::new();
    let mut held: BTreeMap<InodeId, Vec<Held>> = BTreeMap::new();
    for (key, HeldLock { start, kind, inode }) in table(view, keys::LOCKS, findings)? {
        let (set, range) = (keys::number(&key, 1), ByteRange { start, end: keys::number(&key, 9) });
        findings.expect(range.start < range.end, || format!("set {set} holds nothing: {range:?} {kind:?}"));
        match kind {
            LockKind::Write => drop(indexed.insert(keys::write_lock(inode, range.end, set))),
            LockKind::Read => {
                let fork = read::fork(range);
                indexed.insert(keys::read_lock_by_end(inode, fork, range.end, set));
                indexed.insert(keys::read_lock_by_start(inode, fork, range.start, set));
            }
        }
        *ranges.entry(set).or_default() += 1;
        match holders.get(&set) {
            None => findings.expect(left.sets.get(&set).is_some_and(|done| range.end > done.after), || {
                format!("{range:?} of {inode:?} is in set {set}, which no lock state has, nor is left over")
            }),
            Some(state) => {
                findings.expect(state.inode() == inode, || {
                    format!("{range:?} of {inode:?} is held by {state:?}")
                });
                let holds = matches!(state, State::Lock(lock) if states.contains_key(&lock.open));
                if holds && clients.contains_key(&state.client()) {
                    let state = state.stateid().id;
                    held.entry(inode).or_default().push(Held { range, kind, state });
                }
            }
        }
    }
    for (set, state) in holders {
        let count = ranges.get(&set).copied().unwrap_or_default();
        let counted = matches!(state, State::Lock(lock) if lock.ranges == count);
        findings.expect(counted, || format!("{state:?} holds {count} ranges"));
    }
    let mut found = BTreeSet::new();
    for tag in [keys::WRITE_LOCKS, keys::READ_LOCKS_BY_END, keys::READ_LOCKS_BY_START] {
        found.extend(table::<RangeOf>(view, tag, findings)?.into_keys());
    }
    findings.expect(found == indexed, || format!("locked are {indexed:02x?}, and indexed {found:02x?}"));
    held.iter().for_each(|(inode, held)| apart(*inode, held, findings));
    Ok(())
}

/// Checks that ranges of one state neither overlap nor, if of one kind, touch, and that ranges of two states
/// overlap only if both are for reading.
fn apart(inode: InodeId, held: &[Held], findings: &mut Findings) {
    let mut held = held.to_vec();
    held.sort_unstable_by_key(|held| held.range.start);
    for (at, one) in held.iter().enumerate() {
        for other in held[at + 1..].iter().take_while(|other| other.range.start <= one.range.end) {
            let overlap = other.range.start < one.range.end;
            let exclude = one.kind == LockKind::Write || other.kind == LockKind::Write;
            let wrong =
                if one.state == other.state { overlap || one.kind == other.kind } else { overlap && exclude };
            findings.expect(!wrong, || format!("{one:?} and {other:?} of {inode:?}"));
        }
    }
}
