//! COPY: copies ranges of one object into another, which the called server has. What the first does not have
//! (holes, and all beyond its end) is a hole in the other afterwards.

use bytes::Bytes;

use super::{Status, WriteVerifier};
use crate::xdr_struct;

xdr_struct! {
    /// A range of both.
    #[derive(Copy, Hash)]
    pub struct Piece {
        /// First byte in the object that is read.
        pub from: u64,
        /// First byte in the object that is written.
        pub to: u64,
        /// Bytes.
        pub len: u64,
    }

    /// The arguments.
    pub struct Args {
        /// The object that is read.
        pub source: Bytes,
        /// The address of the data server that has it, such as `10.0.0.5:2050`: asked when it is not the
        /// called one.
        pub address: Bytes,
        /// The object that is written; created when it is not there yet.
        pub handle: Bytes,
        /// What.
        pub pieces: Vec<Piece>,
        /// Whether to answer only when the bytes are durable.
        pub stable: bool,
    }

    /// The results.
    #[derive(Copy)]
    pub struct ResOk {
        /// Changes when unstable writes may be lost.
        pub verifier: WriteVerifier,
    }
}

/// How it ended. After an error, some of the pieces may have been copied.
pub type Res = Result<ResOk, Status>;
