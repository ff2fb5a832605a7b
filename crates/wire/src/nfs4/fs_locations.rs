//! fs_locations: where else a file system is to be found (RFC 8881, section 11.16).

use bytes::Bytes;

use super::Component;
use crate::xdr_struct;

xdr_struct! {
    /// fs_locations4.
    pub struct FsLocations {
        /// The path of the file system's root at the server that answers; empty for `/`.
        pub fs_root: Vec<Component>,
        /// Where it is, that server included.
        pub locations: Vec<FsLocation>,
    }

    /// fs_location4: servers that have it under the same path.
    pub struct FsLocation {
        /// Each a host name, an address, or an address with its port in universal form (RFC 5665), which
        /// Linux understands since 5.17.
        pub servers: Vec<Bytes>,
        /// Its path at each of them.
        pub rootpath: Vec<Component>,
    }
}
