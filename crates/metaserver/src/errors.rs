//! Errors of file operations, and their words in each protocol.
//!
//! ```text
//! namespace::Error ─┐                 ┌─▶ NFSv4 status
//! store, cluster ───┼─▶ FileError ────┤
//! data servers ─────┘                 └─▶ NFSv3 status
//! ```
//!
//! What a file operation finds, below `ops` and `ops3`, is a [`FileError`]; the two protocols name it where
//! they answer.

use cluster::{ClusterError, NoServer};
use namespace::Error;
use replica::ReplicaError;
use store::StoreError;
use wire::nfs4::Status;
use wire::{nfs3, nfs4};

/// Reason that an operation on files failed, in the words of no protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileError {
    /// No entry has the name.
    NoEntry,
    /// The name is taken.
    Exists,
    /// The type of a new inode is none that can be made.
    BadType,
    /// The reply would not fit where the client wants it.
    TooSmall,
    /// The handle's inode is gone, or outside of its export.
    Stale,
    /// The handle is not one of this cluster.
    BadHandle,
    /// Not a directory.
    NotDirectory,
    /// A directory.
    IsDirectory,
    /// Neither file nor directory, or a file where that is wrong.
    WrongType,
    /// A symbolic link.
    IsSymlink,
    /// The directory has entries.
    NotEmpty,
    /// An argument cannot be.
    Invalid,
    /// The name is `.` or `..`.
    BadName,
    /// The name has a byte that names must not have.
    BadCharacter,
    /// The name or target is too long.
    NameTooLong,
    /// The inode has as many names as it may.
    TooManyLinks,
    /// The file would be too large.
    TooLarge,
    /// The guard of NFSv3's SETATTR does not agree.
    NotSync,
    /// The operation is to be tried again.
    Delay,
    /// The mode bits or the export do not permit it.
    Access,
    /// Only the owner or root may.
    Permission,
    /// The export is read-only.
    ReadOnly,
    /// The two handles are of different exports.
    OtherExport,
    /// The disk, or the store, failed.
    Io,
    /// There is no room.
    NoSpace,
    /// A share reservation denies the access to the data.
    Locked,
    /// The owner's or group's name is not known.
    BadOwner,
    /// The operation is not supported for this file.
    NotSupported,
    /// The file has no such extended attribute.
    NoXattr,
    /// The extended attribute is too big.
    XattrTooBig,
    /// No layout can be granted.
    LayoutUnavailable,
    /// A fault of this program.
    Fault,
    /// The state machine refused by a reason that only NFSv4 has: clients, sessions, stateids.
    State(Error),
}

impl From<Error> for FileError {
    fn from(error: Error) -> Self {
        match error {
            Error::NoEntry | Error::NotConfirmed | Error::NoDevice => Self::NoEntry,
            Error::Exists => Self::Exists,
            Error::Stale => Self::Stale,
            Error::NotDirectory => Self::NotDirectory,
            Error::IsDirectory => Self::IsDirectory,
            Error::WrongType => Self::WrongType,
            Error::IsSymlink => Self::IsSymlink,
            Error::NotEmpty => Self::NotEmpty,
            Error::Invalid => Self::Invalid,
            Error::TooManyLinks => Self::TooManyLinks,
            Error::TooLarge => Self::TooLarge,
            Error::NotSync => Self::NotSync,
            Error::Permission => Self::Permission,
            Error::LayoutUnavailable => Self::LayoutUnavailable,
            Error::NoXattr => Self::NoXattr,
            Error::XattrTooBig => Self::XattrTooBig,
            // What OPEN and LAYOUTGET may answer; LOCK has a status of its own.
            Error::TooManyStates | Error::NoXattrRoom | Error::TooManyClients => Self::NoSpace,
            // The replica reports it as an error of its own.
            Error::Delay | Error::ServerGone => Self::Delay,
            // The command was dropped whole, and is in the log as an error.
            Error::Fault => Self::Fault,
            Error::StaleClient
            | Error::ClientInUse
            | Error::ClientBusy
            | Error::NotSame
            | Error::Misordered
            | Error::BadSession
            | Error::CompleteAlready
            | Error::BadStateid
            | Error::OldStateid
            | Error::ShareDenied
            | Error::OpenMode
            | Error::BadRange
            | Error::LocksHeld
            | Error::DelegationRevoked
            | Error::LockRange => Self::State(error),
        }
    }
}

/// Error of a failed store; the replica has noticed, too, and stops the server.
impl From<StoreError> for FileError {
    fn from(error: StoreError) -> Self {
        tracing::error!(%error, "metadata store");
        Self::Io
    }
}

/// [`FileError`] of a failed store, where the caller's error is of a protocol.
pub(crate) fn store_failed(error: StoreError) -> FileError {
    error.into()
}

/// Error of the group of metaservers; what an operator must mend was logged.
impl From<ClusterError> for FileError {
    fn from(error: ClusterError) -> Self {
        match error {
            ClusterError::Refused(error) => error.into(),
            ClusterError::NoLeader | ClusterError::Replica(ReplicaError::Unknown) => Self::Delay,
            ClusterError::Replica(ReplicaError::NoSpace) => Self::NoSpace,
            ClusterError::Replica(_) | ClusterError::Store(_) => Self::Io,
        }
    }
}

/// Target that cannot be reached.
impl From<NoServer> for FileError {
    fn from(error: NoServer) -> Self {
        match error {
            NoServer::Lost => Self::Io,
            NoServer::Unknown => Self::Delay,
        }
    }
}

/// NFSv4's status (RFC 8881, section 15.1).
impl From<FileError> for Status {
    fn from(error: FileError) -> Self {
        match error {
            FileError::NoEntry => Status::NoEnt,
            FileError::Exists => Status::Exist,
            FileError::BadType => Status::BadType,
            FileError::TooSmall => Status::TooSmall,
            FileError::Stale => Status::Stale,
            FileError::BadHandle => Status::BadHandle,
            FileError::NotDirectory => Status::NotDir,
            FileError::IsDirectory => Status::IsDir,
            FileError::WrongType => Status::WrongType,
            FileError::IsSymlink => Status::Symlink,
            FileError::NotEmpty => Status::NotEmpty,
            FileError::Invalid => Status::Inval,
            FileError::BadName => Status::BadName,
            FileError::BadCharacter => Status::BadChar,
            FileError::NameTooLong => Status::NameTooLong,
            FileError::TooManyLinks => Status::MLink,
            FileError::TooLarge => Status::FBig,
            // Only NFSv3 has guards.
            FileError::NotSync | FileError::Fault => Status::ServerFault,
            FileError::Delay => Status::Delay,
            FileError::Access => Status::Access,
            FileError::Permission => Status::Perm,
            FileError::ReadOnly => Status::RoFs,
            FileError::OtherExport => Status::XDev,
            FileError::Io => Status::Io,
            FileError::NoSpace => Status::NoSpc,
            FileError::Locked => Status::Locked,
            FileError::BadOwner => Status::BadOwner,
            FileError::NotSupported => Status::NotSupp,
            FileError::NoXattr => Status::NoXattr,
            FileError::XattrTooBig => Status::Xattr2Big,
            FileError::LayoutUnavailable => Status::LayoutUnavailable,
            FileError::State(error) => status_of_state(error),
        }
    }
}

/// Errors of operations that have more to say than a status.
macro_rules! from_file_error {
    ($($error:ty),*) => {
        $(impl From<FileError> for $error {
            fn from(error: FileError) -> Self {
                Status::from(error).into()
            }
        })*
    };
}

from_file_error!(nfs4::layoutget::Error, nfs4::getdeviceinfo::Error, nfs4::lock::Error);

fn status_of_state(error: Error) -> Status {
    match error {
        Error::StaleClient => Status::StaleClientid,
        Error::ClientInUse => Status::ClidInUse,
        Error::ClientBusy => Status::ClientidBusy,
        Error::NotSame => Status::NotSame,
        Error::Misordered => Status::SeqMisordered,
        Error::BadSession => Status::BadSession,
        Error::CompleteAlready => Status::CompleteAlready,
        Error::BadStateid => Status::BadStateid,
        Error::OldStateid => Status::OldStateid,
        Error::ShareDenied => Status::ShareDenied,
        Error::OpenMode => Status::OpenMode,
        Error::BadRange => Status::BadRange,
        Error::LocksHeld => Status::LocksHeld,
        Error::DelegationRevoked => Status::DelegRevoked,
        Error::LockRange => Status::LockRange,
        other => FileError::from(other).into(),
    }
}

/// NFSv3's status (RFC 1813, section 2.6).
impl From<FileError> for nfs3::Status {
    fn from(error: FileError) -> Self {
        use nfs3::Status;
        match error {
            FileError::NoEntry => Status::NoEnt,
            FileError::Exists => Status::Exist,
            FileError::BadType => Status::BadType,
            FileError::TooSmall => Status::TooSmall,
            FileError::Stale => Status::Stale,
            FileError::BadHandle => Status::BadHandle,
            FileError::NotDirectory => Status::NotDir,
            FileError::IsDirectory => Status::IsDir,
            FileError::NotEmpty => Status::NotEmpty,
            FileError::Invalid | FileError::WrongType | FileError::IsSymlink | FileError::BadName => {
                Status::Inval
            }
            FileError::NameTooLong => Status::NameTooLong,
            FileError::TooManyLinks => Status::MLink,
            FileError::TooLarge => Status::FBig,
            FileError::NotSync => Status::NotSync,
            FileError::Delay => Status::Jukebox,
            FileError::Access | FileError::Locked | FileError::State(Error::ShareDenied) => Status::Acces,
            FileError::Permission => Status::Perm,
            FileError::ReadOnly => Status::Rofs,
            FileError::OtherExport => Status::Xdev,
            FileError::Io => Status::Io,
            FileError::NoSpace => Status::NoSpc,
            FileError::NotSupported => Status::NotSupp,
            FileError::BadCharacter
            | FileError::BadOwner
            | FileError::NoXattr
            | FileError::XattrTooBig
            | FileError::LayoutUnavailable
            | FileError::Fault
            | FileError::State(_) => Status::ServerFault,
        }
    }
}
