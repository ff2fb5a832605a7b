//! LAYOUTCOMMIT (RFC 8881, section 18.42): commits the size and time of writes through a layout.

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
        /// True if the writes were before a restart of the metaserver.
        pub reclaim: bool,
        /// The layout.
        pub stateid: Stateid,
        /// Offset of the last byte written: the file's size is at least one more.
        pub last_write_offset: Option<u64>,
        /// Modification time.
        pub time_modify: Option<Time>,
        /// Layout type, which defines the body.
        pub layout_type: LayoutType,
        /// layoutupdate4: empty for the files type.
        pub body: Bytes,
    }

    /// The results.
    #[derive(Copy)]
    pub struct ResOk {
        /// New size of the file, if it changed.
        pub newsize: Option<u64>,
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
