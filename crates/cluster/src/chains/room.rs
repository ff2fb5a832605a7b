//! Room of chains: a chain has as much as its fullest member.

use std::collections::BTreeMap;
use std::time::Duration;

use namespace::{Chain, ChainId, MemberState, TargetId};
use parking_lot::Mutex;
use wire::data;

use crate::cluster::Cluster;
use crate::data_servers::NO_ROOM_FOR;

/// Chains of several targets that answered NOSPC, with the time of the last answer by the monotonic clock. At most
/// one entry for each chain.
#[derive(Default)]
pub(crate) struct Refusals(Mutex<BTreeMap<ChainId, Duration>>);

impl Refusals {
    fn note(&self, chain: ChainId, now: Duration) {
        let mut refusals = self.0.lock();
        refusals.retain(|_, at| now.saturating_sub(*at) < NO_ROOM_FOR);
        refusals.insert(chain, now);
    }

    fn is_recent(&self, chain: ChainId, now: Duration) -> bool {
        self.0.lock().get(&chain).is_some_and(|at| now.saturating_sub(*at) < NO_ROOM_FOR)
    }
}

impl Cluster {
    /// Notes that a call to `target` for a column on this chain was answered NOSPC: by the target itself, or by
    /// another member. Which one, the members' reports tell a heartbeat later.
    pub fn note_no_room(&self, chain: ChainId, target: TargetId) {
        if self.chains().contains_key(&chain) {
            self.chains.refusals.note(chain, self.group.clock.monotonic());
        } else {
            self.data_servers.refused(target, data::Status::NoSpace);
        }
    }

    /// True if a member that gets the changes of this chain has no room, or the chain has just answered NOSPC.
    #[must_use]
    pub fn has_no_room(&self, chain: &Chain) -> bool {
        self.chains.refusals.is_recent(chain.id, self.group.clock.monotonic())
            || takes_part(chain).any(|target| self.data_servers.is_full(target))
    }

    /// True if data that are not on the chain yet should go to another one: a member that gets its changes is lost,
    /// fails, or is full. Absent members are waited for, or have left.
    #[must_use]
    pub fn is_unfit(&self, id: ChainId) -> bool {
        match self.chains().get(&id) {
            Some(chain) => {
                self.has_no_room(chain)
                    || takes_part(chain).any(|target| self.data_servers.is_unfit(target))
                    || self.is_chain_lost(id)
            }
            None => self.data_servers.is_unfit(TargetId(id.0)),
        }
    }
}

fn takes_part(chain: &Chain) -> impl Iterator<Item = TargetId> {
    chain.with_state(MemberState::In).chain(chain.with_state(MemberState::Refilling))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_counts_for_seconds() {
        let (refusals, seconds) = (Refusals::default(), Duration::from_secs);
        refusals.note(ChainId(1), seconds(10));
        assert!(refusals.is_recent(ChainId(1), seconds(14)) && !refusals.is_recent(ChainId(2), seconds(14)));
        assert!(!refusals.is_recent(ChainId(1), seconds(15)));
        refusals.note(ChainId(2), seconds(15));
        assert_eq!(refusals.0.lock().len(), 1);
    }
}
