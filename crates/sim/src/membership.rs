//! MembershipScenario changes during other faults: in some scenarios operators remove, demote and promote
//! members, in others machines lose their disks.

use replica::{MemberChange, NodeId};

use crate::member::Member;
use crate::rng::Rng;
use crate::shared::Shared;

/// MembershipScenario changes of a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MembershipScenario {
    /// None.
    Stays,
    /// By operators. A removed member returns with an empty disk, as a new member.
    Changes,
    /// By loss of disks, each only after recovery from the last one; machines return as new members.
    Losses,
}

impl MembershipScenario {
    /// MembershipScenario changes of a seed. Seeds that found a defect before there were such changes keep
    /// their scenarios.
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        match seed % 16 {
            0 | 1 | 6 => Self::Changes,
            8 | 9 | 14 => Self::Losses,
            _ => Self::Stays,
        }
    }

    /// Least number of members.
    #[must_use]
    pub fn members_min(self) -> u64 {
        if self == Self::Stays { 1 } else { 3 }
    }

    /// Factor for all times and for the pauses between faults: a join or removal takes one or two seconds.
    #[must_use]
    pub fn time_factor(self) -> u64 {
        if self == Self::Stays { 1 } else { 3 }
    }
}

/// Source of random membership changes.
pub struct Changes {
    rng: Rng,
    next_ms: u64,
}

impl Changes {
    /// Creates a source.
    #[must_use]
    pub fn new(rng: Rng) -> Self {
        Self { rng, next_ms: 0 }
    }

    /// Makes the changes that are due.
    pub fn apply_due(&mut self, members: &mut [Member], shared: &Shared) {
        let now_ms = shared.now_ms();
        if shared.membership == MembershipScenario::Stays || now_ms < self.next_ms {
            return;
        }
        self.next_ms = now_ms + self.rng.within(50..=1000);
        match shared.membership {
            MembershipScenario::Stays => {}
            MembershipScenario::Changes => self.change(members, shared),
            MembershipScenario::Losses => self.lose(members, shared),
        }
    }

    /// Requests a change from a running member.
    fn change(&mut self, members: &[Member], shared: &Shared) {
        let (asked, id) = (self.rng.below(members.len()), members[self.rng.below(members.len())].id);
        let change = match self.rng.below(8) {
            0..3 => MemberChange::Remove(id),
            3 => MemberChange::Demote(id),
            4..7 => MemberChange::Promote(id),
            _ => MemberChange::Lead(id),
        };
        let asked = &members[asked];
        if asked.replica().is_none() {
            return;
        }
        if let MemberChange::Remove(id) = change {
            shared.note_removal_request(id);
        }
        shared.note(|| format!("member {} is asked for {change:?}", asked.id));
        asked.spawn(move |replica| async move {
            let _ = replica.change_members(change, false).await;
        });
    }

    /// Loses a disk. A majority is at least two disks, so the next one may be lost after the recovery.
    fn lose(&mut self, members: &mut [Member], shared: &Shared) {
        if !all_is_well(members) {
            return;
        }
        let at = self.rng.below(members.len());
        let member = &mut members[at];
        shared.note(|| format!("the disk of member {} is lost", member.id));
        member.replace_disk(true);
        member.starts_at_ms = shared.now_ms() + self.rng.within(1..=1500);
        shared.net().reset(member.address);
    }
}

/// True if all members run, and agree that they are the only voters.
fn all_is_well(members: &[Member]) -> bool {
    let all: Vec<NodeId> = {
        let mut ids: Vec<NodeId> = members.iter().map(|member| member.id).collect();
        ids.sort_unstable();
        ids
    };
    all.len() >= 3
        && members.iter().all(|member| {
            let Some(status) = member.status() else { return false };
            let mut voters: Vec<NodeId> =
                status.members.iter().filter(|(.., votes)| *votes).map(|(id, ..)| *id).collect();
            voters.sort_unstable();
            voters == all && status.members.len() == all.len() && !status.changing
        })
}
