//! Types that several operations share (RFC 8881, section 3.3).

use std::net::SocketAddr;
use std::ops::Deref;

use bytes::Bytes;

use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder};
use crate::{xdr_enum, xdr_struct, xdr_union};

mod bitmap;
pub use bitmap::Bitmap;

/// NFS4_FHSIZE: bytes in a file handle.
pub const HANDLE_BYTES_MAX: usize = 128;
/// NFS4_OPAQUE_LIMIT: bytes in the names of owners, servers and scopes, and in a tag.
pub const OPAQUE_BYTES_MAX: usize = 1024;

/// Variable-length opaque data of at most `MAX` bytes; the bound is checked when decoded.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Opaque<const MAX: usize>(pub Bytes);

/// nfs_fh4: opaque to the client.
pub type FileHandle = Opaque<HANDLE_BYTES_MAX>;
/// The name of an owner, a server, a scope, or a compound's tag.
pub type OwnerName = Opaque<OPAQUE_BYTES_MAX>;

impl<const MAX: usize> From<Bytes> for Opaque<MAX> {
    fn from(bytes: Bytes) -> Self {
        Self(bytes)
    }
}

impl<const MAX: usize> Deref for Opaque<MAX> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl<const MAX: usize> Encode for Opaque<MAX> {
    fn encode(&self, e: &mut Encoder) {
        e.opaque(&self.0);
    }
}

impl<const MAX: usize> Decode for Opaque<MAX> {
    fn decode(d: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(Self(d.opaque(MAX)?))
    }
}

/// Id with a type of its own, encoded as its inner type.
macro_rules! id {
    ($($(#[$meta:meta])* pub struct $name:ident($inner:ty);)+) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub $inner);

        impl Encode for $name {
            fn encode(&self, e: &mut Encoder) {
                self.0.encode(e);
            }
        }

        impl Decode for $name {
            fn decode(d: &mut Decoder) -> Result<Self, DecodeError> {
                Ok(Self(<$inner as Decode>::decode(d)?))
            }
        }
    )+};
}

id! {
    /// sessionid4: id of a session (RFC 8881, section 2.10).
    pub struct SessionId([u8; 16]);
    /// clientid4: id of a client at a server (RFC 8881, section 2.4).
    pub struct ClientId(u64);
    /// deviceid4: id of the data servers of a layout (RFC 8881, section 12.2.10).
    pub struct DeviceId([u8; 16]);
    /// layouttype4, including unsupported types: the answer to these is NFS4ERR_UNKNOWN_LAYOUTTYPE, not
    /// NFS4ERR_BADXDR (RFC 8881, section 3.3.13).
    pub struct LayoutType(u32);
}

impl LayoutType {
    /// LAYOUT4_NFSV4_1_FILES (RFC 8881, section 13).
    pub const FILES: Self = Self(1);
    /// LAYOUT4_OSD2_OBJECTS (RFC 5664).
    pub const OBJECTS: Self = Self(2);
    /// LAYOUT4_BLOCK_VOLUME (RFC 5663).
    pub const BLOCK: Self = Self(3);
    /// LAYOUT4_FLEX_FILES (RFC 8435).
    pub const FLEX_FILES: Self = Self(4);
    /// LAYOUT4_SCSI (RFC 8154).
    pub const SCSI: Self = Self(5);
}

/// verifier4: eight bytes that change when the verified data or state may be lost.
pub type Verifier = [u8; 8];
/// component4: one name in a directory, as bytes.
pub type Component = Bytes;

xdr_struct! {
    /// stateid4 (RFC 8881, section 8.2).
    #[derive(Copy, Default, Hash, PartialOrd, Ord)]
    pub struct Stateid {
        /// Sequence number: increases with each change of the state; zero in an argument means the latest.
        pub seqid: u32,
        /// Id of the state.
        pub other: [u8; 12],
    }

    /// specdata4: the number of a device.
    #[derive(Copy, Default, Hash)]
    pub struct SpecData {
        /// Major number.
        pub major: u32,
        /// Minor number.
        pub minor: u32,
    }

    /// fsid4: id of a file system within a server.
    #[derive(Copy, Default, Hash)]
    pub struct FsId {
        /// Major number.
        pub major: u64,
        /// Minor number.
        pub minor: u64,
    }

    /// change_info4: change attribute of a directory, before and after an operation.
    #[derive(Copy, Default, Hash)]
    pub struct ChangeInfo {
        /// True if both values were read atomically with the operation.
        pub atomic: bool,
        /// Before.
        pub before: u64,
        /// After.
        pub after: u64,
    }

    /// state_owner4: the open_owner4 or lock_owner4 of a client.
    #[derive(Hash)]
    pub struct StateOwner {
        /// Client. Ignored in arguments: the session has the client (RFC 8881, section 3.3.10).
        pub clientid: ClientId,
        /// Name of the owner, chosen by the client.
        pub owner: OwnerName,
    }

    /// netaddr4: address of a server.
    #[derive(Hash)]
    pub struct NetAddr {
        /// `tcp` or `tcp6` (RFC 5665).
        pub netid: Bytes,
        /// The address in universal form: `10.0.0.1.8.1` is port 2049 of 10.0.0.1.
        pub uaddr: Bytes,
    }

    /// io_info4 (RFC 7862): amount of I/O.
    #[derive(Copy, Default, Hash)]
    pub struct IoInfo {
        /// Operations.
        pub count: u64,
        /// Bytes.
        pub bytes: u64,
    }

    /// write_response4 (RFC 7862): progress of a copy.
    #[derive(Copy, Hash)]
    pub struct WriteResponse {
        /// Stateid of an asynchronous copy.
        pub callback_id: Option<Stateid>,
        /// Bytes written.
        pub count: u64,
        /// Durability of the bytes.
        pub committed: StableHow,
        /// The write verifier.
        pub writeverf: Verifier,
    }

    /// nfs_impl_id4: implementation of a client or server.
    pub struct ImplId {
        /// DNS domain of the vendor.
        pub domain: Bytes,
        /// Name and version.
        pub name: Bytes,
        /// Build time.
        pub date: Time,
    }

    /// nfsace4: one entry of an access control list (RFC 8881, section 6.2.1).
    pub struct Ace {
        /// Allow (0), deny, audit, alarm.
        pub kind: u32,
        /// ACE4_*_FLAG bits.
        pub flag: u32,
        /// ACE4_* access bits.
        pub access_mask: u32,
        /// Principal of the entry.
        pub who: Bytes,
    }
}

impl NetAddr {
    /// TCP address: the host, and the port as two more numbers (RFC 5665, section 5.2.3.3).
    #[must_use]
    pub fn tcp(address: SocketAddr) -> Self {
        let (high, low) = (address.port() >> 8, address.port() & 0xff);
        let netid = if address.is_ipv4() { "tcp" } else { "tcp6" };
        let uaddr = format!("{}.{high}.{low}", address.ip()).into();
        Self { netid: Bytes::from_static(netid.as_bytes()), uaddr }
    }
}

xdr_union! {
    /// netloc4 (RFC 7862): location of another server.
    #[derive(Hash)]
    pub enum NetLoc {
        /// By name.
        1 => Name(Bytes),
        /// By URL.
        2 => Url(Bytes),
        /// By address.
        3 => Addr(NetAddr),
    }
}

impl Stateid {
    /// Anonymous stateid, for I/O without state (RFC 8881, section 8.2.3).
    pub const ANONYMOUS: Self = Self { seqid: 0, other: [0; 12] };
    /// READ bypass stateid, for READs that ignore locks.
    pub const BYPASS: Self = Self { seqid: u32::MAX, other: [0xff; 12] };
    /// Current stateid: the one that an earlier operation of the same compound returned.
    pub const CURRENT: Self = Self { seqid: 1, other: [0; 12] };
    /// Invalid stateid: names no state.
    pub const INVALID: Self = Self { seqid: u32::MAX, other: [0; 12] };
}

/// nfstime4: since 1970-01-01 00:00 UTC.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Time {
    /// Seconds, negative before 1970.
    pub seconds: i64,
    /// Nanoseconds. Not checked: a server answers 10^9 or more with [`Status::Inval`].
    pub nanoseconds: u32,
}

impl Time {
    /// Nanoseconds in a second.
    pub const NANOSECONDS: u32 = 1_000_000_000;
}

impl Encode for Time {
    fn encode(&self, e: &mut Encoder) {
        self.seconds.encode(e);
        e.u32(self.nanoseconds);
    }
}

impl Decode for Time {
    fn decode(d: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(Self { seconds: i64::decode(d)?, nanoseconds: d.u32()? })
    }
}

xdr_enum! {
    /// nfs_ftype4.
    pub enum FileType {
        /// Regular file.
        Regular = 1,
        /// Directory.
        Directory = 2,
        /// Block device.
        Block = 3,
        /// Character device.
        Char = 4,
        /// Symbolic link.
        Symlink = 5,
        /// Socket.
        Socket = 6,
        /// Named pipe.
        Fifo = 7,
        /// The directory of named attributes.
        AttrDir = 8,
        /// A named attribute.
        NamedAttr = 9,
    }

    /// stable_how4: durability of a write (RFC 8881, section 18.32).
    pub enum StableHow {
        /// In memory; COMMIT makes it durable.
        Unstable = 0,
        /// The data, and what is needed to read them back.
        DataSync = 1,
        /// Data and all attributes.
        FileSync = 2,
    }

    /// layoutiomode4 (RFC 8881, section 3.3.20).
    pub enum LayoutIoMode {
        /// For reads.
        Read = 1,
        /// For reads and writes.
        ReadWrite = 2,
        /// Both; only in recalls and returns.
        Any = 3,
    }

    /// nfs_lock_type4: the waiting kinds only announce that the client will retry.
    pub enum LockType {
        /// Shared.
        Read = 1,
        /// Exclusive.
        Write = 2,
        /// Shared, will wait.
        ReadWait = 3,
        /// Exclusive, will wait.
        WriteWait = 4,
    }
}

impl LockType {
    /// True if the lock is exclusive.
    #[must_use]
    pub fn is_write(self) -> bool {
        matches!(self, Self::Write | Self::WriteWait)
    }
}
