//! CALL: one consensus message from member to member, and its answer.

use bytes::Bytes;

use super::Status;
use crate::xdr_struct;

xdr_struct! {
    /// The arguments.
    pub struct Args {
        /// Encoded message.
        pub body: Bytes,
    }

    /// The results.
    pub struct ResOk {
        /// Encoded answer.
        pub body: Bytes,
    }
}

/// Results, or the error status. `Invalid`: the other member cannot decode the message; its log has the
/// reason.
pub type Res = Result<ResOk, Status>;
