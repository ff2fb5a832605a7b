//! Bytes that members of chains are still to be compared with, for operators.
//!
//! ```text
//! left = for each member that is compared whole: bytes of its chain (`chain::names`) − compared so far
//! ```
//!
//! A member that is refilled by dirty logs counts nothing: it lacks little.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use super::Chains;
use super::table::{Chain, Member};
use crate::targets::Targets;

/// How far the refilling of members that are compared whole is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RefillProgress {
    /// Such members.
    pub members: u64,
    /// Bytes of their chains.
    pub bytes: u64,
    /// Bytes of them that are still to be compared.
    pub left: u64,
}

/// Bytes of chains whose members are refilled.
#[derive(Default)]
pub(super) struct Progress(Mutex<State>);

#[derive(Default)]
struct State {
    /// Bytes of the objects of chains, by the target that leads them.
    counted: BTreeMap<u64, BTreeMap<u64, u64>>,
    /// Bytes compared so far, of chains that are compared whole now.
    compared: BTreeMap<u64, u64>,
}

impl Progress {
    /// The chain is compared whole, from the beginning.
    pub(super) fn begins(&self, chain: u64) {
        self.0.lock().compared.insert(chain, 0);
    }

    pub(super) fn compared(&self, chain: u64, bytes: u64) {
        if let Some(compared) = self.0.lock().compared.get_mut(&chain) {
            *compared = compared.saturating_add(bytes);
        }
    }

    /// True if the chain is compared whole now.
    pub(super) fn is_whole(&self, chain: u64) -> bool {
        self.0.lock().compared.contains_key(&chain)
    }

    pub(super) fn ended(&self, chain: u64) {
        self.0.lock().compared.remove(&chain);
    }

    /// Notes the bytes of the objects of chains on a target.
    pub(super) fn counted(&self, target: u64, bytes: BTreeMap<u64, u64>) {
        self.0.lock().counted.entry(target).or_default().extend(bytes);
    }

    /// Forgets the bytes of other chains.
    pub(super) fn retain(&self, needs: impl Fn(u64, u64) -> bool) {
        let mut state = self.0.lock();
        state.counted.retain(|target, counted| {
            counted.retain(|chain, _| needs(*target, *chain));
            !counted.is_empty()
        });
    }

    /// Sums over members that are compared whole: chains, once for each such member, by the target that leads them. Those
    /// that are not counted yet are left out.
    fn of(&self, lacking: &BTreeMap<u64, Vec<u64>>) -> RefillProgress {
        let state = self.0.lock();
        let mut compared = state.compared.clone();
        let mut sums = RefillProgress::default();
        for (target, chains) in lacking {
            let Some(counted) = state.counted.get(target) else { continue };
            for chain in chains {
                let Some(bytes) = counted.get(chain) else { continue };
                // Of the members of a chain one is compared at a time.
                let left = bytes.saturating_sub(compared.remove(chain).unwrap_or(0));
                sums.members = sums.members.saturating_add(1);
                sums.bytes = sums.bytes.saturating_add(*bytes);
                sums.left = sums.left.saturating_add(left);
            }
        }
        sums
    }
}

impl Chains {
    /// Members that are compared whole: chains, once for each member, by the target here that leads them.
    fn compared_whole(&self, targets: &Targets) -> BTreeMap<u64, Vec<u64>> {
        let mut lacking = BTreeMap::<u64, Vec<u64>>::new();
        for (target, chain) in self.table.led_by(&targets.ids()) {
            let is_whole = self.progress.is_whole(chain.id);
            let is_known = |member: &&Member| self.dirty.covers(chain.id, member.target);
            let whole = self.lacking(target, &chain).filter(|member| is_whole || !is_known(member));
            let chains = whole.map(|_| chain.id).collect::<Vec<_>>();
            if !chains.is_empty() {
                lacking.entry(target).or_default().extend(chains);
            }
        }
        lacking
    }

    /// Other members of a chain led by `target` here that have not been refilled yet.
    pub(super) fn lacking<'a>(&'a self, target: u64, chain: &'a Chain) -> impl Iterator<Item = &'a Member> {
        chain.others(target).filter(|member| member.is_refilling && !self.refilled.has(chain, member.target))
    }

    /// How far the refilling of members of chains led here is.
    pub(crate) fn refill_progress(&self, targets: &Targets) -> RefillProgress {
        self.progress.of(&self.compared_whole(targets))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_what_was_counted_without_what_was_compared() {
        let progress = Progress::default();
        let lacking = BTreeMap::from([(1, vec![10, 11, 11]), (2, vec![12])]);
        let left = || progress.of(&lacking).left;
        assert_eq!(progress.of(&lacking), RefillProgress::default(), "not counted yet");
        progress.counted(1, BTreeMap::from([(10, 100), (11, 1000), (15, 7)]));
        let two_of_chain_11 = RefillProgress { members: 3, bytes: 2100, left: 2100 };
        assert_eq!(progress.of(&lacking), two_of_chain_11);
        progress.counted(2, BTreeMap::from([(12, 50)]));
        progress.begins(11);
        progress.compared(11, 300);
        progress.compared(10, 5);
        assert_eq!(left(), 1850);
        progress.compared(11, 900);
        assert_eq!(left(), 1150, "it has grown since");
        assert_eq!(progress.of(&lacking).bytes, 2150);
        progress.begins(11);
        assert_eq!(left(), 2150, "begun anew");
        progress.ended(11);
        progress.retain(|target, chain| (target, chain) == (2, 12));
        assert_eq!(progress.of(&lacking), RefillProgress { members: 1, bytes: 50, left: 50 });
    }
}
