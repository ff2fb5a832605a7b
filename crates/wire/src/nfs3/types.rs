//! Types that several procedures share (RFC 1813, sections 2.5 and 2.6).

use std::ops::Deref;

use bytes::Bytes;

use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder};
use crate::{xdr_enum, xdr_struct, xdr_union};

/// NFS3_FHSIZE.
pub const HANDLE_BYTES_MAX: usize = 64;

/// Opaque data with a bound of the protocol, checked when decoded.
macro_rules! bounded_opaque {
    ($(#[$meta:meta])* pub struct $name:ident, $max:expr) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
        pub struct $name(pub bytes::Bytes);

        impl From<bytes::Bytes> for $name {
            fn from(bytes: bytes::Bytes) -> Self {
                Self(bytes)
            }
        }

        impl std::ops::Deref for $name {
            type Target = [u8];
            fn deref(&self) -> &[u8] {
                &self.0
            }
        }

        impl $crate::xdr::Encode for $name {
            fn encode(&self, e: &mut $crate::xdr::Encoder) {
                e.opaque(&self.0);
            }
        }

        impl $crate::xdr::Decode for $name {
            fn decode(d: &mut $crate::xdr::Decoder) -> Result<Self, $crate::xdr::DecodeError> {
                Ok(Self(d.opaque($max)?))
            }
        }
    };
}
pub(crate) use bounded_opaque;

bounded_opaque! {
    /// nfs_fh3: at most [`HANDLE_BYTES_MAX`] bytes, opaque to the client.
    pub struct FileHandle, HANDLE_BYTES_MAX
}

/// createverf3: chosen by the client of an exclusive CREATE, to recognize a retry.
pub type CreateVerf = [u8; 8];
/// cookieverf3: tells whether a READDIR cookie is still valid.
pub type CookieVerf = [u8; 8];
/// writeverf3: changes when the server may have lost unstable writes.
pub type WriteVerf = [u8; 8];

xdr_struct! {
    /// nfstime3: since 1970-01-01 00:00 UTC.
    #[derive(Copy, Default, Hash, PartialOrd, Ord)]
    pub struct Time {
        /// Seconds.
        pub seconds: u32,
        /// Nanoseconds. Not checked: a server answers 10^9 or more with [`super::Status::Inval`].
        pub nanoseconds: u32,
    }

    /// specdata3: the number of a device.
    #[derive(Copy, Default)]
    pub struct SpecData {
        /// Major number.
        pub major: u32,
        /// Minor number.
        pub minor: u32,
    }

    /// fattr3: the attributes of an object.
    #[derive(Copy)]
    pub struct Fattr {
        /// Type of the object.
        pub kind: FileType,
        /// Permission bits, the low 12.
        pub mode: u32,
        /// Hard links.
        pub nlink: u32,
        /// Owner.
        pub uid: u32,
        /// Group.
        pub gid: u32,
        /// Length in bytes.
        pub size: u64,
        /// Disk space in bytes.
        pub used: u64,
        /// Device number, when it is a device.
        pub rdev: SpecData,
        /// The file system.
        pub fsid: u64,
        /// The inode's number in its file system.
        pub fileid: u64,
        /// Last access.
        pub atime: Time,
        /// Last change of data.
        pub mtime: Time,
        /// Last change of attributes.
        pub ctime: Time,
    }

    /// wcc_attr: attributes that tell whether a cache is still valid.
    #[derive(Copy)]
    pub struct WccAttr {
        /// Length in bytes.
        pub size: u64,
        /// Last change of data.
        pub mtime: Time,
        /// Last change of attributes.
        pub ctime: Time,
    }

    /// wcc_data: attributes before and after an operation, for weak cache consistency. If the client's cache
    /// matches `before`, then no other client changed the object, and the cache stays valid.
    #[derive(Copy, Default)]
    pub struct WccData {
        /// Before the operation; only if read atomically with it.
        pub before: Option<WccAttr>,
        /// After it.
        pub after: PostOpAttr,
    }

    /// sattr3: attributes to set; `None` leaves them.
    #[derive(Copy, Default)]
    pub struct SetAttr {
        /// Permission bits.
        pub mode: Option<u32>,
        /// Owner.
        pub uid: Option<u32>,
        /// Group.
        pub gid: Option<u32>,
        /// Length in bytes.
        pub size: Option<u64>,
        /// Last access.
        pub atime: SetTime,
        /// Last change of data.
        pub mtime: SetTime,
    }

    /// diropargs3: a name in a directory.
    #[derive(Hash)]
    pub struct DirOpArgs {
        /// The directory.
        pub dir: FileHandle,
        /// The name, one component. Bounded by the record: a server checks the length.
        pub name: Bytes,
    }
}

/// post_op_attr: attributes, if the server returns them.
pub type PostOpAttr = Option<Fattr>;
/// post_op_fh3: a handle, if the server returns it.
pub type PostOpFh = Option<FileHandle>;

xdr_enum! {
    /// ftype3: type of an object.
    pub enum FileType {
        /// Regular file.
        Regular = 1,
        /// Directory.
        Directory = 2,
        /// Block device.
        Block = 3,
        /// Character device.
        Character = 4,
        /// Symbolic link.
        SymLink = 5,
        /// Socket.
        Socket = 6,
        /// Named pipe.
        Fifo = 7,
    }

    /// stable_how: durability of a write, requested or done.
    pub enum StableHow {
        /// Possibly in memory only; COMMIT follows.
        Unstable = 0,
        /// The data are durable, and the metadata to read them.
        DataSync = 1,
        /// Data and all metadata are durable.
        FileSync = 2,
    }
}

xdr_union! {
    /// set_atime and set_mtime: source of the new time.
    #[derive(Copy, Default)]
    pub enum SetTime {
        /// No change.
        #[default]
        0 => DontChange,
        /// The server's clock.
        1 => ServerTime,
        /// This time.
        2 => ClientTime(Time),
    }
}

/// A linked list of the XDR language (RFC 4506, section 4.19): before each element a 1, at the end a 0.
/// Bounded by the record, of which each element takes at least four bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct List<T>(pub Vec<T>);

impl<T> Default for List<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> From<Vec<T>> for List<T> {
    fn from(items: Vec<T>) -> Self {
        Self(items)
    }
}

impl<T> Deref for List<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T: Encode> Encode for List<T> {
    fn encode(&self, e: &mut Encoder) {
        for item in &self.0 {
            true.encode(e);
            item.encode(e);
        }
        false.encode(e);
    }
}

impl<T: Decode> Decode for List<T> {
    fn decode(d: &mut Decoder) -> Result<Self, DecodeError> {
        let mut items = Vec::new();
        while bool::decode(d)? {
            items.push(T::decode(d)?);
        }
        Ok(Self(items))
    }
}
