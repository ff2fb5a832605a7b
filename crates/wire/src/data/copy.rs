//! COPY: copies ranges of one object to another, which is on the called server. Holes of the source, and all
//! beyond its end, become holes of the target.

use bytes::Bytes;

use super::{Status, WriteVerifier};
use crate::xdr_struct;

xdr_struct! {
    /// Range to copy.
    #[derive(Copy, Hash)]
    pub struct Piece {
        /// Offset in the source object, in bytes.
        pub from: u64,
        /// Offset in the target object, in bytes.
        pub to: u64,
        /// Length in bytes.
        pub len: u64,
    }

    /// The arguments.
    pub struct Args {
        /// Source object.
        pub source: Bytes,
        /// Address of the source's data server, such as `10.0.0.5:2050`; the called server pulls from there
        /// unless it has the source itself.
        pub address: Bytes,
        /// Target object; created if it does not exist.
        pub handle: Bytes,
        /// Ranges to copy.
        pub pieces: Vec<Piece>,
        /// True if the bytes must be durable before the reply.
        pub stable: bool,
    }

    /// The results.
    #[derive(Copy)]
    pub struct ResOk {
        /// Write verifier: changes when unstable writes may be lost.
        pub verifier: WriteVerifier,
    }
}

/// Results, or the error status. After an error, some of the ranges may have been copied.
pub type Res = Result<ResOk, Status>;
