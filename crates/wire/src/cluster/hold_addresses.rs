//! HOLD_ADDRESSES: the service addresses that a data server holds, and those that it may hold. Sent to all
//! metaservers, again and again; the leader grants.

use bytes::Bytes;

use super::Status;
pub use crate::peer::clients::connected::Connections;
use crate::xdr_struct;

xdr_struct! {
    /// The arguments.
    pub struct Args {
        /// Server id.
        pub server: u64,
        /// Port that it listens on: it can hold addresses of data servers with this port.
        pub port: u32,
        /// Service addresses that it holds, as text.
        pub held: Vec<Bytes>,
        /// True if the connections are told.
        pub tells_connections: bool,
        /// Clients that are connected to each address, if they are told.
        pub connections: Vec<Connections>,
    }

    /// The results.
    pub struct ResOk {
        /// True if the metaserver leads: only then the addresses are granted.
        pub leads: bool,
        /// Time until the next call, in milliseconds.
        pub beat_ms: u32,
        /// Time that the addresses may be held from the sending of the call, in milliseconds.
        pub lease_ms: u32,
        /// Addresses that the caller may hold, as text.
        pub granted: Vec<Bytes>,
        /// Clients that were connected to those that the caller does not hold yet.
        pub connections: Vec<Connections>,
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
