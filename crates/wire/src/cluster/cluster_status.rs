//! STATUS: the metaserver's status of the cluster, for a data server's admin interface.

use bytes::Bytes;

use super::Status;
use crate::xdr_struct;

xdr_struct! {
    /// Arguments: none.
    #[derive(Copy, Default)]
    pub struct Args {}

    /// The results.
    pub struct ResOk {
        /// Status as a JSON object; programs of other versions can read it.
        pub json: Bytes,
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
