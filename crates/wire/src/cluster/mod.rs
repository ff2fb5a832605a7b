//! Private program from data servers to metaservers: registration with the leader, and queries about files.
//!
//! A connection begins with [`crate::handshake`].

pub mod cluster_status;
pub mod hold_addresses;
pub mod register;
pub mod size;
#[cfg(test)]
mod tests;

pub use crate::data::{TargetCondition, TargetSpace};
pub use crate::handshake::Status;

/// RPC program number: "HEC" in ASCII, in the user-defined range (RFC 5531, section 8.4.2).
pub const PROGRAM: u32 = 0x2048_4543;
/// Version of the program.
pub const VERSION: u32 = 12;

crate::rpc::program! {
    /// Registers a data server with its addresses and targets; also its heartbeat.
    3 Register register "REGISTER";
    /// Length of an object according to the file's size.
    4 Size size "SIZE";
    /// Status of the cluster.
    5 Status cluster_status "STATUS";
    /// Service addresses of a data server.
    6 HoldAddresses hold_addresses "HOLD_ADDRESSES";
}

/// Results of a procedure, or its error status.
pub type Res<T> = Result<T, Status>;
