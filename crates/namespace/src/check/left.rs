//! Leftovers: records of ended clients and sessions that are not removed yet.

use std::collections::{BTreeMap, BTreeSet};

use store::{StoreError, View};

use super::{Findings, marks};
use crate::record::{LeftLocks, LeftRanges, LeftStates, get};
use crate::{ClientId, ClientRecord, LockState, State, StateId, keys};

/// Marks of all leftovers.
pub(super) struct Left {
    clients: BTreeMap<ClientId, LeftStates>,
    /// Ids of sessions.
    pub sessions: BTreeSet<Vec<u8>>,
    /// Sets of ranges.
    pub sets: BTreeMap<u64, LeftRanges>,
    /// Closed opens, with the client of each.
    opens: BTreeMap<StateId, ClientId>,
}

impl Left {
    pub fn read(view: &dyn View, findings: &mut Findings) -> Result<Self, StoreError> {
        let (clients, sessions) = (BTreeMap::new(), BTreeSet::new());
        let mut left = Left { clients, sessions, sets: BTreeMap::new(), opens: BTreeMap::new() };
        for key in marks(view, keys::LEFTOVERS)? {
            match keys::number(&key, 1) {
                0 => {
                    let done = get(view, &key)?.unwrap_or_default();
                    left.clients.insert(ClientId(keys::number(&key, 9)), done);
                }
                1 => drop(left.sessions.insert(key[9..].to_vec())),
                2 => drop(left.sets.insert(keys::number(&key, 9), get(view, &key)?.unwrap_or_default())),
                3 => {
                    let of = get::<LeftLocks>(view, &key)?.map(|left| left.client);
                    left.opens.extend(of.map(|client| (StateId(keys::number(&key, 9)), client)));
                }
                4 => {}      // layouts that a client returned agree with all rules
                5 | 6 => {}  // volumes: see `volumes.rs`
                7 | 8 => {}  // snapshots: see `snapshots.rs`
                9 | 10 => {} // clones: see `clones.rs`
                _ => findings.add(format!("leftover {key:02x?} is of no known kind")),
            }
        }
        Ok(left)
    }

    /// True if a state of an ended client is not removed yet.
    pub fn has_not_removed(&self, state: &State) -> bool {
        self.clients.get(&state.client()).is_some_and(|done| state.stateid().id > done.after)
    }

    /// True if the lock state's open was closed, and the lock state is not removed yet.
    pub fn has_closed(&self, lock: &LockState) -> bool {
        self.opens.get(&lock.open) == Some(&lock.client)
    }

    /// Checks that clients and opens with leftovers do not exist.
    pub fn check(
        &self,
        clients: &BTreeMap<ClientId, ClientRecord>,
        states: &BTreeMap<StateId, State>,
        findings: &mut Findings,
    ) {
        for client in self.clients.keys() {
            findings.expect(!clients.contains_key(client), || format!("{client:?} has left, and is there"));
        }
        for open in self.opens.keys() {
            findings.expect(!states.contains_key(open), || format!("{open:?} is closed, and is there"));
        }
    }
}
