//! COPY_NOTIFY (RFC 7862, section 15.3): announces a copy to the source server.

use super::{NetLoc, Stateid, Status, Time};
use crate::xdr_struct;

xdr_struct! {
    /// The arguments. Current handle: the source.
    pub struct Args {
        /// Stateid for the reads of the source.
        pub src_stateid: Stateid,
        /// Destination server, which will read the source.
        pub destination_server: NetLoc,
    }

    /// The results.
    pub struct ResOk {
        /// Lease time of the stateid.
        pub lease_time: Time,
        /// Stateid for the destination server.
        pub stateid: Stateid,
        /// Addresses where the source can be read.
        pub source_server: Vec<NetLoc>,
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
