//! Arguments of commands.

use serde::{Deserialize, Serialize};

use crate::{
    ChainId, ClientId, DataPlace, DataServerId, DeviceId, FileLayout, InodeId, Share, StateId, Stateid,
    TargetId, Time,
};

/// Arguments of CREATE and similar operations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Create {
    /// The directory.
    pub dir: InodeId,
    /// The new name.
    pub name: Vec<u8>,
    /// Kind of the new inode.
    pub node: NewNode,
    /// Attributes of a new inode.
    pub attributes: NewAttributes,
    /// Behaviour if the name exists.
    pub exists: Exists,
}

/// Kind of a new inode.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum NewNode {
    /// A regular file with this layout.
    File(FileLayout),
    /// A directory.
    Directory,
    /// A symbolic link to this path.
    Symlink(Vec<u8>),
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// Major and minor number.
    CharacterDevice(u32, u32),
    /// Major and minor number.
    BlockDevice(u32, u32),
}

/// Attributes of a new inode, all chosen. The metaserver has already taken the group of a set-gid directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewAttributes {
    /// Permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Time of the last read; none: now.
    pub accessed: Option<Time>,
    /// Time of the last change; none: now.
    pub modified: Option<Time>,
}

/// Behaviour of a create if the name exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Exists {
    /// Accepts the existing inode, if both are regular files.
    Take,
    /// Refuses.
    Refuse,
    /// Accepts an inode made with this verifier, otherwise refuses (exclusive create).
    Verify([u8; 8]),
}

/// Condition for setting an extended attribute (RFC 8276, section 8.4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum XattrExists {
    /// No condition.
    Either,
    /// The attribute must not exist; otherwise `Exists`.
    Create,
    /// The attribute must exist; otherwise `NoXattr`.
    Replace,
}

/// Kinds of inodes that a REMOVE accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Expect {
    /// NFSv4's REMOVE: all kinds; a directory must be empty.
    Anything,
    /// RMDIR: an empty directory.
    Directory,
    /// NFSv3's REMOVE: all kinds but directories.
    NotDirectory,
}

/// New values of attributes; none: unchanged. The metaserver has checked permissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SetAttributes {
    /// Permission bits.
    pub mode: Option<u32>,
    /// Owner. A new owner or group clears the set-id bits of a file, unless `mode` is set too.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Length in bytes; regular files only.
    pub size: Option<u64>,
    /// Last read.
    pub accessed: Option<Time>,
    /// Last change of data.
    pub modified: Option<Time>,
    /// Client whose layout of the file may stay when the size is set. A layout of any other client makes the
    /// answer `Delay`: its writes could cross the truncation, be acknowledged, and be lost.
    pub layout_of: Option<ClientId>,
    /// Expected change time (NFSv3's guard); `NotSync` if it differs.
    pub guard: Option<Time>,
}

/// Limits of a session (RFC 8881, section 18.36).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Channels {
    /// Limits from client to server.
    pub fore: Channel,
    /// Limits from server to client.
    pub back: Channel,
    /// Parameters of callbacks.
    pub callback: Callback,
}

/// Parameters of callbacks, chosen by the client (RFC 8881, sections 18.33 and 18.36).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Callback {
    /// RPC program number of callbacks.
    pub program: u32,
    /// RPC credential of callbacks.
    pub credential: CallbackCredential,
}

/// RPC credential of callbacks: the client's own choice, which it checks or ignores.
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
    /// Maximum size of a request, in bytes.
    pub request_bytes_max: u32,
    /// Maximum size of a reply, in bytes.
    pub response_bytes_max: u32,
    /// Maximum size of a reply kept for a retry, in bytes.
    pub cached_bytes_max: u32,
    /// Maximum of operations in a compound.
    pub operations_max: u32,
    /// Number of slots.
    pub slots: u32,
}

/// Arguments of OPEN.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Open {
    /// The client.
    pub client: ClientId,
    /// Open-owner.
    pub owner: Vec<u8>,
    /// File to open.
    pub target: OpenTarget,
    /// Requested access; not empty.
    pub access: Share,
    /// Access denied to others.
    pub deny: Share,
    /// True if the client wants a read delegation and has a back channel; granted if no client writes.
    pub delegate: bool,
    /// Exported directory in the client's file handle.
    pub export: InodeId,
}

/// File that an OPEN opens.
#[expect(missing_docs, reason = "each variant tells what its fields are")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum OpenTarget {
    /// CLAIM_FH: this regular file.
    Inode(InodeId),
    /// CLAIM_NULL without creation.
    Name { dir: InodeId, name: Vec<u8> },
    /// CLAIM_NULL with creation; `node` is a file. `truncate`: an existing file is truncated to size 0;
    /// `Delay` while another client has a layout of it.
    Create { create: Create, truncate: bool },
}

/// Lock-owner of a LOCK (RFC 8881, section 18.10: locker4).
#[expect(missing_docs, reason = "each variant tells what its fields are")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum LockOwner {
    /// The first lock of this lock-owner on the file, through an open.
    New { open: Stateid, owner: Vec<u8> },
    /// A further lock, with the lock state.
    Known { lock: Stateid },
}

/// Scope of a LAYOUTRETURN; files layouts are granted and returned as a whole.
#[expect(missing_docs, reason = "each variant tells what its fields are")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReturnScope {
    /// The layout of one file.
    File { inode: InodeId, stateid: Stateid },
    /// All layouts of the client.
    All,
    /// Revocation after a recall that the client did not obey: it may still write, and is fenced.
    Revoke { layout: StateId },
    /// The client says that it has no such layout, or never learned of it.
    Unknown { layout: StateId },
}

/// Version of a file's data: all that changes with a write, with the right to write, or when they come to other places.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileVersion {
    /// [`crate::Inode::epoch`].
    pub epoch: u32,
    /// [`crate::Inode::change`].
    pub change: u64,
    /// [`crate::Unsettled::grant`]: the last grant of a layout to write; 0: none since it was settled.
    pub grant: u64,
    /// Location of the data: a small file that is migrated meanwhile has its data at the old targets.
    pub data: Option<DataPlace>,
}

/// Observation of an unsettled file at its data servers: see [`crate::Unsettled`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    /// The file.
    pub inode: InodeId,
    /// [`crate::Unsettled::grant`] before the calls.
    pub grant: u64,
    /// [`crate::Inode::epoch`] before the calls, without a pending truncation: a later truncation may have
    /// deleted the observed data.
    pub epoch: u32,
    /// Offset after the last byte in an object.
    pub end: u64,
    /// Time of the last write to an object.
    pub modified: Time,
    /// Hash of the lengths and modification times of all objects, which identifies their state.
    pub version: u64,
    /// True if all observed data were made durable first.
    pub durable: bool,
    /// Bytes that one copy of its objects takes. None: not all of them were observed.
    pub space_used: Option<u64>,
}

/// Space that a file takes at its data servers: see [`crate::Inode::space_used`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpaceUsed {
    /// The file.
    pub inode: InodeId,
    /// [`crate::Inode::epoch`] before the calls, without a pending truncation.
    pub epoch: u32,
    /// [`crate::Inode::change`] before the calls.
    pub change: u64,
    /// Bytes that one copy of its objects takes.
    pub bytes: u64,
}

/// A registered data server. The free space of its targets is not in this record, but in the leader's memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataServer {
    /// Its id.
    pub id: DataServerId,
    /// Name, for operators.
    pub name: String,
    /// Addresses for clients and metaservers: `10.0.0.5:2050`.
    pub addresses: Vec<String>,
    /// Service address and port for clients: `10.0.0.105:2050`. While this data server is silent, another one
    /// holds the address. None: clients use the addresses above.
    pub service_address: Option<String>,
    /// Its zone, such as a rack, whose machines one fault may take together; empty: none is known.
    pub zone: String,
    /// Its targets.
    pub targets: Vec<TargetId>,
    /// Random number of the present run of its process.
    pub process: u64,
}

/// An ordered list of chains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Its id.
    pub id: DeviceId,
    /// The chains: of one target, or of several.
    pub chains: Vec<ChainId>,
}
