//! Open chains: of one target, for columns that exist there without copies.
//!
//! ```text
//! column on a target alone ── Relocate ──▶ on an open chain of that target     nothing is copied
//! open chain ── Close ──▶ takes no more columns ── all objects know of it, Closed ──▶ gets its other members
//! ```
//!
//! A column with data changes its chain only within its target, and only to an open chain. At the other members of
//! another chain its object would be missing.

use serde::{Deserialize, Serialize};

use super::{
    CHAINS_MAX, CHAINS_OF_COMMAND_MAX, COPIES_MAX, Chain, ChainId, ChainMember, MemberState, server_of,
};
use crate::plan::{Plan, Stop};
use crate::record::get;
use crate::{DataServerId, Device, Error, FileLayout, Reply, TargetId, cluster_map, keys, pools};

/// A new open chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenChain {
    /// Its random id.
    pub id: ChainId,
    /// Its only target.
    pub target: TargetId,
    /// Copies that its columns get when it has been closed; 1: it may move to another target then.
    pub copies: u8,
}

/// In the place of the leaving member of a chain that is being closed. No target has this id.
pub(super) const CLOSING: TargetId = TargetId(0);

impl Chain {
    /// True if columns that exist on its only target can be put on it.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self.members[..], [ChainMember { target, .. }] if self.leaving == Some(target))
    }

    /// True if it is closed, and has not got its other members.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.is_of_one_for_now() && !self.is_open()
    }

    /// True if it is open, or closed while an object on it may not know of it: it gets no other member.
    #[must_use]
    pub fn is_of_one_for_now(&self) -> bool {
        self.members.len() == 1 && self.leaving.is_some()
    }
}

/// Makes open chains.
pub(crate) fn make(plan: &mut Plan<'_>, chains: &[OpenChain]) -> Result<Reply, Stop> {
    let mut head = cluster_map::head(plan.view())?;
    if chains.len() > CHAINS_OF_COMMAND_MAX || head.chains as usize + chains.len() > CHAINS_MAX as usize {
        return Err(Error::Invalid.into());
    }
    for OpenChain { id, target, copies } in chains {
        let is_taken = get::<Chain>(plan.view(), &keys::chain(*id))?.is_some()
            || get::<DataServerId>(plan.view(), &keys::target(TargetId(id.0)))?.is_some();
        if is_taken || !(1..=COPIES_MAX).contains(&usize::from(*copies)) {
            return Err(Error::Invalid.into());
        }
        let server = server_of(plan.view(), *target)?.ok_or(Error::NoDevice)?;
        let (state, since) = (MemberState::In, plan.now());
        let members = vec![ChainMember { target: *target, state, process: server.process, since }];
        let (verifier, leaving) = (plan.random(), Some(*target));
        let pool = pools::pool_of(plan.view(), *target)?;
        let chain = Chain { id: *id, version: 1, verifier, copies: *copies, members, leaving, pool };
        plan.put(&keys::chain(*id), &chain)?;
        plan.mark(&keys::chain_of_target(*target, *id));
        head.chains += 1;
    }
    head.version += u64::from(!chains.is_empty());
    plan.put(&keys::map_head(), &head)?;
    Ok(Reply::Done)
}

/// The chain after [`super::ChainStep::Close`]; none: it is not open.
pub(super) fn close(chain: Chain) -> Option<Chain> {
    chain.is_open().then_some(Chain { leaving: Some(CLOSING), ..chain })
}

/// The chain after [`super::ChainStep::Closed`]; none: it is not being closed.
pub(super) fn closed(chain: Chain) -> Option<Chain> {
    chain.is_closing().then_some(Chain { leaving: None, ..chain })
}

/// The chain after [`super::ChainStep::Copies`]; none: it is not to have more than it has, or too many.
pub(super) fn with_copies(chain: Chain, copies: u8) -> Option<Chain> {
    let is_more = copies > chain.copies && usize::from(copies) <= COPIES_MAX;
    // With one place more, no member has to leave.
    (is_more && !chain.is_of_one_for_now()).then_some(Chain { copies, leaving: None, ..chain })
}

/// Checks that each column which stays on its target, and is on a chain from now on, is put on an open one.
///
/// # Errors
/// `Delay` if the chain was closed meanwhile.
pub(crate) fn check_chains(plan: &Plan<'_>, from: FileLayout, to: FileLayout) -> Result<(), Stop> {
    let device = |layout: FileLayout| get::<Device>(plan.view(), &keys::device(layout.device));
    let (Some(before), Some(after)) = (device(from)?, device(to)?) else { return Ok(()) };
    for column in 0..from.columns {
        let (Some(was), Some(is)) = (from.chain(&before.chains, column), to.chain(&after.chains, column))
        else {
            continue;
        };
        let put_on = if was == is { None } else { get::<Chain>(plan.view(), &keys::chain(is))? };
        if put_on.is_some_and(|chain| chain.has(TargetId(was.0)) && !chain.is_open()) {
            return Err(Error::Delay.into());
        }
    }
    Ok(())
}
