//! DIRTY_REGIONS: what a member of a chain may have otherwise than the others, for the head that refills it. In pages.

use super::{ObjectEntry, Status};
use crate::xdr_struct;

xdr_struct! {
    /// The arguments.
    #[derive(Copy)]
    pub struct Args {
        /// The member's target.
        pub target: u64,
        /// The chain.
        pub chain: u64,
        /// Its version: the member answers when it has heard of it.
        pub version: u32,
        /// Latest version in which the member was in, as far as the head knows.
        pub since: u32,
        /// Last object of the previous page; `None` for the first page.
        pub after: Option<ObjectEntry>,
    }

    /// Bytes of an object.
    #[derive(Copy)]
    pub struct Extent {
        /// Offset in the object.
        pub offset: u64,
        /// Number of bytes.
        pub len: u64,
    }

    /// An object of which something may be otherwise: at least its length, its epochs, or that it is there.
    pub struct DirtyObject {
        /// The object.
        pub object: ObjectEntry,
        /// Bytes that may be otherwise.
        pub extents: Vec<Extent>,
    }

    /// The results. The list is complete if the member was in in the version `since` or a later one, and has kept its
    /// data since.
    pub struct ResOk {
        /// True if the list is complete; false: anything may be otherwise.
        pub is_known: bool,
        /// Objects, in the order of LIST.
        pub objects: Vec<DirtyObject>,
        /// True if the list ends here.
        pub done: bool,
        /// Data servers that refill targets of this one now: each takes its part of what clients leave.
        pub heads: u32,
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
