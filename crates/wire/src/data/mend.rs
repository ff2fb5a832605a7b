//! MEND: a member of a chain asks the head to have a damaged block of its object replaced by the block of a
//! sound member. The head calls MEMBER with the bytes before it answers. The handle is that of the head's
//! object, and has the version of the chain.

use bytes::Bytes;

use super::Status;
use crate::xdr_struct;

xdr_struct! {
    /// Range of an object.
    #[derive(Copy)]
    pub struct Extent {
        /// Offset in the object, in bytes.
        pub offset: u64,
        /// Length in bytes.
        pub len: u64,
    }

    /// The arguments.
    pub struct Args {
        /// The head's object.
        pub handle: Bytes,
        /// Target of the member whose block is damaged.
        pub member: u64,
        /// Number of the block: blocks have 64 KiB.
        pub block: u64,
        /// Ranges of changes that wait at the member until the block is mended, and that the head therefore
        /// must not wait for. Their bytes do not matter: the member writes them afterwards.
        pub except: Vec<Extent>,
    }
}

/// No results, or the error status. DAMAGED: no member that is in has the block undamaged.
pub type Res = Result<(), Status>;
