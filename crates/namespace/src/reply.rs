//! Replies to commands. They are stored in slots, so their format lasts as long as that of commands.

use serde::{Deserialize, Serialize};

use crate::{
    ByteRange, Change, Channels, ClientId, DeviceId, FileLayout, Inode, InodeId, LockKind, SessionId,
    Snapshot, Stateid,
};

/// Reply to a command.
#[expect(missing_docs, reason = "each variant tells what its fields are")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// The request was refused.
    Refused(Error),
    /// Done, without further values.
    Done,
    /// Create, MakeVolume, MakeClone: the inode, and whether it existed before.
    Created { inode: Inode, existed: bool, dir: Change },
    /// Link.
    Linked { inode: Inode, dir: Change },
    /// Remove, RemoveVolume: the inode of the name, after the command (links 0: no name is left), for the recall of its
    /// layouts.
    Removed { inode: Inode, dir: Change },
    /// Rename.
    Renamed { from: Change, to: Change, moved: InodeId, replaced: Option<InodeId> },
    /// SetAttributes, Wrote, SetStripe: the inode after the command. `deferred`: a truncation of objects to
    /// finish before the reply to the client.
    Attributes { inode: Inode, deferred: Option<u64> },
    /// ClaimWrite. It is no answer to the request: another claim may follow.
    Claimed { id: u64 },
    /// ExchangeId.
    Client { id: ClientId, sequence: u32, confirmed: bool },
    /// CreateSession.
    Session {
        /// The session.
        id: SessionId,
        /// Its client.
        client: ClientId,
        /// Sequence of the request.
        sequence: u32,
        /// Limits of the session.
        channels: Channels,
        /// Incarnation of the client that was ended by this.
        ended: Option<ClientId>,
    },
    /// Open.
    Opened {
        /// The state.
        stateid: Stateid,
        /// The file.
        inode: Inode,
        /// True if this OPEN created the file.
        created: bool,
        /// Change of the directory; none for CLAIM_FH.
        dir: Option<Change>,
        /// Truncation of objects to finish before the reply to the client.
        deferred: Option<u64>,
        /// Read delegation that was granted.
        delegation: Option<Stateid>,
    },
    /// Close, OpenDowngrade, Lock, Unlock, LayoutRecall, LayoutReturn of a file (none left: no stateid).
    State { stateid: Option<Stateid> },
    /// Lock or LockTest: the conflicting lock.
    Denied(Conflict),
    /// LayoutGet.
    Layout { stateid: Stateid, inode: InodeId, generation: u32, layout: FileLayout, layout_epoch: u32 },
    /// LayoutCommit: the size, if it grew.
    Committed { size: Option<u64> },
    /// DefineDevice.
    Device { id: DeviceId },
    /// SetXattr, RemoveXattr: change of the inode.
    Changed { change: Change },
    /// No change, and no recorded reply: other clients have delegations of the file, which must be returned
    /// first.
    Delegated { inode: InodeId },
    /// ServerStarts: incarnation of the member's process.
    Started { life: u64 },
    /// MakeSnapshot.
    Snapshot { made: Option<Snapshot> },
    /// RollBack: false if clients may still write to files of the volume unseen, or a newer snapshot is being removed.
    RolledBack { begun: bool },
}

/// Conflicting lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conflict {
    /// Range.
    pub range: ByteRange,
    /// Kind.
    pub kind: LockKind,
    /// Client.
    pub client: ClientId,
    /// The lock-owner.
    pub owner: Vec<u8>,
}

/// Reason of a refusal. Mapped to NFS4ERR_* and NFS3ERR_* in one file of the metaserver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Error {
    /// No such name.
    NoEntry,
    /// The name exists.
    Exists,
    /// The inode was removed.
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
    /// A directory would become its own descendant, or another invalid argument.
    Invalid,
    /// Too many names of one inode, or entries in one directory.
    TooManyLinks,
    /// Too large.
    TooLarge,
    /// NFSv3's guard did not match.
    NotSync,
    /// Try again later: for example, objects are still being truncated.
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
    /// The client belongs to another principal.
    Permission,
    /// The sequence of CREATE_SESSION or of a state is neither the next nor a retry.
    Misordered,
    /// No such session.
    BadSession,
    /// RECLAIM_COMPLETE was sent twice.
    CompleteAlready,

    /// No such state, or of another client, kind or file.
    BadStateid,
    /// The state has a newer sequence.
    OldStateid,
    /// The share reservation of another owner's open denies it.
    ShareDenied,
    /// The open does not allow this kind of lock or layout.
    OpenMode,
    /// A lock range that wraps or is empty.
    BadRange,
    /// The lock state has locks.
    LocksHeld,
    /// No layout can be granted.
    LayoutUnavailable,
    /// No such device or target.
    NoDevice,
    /// The client has the maximum of opens, locks and layouts.
    TooManyStates,

    /// The delegation was revoked; FREE_STATEID acknowledges it.
    DelegationRevoked,

    /// No such extended attribute.
    NoXattr,
    /// The value of an extended attribute is too long.
    XattrTooBig,
    /// The inode has the maximum number of extended attributes, or of their bytes.
    NoXattrRoom,

    /// A newer process of the metaserver has started, or many other metaservers have: commands of this
    /// process are not applied any more.
    ServerGone,

    /// The state machine broke an invariant of its own in the command, and dropped it.
    Fault,

    /// The maximum of clients or sessions is reached: of one address, of one client, or in total.
    TooManyClients,

    /// A lock or unlock would have to change too many ranges of its owner one by one.
    LockRange,

    /// A name of one volume would be for an inode of another.
    OtherVolume,
    /// The root of a volume, which only an administrator removes.
    VolumeRoot,
    /// Not the root of a volume.
    NotVolume,
    /// Other volumes are in the volume.
    HoldsVolumes,
    /// Files of the volume are open.
    FilesOpen,
    /// The maximum of volumes is reached.
    TooManyVolumes,
    /// The volume has given all inode numbers.
    TooManyInodes,
    /// Above a limit of the volume, or of a user or group in it.
    Quota,

    /// In a snapshot, or in a directory of snapshots.
    ReadOnly,
    /// The maximum of snapshots is reached.
    TooManySnapshots,
    /// There are snapshots of the volume.
    HoldsSnapshots,
    /// There are newer snapshots of the volume.
    NewerSnapshots,
    /// There are clones of the snapshot.
    HoldsClones,
    /// Not a clone.
    NotClone,
    /// Too many clones are between the snapshot and a volume that is none.
    ClonesTooDeep,
    /// The volume is being promoted.
    Promotes,
}
