//! REGISTER: a data server tells the leader that it lives, where it is reached, and what it keeps. Sent at
//! start and then as a heartbeat.

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
        /// Of its program.
        pub version: Bytes,
        /// The version of the cluster map that it has; 0: none.
        pub map_version: u64,
        /// Its machine's time of day, in milliseconds since 1970.
        pub clock_ms: u64,
    }

    /// The results.
    pub struct ResOk {
        /// When to register again, in milliseconds.
        pub heartbeat_ms: u32,
        /// The version of the cluster map.
        pub map_version: u64,
        /// If that is another one than the caller has: where the metaservers are, each as text such as
        /// `10.0.0.1:2049`.
        pub metaservers: Vec<Bytes>,
        /// Random bits of the name space, to be kept with each target: another one, of the same cluster, is
        /// not to clean there.
        pub name_space: u64,
        /// The incarnation of the metaservers' group: the first half of its random id, which is another one
        /// after a restore from a backup. A target obeys the one that it was told first, until an operator
        /// says otherwise.
        pub incarnation: u64,
        /// The incarnation's number, for people: 1, and one more with each restore.
        pub epoch: u64,
        /// If the version is another one than the caller has: the networks that anything is exported to, as
        /// text such as `10.0.0.0/8`. A data server that obeys the incarnation serves NFS to no other
        /// address.
        pub networks: Vec<Bytes>,
        /// How long removed objects are kept in the trash, in seconds.
        pub trash_seconds: u64,
    }
}

/// How it ended.
pub type Res = Result<ResOk, Status>;
