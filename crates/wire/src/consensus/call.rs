//! CALL: one message of a member to another, and what that answers.

use bytes::Bytes;

use super::Status;
use crate::xdr_struct;

xdr_struct! {
    /// The arguments.
    pub struct Args {
        /// The message.
        pub body: Bytes,
    }

    /// The results.
    pub struct ResOk {
        /// The answer.
        pub body: Bytes,
    }
}

/// How it ended. `Invalid`: the other does not understand the message; its log says why.
pub type Res = Result<ResOk, Status>;
