//! MEMBER: changes an object at one member of a chain, and at no other. The head of the chain calls it to refill a
//! member, to mend a block of one, and to tell all members the modification time that it reports. The handle has the
//! version of the chain.

use bytes::Bytes;

use super::Status;
use crate::xdr::Payload;
use crate::{xdr_struct, xdr_union};

xdr_struct! {
    /// Bytes of the object.
    pub struct Fill {
        /// Offset in the object, in bytes.
        pub offset: u64,
        /// CRC-32C of each piece of the bytes that lies in one block of 64 KiB of the object, in order.
        pub sums: Vec<u32>,
        /// The bytes.
        pub data: Payload,
    }

    /// Range of the object that holds zeros.
    #[derive(Copy)]
    pub struct Clear {
        /// Offset in the object, in bytes.
        pub offset: u64,
        /// Length in bytes.
        pub len: u64,
    }

    /// Epochs of the object at the head. Their incarnation is that of the handle.
    #[derive(Copy)]
    pub struct Epochs {
        /// Epoch of the last call of a metaserver.
        pub epoch: u32,
        /// Epoch of the last fence.
        pub layout_epoch: u32,
        /// Epoch of the last truncation; 0: none.
        pub truncated: u32,
    }
}

xdr_union! {
    /// Change of the object.
    pub enum Change {
        /// Creates the object if it is missing, and sets its epochs.
        0 => Make(Epochs),
        /// Writes bytes.
        1 => Fill(Fill),
        /// Makes a range zeros. The length stays.
        2 => Clear(Clear),
        /// Sets the length in bytes.
        3 => Length(u64),
        /// Makes all earlier changes durable.
        4 => Sync,
        /// Removes the object.
        5 => Remove,
        /// Reported modification time, in nanoseconds since 1970: the object's is at least this, and that of
        /// the next write is later.
        6 => Modified(u64),
        /// Puts bytes in place of a block that is damaged; one that is not stays. The offset is that of the
        /// block.
        7 => Mend(Fill),
        /// Puts the bytes of a block that is damaged at all members: it is damaged here, too, and kept as it is. The
        /// offset is that of the block; there are no bytes if none could be read.
        8 => Damaged(Fill),
    }
}

xdr_struct! {
    /// The arguments.
    pub struct Args {
        /// The object.
        pub handle: Bytes,
        /// The change.
        pub change: Change,
    }
}

/// No results, or the error status.
pub type Res = Result<(), Status>;
