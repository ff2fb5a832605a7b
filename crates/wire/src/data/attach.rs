//! ATTACH: makes an empty object begin as another one of its target, without a copy of its bytes. The two are independent
//! from then on, as after a COPY of all bytes. Durable.

use bytes::Bytes;

use super::{ObjectEntry, Status};
use crate::xdr_struct;

xdr_struct! {
    /// The arguments.
    pub struct Args {
        /// The object.
        pub handle: Bytes,
        /// The other one, which is on the same chain, or without copies on the same target. No call changes it.
        pub base: ObjectEntry,
    }
}

/// No results.
pub type ResOk = ();
/// Results, or the error status; `NotSupported`: it is to be copied.
pub type Res = Result<ResOk, Status>;
