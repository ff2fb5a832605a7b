//! LAYOUTERROR (RFC 7862, section 15.6): reports failed I/O at data servers.

use super::{DeviceId, Stateid, Status};
use crate::xdr_struct;

xdr_struct! {
    /// device_error4.
    #[derive(Copy)]
    pub struct DeviceError {
        /// The device.
        pub deviceid: DeviceId,
        /// Status of the data server, or NFS4ERR_NXIO without an answer.
        pub status: Status,
        /// Number of the failed operation.
        pub opnum: u32,
    }

    /// The arguments. Current handle: the file.
    pub struct Args {
        /// First byte.
        pub offset: u64,
        /// Bytes.
        pub length: u64,
        /// The layout.
        pub stateid: Stateid,
        /// Failures.
        pub errors: Vec<DeviceError>,
    }
}

/// No results.
pub type ResOk = ();

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
