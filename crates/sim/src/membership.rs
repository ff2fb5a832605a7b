//! Who belongs to the group changes while everything else goes wrong, too: in some scenarios people remove, demote and
//! promote members, in others machines lose their disks.

use replica::{MemberChange, NodeId};

use crate::dice::Dice;
use crate::member::Member;
use crate::shared::Shared;

/// What happens to the group of a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Membership {
    /// It stays as it was made.
    Stays,
    /// People change it. Who is removed comes back with an empty disk, as a new member.
    Changes,
    /// Disks are lost, each only when all was well since the last one, and machines come back as new members.
    Losses,
}

impl Membership {
    /// Of a seed. Those that found something before there was this keep their stories.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        match seed % 16 {
            0 | 1 | 6 => Self::Changes,
            8 | 9 | 14 => Self::Losses,
            _ => Self::Stays,
        }
    }

    /// How many members there are at least.
    #[must_use]
    pub fn members_min(self) -> u64 {
        if self == Self::Stays { 1 } else { 3 }
    }

    /// By how much there is more time for everything, and between other faults: to go and to come takes a second or two.
    #[must_use]
    pub fn calmer(self) -> u64 {
        if self == Self::Stays { 1 } else { 3 }
    }
}

/// Draws what happens to it.
pub struct Changes {
    dice: Dice,
    next_ms: u64,
}

impl Changes {
    /// None yet.
    #[must_use]
    pub fn new(dice: Dice) -> Self {
        Self { dice, next_ms: 0 }
    }

    /// Does what is due now.
    pub fn strike(&mut self, members: &mut [Member], shared: &Shared) {
        let now_ms = shared.now_ms();
        if shared.membership == Membership::Stays || now_ms < self.next_ms {
            return;
        }
        self.next_ms = now_ms + self.dice.within(50..=1000);
        match shared.membership {
            Membership::Stays => {}
            Membership::Changes => self.change(members, shared),
            Membership::Losses => self.lose(members, shared),
        }
    }

    /// Asks any member that runs.
    fn change(&mut self, members: &[Member], shared: &Shared) {
        let (asked, id) = (self.dice.below(members.len()), members[self.dice.below(members.len())].id);
        let change = match self.dice.below(8) {
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
            shared.is_to_go(id);
        }
        shared.note(|| format!("member {} is asked for {change:?}", asked.id));
        asked.spawn(move |replica| async move {
            let _ = replica.change_members(change, false).await;
        });
    }

    /// What a majority has is on two disks at least, so one may be lost at a time, and the next one when that is made good.
    fn lose(&mut self, members: &mut [Member], shared: &Shared) {
        if !all_is_well(members) {
            return;
        }
        let at = self.dice.below(members.len());
        let member = &mut members[at];
        shared.note(|| format!("the disk of member {} is lost", member.id));
        member.begin_anew(true);
        member.starts_at_ms = shared.now_ms() + self.dice.within(1..=1500);
        shared.net().reset(member.address);
    }
}

/// All run, and agree that all of them vote, and nobody else.
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
