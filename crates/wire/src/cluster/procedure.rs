//! The procedures.

use super::{cluster_status, hello, null, prove, register, size};

crate::rpc::program! {
    /// Does nothing: to see whether the server lives.
    0 Null null "NULL";
    /// First half of the handshake.
    1 Hello hello "HELLO";
    /// Second half of the handshake.
    2 Prove prove "PROVE";
    /// A data server is alive, at these addresses, with these targets.
    3 Register register "REGISTER";
    /// How long an object is in its file.
    4 Size size "SIZE";
    /// The status of the cluster.
    5 Status cluster_status "STATUS";
}
