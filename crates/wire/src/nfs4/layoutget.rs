//! LAYOUTGET (RFC 8881, section 18.43): where a file's data are.

use bytes::Bytes;

use super::{LayoutIoMode, LayoutType, OpError, Stateid, Status};
use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder};
use crate::xdr_struct;

xdr_struct! {
    /// The arguments. Current handle: the file.
    #[derive(Copy)]
    pub struct Args {
        /// Whether the client wants to be told when a layout can be had.
        pub signal_layout_avail: bool,
        /// The type wanted.
        pub layout_type: LayoutType,
        /// To read, or to read and write.
        pub iomode: LayoutIoMode,
        /// First byte.
        pub offset: u64,
        /// Bytes wanted; `u64::MAX` is to the end, however far that is.
        pub length: u64,
        /// Bytes needed; 0 asks for what is convenient.
        pub minlength: u64,
        /// The layout that the client has already, or an open.
        pub stateid: Stateid,
        /// Bytes of layouts at most.
        pub maxcount: u32,
    }

    /// layout4: a piece of a layout.
    pub struct Layout {
        /// First byte.
        pub offset: u64,
        /// Bytes; `u64::MAX` is to the end, however far that is.
        pub length: u64,
        /// To read, or to read and write.
        pub iomode: LayoutIoMode,
        /// How to read the body.
        pub layout_type: LayoutType,
        /// For the files type an encoded [`super::layout_files::FileLayout`].
        pub body: Bytes,
    }

    /// The results.
    pub struct ResOk {
        /// Whether it must be returned before the last CLOSE.
        pub return_on_close: bool,
        /// All layouts that the client has of this file.
        pub stateid: Stateid,
        /// The pieces, in order.
        pub layouts: Vec<Layout>,
    }
}

/// Why there is no layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Error {
    /// NFS4ERR_LAYOUTTRYLATER.
    TryLater {
        /// Whether the client will be told when there is.
        will_signal: bool,
    },
    /// Another reason.
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

/// How it ended.
pub type Res = Result<ResOk, Error>;
