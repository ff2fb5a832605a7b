//! LAYOUTSTATS (RFC 7862, section 15.7): a client tells how much I/O it did by a layout.

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
        /// What was read.
        pub read: IoInfo,
        /// What was written.
        pub write: IoInfo,
        /// The device.
        pub deviceid: DeviceId,
        /// How to read the body.
        pub layout_type: LayoutType,
        /// layoutupdate4: empty for the files type.
        pub body: Bytes,
    }
}

/// No results.
pub type ResOk = ();

/// How it ended.
pub type Res = Result<ResOk, Status>;
