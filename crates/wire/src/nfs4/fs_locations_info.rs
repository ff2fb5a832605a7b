//! fs_locations_info: where else a file system is to be found, and what of a client's state goes with it (RFC
//! 8881, section 11.17).
//!
//! ```text
//! fls_info │ general flags │ transport flags │ 6 classes │ read rank │ write rank │ read order │ write order │
//!            each one byte, in the order of the FSLI4BX_ numbers
//! ```

use bytes::Bytes;

use super::Component;
use crate::xdr_struct;

xdr_struct! {
    /// fs_locations_info4.
    pub struct FsLocationsInfo {
        /// FSLI4IF_ bits; none of them concerns us.
        pub flags: u32,
        /// For how many seconds a client may believe this without asking again.
        pub valid_for_s: i32,
        /// The path of the file system's root at the server that answers; empty for `/`.
        pub fs_root: Vec<Component>,
        /// Where it is, that server included.
        pub items: Vec<FsLocationsItem>,
    }

    /// fs_locations_item4: servers that have it under the same path.
    pub struct FsLocationsItem {
        /// Each of them.
        pub entries: Vec<FsLocationsServer>,
        /// Its path at each of them.
        pub rootpath: Vec<Component>,
    }

    /// fs_locations_server4.
    pub struct FsLocationsServer {
        /// How many seconds its data are behind; 0 for none, -1 for "not known".
        pub currency_s: i32,
        /// See [`ServerInfo`]. A server may send fewer bytes, or more.
        pub info: Bytes,
        /// As in [`FsLocation`](super::fs_locations::FsLocation).
        pub server: Bytes,
    }
}

/// General flags of a [`ServerInfo`]: FSLI4GF_.
pub mod general {
    /// It takes changes.
    pub const WRITABLE: u8 = 0x01;
    /// This entry is the server address that the request came to.
    pub const CUR_REQ: u8 = 0x02;
    /// The file system is not there now.
    pub const ABSENT: u8 = 0x04;
    /// It is going away: a client does well to use another one.
    pub const GOING: u8 = 0x08;
}

/// What is said of one server. In each class servers with the same number are alike.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ServerInfo {
    /// See [`general`].
    pub flags: u8,
    /// FSLI4TF_ bits: RDMA.
    pub transport_flags: u8,
    /// May be used at the same time, as one: what was written at one of them is read at the others.
    pub simultaneous_use: u8,
    /// File handles mean the same.
    pub handle: u8,
    /// File ids mean the same.
    pub fileid: u8,
    /// Verifiers of unstable writes can be compared.
    pub write_verifier: u8,
    /// Change attributes can be compared.
    pub change: u8,
    /// Cookies and verifiers of READDIR mean the same.
    pub readdir: u8,
    /// The lower, the better to read from.
    pub read_rank: u8,
    /// The lower, the better to write to.
    pub write_rank: u8,
    /// Within a rank, the order in which to try.
    pub read_order: u8,
    /// The same for writing.
    pub write_order: u8,
}

impl ServerInfo {
    /// As it stands in [`FsLocationsServer::info`].
    #[must_use]
    pub fn to_bytes(self) -> Bytes {
        let classes =
            [self.simultaneous_use, self.handle, self.fileid, self.write_verifier, self.change, self.readdir];
        let ranks = [self.read_rank, self.write_rank, self.read_order, self.write_order];
        [&[self.flags, self.transport_flags], &classes[..], &ranks[..]].concat().into()
    }
}
