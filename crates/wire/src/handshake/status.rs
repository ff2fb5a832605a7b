//! Status of a procedure of the private programs.

use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder};
use crate::xdr_enum;

xdr_enum! {
    /// Error status of a procedure of a private program.
    pub enum Status {
        /// No error; precedes the results, and is never the `Err` of a `Result`.
        Ok = 0,
        /// HELLO or PROVE is missing, or the proof is wrong.
        NotProven = 1,
        /// The caller belongs to another cluster.
        WrongCluster = 2,
        /// The handle was not sealed with this cluster's key.
        BadHandle = 3,
        /// No space left on the target.
        NoSpace = 4,
        /// A disk failed.
        Io = 5,
        /// No such file, object or target here.
        NotFound = 6,
        /// The generation in the handle is no longer current.
        Stale = 7,
        /// Invalid arguments.
        Invalid = 8,
        /// The target is read-only.
        ReadOnly = 9,
        /// Temporary failure: retry later.
        Delay = 10,
        /// The file system of the target cannot do this.
        NotSupported = 11,
        /// A target has the objects of another name space.
        OtherNameSpace = 12,
        /// Object loss: the object was created on the target and is missing.
        ObjectLost = 13,
        /// The target failed, or is not the one that was there at the server's start (its disk was
        /// unmounted).
        TargetLost = 14,
        /// The target obeys another incarnation of the group than the one that made the handle.
        OtherIncarnation = 15,
        /// The handle has an earlier epoch than the object.
        StaleEpoch = 16,
        /// The target is not a member of the chain any more, or the call is of an earlier version of the chain.
        /// Nothing was done: the caller looks the chain up again.
        StaleChain = 17,
        /// The member has no lease, or does not know the chain or its version yet. Nothing was done: retry later.
        ChainWaits = 18,
        /// Bytes of the object do not fit their checksum.
        Damaged = 19,
        /// The service address of a data server is another server's.
        AddressInUse = 20,
        /// The bytes of the call do not fit the sums that it carries. Nothing was done: retry.
        WrongSum = 21,
        /// A change of the object on another chain is under way. Nothing was done: retry.
        OtherChain = 22,
    }
}

impl<T: Encode> Encode for Result<T, Status> {
    fn encode(&self, e: &mut Encoder) {
        match self {
            Ok(body) => {
                Status::Ok.encode(e);
                body.encode(e);
            }
            // `Err(Status::Ok)` is a bug. Sent unchanged, it would make the caller decode results that do not
            // follow.
            Err(Status::Ok) => Status::Invalid.encode(e),
            Err(status) => status.encode(e),
        }
    }
}

impl<T: Decode> Decode for Result<T, Status> {
    fn decode(d: &mut Decoder) -> Result<Self, DecodeError> {
        match Status::decode(d)? {
            Status::Ok => Ok(Ok(T::decode(d)?)),
            status => Ok(Err(status)),
        }
    }
}
