//! Session of each metaserver's process, for commands without a client's session or a call of NFSv3. A
//! command whose leader was lost on the way is proposed again, and gets the reply in its slot.
//!
//! ```text
//! 19 member        -> the incarnation of its process that has the session
//! 1a member slot   -> the sequence of the slot's last command, and its reply
//! ```
//!
//! A process uses a slot again only after an answer, or when no task waits for one any more. A new process of
//! a member replaces the one before: pending commands of the earlier process are too late, and are not
//! applied.

use std::ops::ControlFlow;

use store::{StoreError, View};

use crate::plan::{Plan, Stop};
use crate::record::{ServerRecord, ServerSlot, get};
use crate::{Error, MemberRequest, Node, NodeKey, NodeState, Reply, SERVERS_MAX, keys, read, slot};

/// Reply to a command that was answered before, or is too late; none: the command is new.
pub(crate) fn replay(view: &dyn View, request: &MemberRequest) -> Result<Option<Reply>, StoreError> {
    let refused = |error| Ok(Some(Reply::Refused(error)));
    match get::<ServerRecord>(view, &keys::server(request.member))? {
        Some(server) if server.life == request.life => {}
        Some(_) | None => return refused(Error::ServerGone),
    }
    match get::<ServerSlot>(view, &keys::server_slot(request.member, request.slot))? {
        Some(slot) if slot.sequence == request.sequence => Ok(Some(slot.reply)),
        Some(slot) if slot.sequence > request.sequence => refused(Error::Misordered),
        Some(_) | None => Ok(None),
    }
}

/// Reply to the command with this request id, if the slot still has it.
pub(crate) fn reply(view: &dyn View, request: &MemberRequest) -> Result<Option<Reply>, StoreError> {
    let server = get::<ServerRecord>(view, &keys::server(request.member))?;
    let slot = get::<ServerSlot>(view, &keys::server_slot(request.member, request.slot))?;
    let slot = slot.filter(|slot| slot.sequence == request.sequence);
    Ok(slot.filter(|_| server.is_some_and(|server| server.life == request.life)).map(|slot| slot.reply))
}

/// Records a reply, in place of the one before.
pub(crate) fn remember(
    plan: &mut Plan<'_>,
    request: &MemberRequest,
    reply: &Reply,
) -> Result<(), StoreError> {
    let key = keys::server_slot(request.member, request.slot);
    let slot = ServerSlot { sequence: request.sequence, reply: reply.clone() };
    plan.put(&key, &slot)
}

/// Begins the session of a process; a repetition has no effect.
pub(crate) fn start(plan: &mut Plan<'_>, member: u64) -> Result<Reply, Stop> {
    let nonce = plan.random();
    let before: Option<ServerRecord> = get(plan.view(), &keys::server(member))?;
    if let Some(known) = before.filter(|known| known.nonce == nonce) {
        return Ok(Reply::Started { life: known.life });
    }
    let all = all(plan.view())?;
    let life = all.iter().map(|(_, server)| server.life).max().unwrap_or(0) + 1;
    if before.is_some() {
        forget(plan, member)?;
    } else if all.len() >= SERVERS_MAX {
        forget_one(plan, &all)?;
    }
    plan.put(&keys::server(member), &ServerRecord { life, nonce })?;
    Ok(Reply::Started { life })
}

/// Removes the session of one member: first a member that is not in the cluster map, otherwise the one with
/// the oldest session. If its process still runs, it has to begin a session again.
fn forget_one(plan: &mut Plan<'_>, all: &[(u64, ServerRecord)]) -> Result<(), StoreError> {
    let mut first = None;
    for (member, server) in all {
        let node: Option<Node> = get(plan.view(), &keys::node(NodeKey::Metaserver(*member)))?;
        let belongs = node.is_some_and(|node| node.state != NodeState::Removed);
        let order = (belongs, server.life, *member);
        first = Some(first.map_or(order, |first| order.min(first)));
    }
    first.map_or(Ok(()), |(.., member)| forget(plan, member))
}

fn all(view: &dyn View) -> Result<Vec<(u64, ServerRecord)>, StoreError> {
    let mut members = Vec::new();
    read::scan_keys(view, &[keys::SERVERS], |key| {
        members.push(keys::number(key, 1));
        ControlFlow::Continue(())
    })?;
    let record =
        |member| get(view, &keys::server(member)).map(|server| server.map(|server| (member, server)));
    members.into_iter().filter_map(|member| record(member).transpose()).collect()
}

fn forget(plan: &mut Plan<'_>, member: u64) -> Result<(), StoreError> {
    for key in slot::keys_under(plan.view(), &keys::server_slots(member))? {
        plan.delete(&key);
    }
    plan.delete(&keys::server(member));
    Ok(())
}
