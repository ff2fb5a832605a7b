//! LAYOUTGET (RFC 8881, section 18.43): returns the location of a file's data.

use bytes::Bytes;

use super::{LayoutIoMode, LayoutType, OpError, Stateid, Status};
use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder};
use crate::xdr_struct;

xdr_struct! {
    /// The arguments. Current handle: the file.
    #[derive(Copy)]
    pub struct Args {
        /// True if the client requests a signal when a layout becomes available.
        pub signal_layout_avail: bool,
        /// Requested layout type.
        pub layout_type: LayoutType,
        /// For reads, or for reads and writes.
        pub iomode: LayoutIoMode,
        /// First byte.
        pub offset: u64,
        /// Bytes wanted; `u64::MAX` is to the endof the file.
        pub length: u64,
        /// Minimal length in bytes; 0: any length.
        pub minlength: u64,
        /// Stateid of the client's layout, or of an open.
        pub stateid: Stateid,
        /// Maximal length of the layouts, in bytes.
        pub maxcount: u32,
    }

    /// layout4: a piece of a layout.
    pub struct Layout {
        /// First byte.
        pub offset: u64,
        /// Bytes; `u64::MAX` is to the endof the file.
        pub length: u64,
        /// For reads, or for reads and writes.
        pub iomode: LayoutIoMode,
        /// Layout type, which defines the body.
        pub layout_type: LayoutType,
        /// Body; for the files type an encoded [`super::layout_files::FileLayout`].
        pub body: Bytes,
    }

    /// The results.
    pub struct ResOk {
        /// True if the layout must be returned before the last CLOSE.
        pub return_on_close: bool,
        /// Stateid of all layouts that the client has of this file.
        pub stateid: Stateid,
        /// The pieces, in order.
        pub layouts: Vec<Layout>,
    }
}

/// Error of LAYOUTGET.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Error {
    /// NFS4ERR_LAYOUTTRYLATER.
    TryLater {
        /// True if the server will signal when a layout is available.
        will_signal: bool,
    },
    /// Any other error.
    Status(Status),
}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        match status {
            Status::LayoutTryLater => Self::TryLater { will_signal: false },
            other => Self::Status(other),
        }
    }
}

impl OpError for Error {
    fn status(&self) -> Status {
        match self {
            Self::TryLater { .. } => Status::LayoutTryLater,
            Self::Status(status) => *status,
        }
    }

    fn encode_body(&self, e: &mut Encoder) {
        match self {
            Self::TryLater { will_signal } => will_signal.encode(e),
            Self::Status(Status::LayoutTryLater) => false.encode(e),
            Self::Status(_) => {}
        }
    }

    fn decode_body(status: Status, d: &mut Decoder) -> Result<Self, DecodeError> {
        match status {
            Status::LayoutTryLater => Ok(Self::TryLater { will_signal: Decode::decode(d)? }),
            other => Ok(Self::Status(other)),
        }
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Error>;
