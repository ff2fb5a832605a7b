//! An object that a handle names, or the reason why it names none here.

use std::sync::Arc;

use wire::handle::{FileHandle, Holder, ObjectHandle};

use crate::epoch::{Mark, ObjectRef};
use crate::object::ObjectName;
use crate::target::Target;

/// Reason why a handle names no object here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BadHandle {
    /// Not minted with this cluster's key, or not the handle of an object.
    Forged,
    /// The target is not here.
    Elsewhere,
    /// Another incarnation of the metaservers minted the handle, not the one that the target obeys.
    OtherIncarnation,
    /// The target was absent at the start of the data server.
    Absent,
}

/// An object that a handle names.
#[derive(Clone)]
pub(crate) struct Found {
    pub target: Arc<Target>,
    pub object: ObjectRef,
    pub handle: ObjectHandle,
    /// Holder of the handle.
    pub holder: Holder,
}

impl Found {
    /// An object with copies here, for the server's own work; none: it has no copies.
    pub(crate) fn own(target: &Arc<Target>, name: ObjectName, mark: Mark) -> Option<Self> {
        let incarnation = target.incarnation().filter(|_| mark.chain != 0)?;
        let handle = ObjectHandle {
            file: FileHandle { volume: name.volume, inode: name.inode, generation: name.generation },
            column: name.column,
            target: target.id(),
            unit: 0,
            columns: 1,
            incarnation,
            epoch: mark.epoch,
            layout_epoch: mark.layout_epoch,
            chain: mark.chain,
            chain_version: 0,
        };
        let object = ObjectRef::new(&handle, Holder::Server);
        Some(Self { target: Arc::clone(target), object, handle, holder: Holder::Server })
    }
}
