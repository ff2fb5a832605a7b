//! COPY (RFC 7862, section 15.2): copies a range from file to file on the server, or from another server.

use super::{NetLoc, OpError, Stateid, Status, WriteResponse};
use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder};
use crate::xdr_struct;

xdr_struct! {
    /// The arguments. Saved handle: the source. Current handle: the target.
    pub struct Args {
        /// By what right the source is read.
        pub src_stateid: Stateid,
        /// By what right the target is written.
        pub dst_stateid: Stateid,
        /// First byte in the source.
        pub src_offset: u64,
        /// First byte in the target.
        pub dst_offset: u64,
        /// Bytes; 0 is to the end of the source.
        pub count: u64,
        /// Whether the bytes must be copied in order.
        pub consecutive: bool,
        /// Whether the reply must wait for the end.
        pub synchronous: bool,
        /// Where the source is; empty: here.
        pub source_server: Vec<NetLoc>,
    }

    /// copy_requirements4.
    #[derive(Copy)]
    pub struct Requirements {
        /// The bytes are copied in order.
        pub consecutive: bool,
        /// The reply waits for the end.
        pub synchronous: bool,
    }

    /// The results.
    #[derive(Copy)]
    pub struct ResOk {
        /// How far it came.
        pub response: WriteResponse,
        /// How it was done.
        pub requirements: Requirements,
    }
}

/// Why nothing is copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyError {
    /// NFS4ERR_OFFLOAD_NO_REQS: only this can be done.
    NoReqs(Requirements),
    /// Another reason.
    Status(Status),
}

const NO_REQUIREMENTS: Requirements = Requirements { consecutive: false, synchronous: false };

impl From<Status> for CopyError {
    fn from(status: Status) -> Self {
        match status {
            Status::OffloadNoReqs => Self::NoReqs(NO_REQUIREMENTS),
            other => Self::Status(other),
        }
    }
}

impl OpError for CopyError {
    fn status(&self) -> Status {
        match self {
            Self::NoReqs(_) => Status::OffloadNoReqs,
            Self::Status(status) => *status,
        }
    }

    fn encode_body(&self, e: &mut Encoder) {
        match self {
            Self::NoReqs(requirements) => requirements.encode(e),
            Self::Status(Status::OffloadNoReqs) => NO_REQUIREMENTS.encode(e),
            Self::Status(_) => {}
        }
    }

    fn decode_body(status: Status, d: &mut Decoder) -> Result<Self, DecodeError> {
        match status {
            Status::OffloadNoReqs => Ok(Self::NoReqs(Decode::decode(d)?)),
            other => Ok(Self::Status(other)),
        }
    }
}

/// How it ended.
pub type Res = Result<ResOk, CopyError>;
