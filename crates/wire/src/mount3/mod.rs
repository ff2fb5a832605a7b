//! MOUNT version 3 (RFC 1813, appendix I): from an exported path to the file handle at its root.

pub mod procedures;
#[cfg(test)]
mod tests;

pub use procedures::{dump, export, mnt, umnt, umntall};

use crate::nfs3::types::bounded_opaque;
pub use crate::rpc::null;
use crate::xdr_enum;

/// RPC program number of MOUNT.
pub const PROGRAM: u32 = 100_005;
/// Version of the program.
pub const VERSION: u32 = 3;
/// MNTPATHLEN.
pub const PATH_BYTES_MAX: usize = 1024;
/// MNTNAMLEN.
pub const NAME_BYTES_MAX: usize = 255;

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

bounded_opaque! {
    /// dirpath: the path of a directory on the server, at most [`PATH_BYTES_MAX`] bytes.
    pub struct DirPath, PATH_BYTES_MAX
}

bounded_opaque! {
    /// name: a host or a group of hosts, at most [`NAME_BYTES_MAX`] bytes.
    pub struct Name, NAME_BYTES_MAX
}

xdr_enum! {
    /// mountstat3: error of a mount. MNT3_OK is the `Ok` of a `Result`.
    pub enum Status {
        /// Not the owner.
        Perm = 1,
        /// No such directory.
        NoEnt = 2,
        /// I/O error, such as a failed disk.
        Io = 5,
        /// Permission denied.
        Acces = 13,
        /// Not a directory.
        NotDir = 20,
        /// Invalid path.
        Inval = 22,
        /// The path is too long.
        NameTooLong = 63,
        /// Not supported.
        NotSupp = 10004,
        /// None of the other errors fits.
        ServerFault = 10006,
    }
}

crate::rpc::status_union!(Status);
