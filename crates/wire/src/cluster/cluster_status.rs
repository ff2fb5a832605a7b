//! STATUS: the status of the cluster as the metaserver knows it, for a data server's admin interface.

use bytes::Bytes;

use super::Status;
use crate::xdr_struct;

xdr_struct! {
    /// No arguments.
    #[derive(Copy, Default)]
    pub struct Args {}

    /// The results.
    pub struct ResOk {
        /// A JSON object: text that programs of other versions read, too.
        pub json: Bytes,
    }
}

/// How it ended.
pub type Res = Result<ResOk, Status>;
