//! CREATE (RFC 8881, section 18.4): creates an object that is not a regular file.

use bytes::Bytes;

use super::{Bitmap, ChangeInfo, Fattr, FileType, SpecData, Status};
use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder};
use crate::xdr_struct;

/// createtype4: type of the new object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CreateType {
    /// A symbolic link with this text.
    Symlink(Bytes),
    /// A block device.
    Block(SpecData),
    /// A character device.
    Char(SpecData),
    /// A socket.
    Socket,
    /// A named pipe.
    Fifo,
    /// A directory.
    Directory,
    /// Any other type; answered NFS4ERR_BADTYPE.
    Other(u32),
}

impl CreateType {
    /// File type; none for a type that CREATE does not create.
    #[must_use]
    pub fn file_type(&self) -> Option<FileType> {
        Some(match self {
            Self::Symlink(_) => FileType::Symlink,
            Self::Block(_) => FileType::Block,
            Self::Char(_) => FileType::Char,
            Self::Socket => FileType::Socket,
            Self::Fifo => FileType::Fifo,
            Self::Directory => FileType::Directory,
            Self::Other(_) => return None,
        })
    }
}

impl Encode for CreateType {
    fn encode(&self, e: &mut Encoder) {
        match self {
            Self::Other(number) => e.u32(*number),
            known => known.file_type().map_or(0, |file_type| file_type as u32).encode(e),
        }
        match self {
            Self::Symlink(text) => text.encode(e),
            Self::Block(device) | Self::Char(device) => device.encode(e),
            Self::Socket | Self::Fifo | Self::Directory | Self::Other(_) => {}
        }
    }
}

impl Decode for CreateType {
    fn decode(d: &mut Decoder) -> Result<Self, DecodeError> {
        let number = d.u32()?;
        Ok(match FileType::from_u32(number) {
            Some(FileType::Symlink) => Self::Symlink(Decode::decode(d)?),
            Some(FileType::Block) => Self::Block(Decode::decode(d)?),
            Some(FileType::Char) => Self::Char(Decode::decode(d)?),
            Some(FileType::Socket) => Self::Socket,
            Some(FileType::Fifo) => Self::Fifo,
            Some(FileType::Directory) => Self::Directory,
            Some(FileType::Regular | FileType::AttrDir | FileType::NamedAttr) | None => Self::Other(number),
        })
    }
}

xdr_struct! {
    /// The arguments. Current handle: the directory; afterwards the new object.
    pub struct Args {
        /// Type of the new object.
        pub objtype: CreateType,
        /// Name of the entry.
        pub objname: Bytes,
        /// First attributes of the object.
        pub createattrs: Box<Fattr>,
    }

    /// The results.
    #[derive(Copy)]
    pub struct ResOk {
        /// The directory's change.
        pub cinfo: ChangeInfo,
        /// Attributes that were set.
        pub attrset: Bitmap,
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
