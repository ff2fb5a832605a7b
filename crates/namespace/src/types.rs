//! Types of the state machine. They differ from the wire's types, because log entries outlive protocol
//! versions.

use serde::{Deserialize, Serialize};

use crate::FileLayout;

/// Number of an inode: its volume in the upper 24 bits, and its number there. Never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct InodeId(pub u64);

impl InodeId {
    /// Number of the root directory of the first volume.
    pub const ROOT: InodeId = InodeId(2);
}

/// Id of a client from EXCHANGE_ID (RFC 8881, section 18.35).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ClientId(pub u64);

/// Id of a session (RFC 8881, section 2.10).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SessionId(pub [u8; 16]);

/// Id of an open, lock, layout or delegation, in the `other` field of its stateid. Never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct StateId(pub u64);

/// Stateid: the state and its number of changes (RFC 8881, section 8.2). Sequence 0 in a request means the
/// current one. On the wire, `other` is the state id, big-endian, and four zero bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Stateid {
    /// Number of changes of this state, from 1.
    pub sequence: u32,
    /// The state.
    pub id: StateId,
}

impl Stateid {
    /// First stateid of an open that the leader keeps in its memory until it is written to the state machine, if ever: its
    /// id is random, and none that the state machine gives by itself.
    #[must_use]
    pub fn brief(random: u64) -> Self {
        Self { sequence: 1, id: StateId(random | BRIEF) }
    }
}

impl StateId {
    /// True for an open that began in a leader's memory.
    #[must_use]
    pub fn is_brief(self) -> bool {
        self.0 & BRIEF != 0
    }
}

/// Highest bit of a [`StateId`]: the state machine counts the ids that it gives from 1.
const BRIEF: u64 = 1 << 63;

/// Id of a storage target: one directory or disk of a data server. Chosen at random when the target is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TargetId(pub u64);

/// Id of a data server. Chosen at random when the server is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DataServerId(pub u64);

/// Id of a device: an ordered list of chains for layouts (RFC 8881, section 12.2.10).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DeviceId(pub u64);

/// Incarnation of a group of metaservers: one history of the metadata. A new one begins with the name space,
/// and with each restore from a backup, after which the metadata have a history of their own. Servers and
/// messages of another incarnation are not obeyed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Incarnation {
    /// Random id; unique.
    pub id: [u8; 16],
    /// 1 for a new name space; a restore has one more than the backup. For display and for order: two
    /// restores of one backup have the same epoch, and different ids.
    pub epoch: u64,
    /// Time of its beginning: the creation of the name space, or the restore of the backup.
    pub began: Time,
}

/// A point in time: seconds since 1970 and nanoseconds below 10^9.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Time {
    /// Seconds since 1970-01-01T00:00:00Z; negative before.
    pub seconds: i64,
    /// Nanoseconds, 0 to 999,999,999.
    pub nanoseconds: u32,
}

/// Kind of an inode. Every match on it is exhaustive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// A regular file.
    File(File),
    /// A directory.
    Directory(Directory),
    /// A symbolic link and its target.
    Symlink(Vec<u8>),
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character device: major, minor.
    CharacterDevice(u32, u32),
    /// A block device: major, minor.
    BlockDevice(u32, u32),
}

/// File part of an inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct File {
    /// Layout of its objects, even before they are made: chosen at the creation.
    pub layout: FileLayout,
    /// Location of its data.
    pub data: DataPlace,
}

/// Location of a file's data. A file begins `Inline`; it becomes `Striped`, mostly by way of `Migrating`, and
/// never goes back.
///
/// ```text
/// Inline ── Migrate ──► Migrating ── objects made, data written ── Migrated ──► Striped
///    └── Migrate or LayoutGet of a file without data, whose objects were made ──▲
/// ```
///
/// A `Striped` file has an object for each column, empty or not: a missing object is lost data, and no hole.
///
/// While a file is `Migrating` its data do not change (`Delay`): so a copy can begin again from the start
/// after a crash. Objects, which a removal has to remove, can exist only from `Migrating` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum DataPlace {
    /// In the store, under a key of their own: [`Inode::written`] bytes, at most [`crate::INLINE_BYTES_MAX`].
    Inline,
    /// Still in the store, and on their way to the objects.
    Migrating,
    /// In objects on the data servers.
    Striped,
}

/// Directory part of an inode.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Directory {
    /// Parent directory; the root of the first volume is its own parent.
    pub parent: InodeId,
    /// Number of entries, without `.` and `..`.
    pub entries: u64,
    /// Cookie of the next entry. Cookies are never reused, so a listing continues where it stopped, whatever
    /// entries were added and removed in between. The first is 3: NFS reserves 0 to 2.
    pub next_cookie: u64,
    /// Stripe policy for new files; none: as in the parent.
    pub stripe: Option<StripePolicy>,
}

/// Stripe policy: striping of the data of new files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StripePolicy {
    /// Stripe unit: see [`crate::StripeUnit`].
    pub unit: crate::StripeUnit,
    /// Number of columns; 0 means one on each target.
    pub columns: u32,
    /// Copies of each column, 1 to [`crate::COPIES_MAX`]; 0: as many as the pool says.
    pub copies: u8,
    /// Pool of the targets.
    pub pool: crate::PoolId,
}

/// Inode, as stored and as returned by reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inode {
    /// Number.
    pub id: InodeId,
    /// Generation, a part of its file handles.
    pub generation: u32,
    /// Kind: file, directory, …
    pub kind: Kind,
    /// Permission bits, set-id and sticky: 0o7777.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Number of names; a directory counts `.` and the `..` of its children. 0: removed, but still open.
    pub links: u32,
    /// Bytes of data; entries × 64 for a directory; target length for a symbolic link.
    pub size: u64,
    /// Offset after the last byte written, within the size: a file extended by SETATTR alone takes no space.
    /// For inline data, the number of their bytes.
    pub written: u64,
    /// Bytes that one copy of a file's objects takes on the data servers, as they told last, and what was appended since.
    pub space_used: u64,
    /// False if its objects may have changed since they told the space that they take: they are asked again.
    pub space_is_told: bool,
    /// Object epoch: a part of the handles of its objects, in calls of metaservers. A raise makes calls under
    /// way void. It wraps.
    pub epoch: u32,
    /// Object epoch of the last fence: a part of the handles of its objects, in layouts. A fence makes the
    /// handles of all earlier layouts void: see [`crate::DeferredKind::Fence`].
    pub layout_epoch: u32,
    /// Time of the last read, as far as NFS keeps it.
    pub accessed: Time,
    /// Time of the last change of the data.
    pub modified: Time,
    /// Time of the last change of the attributes.
    pub changed: Time,
    /// Time of the creation.
    pub created: Time,
    /// Change attribute: grows with every change of data or attributes.
    pub change: u64,
    /// Verifier of the exclusive create that made it.
    pub verifier: Option<[u8; 8]>,
}

/// Change of a directory's change attribute (RFC 8881, section 3.3.9: change_info4); always atomic here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Value before the operation.
    pub before: u64,
    /// Value after it.
    pub after: u64,
}

/// One directory entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Cookie after which a listing continues.
    pub cookie: u64,
    /// Name.
    pub name: Vec<u8>,
    /// Inode of the name.
    pub inode: InodeId,
}

/// Share access or deny of an OPEN: bits 1 (read) and 2 (write).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Share(pub u8);

impl Share {
    /// Neither.
    pub const NONE: Share = Share(0);
    /// Read.
    pub const READ: Share = Share(1);
    /// Write.
    pub const WRITE: Share = Share(2);
    /// Both.
    pub const BOTH: Share = Share(3);

    /// True if it has all bits of `other`.
    #[must_use]
    pub fn contains(self, other: Share) -> bool {
        self.0 & other.0 == other.0
    }

    /// True if it has any bit of `other`.
    #[must_use]
    pub fn intersects(self, other: Share) -> bool {
        self.0 & other.0 != 0
    }
}

/// Bytes `start..end`; an end of `u64::MAX` means the end of the file, even when the size changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByteRange {
    /// First byte.
    pub start: u64,
    /// Offset after the last byte, or `u64::MAX`.
    pub end: u64,
}

/// Kind of a byte-range lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LockKind {
    /// Shared.
    Read,
    /// Exclusive.
    Write,
}

/// Mode of a layout (RFC 8881, section 3.3.20).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum IoMode {
    /// Reading.
    Read,
    /// Reading and writing.
    ReadWrite,
}

/// Principal of a client: only the same principal may change or destroy the client (RFC 8881, section
/// 2.10.8.3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Principal {
    /// AUTH_NONE.
    Nobody,
    /// AUTH_SYS: the user and the machine name.
    Sys {
        /// User id.
        uid: u32,
        /// The client's host name.
        machine: Vec<u8>,
    },
}

/// Deferred object operation of a command: the intent. [`crate::Command::DeferredDone`] is the outcome. A
/// crash in between leaves the record, and the next leader finishes the operation. Until then reads, writes
/// and layouts of a file with a pending truncation are answered `Delay`, so that no client sees bytes that
/// the truncation deletes. A file has at most one pending truncation or fence, and a truncation is a fence,
/// too: its calls have the new epoch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeferredOp {
    /// Its id; ascending.
    pub id: u64,
    /// The file.
    pub inode: InodeId,
    /// Generation of the file, for the handles of its objects.
    pub generation: u32,
    /// Layout of its objects.
    pub layout: FileLayout,
    /// Kind of the operation.
    pub kind: DeferredKind,
}

/// Kind of a deferred object operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeferredKind {
    /// Truncate the file to this many bytes.
    Truncate(u64),
    /// Remove all objects.
    Remove,
    /// Tell all data servers of the file its epoch: a client that lost a layout to write may still hold
    /// handles of an earlier epoch. Until then no lock, share that denies, or delegation is granted.
    Fence,
}
