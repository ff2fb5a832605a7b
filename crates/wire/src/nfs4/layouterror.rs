//! LAYOUTERROR (RFC 7862, section 15.6): a client tells which data server failed it.

use super::{DeviceId, Stateid, Status};
use crate::xdr_struct;

xdr_struct! {
    /// device_error4.
    #[derive(Copy)]
    pub struct DeviceError {
        /// The device.
        pub deviceid: DeviceId,
        /// What it answered, or NFS4ERR_NXIO if nothing.
        pub status: Status,
        /// To which operation, by its number.
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
        /// What failed.
        pub errors: Vec<DeviceError>,
    }
}

/// No results.
pub type ResOk = ();

/// How it ended.
pub type Res = Result<ResOk, Status>;
