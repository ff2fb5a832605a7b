//! REMOVE: removes objects. A missing object is not an error, so that a call can be retried.

use bytes::Bytes;

use super::Status;
use crate::{xdr_enum, xdr_struct};

xdr_enum! {
    /// Condition of a removal, which the data server knows better than the caller.
    pub enum Only {
        /// None.
        All = 0,
        /// Objects with copies whose chain the target has left. The answer is `ChainWaits` if it is a member of the
        /// chain of one of these, as far as it has heard.
        LeftChain = 1,
        /// These, and objects without copies that no call with the handle's epoch or a later one has come to: another
        /// one may be of a placement that the caller does not know yet.
        LeftBehind = 2,
    }
}

xdr_struct! {
    /// The arguments.
    pub struct Args {
        /// The objects.
        pub handles: Vec<Bytes>,
        /// Those of them that are removed.
        pub only: Only,
    }
}

/// No results.
pub type ResOk = ();
/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
