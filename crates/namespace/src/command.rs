//! Commands: all changes of the metadata, with every choice already made.
//!
//! The leader reads clocks, free space and random bits, and writes its choices into the command; `apply`
//! obeys. A refused command leaves no record but its reply in the slot.

mod arguments;

use std::net::IpAddr;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{
    BootChange, ByteRange, ChainChange, ChainId, ClientId, FileLayout, Generations, InodeId, IoMode, Limits,
    LockKind, MapChange, NewChain, NewVolume, OpenChain, Placed, Principal, Schedule, SessionId, Share,
    StateId, Stateid, StripePolicy, Subject, Time, TokenChange, VolumeId,
};

pub use self::arguments::{
    Callback, CallbackCredential, Channel, Channels, Create, DataServer, Device, Exists, Expect, FileVersion,
    LockOwner, NewAttributes, NewNode, Observation, Open, OpenTarget, ReturnScope, SetAttributes, SpaceUsed,
    XattrExists,
};

/// A command in the log, with its stamp and request id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proposal {
    /// Choices of the proposing metaserver.
    pub stamp: Stamp,
    /// Id of the operation that the command belongs to, so that a retry gets the recorded reply.
    pub request: Option<RequestId>,
    /// The change.
    pub command: Command,
    /// Generations of the inodes that the command names. The proposing replica fills them in; without them
    /// they are not checked.
    pub generations: Generations,
}

impl Proposal {
    /// Makes a proposal without generations.
    #[must_use]
    pub fn new(stamp: Stamp, request: Option<RequestId>, command: Command) -> Self {
        Self { stamp, request, command, generations: Generations::default() }
    }
}

/// Values that would differ between replicas, chosen once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Stamp {
    /// Time of the proposal.
    pub time: Time,
    /// 64 random bits: source of generations and session ids.
    pub random: u64,
}

/// Id of the request of a command: a retry has the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RequestId {
    /// One operation of a compound of NFSv4.
    Compound(CompoundRequest),
    /// A command of an NFSv3 call, which has no session; commands of a call are numbered from 0.
    Call(CallId, u32),
    /// A command of a metaserver: of the cluster itself, or of a client's request that may be repeated
    /// (NFSv3's WRITE).
    Server(MemberRequest),
}

/// Id of one change of a compound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompoundRequest {
    /// Session.
    pub session: SessionId,
    /// Slot of the session.
    pub slot: u32,
    /// Sequence of the slot.
    pub sequence: u32,
    /// Index of the change in the compound: the operation's position and its step, as numbered by the caller.
    pub index: u32,
}

/// Id of an NFSv3 call: a client repeats the same call after the loss of its connection (RFC 1813, section
/// 4.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct CallId {
    /// The client's address; IPv4 addresses are mapped to IPv6.
    pub client: [u8; 16],
    /// The client's port: clients reconnect from the same port, so that retries are found.
    pub port: u16,
    /// Transaction id of the RPC call.
    pub xid: u32,
    /// Procedure number.
    pub procedure: u32,
    /// Checksum of the credential and the arguments.
    pub checksum: u64,
}

/// Id of a metaserver's own command, in the session of its process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberRequest {
    /// Member of the group.
    pub member: u64,
    /// Incarnation of its process: see [`Command::ServerStarts`].
    pub life: u64,
    /// Slot; the process uses it again only after an answer.
    pub slot: u32,
    /// Sequence of the slot, ascending.
    pub sequence: u64,
}

/// A change of the metadata.
#[expect(missing_docs, reason = "the fields are the arguments of the operation that the variant names")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    // The name space.
    /// Makes an inode and its name.
    Create(Create),
    /// Adds a name to an inode.
    Link { inode: InodeId, dir: InodeId, name: Vec<u8> },
    /// Removes a name; the inode is deleted with its last name and its last open.
    Remove { dir: InodeId, name: Vec<u8>, expect: Expect },
    /// Moves a name; the former inode of the new name is removed.
    Rename { from_dir: InodeId, from: Vec<u8>, to_dir: InodeId, to: Vec<u8> },
    /// Changes attributes. A new size leaves a deferred operation, see [`crate::DeferredOp`].
    SetAttributes { inode: InodeId, set: SetAttributes },
    /// Data were written through a metaserver: `bytes`, and the size of the file is at least `end`. Refused with `Delay`
    /// if the file's epoch is not `epoch`, its value before the data were sent: a truncation may have deleted
    /// the data.
    Wrote { inode: InodeId, end: u64, bytes: u64, epoch: u32 },
    /// Writes inline data of a small file. Refused with `Delay` if its data are not inline any more, with
    /// `TooLarge` beyond [`crate::INLINE_BYTES_MAX`].
    WriteInline { inode: InodeId, offset: u64, data: Bytes },
    /// Intent of a migration of inline data: see [`crate::DataPlace`]. The reply has the current location of
    /// the data. `made`: the objects of this placement exist durably, so a file without data is striped at once, if it
    /// is the last one.
    /// A repetition raises the epoch: a write of the attempt before may still be under way.
    Migrate { inode: InodeId, made: Option<Placed> },
    /// Outcome of a migration: the data are in the objects, durably. `Delay` if the file has another layout
    /// or epoch now.
    Migrated { inode: InodeId, layout: FileLayout, epoch: u32 },
    /// Sets the layout of a file without data and objects; `Delay` if it has some already.
    PlaceAs { inode: InodeId, layout: FileLayout },
    /// Sets the stripe policy of new files under a directory; none: as in its parent.
    SetStripe { dir: InodeId, policy: Option<StripePolicy> },
    /// SETXATTR, for a file or directory. The name is without `user.`.
    SetXattr { inode: InodeId, name: Vec<u8>, value: Vec<u8>, exists: XattrExists },
    /// REMOVEXATTR.
    RemoveXattr { inode: InodeId, name: Vec<u8> },

    // Clients and sessions.
    /// EXCHANGE_ID (RFC 8881, section 18.35.4: every case of its table).
    ExchangeId { owner: Vec<u8>, verifier: [u8; 8], principal: Principal, update: bool, address: IpAddr },
    /// CREATE_SESSION; confirms the client. A retry (same sequence) gets the same reply. Refused with
    /// `StaleClient` from an address from which the client's verifier was never sent: see
    /// [`crate::ClientRecord::addresses`].
    CreateSession {
        client: ClientId,
        sequence: u32,
        principal: Principal,
        channels: Channels,
        address: IpAddr,
    },
    /// Ends a session.
    DestroySession { session: SessionId },
    /// Ends a client without state; refused with `ClientBusy` while it has sessions or state.
    DestroyClient { client: ClientId },
    /// RECLAIM_COMPLETE: the client has no more reclaims.
    ReclaimComplete { client: ClientId },
    /// Ends the courtesy and the state of a lapsed client. Refused with `ClientBusy` if its lease has not run
    /// out, since it may just have renewed.
    ExpireClient { client: ClientId },
    /// The leader found that the client's lease has run out. Its opens, locks and layouts stay until they
    /// conflict with another client; a client without state is deleted. `sequence`: that of the client's last
    /// CREATE_SESSION when its lease was judged; refused with `ClientBusy` if there is a later one. None: in any case.
    LapseLease { client: ClientId, sequence: Option<u32> },
    /// A lapsed client renewed its lease.
    RenewLease { client: ClientId },
    /// BACKCHANNEL_CTL.
    BackchannelCtl { session: SessionId, callback: Callback },

    // Opens and locks.
    /// OPEN, by name with or without creation, or by inode.
    Open(Open),
    /// CLOSE. The last close also ends the client's layout.
    Close { client: ClientId, stateid: Stateid },
    /// OPEN_DOWNGRADE.
    OpenDowngrade { client: ClientId, stateid: Stateid, access: Share, deny: Share },
    /// LOCK.
    Lock { client: ClientId, inode: InodeId, owner: LockOwner, kind: LockKind, range: ByteRange },
    /// LOCKU.
    Unlock { client: ClientId, stateid: Stateid, range: ByteRange },
    /// FREE_STATEID, for a lock state without locks.
    FreeState { client: ClientId, stateid: Stateid },

    // Delegations.
    /// DELEGRETURN.
    DelegationReturn { client: ClientId, stateid: Stateid },
    /// Revokes a delegation that was recalled and not returned in time.
    DelegationRevoke { client: ClientId, delegation: StateId },

    // Layouts.
    /// LAYOUTGET, for the whole file. `made` as with [`Command::Migrate`]; a file without objects gets no
    /// layout (`Delay`). A layout to write makes the file unsettled, see [`crate::Unsettled`]; `version` is
    /// then the version of its objects before the grant ([`Observation::version`]).
    LayoutGet {
        client: ClientId,
        inode: InodeId,
        stateid: Stateid,
        mode: IoMode,
        made: Option<Placed>,
        version: u64,
        /// Exported directory in the client's file handle.
        export: InodeId,
    },
    /// LAYOUTCOMMIT.
    LayoutCommit {
        client: ClientId,
        inode: InodeId,
        stateid: Stateid,
        /// Offset of the last byte written, if any.
        last_write: Option<u64>,
        /// Modification time from the client, if any.
        modified: Option<Time>,
        /// Observation of the data servers, if they were asked.
        observed: Option<Observation>,
    },
    /// Begins a layout recall: advances the layout's sequence, once until the next LAYOUTGET, because the
    /// callback must have a newer sequence than the client (RFC 8881, section 12.5.5.2.1).
    LayoutRecall { client: ClientId, inode: InodeId },
    /// LAYOUTRETURN, or revocation of a layout that was not returned in time.
    LayoutReturn { client: ClientId, scope: ReturnScope },

    // The cluster.
    /// Registration of a data server and its targets.
    PutDataServer {
        /// The data server, with the present run of its process.
        server: DataServer,
        /// The run that the present one was told of, and whose place it takes; none: it was told of none. A registration
        /// that was late would otherwise undo that of the next run, for good: then members of the living process count
        /// as dead.
        known: Option<u64>,
    },
    /// Defines a device for these targets in this order; an existing one is used again.
    DefineDevice { chains: Vec<ChainId> },
    /// Makes chains of targets.
    MakeChains { chains: Vec<NewChain> },
    /// Changes members of chains.
    ChangeChains { changes: Vec<ChainChange> },
    /// Outcome of deferred operations: these ids are done on every object, see [`crate::DeferredOp`].
    DeferredDone { ids: Vec<u64> },
    /// A metaserver's process starts: it gets a session in place of the session of the member's earlier
    /// process. The stamp's random bits identify the process, which has run for `age_ms`: the one before had ended by
    /// then.
    ServerStarts { member: u64, age_ms: u64 },

    /// The first command: makes the root directory, and the group's first incarnation with this random id.
    /// No effect if there is a root directory.
    Format { incarnation: [u8; 16] },

    /// Changes the cluster map.
    Map(MapChange),

    /// Relocates columns of a file: replaces the layout `from` by `to`. The caller has checked that the moved
    /// columns have no data, or they are put on open chains of their targets. `Delay` if a layout is granted, a truncation is pending, or the file is not as
    /// it was before that check.
    Relocate { inode: InodeId, from: FileLayout, to: FileLayout, checked: FileVersion },
    /// Changes the join tokens.
    JoinToken(TokenChange),

    /// Updates unsettled files by observations of the data servers. Outdated observations are skipped.
    Observe { files: Vec<Observation> },

    /// Removes leftovers, up to the bound of one command: see [`crate::RECORDS_OF_COMMAND_MAX`].
    RemoveLeftovers,

    /// Raises the epoch of a striped file if it is still `epoch`: a call with that epoch got no answer, and may
    /// be carried out later.
    RaiseEpoch { inode: InodeId, epoch: u32 },

    /// Claims a client's request that changes the data of a striped file, since another metaserver may be carrying it
    /// out, too: raises the file's epoch, so that what that one still writes is void, and notes the claim in the slot.
    /// `of`: the change that ends the request; once it was made, there is nothing to claim.
    ClaimWrite { inode: InodeId, id: u64, of: CompoundRequest },

    /// Takes what data servers told of the space that files take. What is outdated is skipped.
    SpaceUsed { files: Vec<SpaceUsed> },

    /// Makes open chains: `Relocate` puts columns of their targets on them that have no copies.
    OpenChains { chains: Vec<OpenChain> },

    /// Makes a volume.
    MakeVolume(NewVolume),

    /// Removes a volume and all that is in it: at once for clients, and with bounded work after it. Unless `force`,
    /// refused with files in it.
    RemoveVolume { dir: InodeId, name: Vec<u8>, force: bool },

    /// Sets the limits of a volume, or of a user or group in it.
    SetLimits { volume: VolumeId, subject: Subject, limits: Limits },

    /// Makes a snapshot of a volume.
    MakeSnapshot { volume: VolumeId, name: Vec<u8> },

    /// Sets which snapshots of a volume the leader makes and removes by itself.
    SetSchedule { volume: VolumeId, schedule: Schedule },

    /// Begins to copy the objects of a file that a snapshot shows, before its data change. `Delay` while a client has a
    /// layout of it.
    CopyObjects { inode: InodeId },

    /// The objects of a file were copied, durably: the copies, with this number, are its own. `Delay` if another attempt
    /// has begun since.
    CopiedObjects { inode: InodeId, copy: InodeId, epoch: u32 },

    /// Rolls a volume back to its newest snapshot: no client reads or changes it until that is done. Unless `force`, refused
    /// while files of it are open.
    RollBack { volume: VolumeId, name: Vec<u8>, force: bool },

    /// Removes a snapshot of a volume: at once for clients, and with bounded work after it. Unless `force`, refused while
    /// files of it are open.
    RemoveSnapshot { volume: VolumeId, name: Vec<u8>, force: bool },

    /// Makes a volume that begins as a snapshot.
    MakeClone { snapshot: VolumeId, dir: InodeId, name: Vec<u8> },

    /// Ends what a clone shares with its snapshot: bounded work after the command, and copies of objects.
    Promote { volume: VolumeId },

    /// Changes the nodes that boot from images.
    Boot(BootChange),

    /// Keeps an open that was in the leader's memory so far, with the stateid that its client has: see
    /// [`StateId::is_brief`]. `open` is by inode, denies nothing and wants no delegation.
    KeepOpen { open: Open, stateid: Stateid },

    /// OPEN in which a delegation takes the place of the open (RFC 9754, section 5): [`Reply::Opened`] has the delegation's
    /// stateid twice then.
    OpenOrDelegate(Open),

    /// Delegations that their clients have returned a moment ago: see `metaserver::state::returns`. What is gone already is
    /// skipped, and a delegation whose layout would end with it, which is for [`Command::DelegationReturn`].
    DelegationsReturn { returned: Vec<(ClientId, Stateid)> },
}
