//! The model's read delegations.

use namespace::*;

use super::states::PlainLayout;
use super::{Outcome, Plain};

#[derive(Debug, Clone)]
pub struct PlainDelegation {
    pub client: ClientId,
    pub inode: InodeId,
    pub revoked: bool,
}

impl Plain {
    /// The delegation that a client can use.
    fn delegation_of(&self, client: ClientId, inode: InodeId) -> Option<StateId> {
        let is = |state: &PlainDelegation| !state.revoked && state.client == client && state.inode == inode;
        self.delegations.iter().find(|(_, state)| is(state)).map(|(id, _)| *id)
    }

    pub fn is_delegated(&self, inode: InodeId) -> bool {
        self.delegations.values().any(|state| !state.revoked && state.inode == inode)
    }

    /// Whether somebody else has a delegation.
    pub(super) fn is_delegated_to_another(&self, inode: InodeId, than: Option<ClientId>) -> bool {
        let others = |state: &&PlainDelegation| !state.revoked && Some(state.client) != than;
        self.delegations.values().filter(others).any(|state| state.inode == inode)
    }

    /// What an OPEN of a file that is open now gets along with it.
    pub(super) fn delegate(&mut self, inode: InodeId, open: &Open) -> Option<Stateid> {
        let writes = |access: Share| access.0 & 2 != 0;
        let written = self.opens.values().any(|other| other.inode == inode && writes(other.access()));
        let unread = self.opens.values().any(|other| other.inode == inode && other.deny().0 & 1 != 0);
        let through_layout =
            self.layouts.values().any(|layout| layout.inode == inode && layout.mode == IoMode::ReadWrite);
        let wanted = open.delegate && open.access == Share::READ;
        let named = self.inode(inode).links > 0;
        let known = self.delegation_of(open.client, inode).is_some();
        let put_off = self.contended.contains(&inode) || self.pending_fence(inode);
        if !wanted || !named || written || unread || through_layout || known || put_off {
            return None;
        }
        let id = self.new_state();
        self.delegations.insert(id, PlainDelegation { client: open.client, inode, revoked: false });
        Some(Stateid { sequence: 1, id })
    }

    pub(super) fn delegation_return(&mut self, client: ClientId, stateid: Stateid) -> Outcome {
        let known = self.delegations.get(&stateid.id).filter(|state| state.client == client);
        let revoked = known.ok_or(Error::BadStateid)?.revoked;
        Self::current(stateid, 1)?;
        if revoked {
            return Err(Error::DelegationRevoked);
        }
        self.end_delegation(stateid.id);
        Ok(Reply::Done)
    }

    pub(super) fn delegation_revoke(&mut self, client: ClientId, id: StateId) -> Outcome {
        let held = self.delegations.get(&id).filter(|held| held.client == client && !held.revoked);
        if let Some(inode) = held.map(|held| held.inode) {
            self.delegations.remove(&id);
            if let Some(layout) = self.layout_without_open(client, inode) {
                self.lose_layout(layout);
            }
            self.collect();
            self.delegations.insert(id, PlainDelegation { client, inode, revoked: true });
        }
        Ok(Reply::Done)
    }

    pub(super) fn end_delegation(&mut self, id: StateId) {
        let PlainDelegation { client, inode, revoked } = self.delegations.remove(&id).expect("it was there");
        if !revoked {
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
        let is = |layout: &PlainLayout| layout.client == client && layout.inode == inode;
        self.layouts.iter().find(|(_, layout)| is(layout)).map(|(id, _)| *id)
    }
}
