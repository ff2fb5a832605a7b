//! The six procedures (RFC 1813, section 5.2).

use super::{dump, export, mnt, null, umnt, umntall};

crate::rpc::program! {
    /// Does nothing: to see whether the server lives.
    0 Null null "NULL";
    /// The handle of an exported directory.
    1 Mnt mnt "MNT";
    /// Who mounts what.
    2 Dump dump "DUMP";
    /// The caller no longer mounts a directory.
    3 Umnt umnt "UMNT";
    /// The caller no longer mounts anything.
    4 UmntAll umntall "UMNTALL";
    /// What is exported, and to whom.
    5 Export export "EXPORT";
}
