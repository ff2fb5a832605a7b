//! Where each member is, as this one was told last: openraft's streams keep the address that a member had when they began,
//! and a member that moved would wait for them in vain.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::types::{Member, Membership, NodeId};

/// All handles are of the same.
#[derive(Clone, Default)]
pub(crate) struct AddressBook(Arc<Mutex<BTreeMap<NodeId, Arc<Member>>>>);

impl AddressBook {
    /// The member that is meant now by this id; `known`, if nothing was said of it.
    pub(crate) fn member(&self, id: NodeId, known: &Arc<Member>) -> Arc<Member> {
        let book = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(book.get(&id).unwrap_or(known))
    }

    /// These belong to the group, as its last word says. Who was removed is forgotten.
    pub(crate) fn replace(&self, membership: &Membership) {
        let members = membership.nodes().map(|(id, member)| (*id, Arc::new(member.clone())));
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = members.collect();
    }
}
