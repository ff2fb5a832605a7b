//! Errors of file operations, and their statuses in each protocol.
//!
//! ```text
//! namespace::Error ─┐                 ┌─▶ NFSv4 status
//! store, cluster ───┼─▶ FileError ────┤
//! data servers ─────┘                 └─▶ NFSv3 status
//! ```
//!
//! Code below `ops` and `ops3` returns a [`FileError`]. The two protocols map it to their statuses in their
//! replies.

use cluster::{ClusterError, NoServer};
use host::Repeated;
use namespace::Error;
use replica::ReplicaError;
use store::StoreError;
use wire::nfs4::Status;
use wire::{nfs3, nfs4};

/// Reason of a failed file operation, independent of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileError {
    /// No entry has the name.
    NoEntry,
    /// The name is taken.
    Exists,
    /// The type of a new inode is not one that a client can make.
    BadType,
    /// The reply would exceed the client's size limit.
    TooSmall,
    /// The handle's inode was removed, or is outside of its export.
    Stale,
    /// The handle is not of this cluster.
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
    /// An argument is invalid.
    Invalid,
    /// The name is `.` or `..`.
    BadName,
    /// The name has a byte that is not allowed.
    BadCharacter,
    /// The name or target is too long.
    NameTooLong,
    /// The inode has the maximum number of names.
    TooManyLinks,
    /// The file would be too large.
    TooLarge,
    /// The guard of NFSv3's SETATTR does not match.
    NotSync,
    /// The operation is to be tried again.
    Delay,
    /// A data server is away: nothing was sent to it. For a client this and the next two are [`Self::Delay`].
    Away,
    /// A data server did not answer: a call to it may be carried out later.
    NoAnswer,
    /// The file's epoch was raised since its inode was read.
    StaleEpoch,
    /// The mode bits or the export do not permit it.
    Access,
    /// Only the owner or root may do this.
    Permission,
    /// The export is read-only.
    ReadOnly,
    /// The two handles are of different file systems: exports, or volumes.
    OtherFileSystem,
    /// The disk, or the store, failed.
    Io,
    /// No free space.
    NoSpace,
    /// Above a limit of the volume, the user or the group.
    Quota,
    /// A share reservation denies the access to the data.
    Locked,
    /// The owner's or group's name is unknown.
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
    /// The state machine refused for a reason that exists only in NFSv4, such as clients, sessions and stateids, or for
    /// administrators.
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
            // A root of a volume is an administrator's.
            Error::Permission | Error::VolumeRoot => Self::Permission,
            Error::OtherVolume => Self::OtherFileSystem,
            Error::Quota => Self::Quota,
            Error::LayoutUnavailable => Self::LayoutUnavailable,
            Error::NoXattr => Self::NoXattr,
            Error::XattrTooBig => Self::XattrTooBig,
            // OPEN and LAYOUTGET may return this status; LOCK has a status of its own.
            Error::TooManyStates | Error::NoXattrRoom | Error::TooManyClients | Error::TooManyInodes => {
                Self::NoSpace
            }
            // The replica reports ServerGone as an error of its own.
            Error::Delay | Error::ServerGone => Self::Delay,
            // The whole command was dropped, and the log has an error line.
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
            | Error::LockRange
            | Error::NotVolume
            | Error::HoldsVolumes
            | Error::FilesOpen
            | Error::TooManyVolumes
            | Error::TooManySnapshots
            | Error::HoldsSnapshots
            | Error::NewerSnapshots
            | Error::HoldsClones
            | Error::NotClone
            | Error::ClonesTooDeep
            | Error::Promotes => Self::State(error),
            Error::ReadOnly => Self::ReadOnly,
        }
    }
}

/// Failures of the store: each request of a client may meet one.
static STORE_FAILURES: Repeated = Repeated::new();

/// Error of a failed store; the replica has noticed it too, and stops the server.
impl From<StoreError> for FileError {
    fn from(error: StoreError) -> Self {
        if let Some(count) = STORE_FAILURES.count() {
            tracing::error!(%error, count, "metadata store");
        }
        Self::Io
    }
}

/// [`FileError`] of a failed store, for callers that return a protocol's error.
pub(crate) fn store_failed(error: StoreError) -> FileError {
    error.into()
}

/// Error of the group of metaservers; problems for an operator were logged.
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

/// Error of an unreachable target.
impl From<NoServer> for FileError {
    fn from(error: NoServer) -> Self {
        match error {
            NoServer::Lost => Self::Io,
            NoServer::Unknown => Self::Away,
        }
    }
}

/// NFSv4 status (RFC 8881, section 15.1).
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
            // Guards exist only in NFSv3.
            FileError::NotSync | FileError::Fault => Status::ServerFault,
            FileError::Delay | FileError::Away | FileError::NoAnswer | FileError::StaleEpoch => Status::Delay,
            FileError::Access => Status::Access,
            FileError::Permission => Status::Perm,
            FileError::ReadOnly => Status::RoFs,
            FileError::OtherFileSystem => Status::XDev,
            FileError::Io => Status::Io,
            FileError::NoSpace => Status::NoSpc,
            FileError::Quota => Status::DQuot,
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

/// Errors of operations whose error replies have more than a status.
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
        // Of commands of administrators alone.
        Error::NotVolume
        | Error::HoldsVolumes
        | Error::FilesOpen
        | Error::TooManyVolumes
        | Error::TooManySnapshots
        | Error::HoldsSnapshots
        | Error::NewerSnapshots
        | Error::HoldsClones
        | Error::NotClone
        | Error::ClonesTooDeep
        | Error::Promotes => Status::ServerFault,
        other => FileError::from(other).into(),
    }
}

/// NFSv3 status (RFC 1813, section 2.6).
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
            FileError::Delay | FileError::Away | FileError::NoAnswer | FileError::StaleEpoch => {
                Status::Jukebox
            }
            FileError::Access | FileError::Locked | FileError::State(Error::ShareDenied) => Status::Acces,
            FileError::Permission => Status::Perm,
            FileError::ReadOnly => Status::Rofs,
            FileError::OtherFileSystem => Status::Xdev,
            FileError::Io => Status::Io,
            FileError::NoSpace => Status::NoSpc,
            FileError::Quota => Status::DQuot,
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
