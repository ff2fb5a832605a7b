//! LAYOUTSTATS (RFC 7862, section 15.7): reports the amount of I/O through a layout.

use bytes::Bytes;

use super::{DeviceId, IoInfo, LayoutType, Stateid, Status};
use crate::xdr_struct;

xdr_struct! {
    /// The arguments. Current handle: the file.
    pub struct Args {
        /// First byte.
        pub offset: u64,
        /// Bytes.
        pub length: u64,
        /// The layout.
        pub stateid: Stateid,
        /// Reads.
        pub read: IoInfo,
        /// Writes.
        pub write: IoInfo,
        /// The device.
        pub deviceid: DeviceId,
        /// Layout type, which defines the body.
        pub layout_type: LayoutType,
        /// layoutupdate4: empty for the files type.
        pub body: Bytes,
    }
}

/// No results.
pub type ResOk = ();

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
