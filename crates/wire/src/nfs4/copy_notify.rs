//! COPY_NOTIFY (RFC 7862, section 15.3): tells a source server of a copy to come.

use super::{NetLoc, Stateid, Status, Time};
use crate::xdr_struct;

xdr_struct! {
    /// The arguments. Current handle: the source.
    pub struct Args {
        /// By what right it is read.
        pub src_stateid: Stateid,
        /// Who will read it.
        pub destination_server: NetLoc,
    }

    /// The results.
    pub struct ResOk {
        /// How long the stateid is good for.
        pub lease_time: Time,
        /// For the destination server.
        pub stateid: Stateid,
        /// Where the source can be read.
        pub source_server: Vec<NetLoc>,
    }
}

/// How it ended.
pub type Res = Result<ResOk, Status>;
