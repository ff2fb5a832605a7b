//! fs_locations: other locations of a file system (RFC 8881, section 11.16).

use bytes::Bytes;

use super::Component;
use crate::xdr_struct;

xdr_struct! {
    /// fs_locations4.
    pub struct FsLocations {
        /// Path of the file system's root at this server; empty for `/`.
        pub fs_root: Vec<Component>,
        /// Locations, including this server.
        pub locations: Vec<FsLocation>,
    }

    /// fs_location4: servers that have the file system under the same path.
    pub struct FsLocation {
        /// Servers, each a host name, an address, or an address with its port in universal form (RFC 5665),
        /// which Linux understands since 5.17.
        pub servers: Vec<Bytes>,
        /// Path at each of these servers.
        pub rootpath: Vec<Component>,
    }
}
