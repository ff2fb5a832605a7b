//! REGISTER: a data server tells the leader that it lives, where it is reached, and what it keeps. Sent at start and
//! then as a heartbeat.

use bytes::Bytes;

use super::{Status, TargetSpace};
use crate::xdr_struct;

xdr_struct! {
    /// The arguments.
    pub struct Args {
        /// The server's id.
        pub server: u64,
        /// Its name, for people.
        pub name: Bytes,
        /// Where it serves, each as text such as `10.0.0.5:2050`.
        pub addresses: Vec<Bytes>,
        /// All of its storage targets.
        pub targets: Vec<TargetSpace>,
    }

    /// The results.
    #[derive(Copy)]
    pub struct ResOk {
        /// When to register again, in milliseconds.
        pub heartbeat_ms: u32,
    }
}

/// How it ended.
pub type Res = Result<ResOk, Status>;
