//! LAYOUTCOMMIT (RFC 8881, section 18.42): tells the metaserver what was written by a layout.

use bytes::Bytes;

use super::{LayoutType, Stateid, Status, Time};
use crate::xdr_struct;

xdr_struct! {
    /// The arguments. Current handle: the file.
    pub struct Args {
        /// First byte.
        pub offset: u64,
        /// Bytes.
        pub length: u64,
        /// Whether it was written before the metaserver restarted.
        pub reclaim: bool,
        /// The layout.
        pub stateid: Stateid,
        /// The last byte written, so that the file's size is at least one more.
        pub last_write_offset: Option<u64>,
        /// When.
        pub time_modify: Option<Time>,
        /// How to read the body.
        pub layout_type: LayoutType,
        /// layoutupdate4: empty for the files type.
        pub body: Bytes,
    }

    /// The results.
    #[derive(Copy)]
    pub struct ResOk {
        /// The file's size, if it changed.
        pub newsize: Option<u64>,
    }
}

/// How it ended.
pub type Res = Result<ResOk, Status>;
