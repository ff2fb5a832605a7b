//! REGISTER: registration of a data server with the leader: its addresses and targets. Sent at start, then as
//! a heartbeat.

use bytes::Bytes;

use super::{Status, TargetSpace};
use crate::xdr_struct;

xdr_struct! {
    /// The arguments.
    pub struct Args {
        /// Server id.
        pub server: u64,
        /// Server name, for people.
        pub name: Bytes,
        /// Addresses of the data server, each as text such as `10.0.0.5:2050`.
        pub addresses: Vec<Bytes>,
        /// All its storage targets.
        pub targets: Vec<TargetSpace>,
        /// Version of its program.
        pub version: Bytes,
        /// Version of its cluster map; 0: it has none.
        pub map_version: u64,
        /// Its clock, in milliseconds since 1970.
        pub clock_ms: u64,
    }

    /// The results.
    pub struct ResOk {
        /// Heartbeat interval, in milliseconds.
        pub heartbeat_ms: u32,
        /// Version of the current cluster map.
        pub map_version: u64,
        /// Addresses of the metaservers, each as text such as `10.0.0.1:2049`; empty if the caller's map is
        /// current.
        pub metaservers: Vec<Bytes>,
        /// Random id of the name space, stored with each target. A name space with another id, even of the
        /// same cluster, must not remove orphans there.
        pub name_space: u64,
        /// Incarnation of the metaservers' group: the first half of its random id, which changes at a restore
        /// from a backup. A target obeys the first incarnation that it received, until an operator changes
        /// that.
        pub incarnation: u64,
        /// Epoch of the incarnation, for people: 1, and one more after each restore.
        pub epoch: u64,
        /// Networks of all exports, as text such as `10.0.0.0/8`; empty if the caller's map is current. A
        /// data server that obeys the incarnation serves NFS to no other address.
        pub networks: Vec<Bytes>,
        /// Time that removed objects stay in the trash, in seconds.
        pub trash_seconds: u64,
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
