//! READ_PLUS: reads from an object, its holes told apart from data.

use super::Status;
use crate::xdr::Payload;
use crate::{xdr_struct, xdr_union};

pub use super::read::Args;

xdr_union! {
    /// A run of bytes.
    pub enum Run {
        /// These.
        0 => Data(Payload),
        /// As many zeros.
        1 => Hole(u64),
    }
}

xdr_struct! {
    /// The results.
    pub struct ResOk {
        /// One after the other; together fewer bytes than wanted only at the end of the object.
        pub runs: Vec<Run>,
    }
}

/// How it ended.
pub type Res = Result<ResOk, Status>;
