//! LIST: lists the objects of a target, in pages.

use super::Status;
use crate::xdr_struct;

xdr_struct! {
    /// Position in the list: the name of an object.
    #[derive(Copy, Hash, PartialOrd, Ord)]
    pub struct ObjectName {
        /// Inode.
        pub inode: u64,
        /// Column.
        pub column: u32,
    }

    /// One object.
    #[derive(Copy, Hash)]
    pub struct ObjectEntry {
        /// Volume.
        pub volume: u32,
        /// Inode of the volume.
        pub inode: u64,
        /// Generation of the inode.
        pub generation: u32,
        /// Column of the file, from 0.
        pub column: u32,
    }

    /// The arguments.
    #[derive(Copy)]
    pub struct Args {
        /// The target.
        pub target: u64,
        /// Last object of the previous page; `None` for the first page.
        pub after: Option<ObjectName>,
        /// Maximal number of objects; the server may return fewer.
        pub max: u32,
        /// Only objects of this chain; 0: all.
        pub chain: u64,
    }

    /// The results.
    pub struct ResOk {
        /// Objects, in order.
        pub objects: Vec<ObjectEntry>,
        /// True if the list ends here.
        pub done: bool,
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;

impl ResOk {
    /// Position of the next page; `None` after the last.
    #[must_use]
    pub fn next(&self) -> Option<ObjectName> {
        let last = self.objects.last().filter(|_| !self.done)?;
        Some(ObjectName { inode: last.inode, column: last.column })
    }
}
