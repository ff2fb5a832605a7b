//! Objects of chains that a target has left: the leader has them removed soon, and not by the next orphan scan,
//! so that their room is free.

use std::collections::{BTreeMap, BTreeSet};

use namespace::{ChainChange, ChainStep, TargetId};
use parking_lot::Mutex;

use crate::cluster::Cluster;

/// Targets with objects of chains that they have left since this metaserver leads, and the number of the last note.
#[derive(Default)]
pub(super) struct LeftBehind(Mutex<Notes>);

#[derive(Default)]
struct Notes {
    count: u64,
    targets: BTreeMap<TargetId, u64>,
}

impl LeftBehind {
    pub(super) fn note(&self, targets: impl IntoIterator<Item = TargetId>) {
        let mut notes = self.0.lock();
        for target in targets {
            notes.count += 1;
            let number = notes.count;
            notes.targets.insert(target, number);
        }
    }

    /// Forgets a target, unless it was noted again after the note with this number.
    fn forget(&self, target: TargetId, number: u64) {
        let mut notes = self.0.lock();
        if notes.targets.get(&target) == Some(&number) {
            notes.targets.remove(&target);
        }
    }

    pub(super) fn targets(&self) -> BTreeMap<TargetId, u64> {
        self.0.lock().targets.clone()
    }

    fn clear(&self) {
        self.0.lock().targets.clear();
    }
}

impl Cluster {
    /// Notes the targets that have left chains by these steps. Only now: what is looked for before the change is
    /// not found.
    pub(super) fn note_left_behind(&self, steps: &[ChainChange]) {
        let left = steps.iter().filter_map(|change| match change.step {
            ChainStep::Drop(target) | ChainStep::Replace(target, _) => Some(target),
            _ => None,
        });
        self.chains.left_behind.note(left);
    }

    /// Targets with objects of chains that they have left, and that leave no other chain now, each with a number for
    /// [`Cluster::forget_left_behind`].
    #[must_use]
    pub fn left_behind(&self) -> Vec<(TargetId, u64)> {
        if !self.group.replica.leads() {
            self.chains.left_behind.clear(); // the next orphan scan finds them
            return Vec::new();
        }
        let chains = self.chains();
        let moving = chains.values().filter(|chain| !chain.is_of_one_for_now());
        let leaving: BTreeSet<TargetId> = moving.filter_map(|chain| chain.leaving).collect();
        self.chains
            .left_behind
            .targets()
            .into_iter()
            .filter(|(target, _)| !leaving.contains(target))
            .collect()
    }

    /// Notes that the objects of chains that the target had left are removed, or that it is lost. What it has left
    /// since it was asked for counts on.
    pub fn forget_left_behind(&self, (target, number): (TargetId, u64)) {
        self.chains.left_behind.forget(target, number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_behind_meanwhile_is_not_forgotten() {
        let (left, [one, other]) = (LeftBehind::default(), [1, 2].map(TargetId));
        left.note([one, other]);
        let asked = left.targets();
        left.note([one]);
        asked.into_iter().for_each(|(target, number)| left.forget(target, number));
        assert_eq!(left.targets().into_keys().collect::<Vec<_>>(), [one]);
        left.targets().into_iter().for_each(|(target, number)| left.forget(target, number));
        assert!(left.targets().is_empty());
    }
}
