//! What `apply` answers. Replies are stored in slots, so they are as lasting as commands.

use serde::{Deserialize, Serialize};

use crate::{
    ByteRange, Change, Channels, ClientId, DeviceId, FileLayout, Inode, InodeId, LockKind, SessionId, Stateid,
};

/// The outcome of a command.
#[expect(missing_docs, reason = "each variant tells what its fields are")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// What was asked cannot be.
    Refused(Error),
    /// Done; there is nothing to say.
    Done,
    /// Create: the inode, and whether it was there before.
    Created { inode: Inode, existed: bool, dir: Change },
    /// Link.
    Linked { inode: Inode, dir: Change },
    /// Remove: what the name named, as it is now (links 0: no name is left), and its clients' layouts to
    /// recall.
    Removed { inode: Inode, dir: Change },
    /// Rename.
    Renamed { from: Change, to: Change, moved: InodeId, replaced: Option<InodeId> },
    /// SetAttributes, Wrote, SetStripe: the inode as it is now. `deferred`: objects to truncate before anyone
    /// is answered.
    Attributes { inode: Inode, deferred: Option<u64> },
    /// ExchangeId.
    Client { id: ClientId, sequence: u32, confirmed: bool },
    /// CreateSession.
    Session {
        /// The session.
        id: SessionId,
        /// Its client.
        client: ClientId,
        /// The sequence of the request.
        sequence: u32,
        /// The limits that it was given.
        channels: Channels,
        /// The incarnation of the client that ended with this.
        ended: Option<ClientId>,
    },
    /// Open.
    Opened {
        /// The state.
        stateid: Stateid,
        /// The file.
        inode: Inode,
        /// Whether this OPEN made it.
        created: bool,
        /// Of the directory; none for CLAIM_FH.
        dir: Option<Change>,
        /// Objects to truncate before the client is answered.
        deferred: Option<u64>,
        /// The read delegation that came with it.
        delegation: Option<Stateid>,
    },
    /// Close, OpenDowngrade, Lock, Unlock, LayoutRecall, LayoutReturn of a file (none left: no stateid).
    State { stateid: Option<Stateid> },
    /// Lock or LockTest: who holds what is in the way.
    Denied(Conflict),
    /// LayoutGet.
    Layout { stateid: Stateid, inode: InodeId, generation: u32, layout: FileLayout },
    /// LayoutCommit: the size, if it grew.
    Committed { size: Option<u64> },
    /// DefineDevice.
    Device { id: DeviceId },
    /// SetXattr, RemoveXattr: of the object.
    Changed { change: Change },
    /// Nothing was done, nor is this remembered: other clients have delegations of the file, which must come
    /// back first.
    Delegated { inode: InodeId },
    /// ServerStarts: which life of the member this is.
    Started { life: u64 },
}

/// A lock that is in the way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conflict {
    /// Its range.
    pub range: ByteRange,
    /// Its kind.
    pub kind: LockKind,
    /// The client that holds it.
    pub client: ClientId,
    /// The lock-owner.
    pub owner: Vec<u8>,
}

/// Why a command was refused. Mapped to NFS4ERR_* and NFS3ERR_* in one file of the metaserver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Error {
    /// No such name.
    NoEntry,
    /// The name exists.
    Exists,
    /// The inode is gone.
    Stale,
    /// Not a directory.
    NotDirectory,
    /// A directory.
    IsDirectory,
    /// Not a regular file (a symbolic link in OPEN is [`Error::IsSymlink`]).
    WrongType,
    /// A symbolic link.
    IsSymlink,
    /// The directory is not empty.
    NotEmpty,
    /// A directory would become its own descendant, or another impossible argument.
    Invalid,
    /// Too many names of one inode, or entries in one directory.
    TooManyLinks,
    /// Too large.
    TooLarge,
    /// NFSv3's guard did not hold.
    NotSync,
    /// Objects are still being truncated: try again.
    Delay,

    /// No such client.
    StaleClient,
    /// The client id is in use by another principal.
    ClientInUse,
    /// The client still has sessions or state.
    ClientBusy,
    /// EXCHANGE_ID with update for a client that is not confirmed.
    NotConfirmed,
    /// EXCHANGE_ID with update: another verifier than the confirmed one.
    NotSame,
    /// Another principal.
    Permission,
    /// CREATE_SESSION or state sequence is neither next nor repeated.
    Misordered,
    /// No such session.
    BadSession,
    /// RECLAIM_COMPLETE came twice.
    CompleteAlready,

    /// No such state, or of another client, kind or file.
    BadStateid,
    /// The state moved on.
    OldStateid,
    /// An open of another owner denies it.
    ShareDenied,
    /// A lock kind or a layout that the open does not allow.
    OpenMode,
    /// A lock range that wraps or is empty.
    BadRange,
    /// Locks are held under it.
    LocksHeld,
    /// No layout can be given.
    LayoutUnavailable,
    /// No such device or target.
    NoDevice,
    /// The client has as much open, locked and laid out as one client may.
    TooManyStates,

    /// The delegation was revoked; FREE_STATEID acknowledges it.
    DelegationRevoked,

    /// No such extended attribute.
    NoXattr,
    /// The value of an extended attribute is too long.
    XattrTooBig,
    /// The object has as many extended attributes, or as many bytes of them, as one can have.
    NoXattrRoom,

    /// A newer process of the metaserver began, or many other metaservers did: this one's commands are not
    /// done any more.
    ServerGone,

    /// The state machine broke a rule of its own while it carried the command out, and gave it up.
    Fault,

    /// There are as many clients or sessions as there may be: of one address, of one client, or in all.
    TooManyClients,

    /// A lock or unlock would change too many ranges of its owner one by one.
    LockRange,
}
