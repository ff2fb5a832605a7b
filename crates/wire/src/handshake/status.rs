//! How a procedure of our own programs ends.

use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder};
use crate::xdr_enum;

xdr_enum! {
    /// Why a procedure of a private program failed.
    pub enum Status {
        /// It did not: stands before the results, and is never the `Err` of a `Result`.
        Ok = 0,
        /// The connection has not gone through HELLO and PROVE, or the proof is wrong.
        NotProven = 1,
        /// The caller belongs to another cluster.
        WrongCluster = 2,
        /// The handle was not minted with our key.
        BadHandle = 3,
        /// No space left on the target.
        NoSpace = 4,
        /// A disk failed.
        Io = 5,
        /// No such file, object or target here.
        NotFound = 6,
        /// The handle names a generation that is gone.
        Stale = 7,
        /// Arguments that cannot be meant.
        Invalid = 8,
        /// The target takes no writes.
        ReadOnly = 9,
        /// Not now: try again later.
        Delay = 10,
        /// The file system of the target cannot do this.
        NotSupported = 11,
        /// A target has objects of another name space.
        OtherNameSpace = 12,
        /// The target does not have the object, which was made there: it is lost.
        ObjectLost = 13,
        /// The target is not the one that was there when its server started (its disk was unmounted), or
        /// failed.
        TargetLost = 14,
        /// The handle was minted by another incarnation of the metaservers than the target obeys.
        OtherIncarnation = 15,
    }
}

impl<T: Encode> Encode for Result<T, Status> {
    fn encode(&self, e: &mut Encoder) {
        match self {
            Ok(body) => {
                Status::Ok.encode(e);
                body.encode(e);
            }
            // A failure that says Ok is a fault of ours. Sent as it is, the caller would read results that
            // are not there.
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
