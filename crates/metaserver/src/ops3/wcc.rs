//! Weak cache consistency data: an object's attributes before and after an operation (RFC 1813, section 2.6).
//!
//! A client whose cache agrees with "before" keeps it, since no other operation came in between. "Before" is
//! read in a view, and the change is made later. So "before" is sent only if the change attribute shows that
//! no change was in between: otherwise it would hide another client's change for ever.

use namespace::{Change, Inode, InodeId, read};
use wire::nfs3::{WccAttr, WccData};

use crate::Metaserver;
use crate::attributes::nfs3::wcc_attr;

/// Attributes of an object before the operation; none until the object was found.
#[derive(Default)]
pub(crate) struct Wcc(Option<Before>);

struct Before {
    id: InodeId,
    change: u64,
    attributes: WccAttr,
}

impl Wcc {
    /// Notes the object's attributes before the operation.
    pub(crate) fn before(&mut self, inode: &Inode) {
        self.0 = Some(Before { id: inode.id, change: inode.change, attributes: wcc_attr(inode) });
    }

    /// Returns the data after an operation that reported the change of the change attribute.
    pub(crate) fn after(&self, server: &Metaserver, change: Change) -> WccData {
        let Some(before) = &self.0 else { return WccData::default() };
        let now = server.machine.view().ok().and_then(|view| read::inode(&*view, before.id).ok()?);
        let alone = change.before == before.change && now.as_ref().is_some_and(|n| n.change == change.after);
        let after = now.and_then(|now| server.attributes.told3(&now));
        WccData { before: Some(before.attributes).filter(|_| alone && after.is_some()), after }
    }

    /// Returns the data after an operation that returned the resulting inode.
    pub(crate) fn left(&self, server: &Metaserver, after: &Inode) -> WccData {
        // One command adds one to the change attribute; without a change it stays.
        let alone = |before: &&Before| after.change.wrapping_sub(before.change) <= 1;
        let before = self.0.as_ref().filter(alone).map(|before| before.attributes);
        let after = server.attributes.told3(after);
        WccData { before: before.filter(|_| after.is_some()), after }
    }

    /// Returns the data after an operation without a change: it failed, or was a COMMIT.
    pub(crate) fn unchanged(&self, server: &Metaserver) -> WccData {
        let change = self.0.as_ref().map_or(0, |before| before.change);
        self.after(server, Change { before: change, after: change })
    }
}
