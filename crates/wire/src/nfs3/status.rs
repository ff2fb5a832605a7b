//! Status of a procedure (RFC 1813, section 2.6).

use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder};
use crate::xdr_enum;

const OK: u32 = 0;

xdr_enum! {
    /// nfsstat3: error of a procedure, NFS3ERR_* of the RFC. NFS3_OK is the `Ok` of a `Result`.
    pub enum Status {
        /// Operation not permitted: the caller is neither the owner nor privileged.
        Perm = 1,
        /// No such name.
        NoEnt = 2,
        /// I/O error, such as a failed disk.
        Io = 5,
        /// No such device.
        Nxio = 6,
        /// Permission denied.
        Acces = 13,
        /// The name exists.
        Exist = 17,
        /// A hard link from one file system to another.
        Xdev = 18,
        /// No such device.
        NoDev = 19,
        /// Not a directory.
        NotDir = 20,
        /// Is a directory.
        IsDir = 21,
        /// Invalid argument, such as READLINK of a file.
        Inval = 22,
        /// The file would be too large.
        FBig = 27,
        /// No space left.
        NoSpc = 28,
        /// The file system is read-only.
        Rofs = 30,
        /// Too many hard links.
        MLink = 31,
        /// The name is too long.
        NameTooLong = 63,
        /// The directory is not empty.
        NotEmpty = 66,
        /// The quota is exhausted.
        DQuot = 69,
        /// Stale handle: the object does not exist any more.
        Stale = 70,
        /// Too many levels of remote in path.
        Remote = 71,
        /// Bad handle: not made by this server.
        BadHandle = 10001,
        /// SETATTR's guard does not match the ctime.
        NotSync = 10002,
        /// The READDIR cookie is stale.
        BadCookie = 10003,
        /// The operation is not supported.
        NotSupp = 10004,
        /// The buffer is too small for one entry.
        TooSmall = 10005,
        /// None of the other errors fits.
        ServerFault = 10006,
        /// The server cannot create this type of object.
        BadType = 10007,
        /// Temporary failure: retry later, with another xid.
        Jukebox = 10008,
    }
}

/// Failure of a procedure, with the attributes that version 3 also returns then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure<F> {
    /// Error status.
    pub status: Status,
    /// Attributes. Boxed: two sets of wcc_data would make each `Result` a quarter of a KiB.
    pub body: Box<F>,
}

impl<F> Failure<F> {
    /// A failure with attributes.
    #[must_use]
    pub fn new(status: Status, body: F) -> Self {
        Self { status, body: Box::new(body) }
    }
}

/// Failure without attributes: always permitted, but the client loses its cache.
impl<F: Default> From<Status> for Failure<F> {
    fn from(status: Status) -> Self {
        Self::new(status, F::default())
    }
}

impl<T: Encode, F: Encode> Encode for Result<T, Failure<F>> {
    fn encode(&self, e: &mut Encoder) {
        match self {
            Ok(body) => {
                e.u32(OK);
                body.encode(e);
            }
            Err(failure) => {
                failure.status.encode(e);
                failure.body.encode(e);
            }
        }
    }
}

impl<T: Decode, F: Decode> Decode for Result<T, Failure<F>> {
    fn decode(d: &mut Decoder) -> Result<Self, DecodeError> {
        match d.u32()? {
            OK => Ok(Ok(T::decode(d)?)),
            other => {
                let status = Status::from_u32(other).ok_or(DecodeError::Enum(other))?;
                Ok(Err(Failure::new(status, F::decode(d)?)))
            }
        }
    }
}
