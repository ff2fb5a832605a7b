//! COPY (RFC 7862, section 15.2): copies a range from file to file on the server, or from another server.

use super::{NetLoc, OpError, Stateid, Status, WriteResponse};
use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder};
use crate::xdr_struct;

xdr_struct! {
    /// The arguments. Saved handle: the source. Current handle: the target.
    pub struct Args {
        /// Stateid for the reads of the source.
        pub src_stateid: Stateid,
        /// Stateid for the writes to the target.
        pub dst_stateid: Stateid,
        /// First byte in the source.
        pub src_offset: u64,
        /// First byte in the target.
        pub dst_offset: u64,
        /// Bytes; 0 is to the end of the source.
        pub count: u64,
        /// True if the bytes must be copied in order.
        pub consecutive: bool,
        /// True if the reply must wait for the end.
        pub synchronous: bool,
        /// Servers of the source; empty: this server.
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
        /// Progress of the copy.
        pub response: WriteResponse,
        /// Properties of the copy.
        pub requirements: Requirements,
    }
}

/// Error of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyError {
    /// NFS4ERR_OFFLOAD_NO_REQS: the server can only meet these requirements.
    NoReqs(Requirements),
    /// Any other error.
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

/// Results, or the error status.
pub type Res = Result<ResOk, CopyError>;
