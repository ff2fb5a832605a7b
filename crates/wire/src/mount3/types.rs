//! Names and paths (RFC 1813, section 5.1).

use crate::nfs3::types::bounded_opaque;

/// MNTPATHLEN.
pub const PATH_BYTES_MAX: usize = 1024;
/// MNTNAMLEN.
pub const NAME_BYTES_MAX: usize = 255;

bounded_opaque! {
    /// dirpath: the path of a directory on the server, at most [`PATH_BYTES_MAX`] bytes.
    pub struct DirPath, PATH_BYTES_MAX
}

bounded_opaque! {
    /// name: a host or a group of hosts, at most [`NAME_BYTES_MAX`] bytes.
    pub struct Name, NAME_BYTES_MAX
}
