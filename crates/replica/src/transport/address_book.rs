//! Address book: the last known address of each member. openraft's streams keep the address that a member had
//! when they began, and would not reach a member that moved.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::types::{Member, Membership, NodeId};

/// Address book, shared by its clones.
#[derive(Clone, Default)]
pub(crate) struct AddressBook(Arc<Mutex<BTreeMap<NodeId, Arc<Member>>>>);

impl AddressBook {
    /// The member with this id; `known` if the book has none.
    pub(crate) fn member(&self, id: NodeId, known: &Arc<Member>) -> Arc<Member> {
        let book = self.0.lock();
        Arc::clone(book.get(&id).unwrap_or(known))
    }

    /// Replaces all addresses by those of the latest membership.
    pub(crate) fn replace(&self, membership: &Membership) {
        let members = membership.nodes().map(|(id, member)| (*id, Arc::new(member.clone())));
        *self.0.lock() = members.collect();
    }
}
