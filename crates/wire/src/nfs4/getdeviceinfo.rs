//! GETDEVICEINFO (RFC 8881, section 18.40): returns the data servers of a device id.

use bytes::Bytes;

use super::{Bitmap, DeviceId, LayoutType, OpError, Status};
use crate::xdr::{DecodeError, Decoder, Encoder};
use crate::xdr_struct;

/// notify_types: the device id changed.
pub const NOTIFY_CHANGE: u32 = 1;
/// notify_types: the device id was deleted.
pub const NOTIFY_DELETE: u32 = 2;

xdr_struct! {
    /// The arguments.
    #[derive(Copy)]
    pub struct Args {
        /// The device.
        pub device_id: DeviceId,
        /// Layout type that named the device.
        pub layout_type: LayoutType,
        /// Maximal length of [`ResOk`] in bytes; 0 requests notifications only.
        pub maxcount: u32,
        /// Bits [`NOTIFY_CHANGE`] and [`NOTIFY_DELETE`].
        pub notify_types: Bitmap,
    }

    /// device_addr4.
    pub struct DeviceAddr {
        /// Layout type, which defines the body.
        pub layout_type: LayoutType,
        /// Body; for the files type an encoded [`super::layout_files::DsAddr`].
        pub body: Bytes,
    }

    /// The results.
    pub struct ResOk {
        /// Addresses of the data servers.
        pub device_addr: DeviceAddr,
        /// Granted notifications.
        pub notification: Bitmap,
    }
}

/// Error of GETDEVICEINFO.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Error {
    /// NFS4ERR_TOOSMALL.
    TooSmall {
        /// Needed value of `maxcount`, in bytes.
        mincount: u32,
    },
    /// Any other error.
    Status(Status),
}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        match status {
            Status::TooSmall => Self::TooSmall { mincount: 0 },
            other => Self::Status(other),
        }
    }
}

impl OpError for Error {
    fn status(&self) -> Status {
        match self {
            Self::TooSmall { .. } => Status::TooSmall,
            Self::Status(status) => *status,
        }
    }

    fn encode_body(&self, e: &mut Encoder) {
        match self {
            Self::TooSmall { mincount } => e.u32(*mincount),
            Self::Status(Status::TooSmall) => e.u32(0),
            Self::Status(_) => {}
        }
    }

    fn decode_body(status: Status, d: &mut Decoder) -> Result<Self, DecodeError> {
        match status {
            Status::TooSmall => Ok(Self::TooSmall { mincount: d.u32()? }),
            other => Ok(Self::Status(other)),
        }
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Error>;
