//! The next step of a chain, by the state of its members' data servers. A pure function.

use namespace::{Chain, ChainMember, ChainStep, MemberState, PoolId, TargetId};

/// In the place of no member.
const NO_TARGET: TargetId = TargetId(0);

/// State of a target, as the leader finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    /// Its data server has a lease, and the target is well.
    Well,
    /// As `Well`, but without room: it is no substitute, and is taken back at intervals.
    Full,
    /// As `Well`, but it or its data server drains: another target takes its place.
    Draining,
    /// Its data server may have a lease, but is not heard of, or it has not reported the target yet.
    Unsure,
    /// Its data server has no lease any more, or the target failed.
    Gone,
    /// It was declared lost, or its data server was removed.
    Lost,
}

/// What the leader knows of targets.
pub(crate) trait Targets {
    /// State of the target, as a member of this chain: one that went to another pool drains.
    fn presence(&self, chain: &Chain, target: TargetId) -> Presence;

    /// True if the target has no room, whether it drains or not.
    fn is_full(&self, target: TargetId) -> bool;

    /// The pool that this chain goes to, since its own has no targets.
    fn other_pool(&self, chain: &Chain) -> Option<PoolId>;

    /// A target to take the place of one in this chain, on a data server that has no other member of it.
    fn substitute(&self, chain: &Chain, instead_of: TargetId) -> Option<TargetId>;

    /// Data servers of the members that are in, but for this one: what one of them keeps twice is one copy.
    fn servers_in(&self, chain: &Chain, without: TargetId) -> usize;

    /// True if the member has been away for so long that another target takes its place.
    fn is_overdue(&self, member: &ChainMember) -> bool;

    /// True if the member has been away for so long that it is tried again although it is full: refilling it may
    /// need no room.
    fn may_be_tried(&self, member: &ChainMember) -> bool;
}

/// The next step of a chain; none: it stays. `recorded`: as the state machine has it; `present`: with the members
/// away whose process has changed.
pub(crate) fn next_step(recorded: &Chain, present: &Chain, targets: &dyn Targets) -> Option<ChainStep> {
    let serves = |target: TargetId| {
        matches!(targets.presence(present, target), Presence::Well | Presence::Full | Presence::Draining)
    };
    if present.head().is_none() {
        // All have the same acknowledged data. What was not synced may be gone.
        return recorded.with_state(MemberState::In).find(|target| serves(*target)).map(ChainStep::Lead);
    }
    if let Some(pool) = targets.other_pool(present) {
        return Some(ChainStep::Pool(pool));
    }
    if present.is_of_one_for_now() {
        return None; // columns are put on it
    }
    let state_now = |target| present.members.iter().find(|member| member.target == target).map(|m| m.state);
    let copies = usize::from(present.copies);
    let others_in = |target| present.with_state(MemberState::In).any(|other| other != target);
    let are_copies_elsewhere = |target| targets.servers_in(present, target) >= copies;
    // One without copies moves as a whole.
    let alone = present.members.first().filter(|_| copies == 1 && present.members.len() == 1);
    if let Some(only) = alone.filter(|only| targets.presence(present, only.target) == Presence::Draining) {
        return targets.substitute(present, only.target).map(ChainStep::Add);
    }
    let count_in = present.with_state(MemberState::In).count();
    let with_data = present.members.iter().filter(|member| member.state != MemberState::Away).count();
    for member in recorded.members.iter().filter(|member| others_in(member.target)) {
        let target = member.target;
        let presence = match targets.presence(present, target) {
            Presence::Well | Presence::Full if present.leaving == Some(target) => Presence::Draining,
            presence => presence,
        };
        match (member.state, state_now(target)?, presence) {
            // It has stopped, and others have its place.
            (_, MemberState::Away, Presence::Draining) if are_copies_elsewhere(target) => {
                return Some(ChainStep::Drop(target));
            }
            // It has left for want of room, and would again.
            (MemberState::Away, MemberState::Away, Presence::Draining) if targets.is_full(target) => {
                let is_replaced = present.members.len() <= copies && present.head().is_some_and(serves);
                if is_replaced && let Some(by) = targets.substitute(present, target) {
                    return Some(ChainStep::Replace(target, by));
                }
                if with_data < copies && targets.may_be_tried(member) {
                    return Some(ChainStep::Return(target));
                }
            }
            // Also one whose process has changed.
            (_, MemberState::Away, Presence::Well | Presence::Draining) => {
                return Some(ChainStep::Return(target));
            }
            (state, MemberState::Away, Presence::Full)
                if state != MemberState::Away || targets.may_be_tried(member) =>
            {
                return Some(ChainStep::Return(target));
            }
            // Another one has its place already, or will have it when it is refilled.
            (MemberState::Away, ..) if present.members.len() > copies && are_copies_elsewhere(target) => {
                return Some(ChainStep::Drop(target));
            }
            (MemberState::Away, ..)
                if present.members.len() > copies && with_data >= copies && with_data > count_in => {}
            (MemberState::Away, _, presence) => {
                let is_over = presence == Presence::Lost || targets.is_overdue(member);
                if is_over && let Some(by) = targets.substitute(present, target) {
                    return Some(ChainStep::Replace(target, by));
                }
            }
            (_, MemberState::Away, _) | (_, _, Presence::Gone | Presence::Lost) => {
                return Some(ChainStep::Leave(target));
            }
            (MemberState::In, MemberState::In, Presence::Draining) => {
                if are_copies_elsewhere(target) {
                    return Some(ChainStep::Drop(target));
                }
                if present.members.len() <= copies
                    && let Some(by) = targets.substitute(present, target)
                {
                    return Some(ChainStep::Add(by));
                }
            }
            (MemberState::In | MemberState::Refilling | MemberState::Doubted, ..) => {}
        }
    }
    // After a restore a chain may have fewer members. No one fills another before its head is there.
    if present.members.len() < copies
        && present.head().is_some_and(serves)
        && let Some(by) = targets.substitute(present, NO_TARGET)
    {
        return Some(ChainStep::Add(by));
    }
    // The server that drained serves again. A member that moves is the one to be dropped, once it is heard of.
    let has_surplus = count_in > copies && present.leaving.is_none();
    let surplus = present.with_state(MemberState::In).filter(|_| has_surplus);
    surplus.max_by_key(|target| targets.servers_in(present, *target)).map(ChainStep::Drop)
}

#[cfg(test)]
#[path = "step/tests.rs"]
mod tests;
