//! fs_locations_info: other locations of a file system, and the parts of a client's state that stay valid
//! there (RFC 8881, section 11.17).
//!
//! ```text
//! fls_info │ general flags │ transport flags │ 6 classes │ read rank │ write rank │ read, write order │
//!            each one byte, in the order of the FSLI4BX_ numbers
//! ```

use bytes::Bytes;

use super::Component;
use crate::xdr_struct;

xdr_struct! {
    /// fs_locations_info4.
    pub struct FsLocationsInfo {
        /// FSLI4IF_ bits; none of them is used.
        pub flags: u32,
        /// Validity of this information, in seconds.
        pub valid_for_s: i32,
        /// Path of the file system's root at this server; empty for `/`.
        pub fs_root: Vec<Component>,
        /// Locations, including this server.
        pub items: Vec<FsLocationsItem>,
    }

    /// fs_locations_item4: servers that have the file system under the same path.
    pub struct FsLocationsItem {
        /// Servers.
        pub entries: Vec<FsLocationsServer>,
        /// Path at each of these servers.
        pub rootpath: Vec<Component>,
    }

    /// fs_locations_server4.
    pub struct FsLocationsServer {
        /// Age of the server's data, in seconds; 0: current, -1: unknown.
        pub currency_s: i32,
        /// See [`ServerInfo`]. A server may send fewer bytes, or more.
        pub info: Bytes,
        /// As in [`FsLocation`](super::fs_locations::FsLocation).
        pub server: Bytes,
    }
}

/// General flags of a [`ServerInfo`]: FSLI4GF_.
pub mod general {
    /// The server accepts writes.
    pub const WRITABLE: u8 = 0x01;
    /// This entry is the server address that the request came to.
    pub const CUR_REQ: u8 = 0x02;
    /// The file system is absent now.
    pub const ABSENT: u8 = 0x04;
    /// The server is about to stop: clients should use another one.
    pub const GOING: u8 = 0x08;
}

/// Properties of one server. In each class, servers with the same number are equivalent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ServerInfo {
    /// See [`general`].
    pub flags: u8,
    /// FSLI4TF_ bits: RDMA.
    pub transport_flags: u8,
    /// Class of simultaneous use: a write at one server can be read at the others.
    pub simultaneous_use: u8,
    /// Class of equal file handles.
    pub handle: u8,
    /// Class of equal file ids.
    pub fileid: u8,
    /// Class of comparable write verifiers.
    pub write_verifier: u8,
    /// Class of comparable change attributes.
    pub change: u8,
    /// Class of equal READDIR cookies and verifiers.
    pub readdir: u8,
    /// Rank for reads; the lowest is the best.
    pub read_rank: u8,
    /// Rank for writes; the lowest is the best.
    pub write_rank: u8,
    /// Order of tries within a read rank.
    pub read_order: u8,
    /// Order of tries within a write rank.
    pub write_order: u8,
}

impl ServerInfo {
    /// Encodes the properties for [`FsLocationsServer::info`].
    #[must_use]
    pub fn to_bytes(self) -> Bytes {
        let classes =
            [self.simultaneous_use, self.handle, self.fileid, self.write_verifier, self.change, self.readdir];
        let ranks = [self.read_rank, self.write_rank, self.read_order, self.write_order];
        [&[self.flags, self.transport_flags], &classes[..], &ranks[..]].concat().into()
    }
}
