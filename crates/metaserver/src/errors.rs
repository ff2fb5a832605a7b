//! The one place where what went wrong becomes a protocol's error.
//!
//! Inside the metaserver an error is an NFSv4 status: NFSv3's are a subset of it, number for number, with two
//! exceptions that are below.

use namespace::Error;
use replica::ReplicaError;
use store::StoreError;
use wire::nfs3;
use wire::nfs4::Status;

/// What a refused command answers.
pub(crate) fn refused(error: Error) -> Status {
    match error {
        Error::NoEntry => Status::NoEnt,
        Error::Exists => Status::Exist,
        Error::Stale => Status::Stale,
        Error::NotDirectory => Status::NotDir,
        Error::IsDirectory => Status::IsDir,
        Error::WrongType => Status::WrongType,
        Error::IsSymlink => Status::Symlink,
        Error::NotEmpty => Status::NotEmpty,
        Error::Invalid => Status::Inval,
        Error::TooManyLinks => Status::MLink,
        Error::TooLarge => Status::FBig,
        // NFS3ERR_NOT_SYNC has no number in NFSv4, whose clients cannot cause it.
        Error::NotSync => Status::Same,
        Error::Delay => Status::Delay,
        Error::StaleClient => Status::StaleClientid,
        Error::ClientInUse => Status::ClidInUse,
        Error::ClientBusy => Status::ClientidBusy,
        Error::NotConfirmed => Status::NoEnt,
        Error::NotSame => Status::NotSame,
        Error::Permission => Status::Perm,
        Error::Misordered => Status::SeqMisordered,
        Error::BadSession => Status::BadSession,
        Error::CompleteAlready => Status::CompleteAlready,
        Error::BadStateid => Status::BadStateid,
        Error::OldStateid => Status::OldStateid,
        Error::ShareDenied => Status::ShareDenied,
        Error::OpenMode => Status::OpenMode,
        Error::BadRange => Status::BadRange,
        Error::LocksHeld => Status::LocksHeld,
        Error::LayoutUnavailable => Status::LayoutUnavailable,
        Error::NoDevice => Status::NoEnt,
        // What OPEN and LAYOUTGET may answer; LOCK has a word of its own.
        Error::TooManyStates => Status::NoSpc,
        Error::DelegationRevoked => Status::DelegRevoked,
        Error::NoXattr => Status::NoXattr,
        Error::XattrTooBig => Status::Xattr2Big,
        Error::NoXattrRoom => Status::NoSpc,
        Error::TooManyClients => Status::NoSpc,
        Error::LockRange => Status::LockRange,
        // The replica says it as an error of its own.
        Error::ServerGone => Status::Delay,
        // It was given up whole, and is in the log as an error.
        Error::Fault => Status::ServerFault,
    }
}

/// What a failed store answers; the replica has noticed, too, and stops the server.
pub(crate) fn store_failed(error: StoreError) -> Status {
    tracing::error!(%error, "metadata store");
    Status::Io
}

/// What a failed proposal answers.
pub(crate) fn replica_failed(error: ReplicaError) -> Status {
    match error {
        ReplicaError::NoSpace => Status::NoSpc,
        ReplicaError::Unknown => Status::Delay,
        ReplicaError::Failed(reason) | ReplicaError::Damaged { why: reason, .. } => {
            tracing::error!(%reason, "proposal");
            Status::Io
        }
    }
}

/// NFSv3's number for the same trouble.
pub(crate) fn nfs3(status: Status) -> nfs3::Status {
    match status {
        Status::Same => nfs3::Status::NotSync,
        Status::Delay => nfs3::Status::Jukebox,
        // What only NFSv4 can say, said in NFSv3's words.
        Status::WrongType | Status::Symlink | Status::BadName => nfs3::Status::Inval,
        Status::ShareDenied | Status::Locked => nfs3::Status::Acces,
        other => nfs3::Status::from_u32(other as u32).unwrap_or(nfs3::Status::ServerFault),
    }
}
