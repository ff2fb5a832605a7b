//! LIST: names the objects of a target, a page at a time.

use super::Status;
use crate::xdr_struct;

xdr_struct! {
    /// Where a page of the list ends.
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
        /// The last object of the page before; `None` for the first page.
        pub after: Option<ObjectName>,
        /// Objects wanted at most; the server may return fewer.
        pub max: u32,
    }

    /// The results.
    pub struct ResOk {
        /// Objects, in order.
        pub objects: Vec<ObjectEntry>,
        /// Whether there are no more after these.
        pub done: bool,
    }
}

/// How it ended.
pub type Res = Result<ResOk, Status>;

impl ResOk {
    /// Where the next page begins; `None` after the last.
    #[must_use]
    pub fn next(&self) -> Option<ObjectName> {
        let last = self.objects.last().filter(|_| !self.done)?;
        Some(ObjectName { inode: last.inode, column: last.column })
    }
}
