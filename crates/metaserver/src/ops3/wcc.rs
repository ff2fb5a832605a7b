//! Weak cache consistency data: an object's attributes before and after an operation (RFC 1813, section 2.6).
//!
//! A client whose cache agrees with "before" keeps it, for nobody but the operation came in between. "Before"
//! is read in a view, and the change is made later, so it is only told when the change attribute shows that
//! nothing was in between: told wrongly, it would hide another client's change for ever.

use namespace::{Change, Inode, InodeId, read};
use wire::nfs3::{WccAttr, WccData};

use crate::Metaserver;
use crate::attributes::nfs3::wcc_attr;

/// What an object was before the operation; nothing until it was found.
#[derive(Default)]
pub(crate) struct Wcc(Option<Before>);

struct Before {
    id: InodeId,
    change: u64,
    attributes: WccAttr,
}

impl Wcc {
    /// Notes the object as it is before the operation.
    pub(crate) fn before(&mut self, inode: &Inode) {
        self.0 = Some(Before { id: inode.id, change: inode.change, attributes: wcc_attr(inode) });
    }

    /// After an operation that reported how the change attribute moved.
    pub(crate) fn after(&self, server: &Metaserver, change: Change) -> WccData {
        let Some(before) = &self.0 else { return WccData::default() };
        let now = server.machine.view().ok().and_then(|view| read::inode(&*view, before.id).ok()?);
        let alone = change.before == before.change && now.as_ref().is_some_and(|n| n.change == change.after);
        let after = now.and_then(|now| server.attributes.told3(&now));
        WccData { before: Some(before.attributes).filter(|_| alone && after.is_some()), after }
    }

    /// After an operation that returned the object as it left it.
    pub(crate) fn left(&self, server: &Metaserver, after: &Inode) -> WccData {
        // One command moves the attribute by one, none leaves it.
        let alone = |before: &&Before| after.change.wrapping_sub(before.change) <= 1;
        let before = self.0.as_ref().filter(alone).map(|before| before.attributes);
        let after = server.attributes.told3(after);
        WccData { before: before.filter(|_| after.is_some()), after }
    }

    /// After an operation that changed nothing: it failed, or was a COMMIT.
    pub(crate) fn unchanged(&self, server: &Metaserver) -> WccData {
        let change = self.0.as_ref().map_or(0, |before| before.change);
        self.after(server, Change { before: change, after: change })
    }
}
