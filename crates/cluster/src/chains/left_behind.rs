//! Objects of chains that a target has left: the leader has them removed soon, and not by the next orphan scan,
//! so that their room is free.

use std::collections::BTreeSet;

use namespace::{ChainChange, ChainStep, TargetId};

use crate::cluster::Cluster;

impl Cluster {
    /// Notes the targets that leave chains by these steps.
    pub(super) fn note_left_behind(&self, steps: &[ChainChange]) {
        let left = steps.iter().filter_map(|change| match change.step {
            ChainStep::Drop(target) | ChainStep::Replace(target, _) => Some(target),
            _ => None,
        });
        self.chains.left_behind.lock().extend(left);
    }

    /// Targets with objects of chains that they have left, and that leave no other chain now.
    #[must_use]
    pub fn left_behind(&self) -> Vec<TargetId> {
        if !self.group.replica.leads() {
            self.chains.left_behind.lock().clear(); // the next orphan scan finds them
            return Vec::new();
        }
        let leaving: BTreeSet<TargetId> = self.chains().values().filter_map(|chain| chain.leaving).collect();
        self.chains.left_behind.lock().difference(&leaving).copied().collect()
    }

    /// Notes that the objects of chains that the target had left are removed, or that it is lost.
    pub fn forget_left_behind(&self, target: TargetId) {
        self.chains.left_behind.lock().remove(&target);
    }
}
