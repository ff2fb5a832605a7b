//! Leaving: a member that lacks data of its chain stops to serve the chain, and reports that. The leader takes the
//! member out, and back as one that is refilled.
//!
//! ```text
//! member finds a loss ─▶ serves the chain no more ─▶ REGISTER: left ─▶ Leave ─▶ Return ─▶ refilled ─▶ In
//! ```
//!
//! The leader need not wait for the end of the member's lease, since the member stops before it reports. Only a
//! member beside which another one is in leaves; the last one serves what it has. A later version of the chain
//! ends the leaving, whatever the version says. A leaving member still carries on changes that are forwarded to
//! it, and acknowledges none of its own.

use std::sync::Arc;
use std::time::Duration;

use wire::cluster::register::LeftChain;
use wire::data::{Procedure, Status, TargetCondition, TargetSpace, block};
use wire::handle::{Holder, ObjectHandle};

use super::table::{Chain, Member};
use super::{Chains, Trouble};
use crate::found::Found;
use crate::objects::ObjectError;
use crate::peers::Use;
use crate::target::Target;
use crate::targets::Targets;

/// Time limit of another member's answer whether it has an object.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(2);

impl Chains {
    /// Chains that members here have left, for the registration. Each is reported until it has a later version.
    pub(crate) fn left_chains(&self) -> Vec<LeftChain> {
        let left = self.table.left().into_iter();
        left.map(|(chain, version, target)| LeftChain { chain, version, target }).collect()
    }

    /// Leaves the chain of `found`, whose member here lacks a change or an object. False: this member is the last
    /// one that is in.
    pub(super) fn leave(&self, found: &Found, why: ObjectError) -> bool {
        let chain = found.handle.chain;
        // Before it can be reported.
        found.target.chain_records().clear_was_in(|id| id == chain);
        let leaves = self.table.leave(chain, found.handle.target);
        if leaves && !found.target.objects().lost() {
            let target = Arc::clone(&found.target);
            found.target.blocking().begin(move || target.chain_records().write_down());
        }
        if leaves && self.may_warn() {
            tracing::error!(
                target = %found.target.path().display(), object = %found.object.name,
                chain = %format!("{:016x}", found.handle.chain), %why,
                "a member of a chain lacks data that the others have: it leaves the chain and is refilled. Was something \
                 removed below this directory? Check its disk (dmesg, smartctl)"
            );
        }
        leaves
    }

    /// True if the member here is being refilled: it leaves instead of refusing a change for want of room, so that
    /// the others go on.
    pub(super) fn is_refilled_here(&self, found: &Found) -> bool {
        let chain = self.table.get(found.handle.chain);
        let member = chain.as_ref().and_then(|chain| chain.member(found.handle.target));
        member.is_some_and(|member| member.is_refilling)
    }

    /// The answer to an error of a read here. An I/O error that no other member's bytes could mend is of the disk:
    /// if another member is in, this target fails.
    pub(super) fn read_failure(&self, found: &Found, error: ObjectError) -> Trouble {
        match error {
            ObjectError::Io if self.has_other_in(found) => self.own_failure(found, error),
            _ => error.into(),
        }
    }

    /// True if another member is in.
    pub(super) fn has_other_in(&self, found: &Found) -> bool {
        let chain = self.table.get(found.handle.chain);
        chain.is_some_and(|chain| chain.others(found.handle.target).any(|other| !other.is_refilling))
    }

    /// True if the target is still a member of the chain, by the latest known version.
    pub(super) fn is_member(&self, found: &Found) -> bool {
        let chain = self.table.get(found.handle.chain);
        chain.is_some_and(|chain| chain.member(found.handle.target).is_some())
    }

    /// True if the chain has no other member that takes part in changes.
    pub(super) fn is_alone(&self, found: &Found) -> bool {
        let chain = self.table.get(found.handle.chain);
        chain.is_some_and(|chain| chain.others(found.handle.target).next().is_none())
    }

    /// True if the other members of the chain are all being refilled.
    pub(super) fn has_only_refilled(&self, found: &Found) -> bool {
        let chain = self.table.get(found.handle.chain);
        chain.is_some_and(|chain| {
            let mut others = chain.others(found.handle.target).peekable();
            others.peek().is_some() && others.all(|member| member.is_refilling)
        })
    }

    /// All members of targets in a condition in which the leader takes them out leave their chains: the leader
    /// learns of the condition afterwards, and waits for no lease.
    pub(crate) fn leave_by_condition(&self, targets: &Targets, space: &[TargetSpace]) {
        for of in space {
            match of.condition {
                TargetCondition::Ok | TargetCondition::Full | TargetCondition::Damaged => {}
                TargetCondition::ReadOnly | TargetCondition::Failed | TargetCondition::Missing => {
                    // What such a disk has kept is not known.
                    if let Some(target) = targets.get(of.target) {
                        targets.suspect().note(of.target);
                        target.chain_records().clear_was_in(|_| true);
                    }
                    self.table.leave_all(of.target);
                }
            }
        }
    }

    /// The answer to a call for an object that is not there. If another member that is in has the object, this
    /// one leaves the chain.
    pub(super) async fn lost(&self, found: &Found) -> Trouble {
        let Some(chain) = self.table.get(found.handle.chain) else { return Status::ChainWaits.into() };
        let mut all_answered = true;
        for other in chain.others(found.handle.target).filter(|other| !other.is_refilling) {
            match self.has_object(found, &chain, other).await {
                Some(true) if self.leave(found, ObjectError::Lost) => return Status::ChainWaits.into(),
                Some(_) => {}
                None => all_answered = false,
            }
        }
        if all_answered { ObjectError::Lost.into() } else { Status::ChainWaits.into() }
    }

    /// True if the member has the object, damaged or not; none: it does not answer, or the chain has changed.
    async fn has_object(&self, found: &Found, chain: &Chain, member: &Member) -> Option<bool> {
        let handle = ObjectHandle { target: member.target, chain_version: chain.version, ..found.handle };
        let args = block::Args { handle: handle.seal_for(Holder::Server, &self.key), block: 0 };
        let peer = self.peers.get(member.address, Use::Fetch);
        let answer: Result<block::Res, _> = peer.call(Procedure::Block as u32, &args, ANSWER_TIME_MAX).await;
        match answer.ok()? {
            Ok(_) | Err(Status::Damaged) => Some(true),
            Err(Status::ObjectLost | Status::Stale) => Some(false),
            Err(_) => None,
        }
    }

    /// Has objects with copies filled again whose files were removed below this server while they were open.
    pub(crate) async fn find_lost_objects(&self, target: &Arc<Target>) {
        let Ok(lost) = target.run(|o| o.close_lost_objects()).await else { return };
        for (name, mark) in lost {
            tracing::error!(
                target = %target.path().display(), object = %name,
                "an object in use is missing from the storage target. Was something removed below this directory?"
            );
            if let Some(found) = Found::own(target, name, mark) {
                self.lost(&found).await;
            }
        }
    }
}
