//! CHAIN_RECORDS: the latest versions of chains that a target has heard of, for metaservers that were restored from a
//! backup. In pages.

use super::Status;
use crate::xdr_struct;

xdr_struct! {
    /// The arguments.
    #[derive(Copy)]
    pub struct Args {
        /// The target.
        pub target: u64,
        /// Last chain of the previous page; `None` for the first page.
        pub after: Option<u64>,
    }

    /// A chain that the target is or was a member of, as it last heard of it.
    pub struct ChainRecord {
        /// The chain.
        pub chain: u64,
        /// Its version.
        pub version: u32,
        /// Targets of the members that were in, the head first.
        pub members_in: Vec<u64>,
        /// Targets of the members that were refilled.
        pub refilled: Vec<u64>,
    }

    /// The results.
    pub struct ResOk {
        /// Chains in the order of their ids.
        pub records: Vec<ChainRecord>,
        /// True if the list ends here.
        pub done: bool,
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
