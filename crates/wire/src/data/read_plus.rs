//! READ_PLUS: reads data and holes of an object.

use super::Status;
use crate::xdr::Payload;
use crate::{xdr_struct, xdr_union};

pub use super::read::Args;

xdr_union! {
    /// Run of data or of zeros.
    pub enum Run {
        /// Data.
        0 => Data(Payload),
        /// Hole, with its length in bytes.
        1 => Hole(u64),
    }
}

xdr_struct! {
    /// The results.
    pub struct ResOk {
        /// Runs in order; together shorter than `count` only at the end of the object.
        pub runs: Vec<Run>,
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
