//! Everything that can change the metadata, with every choice already made.
//!
//! The leader looks at clocks, free space and randomness, and writes what it chose into the command; `apply`
//! obeys. A command refused leaves no trace but its reply in the slot.

use std::net::IpAddr;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{
    ByteRange, ClientId, DataServerId, DeviceId, FileLayout, Generations, InodeId, IoMode, LockKind,
    MapChange, Principal, SessionId, Share, StateId, Stateid, StripePolicy, TargetId, Time, TokenChange,
};

/// A command as it stands in the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proposal {
    /// What the metaserver that was asked for it chose.
    pub stamp: Stamp,
    /// The operation that it carries out, so that a repetition is answered and not done again.
    pub request: Option<RequestId>,
    /// What to do.
    pub command: Command,
    /// Of the inodes that the command names. The replica that is asked fills them in; without them nothing is
    /// checked.
    pub generations: Generations,
}

impl Proposal {
    /// A proposal whose generations are not filled in yet.
    #[must_use]
    pub fn new(stamp: Stamp, request: Option<RequestId>, command: Command) -> Self {
        Self { stamp, request, command, generations: Generations::default() }
    }
}

/// What differs between replicas, chosen once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Stamp {
    /// Now.
    pub time: Time,
    /// 64 random bits: generations and session ids come from them.
    pub random: u64,
}

/// What a command carries out: a repeated one has the same request id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RequestId {
    /// One operation of a compound of NFSv4.
    Compound(CompoundRequest),
    /// A call of NFSv3, which has no sessions; and which command of it, from 0.
    Call(CallId, u32),
    /// A metaserver: what is the cluster's own, or can be done twice by its client's leave (NFSv3's WRITE).
    Server(MemberRequest),
}

/// One operation of one compound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompoundRequest {
    /// Session.
    pub session: SessionId,
    /// Slot of the session.
    pub slot: u32,
    /// Sequence of the slot.
    pub sequence: u32,
    /// Which change of the compound: the operation's position and the step within it, as its user numbers
    /// them.
    pub index: u32,
}

/// Tells a call of NFSv3 from others: a client sends the same again after it lost its connection (RFC 1813,
/// section 4.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct CallId {
    /// The client's address, one of IPv4 as in IPv6.
    pub client: [u8; 16],
    /// Its port: clients connect again from the same one, so that their calls are known again.
    pub port: u16,
    /// The RPC call's number.
    pub xid: u32,
    /// What is called.
    pub procedure: u32,
    /// Of the credential and the arguments.
    pub checksum: u64,
}

/// A command of a metaserver, in the session that its process has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberRequest {
    /// Which member of the group.
    pub member: u64,
    /// Which life of it: see [`Command::ServerStarts`].
    pub life: u64,
    /// Slot; the process waits for an answer before it uses it again.
    pub slot: u32,
    /// Sequence of the slot, ascending.
    pub sequence: u64,
}

/// A change of the metadata.
#[expect(missing_docs, reason = "the fields are the arguments of the operation that the variant names")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    // The name space.
    /// Makes an inode and names it.
    Create(Create),
    /// Gives an inode one more name.
    Link { inode: InodeId, dir: InodeId, name: Vec<u8> },
    /// Takes a name away; the inode goes with the last name and the last open.
    Remove { dir: InodeId, name: Vec<u8>, expect: Expect },
    /// Moves a name; what the new name named before is removed.
    Rename { from_dir: InodeId, from: Vec<u8>, to_dir: InodeId, to: Vec<u8> },
    /// Changes attributes. A new size leaves a deferred operation, see [`crate::DeferredOp`].
    SetAttributes { inode: InodeId, set: SetAttributes },
    /// Data were written through a metaserver: the file reaches to `end` at least. Refused with `Delay` if
    /// the file was truncated since it had `truncations` of them, which was before the data went out: the
    /// truncation may have taken them away again.
    Wrote { inode: InodeId, end: u64, truncations: u32 },
    /// Data of a small file, kept with its inode. Refused with `Delay` when they are no longer there, with
    /// `TooLarge` beyond [`crate::INLINE_BYTES_MAX`].
    WriteInline { inode: InodeId, offset: u64, data: Bytes },
    /// The data of a small file are about to go to the data servers: see [`crate::DataPlace`]. The reply says
    /// where they are now. `made`: the objects of this layout exist and are on disk, so a file without data
    /// has nothing to wait for.
    Migrate { inode: InodeId, made: Option<FileLayout> },
    /// They are there, and on disk. `Delay` if the file has another place by now.
    Migrated { inode: InodeId, layout: FileLayout },
    /// A file that has no data and no objects yet will have them there; `Delay` if it has some already.
    PlaceAs { inode: InodeId, layout: FileLayout },
    /// How new files under a directory are spread; none: as in its parent.
    SetStripe { dir: InodeId, policy: Option<StripePolicy> },
    /// SETXATTR: of a file or directory. The name is without `user.`.
    SetXattr { inode: InodeId, name: Vec<u8>, value: Vec<u8>, exists: XattrExists },
    /// REMOVEXATTR.
    RemoveXattr { inode: InodeId, name: Vec<u8> },

    // Clients and sessions.
    /// EXCHANGE_ID (RFC 8881, section 18.35.4: every case of its table).
    ExchangeId { owner: Vec<u8>, verifier: [u8; 8], principal: Principal, update: bool, address: IpAddr },
    /// CREATE_SESSION; confirms the client. A repetition (same sequence) gets the same reply. Refused with
    /// `StaleClient` from an address that never showed the client's verifier: see
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
    /// The client has reclaimed all it wants.
    ReclaimComplete { client: ClientId },
    /// Courtesy has an end: the state of a client whose lease has run out goes. Refused with `ClientBusy` for
    /// one whose lease runs, which it may have renewed just now.
    ExpireClient { client: ClientId },
    /// The leader found the client's lease run out. What it has open, locked or laid out stays until that is
    /// in somebody's way; a client that has nothing is forgotten.
    LapseLease { client: ClientId },
    /// A client whose lease had run out was heard of again.
    RenewLease { client: ClientId },
    /// BACKCHANNEL_CTL.
    BackchannelCtl { session: SessionId, callback: Callback },

    // Opens and locks.
    /// OPEN, by name with or without creation, or by inode.
    Open(Open),
    /// CLOSE. Layouts that end with the last close go too.
    Close { client: ClientId, stateid: Stateid },
    /// OPEN_DOWNGRADE.
    OpenDowngrade { client: ClientId, stateid: Stateid, access: Share, deny: Share },
    /// LOCK.
    Lock { client: ClientId, inode: InodeId, owner: LockOwner, kind: LockKind, range: ByteRange },
    /// LOCKU.
    Unlock { client: ClientId, stateid: Stateid, range: ByteRange },
    /// FREE_STATEID: a lock state that holds no lock.
    FreeState { client: ClientId, stateid: Stateid },

    // Delegations.
    /// DELEGRETURN.
    DelegationReturn { client: ClientId, stateid: Stateid },
    /// A delegation that was called back and not returned in time.
    DelegationRevoke { client: ClientId, delegation: StateId },

    // Layouts.
    /// LAYOUTGET: the whole file. `made` as with [`Command::Migrate`]; a file that has no objects gets no
    /// layout (`Delay`). One to write makes the file unsettled, see [`crate::Unsettled`]; `version` is then
    /// that of its objects, as they were before ([`Observation::version`]).
    LayoutGet {
        client: ClientId,
        inode: InodeId,
        stateid: Stateid,
        mode: IoMode,
        made: Option<FileLayout>,
        version: u64,
        /// The exported directory that the file was named through.
        export: InodeId,
    },
    /// LAYOUTCOMMIT.
    LayoutCommit {
        client: ClientId,
        inode: InodeId,
        stateid: Stateid,
        /// The last byte written, if any was.
        last_write: Option<u64>,
        /// The client's modification time, if it gave one.
        modified: Option<Time>,
        /// What the data servers know, if they were asked.
        observed: Option<Observation>,
    },
    /// The leader is about to recall the layout: its sequence moves on, once until the next LAYOUTGET,
    /// because the call-back must carry a newer one than the client has (RFC 8881, section 12.5.5.2.1).
    LayoutRecall { client: ClientId, inode: InodeId },
    /// LAYOUTRETURN, or a layout that was not returned in time and is revoked.
    LayoutReturn { client: ClientId, scope: ReturnScope },

    // The cluster.
    /// A data server and its targets, as it registered.
    PutDataServer(DataServer),
    /// A device for these targets in this order: the existing one, if there is one.
    DefineDevice { targets: Vec<TargetId> },
    /// The deferred operations with these ids have reached every object, see [`crate::DeferredOp`].
    DeferredDone { ids: Vec<u64> },
    /// A metaserver's process begins: it gets a session of its own in place of the one that the process
    /// before it had. The stamp's random bits tell one process of a member from the next.
    ServerStarts { member: u64 },

    /// The first of all: makes the root directory, and the group's first incarnation under this random id.
    /// Changes nothing where there is a root directory.
    Format { incarnation: [u8; 16] },

    /// Of the cluster map.
    Map(MapChange),

    /// Gives columns of a file other targets: `to` in the place of `from`. The caller has seen that nothing
    /// was written to the columns that move, and that no layout is out. `Delay` if one is, if the file is
    /// being truncated, or if it has another place than `from` by now.
    Relocate { inode: InodeId, from: FileLayout, to: FileLayout },
    /// Of the join tokens.
    JoinToken(TokenChange),

    /// What the data servers know of unsettled files becomes part of them. What is out of date is left out.
    Observe { files: Vec<Observation> },

    /// Removes leftovers, as many as one command may: see [`crate::RECORDS_OF_COMMAND_MAX`].
    RemoveLeftovers,
}

/// CREATE and its likes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Create {
    /// The directory.
    pub dir: InodeId,
    /// The new name.
    pub name: Vec<u8>,
    /// What to make.
    pub node: NewNode,
    /// Attributes of a new inode.
    pub attributes: NewAttributes,
    /// What to do when the name exists.
    pub exists: Exists,
}

/// What is to be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum NewNode {
    /// A regular file with its data placed there.
    File(FileLayout),
    /// A directory.
    Directory,
    /// A symbolic link to this path.
    Symlink(Vec<u8>),
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// Major, minor.
    CharacterDevice(u32, u32),
    /// Major, minor.
    BlockDevice(u32, u32),
}

/// Attributes of a new inode, all chosen. The group is the directory's when that has its set-gid bit, which
/// the metaserver has already looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewAttributes {
    /// Permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Last read, when it is not now.
    pub accessed: Option<Time>,
    /// Last change, when it is not now.
    pub modified: Option<Time>,
}

/// What a create does when the name exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Exists {
    /// Take what is there, if it is a regular file and one was asked for.
    Take,
    /// Refuse.
    Refuse,
    /// Take it if it was made with this verifier, else refuse (exclusive create).
    Verify([u8; 8]),
}

/// Whether an extended attribute that is set must be there (RFC 8276, section 8.4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum XattrExists {
    /// Either way.
    Either,
    /// It must not; else `Exists`.
    Create,
    /// It must; else `NoXattr`.
    Replace,
}

/// What a REMOVE may remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Expect {
    /// NFSv4's REMOVE: anything; a directory must be empty.
    Anything,
    /// RMDIR: an empty directory.
    Directory,
    /// NFSv3's REMOVE: anything but a directory.
    NotDirectory,
}

/// New values of attributes; none: as it was. The metaserver has checked who may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SetAttributes {
    /// Permission bits.
    pub mode: Option<u32>,
    /// Owner. A new owner or group clears set-id bits of a file, unless `mode` is set too.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Length in bytes; regular files only.
    pub size: Option<u64>,
    /// Last read.
    pub accessed: Option<Time>,
    /// Last change of data.
    pub modified: Option<Time>,
    /// Whose layout of the file may stay when the size is set. While anyone else has one the answer is
    /// `Delay`: what he writes through it could cross the truncation, be acknowledged, and be gone.
    pub layout_of: Option<ClientId>,
    /// Only if the change time is still this one (NFSv3's guard); else `NotSync`.
    pub guard: Option<Time>,
}

/// The limits that a session was given (RFC 8881, section 18.36).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Channels {
    /// Client to server.
    pub fore: Channel,
    /// Server to client.
    pub back: Channel,
    /// How call-backs are made.
    pub callback: Callback,
}

/// How the client wants to be called back (RFC 8881, sections 18.33 and 18.36).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Callback {
    /// The program that the client serves call-backs under.
    pub program: u32,
    /// What the calls carry as credential.
    pub credential: CallbackCredential,
}

/// A credential of call-backs: the client's own choice, which it checks or ignores.
#[expect(missing_docs, reason = "the fields are those of AUTH_SYS")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallbackCredential {
    /// AUTH_NONE.
    Nobody,
    /// AUTH_SYS.
    Sys { machine: Vec<u8>, uid: u32, gid: u32, gids: Vec<u32> },
}

/// Limits of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Channel {
    /// Largest request, in bytes.
    pub request_bytes_max: u32,
    /// Largest reply, in bytes.
    pub response_bytes_max: u32,
    /// Largest reply kept for a repetition, in bytes.
    pub cached_bytes_max: u32,
    /// Operations in a compound.
    pub operations_max: u32,
    /// Slots.
    pub slots: u32,
}

/// OPEN.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Open {
    /// The client.
    pub client: ClientId,
    /// Its open-owner.
    pub owner: Vec<u8>,
    /// What to open.
    pub target: OpenTarget,
    /// Asked for; not empty.
    pub access: Share,
    /// Denied to others.
    pub deny: Share,
    /// Whether the client wants a read delegation and can be called back; it gets one if nobody writes.
    pub delegate: bool,
    /// The exported directory that the file is named through.
    pub export: InodeId,
}

/// What an OPEN opens.
#[expect(missing_docs, reason = "each variant tells what its fields are")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum OpenTarget {
    /// CLAIM_FH: this regular file.
    Inode(InodeId),
    /// CLAIM_NULL without creation.
    Name { dir: InodeId, name: Vec<u8> },
    /// CLAIM_NULL with creation; `node` is a file. `truncate`: an existing file is truncated to nothing;
    /// `Delay` while another client has a layout of it.
    Create { create: Create, truncate: bool },
}

/// Whose lock (RFC 8881, section 18.10: locker4).
#[expect(missing_docs, reason = "each variant tells what its fields are")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum LockOwner {
    /// The first lock of this lock-owner on the file, through an open.
    New { open: Stateid, owner: Vec<u8> },
    /// One more, under the lock state.
    Known { lock: Stateid },
}

/// What a LAYOUTRETURN returns; files layouts are granted and returned whole.
#[expect(missing_docs, reason = "each variant tells what its fields are")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReturnScope {
    /// The layout of one file.
    File { inode: InodeId, stateid: Stateid },
    /// All layouts of the client.
    All,
    /// Recalled, and not returned in time: the state with this id on this file, whatever its sequence.
    Revoke { layout: StateId },
}

/// What the data servers know of an unsettled file, which a metaserver has asked: see [`crate::Unsettled`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    /// The file.
    pub inode: InodeId,
    /// [`crate::Unsettled::grant`] before they were asked.
    pub grant: u64,
    /// [`crate::Inode::truncations`] before they were asked, when no truncation was pending: one that came
    /// since may have taken away what they told.
    pub truncations: u32,
    /// One past the last byte that is in an object.
    pub end: u64,
    /// When an object was last written.
    pub modified: Time,
    /// Tells one state of all objects from another: a hash of their lengths and modification times.
    pub version: u64,
    /// Whether all of that was made durable before it was told.
    pub durable: bool,
}

/// A data server as it registered. Its targets keep the space that the leader last heard of in memory, not
/// here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataServer {
    /// Its id.
    pub id: DataServerId,
    /// Its name, for people.
    pub name: String,
    /// Where clients and metaservers reach it: `10.0.0.5:2050`.
    pub addresses: Vec<String>,
    /// Its targets.
    pub targets: Vec<TargetId>,
}

/// An ordered list of targets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Its id.
    pub id: DeviceId,
    /// The targets.
    pub targets: Vec<TargetId>,
}
