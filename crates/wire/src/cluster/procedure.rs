//! The procedures, beside those of the handshake.

use super::{cluster_status, register, size};

crate::rpc::program! {
    /// A data server is alive, at these addresses, with these targets.
    3 Register register "REGISTER";
    /// How long an object is in its file.
    4 Size size "SIZE";
    /// The status of the cluster.
    5 Status cluster_status "STATUS";
}
