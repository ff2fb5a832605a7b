//! fattr4: attributes, requested by number and sent as a bitmap and the values in order (RFC 8881, section
//! 5).
//!
//! ```text
//! │ bitmap: size 4, mode 33 │ length 12 │ size 8 bytes │ mode 4 bytes │
//! ```
//!
//! Values have no length of their own, so an unknown number ends the decode: the position of the next value
//! is unknown. [`Fattr::unknown`] then has the numbers that the peer sent, so that a server can answer
//! NFS4ERR_ATTRNOTSUPP.

use bytes::Bytes;

use super::fs_locations::FsLocations;
use super::fs_locations_info::FsLocationsInfo;
use super::{Bitmap, FileHandle, FileType, FsId, LayoutType, SpecData, Status, Time};
use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder};
use crate::{xdr_enum, xdr_struct, xdr_union};

/// Table of attributes: number, constant, field, type, in the order of the numbers.
macro_rules! attributes {
    ($($(#[$meta:meta])* $number:literal $constant:ident $field:ident: $ty:ty,)+) => {
        /// Attribute numbers, for [`Bitmap`]s.
        pub mod attr {
            $($(#[$meta])* pub const $constant: u32 = $number;)+
        }

        /// Attributes of one object; none for those that are not set.
        #[derive(Debug, Clone, Default, PartialEq, Eq)]
        pub struct Fattr {
            $($(#[$meta])* pub $field: Option<$ty>,)+
            /// Unknown attributes that the peer sent. The decode of values stopped at the first of them.
            pub unknown: Bitmap,
        }

        impl Fattr {
            /// All attributes that have a field here.
            pub const KNOWN: Bitmap = Bitmap::of(&[$($number),+]);

            /// Attributes that have a value.
            #[must_use]
            pub fn mask(&self) -> Bitmap {
                let mut mask = Bitmap::EMPTY;
                $(if self.$field.is_some() { mask.set($number); })+
                mask
            }

            fn encode_values(&self, wanted: &Bitmap, e: &mut Encoder) {
                $(if let Some(value) = &self.$field && wanted.contains($number) { value.encode(e); })+
            }

            /// Decodes one value. False when `number` is unknown; then nothing was read.
            fn decode_value(&mut self, number: u32, d: &mut Decoder) -> Result<bool, DecodeError> {
                match number {
                    $($number => self.$field = Some(<$ty as Decode>::decode(d)?),)+
                    _ => return Ok(false),
                }
                Ok(true)
            }
        }
    };
}

attributes! {
    /// Attributes that the server supports for this object.
    0 SUPPORTED_ATTRS supported_attrs: Bitmap,
    /// Type of the object.
    1 TYPE file_type: FileType,
    /// Expiry of handles: FH4_PERSISTENT is 0 (RFC 8881, section 4.2).
    2 FH_EXPIRE_TYPE fh_expire_type: u32,
    /// Change attribute: changes with each change of data or attributes.
    3 CHANGE change: u64,
    /// Size in bytes.
    4 SIZE size: u64,
    /// True if hard links are supported.
    5 LINK_SUPPORT link_support: bool,
    /// True if symbolic links are supported.
    6 SYMLINK_SUPPORT symlink_support: bool,
    /// True if the object has named attributes.
    7 NAMED_ATTR named_attr: bool,
    /// The file system.
    8 FSID fsid: FsId,
    /// True if two different handles always name two objects.
    9 UNIQUE_HANDLES unique_handles: bool,
    /// Lease time in seconds.
    10 LEASE_TIME lease_time: u32,
    /// READDIR: the reason why this entry's attributes are missing.
    11 RDATTR_ERROR rdattr_error: Status,
    /// ACL4_SUPPORT_* bits: supported kinds of ACL entries.
    13 ACLSUPPORT aclsupport: u32,
    /// True if times can be set.
    15 CANSETTIME cansettime: bool,
    /// True if name comparison ignores case.
    16 CASE_INSENSITIVE case_insensitive: bool,
    /// True if names keep their case.
    17 CASE_PRESERVING case_preserving: bool,
    /// True if only the superuser changes owners.
    18 CHOWN_RESTRICTED chown_restricted: bool,
    /// The handle.
    19 FILEHANDLE filehandle: FileHandle,
    /// The inode number.
    20 FILEID fileid: u64,
    /// Files that this user can still create.
    21 FILES_AVAIL files_avail: u64,
    /// Files that can still be created.
    22 FILES_FREE files_free: u64,
    /// Maximal number of files.
    23 FILES_TOTAL files_total: u64,
    /// Other locations of the file system.
    24 FS_LOCATIONS fs_locations: FsLocations,
    /// True if all objects of the file system have the same per-file-system attributes.
    26 HOMOGENEOUS homogeneous: bool,
    /// Maximal size of a file in bytes.
    27 MAXFILESIZE maxfilesize: u64,
    /// Maximal number of hard links of one object.
    28 MAXLINK maxlink: u32,
    /// Maximal length of a name in bytes.
    29 MAXNAME maxname: u32,
    /// Maximal length of a READ in bytes.
    30 MAXREAD maxread: u64,
    /// Maximal length of a WRITE in bytes.
    31 MAXWRITE maxwrite: u64,
    /// Permission bits, 12 of them.
    33 MODE mode: u32,
    /// True if names that are too long are refused, not truncated.
    34 NO_TRUNC no_trunc: bool,
    /// Hard links.
    35 NUMLINKS numlinks: u32,
    /// The user: `name@domain`, or a number.
    36 OWNER owner: Bytes,
    /// The group: `name@domain`, or a number.
    37 OWNER_GROUP owner_group: Bytes,
    /// Bytes that can still be allocated to this object.
    38 QUOTA_AVAIL_HARD quota_avail_hard: u64,
    /// Bytes that can still be allocated to this object before a warning.
    39 QUOTA_AVAIL_SOFT quota_avail_soft: u64,
    /// Bytes of this object, and of others that share its limit.
    40 QUOTA_USED quota_used: u64,
    /// Device number of a special file.
    41 RAWDEV rawdev: SpecData,
    /// Bytes that this user can still use.
    42 SPACE_AVAIL space_avail: u64,
    /// Bytes that are free.
    43 SPACE_FREE space_free: u64,
    /// Bytes of the file system.
    44 SPACE_TOTAL space_total: u64,
    /// Bytes that the object uses.
    45 SPACE_USED space_used: u64,
    /// Last read.
    47 TIME_ACCESS time_access: Time,
    /// Sets the last read.
    48 TIME_ACCESS_SET time_access_set: SetTime,
    /// Creation.
    50 TIME_CREATE time_create: Time,
    /// The resolution of times.
    51 TIME_DELTA time_delta: Time,
    /// Last change of attributes (ctime).
    52 TIME_METADATA time_metadata: Time,
    /// Last write.
    53 TIME_MODIFY time_modify: Time,
    /// Sets the last write.
    54 TIME_MODIFY_SET time_modify_set: SetTime,
    /// The fileid of the directory that a mounted root covers.
    55 MOUNTED_ON_FILEID mounted_on_fileid: u64,
    /// Layout types of the file system; an empty list means no pNFS.
    62 FS_LAYOUT_TYPES fs_layout_types: Vec<LayoutType>,
    /// Layout types of this file.
    64 LAYOUT_TYPE layout_type: Vec<LayoutType>,
    /// Preferred bytes of one I/O in a layout.
    65 LAYOUT_BLKSIZE layout_blksize: u32,
    /// Preferred alignment in a layout, in bytes.
    66 LAYOUT_ALIGNMENT layout_alignment: u32,
    /// Other locations of the file system, with their properties.
    67 FS_LOCATIONS_INFO fs_locations_info: FsLocationsInfo,
    /// File and I/O sizes below which I/O should go through the metaserver (section 5.12.4).
    68 MDSTHRESHOLD mdsthreshold: Vec<ThresholdItem>,
    /// Sets some of the mode bits.
    74 MODE_SET_MASKED mode_set_masked: ModeMasked,
    /// Attributes that an EXCLUSIVE4_1 create may set.
    75 SUPPATTR_EXCLCREAT suppattr_exclcreat: Bitmap,
    /// FSCHARSET_CAP4_* bits: allowed encodings of names.
    76 FS_CHARSET_CAP fs_charset_cap: u32,
    /// Alignment of CLONE, in bytes (RFC 7862, section 12.2.1).
    77 CLONE_BLKSIZE clone_blksize: u32,
    /// Behaviour of the change attribute (RFC 7862, section 12.2.3).
    79 CHANGE_ATTR_TYPE change_attr_type: ChangeAttrType,
    /// Mode and umask of a create (RFC 8275).
    81 MODE_UMASK mode_umask: ModeUmask,
    /// True if extended attributes are supported (RFC 8276).
    82 XATTR_SUPPORT xattr_support: bool,
    /// Arguments of OPEN that the server knows (RFC 9754, section 4).
    86 OPEN_ARGUMENTS open_arguments: OpenArguments,
}

/// Hints of a [`ThresholdItem`], in the order of its list.
pub mod threshold {
    /// Size in bytes of files below which reads should go through the metaserver.
    pub const READ_SIZE: u32 = 0;
    /// Size in bytes of files below which writes should go through the metaserver.
    pub const WRITE_SIZE: u32 = 1;
}

xdr_struct! {
    /// threshold_item4 (RFC 8881, section 3.3.27).
    pub struct ThresholdItem {
        /// Layout type of the hints.
        pub layout_type: LayoutType,
        /// Hints that are present: see [`threshold`].
        pub hint_set: Bitmap,
        /// Values of the hints, 8 bytes for each of [`threshold`].
        pub hint_list: Bytes,
    }
}

impl ThresholdItem {
    /// Hints about file sizes, in bytes.
    #[must_use]
    pub fn sizes(layout_type: LayoutType, read_below: u64, write_below: u64) -> Self {
        let hint_list = [read_below.to_be_bytes(), write_below.to_be_bytes()].concat().into();
        let hint_set = Bitmap::of(&[threshold::READ_SIZE, threshold::WRITE_SIZE]);
        Self { layout_type, hint_set, hint_list }
    }
}

xdr_union! {
    /// settime4: source of a new time.
    #[derive(Copy)]
    pub enum SetTime {
        /// The server's clock.
        0 => Server,
        /// This time, from the client.
        1 => Client(Time),
    }
}

xdr_struct! {
    /// mode_masked4: sets the bits of `mask` to those of `value`.
    #[derive(Copy, Hash)]
    pub struct ModeMasked {
        /// The new bits.
        pub value: u32,
        /// Bits to change.
        pub mask: u32,
    }

    /// mode_umask4: the server applies the umask only when no default ACL is inherited.
    #[derive(Copy, Hash)]
    pub struct ModeUmask {
        /// Permission bits before the umask.
        pub mode: u32,
        /// Bits that the umask clears.
        pub umask: u32,
    }
}

xdr_struct! {
    /// open_arguments4 (RFC 9754, section 4.1): values, or numbers of bits, that the arguments of OPEN may have.
    #[derive(Copy, Hash)]
    pub struct OpenArguments {
        /// Values of share_access.
        pub share_access: Bitmap,
        /// Values of share_deny.
        pub share_deny: Bitmap,
        /// What may be wanted: the second byte of share_access, and numbers of its higher bits.
        pub share_access_want: Bitmap,
        /// Claims.
        pub open_claim: Bitmap,
        /// Modes of creation.
        pub create_mode: Bitmap,
    }
}

xdr_enum! {
    /// change_attr_type4 (RFC 7862, section 12.2.3).
    pub enum ChangeAttrType {
        /// Only increases.
        MonotonicIncr = 0,
        /// Increases by one with each change.
        VersionCounter = 1,
        /// As VersionCounter, but not over pNFS.
        VersionCounterNoPnfs = 2,
        /// Derived from the ctime.
        TimeMetadata = 3,
        /// Tells only equal from different.
        Undefined = 4,
    }
}

impl Fattr {
    /// Encodes the requested attributes that have a value as a fattr4.
    pub fn encode(&self, requested: &Bitmap, e: &mut Encoder) {
        let wanted = self.mask().intersection(requested);
        wanted.encode(e);
        e.counted(|e| self.encode_values(&wanted, e));
    }

    /// True if each attribute of `which` has the same value here and in `other`, or none in both, for VERIFY
    /// and NVERIFY.
    #[must_use]
    pub fn same(&self, other: &Self, which: &Bitmap) -> bool {
        let said = |attrs: &Self| {
            let mut e = Encoder::new();
            attrs.encode(which, &mut e);
            e.finish().into_bytes()
        };
        said(self) == said(other)
    }
}

/// Encodes all attributes that have a value.
impl Encode for Box<Fattr> {
    fn encode(&self, e: &mut Encoder) {
        Fattr::encode(self, &Fattr::KNOWN, e);
    }
}

impl Decode for Box<Fattr> {
    fn decode(d: &mut Decoder) -> Result<Self, DecodeError> {
        let sent = Bitmap::decode(d)?;
        let mut values = Decoder::new(Bytes::decode(d)?);
        let mut attrs = Box::new(Fattr { unknown: sent.difference(&Fattr::KNOWN), ..Fattr::default() });
        for number in sent.iter() {
            if !attrs.decode_value(number, &mut values)? {
                return Ok(attrs);
            }
        }
        match values.remaining() {
            0 => Ok(attrs),
            _ => Err(DecodeError::Range),
        }
    }
}

/// Attributes in the results of GETATTR and READDIR: the requested ones of `attrs`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AttrReply {
    /// Requested attributes; after a decode, the attributes that the server sent.
    pub requested: Bitmap,
    /// Values, possibly of more attributes than requested.
    pub attrs: Box<Fattr>,
}

impl Encode for AttrReply {
    fn encode(&self, e: &mut Encoder) {
        Fattr::encode(&self.attrs, &self.requested, e);
    }
}

impl Decode for AttrReply {
    fn decode(d: &mut Decoder) -> Result<Self, DecodeError> {
        let attrs: Box<Fattr> = Decode::decode(d)?;
        Ok(Self { requested: attrs.mask(), attrs })
    }
}
