//! LOCK (RFC 8881, section 18.10): acquires a byte-range lock.

use bytes::Bytes;

use super::{ClientId, LockType, OpError, Opaque, StateOwner, Stateid, Status};
use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder};
use crate::{xdr_struct, xdr_union};

/// Length to the end of the file, also when it grows.
pub const LENGTH_TO_EOF: u64 = u64::MAX;

xdr_struct! {
    /// open_to_lock_owner4: the first lock of an owner on this file.
    pub struct OpenToLockOwner {
        /// Ignored since minor version 1.
        pub open_seqid: u32,
        /// Open of the lock.
        pub open_stateid: Stateid,
        /// Ignored since minor version 1.
        pub lock_seqid: u32,
        /// Lock-owner.
        pub lock_owner: StateOwner,
    }

    /// exist_lock_owner4: a further lock of an owner on this file.
    #[derive(Copy)]
    pub struct ExistLockOwner {
        /// Stateid of the owner's locks on this file.
        pub lock_stateid: Stateid,
        /// Ignored since minor version 1.
        pub lock_seqid: u32,
    }

    /// The arguments. Current handle: the file.
    pub struct Args {
        /// Shared or exclusive.
        pub locktype: LockType,
        /// True if the lock was held before the server restarted.
        pub reclaim: bool,
        /// First byte.
        pub offset: u64,
        /// Bytes; [`LENGTH_TO_EOF`] is to the endof the file.
        pub length: u64,
        /// Lock-owner.
        pub locker: Locker,
    }

    /// The results.
    #[derive(Copy)]
    pub struct ResOk {
        /// Stateid of the owner's locks on this file.
        pub lock_stateid: Stateid,
    }

    /// LOCK4denied: a lock that conflicts.
    pub struct Denied {
        /// Offset of the conflicting lock, in bytes.
        pub offset: u64,
        /// Length of the conflicting lock, in bytes.
        pub length: u64,
        /// Shared or exclusive.
        pub locktype: LockType,
        /// Owner of the conflicting lock.
        pub owner: StateOwner,
    }
}

xdr_union! {
    /// locker4: lock-owner.
    pub enum Locker {
        /// Owner that has locks on this file.
        0 => Existing(ExistLockOwner),
        /// Owner without locks on this file.
        1 => New(OpenToLockOwner),
    }
}

/// Error of LOCK.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// NFS4ERR_DENIED: the conflicting lock.
    Denied(Denied),
    /// Any other error.
    Status(Status),
}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        match status {
            Status::Denied => Self::Denied(UNKNOWN),
            other => Self::Status(other),
        }
    }
}

/// NFS4ERR_DENIED without a known conflicting lock: placeholder, so that the reply can be decoded.
const UNKNOWN: Denied = Denied {
    offset: 0,
    length: LENGTH_TO_EOF,
    locktype: LockType::Write,
    owner: StateOwner { clientid: ClientId(0), owner: Opaque(Bytes::new()) },
};

impl OpError for Error {
    fn status(&self) -> Status {
        match self {
            Self::Denied(_) => Status::Denied,
            Self::Status(status) => *status,
        }
    }

    fn encode_body(&self, e: &mut Encoder) {
        match self {
            Self::Denied(denied) => denied.encode(e),
            Self::Status(Status::Denied) => UNKNOWN.encode(e),
            Self::Status(_) => {}
        }
    }

    fn decode_body(status: Status, d: &mut Decoder) -> Result<Self, DecodeError> {
        match status {
            Status::Denied => Ok(Self::Denied(Decode::decode(d)?)),
            other => Ok(Self::Status(other)),
        }
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Error>;
