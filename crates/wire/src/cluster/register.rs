//! REGISTER: registration of a data server with the leader: its addresses and targets. Sent at start, then as
//! a heartbeat.

use bytes::Bytes;

use super::{Status, TargetSpace};
use crate::data::Chain;
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
        /// Service address and port for clients, as text; empty: they use the addresses above.
        pub service_address: Bytes,
        /// Zone, such as a rack, as text; empty: none.
        pub zone: Bytes,
        /// All its storage targets.
        pub targets: Vec<TargetSpace>,
        /// Version of its program.
        pub version: Bytes,
        /// Version of its cluster map; 0: it has none.
        pub map_version: u64,
        /// Its clock, in milliseconds since 1970.
        pub clock_ms: u64,
        /// Random number of this run of its process: after a change its members of chains are refilled.
        pub process: u64,
        /// The process of this server that the metaservers have, as they said last; 0: they have not said one. A
        /// process takes the place of this one only, so a request that comes late, after another process has
        /// registered, changes nothing.
        pub known: u64,
        /// Version of the cluster map whose chains it knows; 0: none.
        pub chains_of_map: u64,
        /// Members of chains that have all data now, by the word of the chain's head.
        pub refilled: Vec<Refilled>,
        /// Chains that members on its targets have left: they serve them no more in these versions.
        pub left: Vec<LeftChain>,
        /// Refilling of members of the chains that it leads.
        pub refill: Refill,
    }

    /// How far the refilling of members is that are compared whole.
    #[derive(Copy, Default)]
    pub struct Refill {
        /// Such members.
        pub members: u64,
        /// Bytes of their chains.
        pub bytes: u64,
        /// Bytes of them that are still to be compared.
        pub left: u64,
        /// Bytes compared with all members since the start of the process.
        pub compared: u64,
    }

    /// A chain that a member has left, since the member lacks data of it.
    #[derive(Copy)]
    pub struct LeftChain {
        /// The chain.
        pub chain: u64,
        /// Version of the chain.
        pub version: u32,
        /// The member's target.
        pub target: u64,
    }

    /// A member of a chain that has been refilled.
    #[derive(Copy)]
    pub struct Refilled {
        /// The chain.
        pub chain: u64,
        /// Version of the chain in which the refilling took place.
        pub version: u32,
        /// The member's target.
        pub target: u64,
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
        /// The process of the caller's server that the metaservers have. If it is not the caller's, they took in
        /// nothing of the request.
        pub process: u64,
        /// Networks of all exports, as text such as `10.0.0.0/8`; empty if the caller's map is current. A
        /// data server that obeys the incarnation serves NFS to no other address.
        pub networks: Vec<Bytes>,
        /// Time that removed objects stay in the trash, in seconds.
        pub trash_seconds: u64,
        /// Lease of the caller's members of chains, in milliseconds from the sending of the request; 0: none.
        /// Without a lease a member of a chain serves nothing.
        pub chain_lease_ms: u32,
        /// Those of the caller's targets whose blocks are verified by scrubs only, and not at each read.
        pub verify_at_scrub: Vec<u64>,
        /// All chains that the caller's targets are members of, also those that are away; empty if the caller
        /// has the chains of the current map.
        pub chains: Vec<Chain>,
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
