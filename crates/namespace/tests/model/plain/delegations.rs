//! The model's delegations.

use namespace::*;

use super::states::PlainLayout;
use super::{Outcome, Plain};

#[derive(Debug, Clone)]
pub struct PlainDelegation {
    pub client: ClientId,
    pub inode: InodeId,
    pub kind: DelegationKind,
}

impl PlainDelegation {
    pub fn is_revoked(&self) -> bool {
        self.kind == DelegationKind::Revoked
    }
}

impl Plain {
    /// The delegation that a client can use.
    fn delegation_of(&self, client: ClientId, inode: InodeId) -> Option<StateId> {
        let is =
            |state: &PlainDelegation| !state.is_revoked() && state.client == client && state.inode == inode;
        self.delegations.iter().find(|(_, state)| is(state)).map(|(id, _)| *id)
    }

    pub fn is_delegated(&self, inode: InodeId) -> bool {
        self.delegations.values().any(|state| !state.is_revoked() && state.inode == inode)
    }

    /// The client that may write later than it closes.
    pub fn writer(&self, inode: InodeId) -> Option<ClientId> {
        let is = |state: &&PlainDelegation| state.kind == DelegationKind::Write && state.inode == inode;
        self.delegations.values().find(is).map(|state| state.client)
    }

    /// Whether somebody else has a delegation.
    pub(super) fn is_delegated_to_another(&self, inode: InodeId, than: Option<ClientId>) -> bool {
        let others = |state: &&PlainDelegation| !state.is_revoked() && Some(state.client) != than;
        self.delegations.values().filter(others).any(|state| state.inode == inode)
    }

    /// What an OPEN of a file that is open now gets along with it; `made`: it is new.
    pub(super) fn delegate(&mut self, inode: InodeId, open: &Open, made: bool) -> Option<Stateid> {
        let writes = |access: Share| access.0 & 2 != 0;
        let written = self.opens.values().any(|other| other.inode == inode && writes(other.access()));
        let unread = self.opens.values().any(|other| other.inode == inode && other.deny().0 & 1 != 0);
        let through_layout =
            self.layouts.values().any(|layout| layout.inode == inode && layout.mode == IoMode::ReadWrite);
        let named = self.inode(inode).links > 0;
        let known = self.delegation_of(open.client, inode).is_some();
        let put_off = self.contended.contains(&inode) || self.pending_fence(inode);
        if !open.delegate || !named || known || put_off {
            return None;
        }
        let kind = match open.access {
            Share::READ if written || unread || through_layout => return None,
            Share::READ => DelegationKind::Read,
            _ if self.may_write_later(inode, open, made) => DelegationKind::Write,
            _ => return None,
        };
        let id = self.new_state();
        self.delegations.insert(id, PlainDelegation { client: open.client, inode, kind });
        Some(Stateid { sequence: 1, id })
    }

    /// An OPEN, and without it if it was the owner's first and brought a delegation.
    pub(super) fn open_or_delegate(&mut self, open: &Open) -> Outcome {
        let (known, next, clients) = (self.opens.clone(), self.next_state, self.clients.len());
        let truncates = match &open.target {
            OpenTarget::Create { create, truncate: true } if create.exists == Exists::Take => {
                self.find(create.dir, &create.name).is_some()
            }
            _ => false,
        };
        let mut reply = self.open(open, None)?;
        let makes_way = self.clients.len() < clients;
        if let Reply::Opened { stateid, delegation: Some(delegation), .. } = &mut reply
            && !truncates
            && open.deny == Share::NONE
            && !makes_way
            && !known.contains_key(&stateid.id)
            && self.opens.remove(&stateid.id).is_some()
        {
            // As if the open had never had an id.
            let held = self.delegations.remove(&delegation.id).expect("it is granted");
            delegation.id = StateId(next);
            self.delegations.insert(delegation.id, held);
            self.next_state = next + 1;
            *stateid = *delegation;
        }
        Ok(reply)
    }

    fn may_write_later(&self, inode: InodeId, open: &Open, made: bool) -> bool {
        let opens = self.opens.values().filter(|other| other.inode == inode).count();
        let laid_out = self.layouts.values().any(|layout| layout.inode == inode);
        let found_by_creation = !made && matches!(open.target, OpenTarget::Create { .. });
        let quiet_until = self.histories.get(&inode.volume()).map(|history| history.quiet_until);
        opens == 1
            && !laid_out
            && !self.is_delegated(inode)
            && !found_by_creation
            && open.deny == Share::NONE
            && quiet_until.is_none_or(|until| self.now >= until)
            && self.room(inode, self.now) >= 1 << 30
    }

    pub(super) fn delegation_return(&mut self, client: ClientId, stateid: Stateid) -> Outcome {
        let known = self.delegations.get(&stateid.id).filter(|state| state.client == client);
        let revoked = known.ok_or(Error::BadStateid)?.is_revoked();
        Self::current(stateid, 1)?;
        if revoked {
            return Err(Error::DelegationRevoked);
        }
        self.end_delegation(stateid.id);
        Ok(Reply::Done)
    }

    pub(super) fn delegations_return(&mut self, returned: &[(ClientId, Stateid)]) -> Outcome {
        for (client, stateid) in returned {
            let held = self.delegations.get(&stateid.id).filter(|held| held.client == *client);
            let Some(held) = held.filter(|held| !held.is_revoked()) else { continue };
            let inode = held.inode;
            let open = self.opens.values().any(|open| open.client == *client && open.inode == inode);
            if open || self.layout_at(*client, inode).is_none() {
                self.end_delegation(stateid.id);
            }
        }
        Ok(Reply::Done)
    }

    pub(super) fn delegation_revoke(&mut self, client: ClientId, id: StateId) -> Outcome {
        let held = self.delegations.get(&id).filter(|held| held.client == client && !held.is_revoked());
        if let Some(PlainDelegation { inode, kind, .. }) = held.cloned() {
            self.delegations.remove(&id);
            let layout = match kind {
                DelegationKind::Write => self.layout_at(client, inode),
                _ => self.layout_without_open(client, inode),
            };
            if let Some(layout) = layout {
                self.lose_layout(layout);
            }
            self.collect();
            self.delegations.insert(id, PlainDelegation { client, inode, kind: DelegationKind::Revoked });
        }
        Ok(Reply::Done)
    }

    pub(super) fn end_delegation(&mut self, id: StateId) {
        let ended = self.delegations.remove(&id).expect("it was there");
        let PlainDelegation { client, inode, .. } = ended;
        if !ended.is_revoked() {
            if let Some(layout) = self.layout_without_open(client, inode) {
                self.layouts.remove(&layout);
            }
            self.collect();
        }
    }

    /// A layout stays as long as its client has the file open, or may open it without asking.
    pub(super) fn layout_without_open(&self, client: ClientId, inode: InodeId) -> Option<StateId> {
        let open = self.opens.values().any(|open| open.client == client && open.inode == inode);
        if open || self.delegation_of(client, inode).is_some() {
            return None;
        }
        self.layout_at(client, inode)
    }

    fn layout_at(&self, client: ClientId, inode: InodeId) -> Option<StateId> {
        let is = |layout: &PlainLayout| layout.client == client && layout.inode == inode;
        self.layouts.iter().find(|(_, layout)| is(layout)).map(|(id, _)| *id)
    }
}
