//! Procedures of the program, besides those of the handshake.

use super::{cluster_status, register, size};

crate::rpc::program! {
    /// Registers a data server with its addresses and targets; also its heartbeat.
    3 Register register "REGISTER";
    /// Length of an object according to the file's size.
    4 Size size "SIZE";
    /// Status of the cluster.
    5 Status cluster_status "STATUS";
}
