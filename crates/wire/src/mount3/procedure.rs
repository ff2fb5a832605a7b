//! The six procedures (RFC 1813, section 5.2).

use super::{dump, export, mnt, null, umnt, umntall};

crate::rpc::program! {
    /// Does nothing: a ping.
    0 Null null "NULL";
    /// Returns the handle of an exported directory.
    1 Mnt mnt "MNT";
    /// Lists mounts.
    2 Dump dump "DUMP";
    /// Ends the caller's mount of a directory.
    3 Umnt umnt "UMNT";
    /// Ends all mounts of the caller.
    4 UmntAll umntall "UMNTALL";
    /// Lists exports.
    5 Export export "EXPORT";
}
