//! USAGE: counts the bytes of each chain on a target, in pages.

use super::{ObjectName, Status};
use crate::xdr_struct;

xdr_struct! {
    /// The arguments.
    #[derive(Copy)]
    pub struct Args {
        /// The target.
        pub target: u64,
        /// Last object of the previous page; `None` for the first page.
        pub after: Option<ObjectName>,
    }

    /// Bytes of one chain.
    #[derive(Copy, Hash)]
    pub struct ChainBytes {
        /// The chain; 0: objects without copies.
        pub chain: u64,
        /// Bytes that the objects of this page occupy.
        pub bytes: u64,
    }

    /// The results.
    pub struct ResOk {
        /// Each chain that has objects on this page, once.
        pub chains: Vec<ChainBytes>,
        /// Last object of this page; `None` if the list ends here.
        pub next: Option<ObjectName>,
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
