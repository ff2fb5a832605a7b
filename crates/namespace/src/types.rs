//! The words of the state machine. They are our own, not the wire's, because log entries outlive protocol
//! versions.

use serde::{Deserialize, Serialize};

use crate::FileLayout;

/// An inode of the volume. Never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct InodeId(pub u64);

impl InodeId {
    /// The root directory.
    pub const ROOT: InodeId = InodeId(2);
}

/// A client as EXCHANGE_ID knows it (RFC 8881, section 18.35).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ClientId(pub u64);

/// A session (RFC 8881, section 2.10).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SessionId(pub [u8; 16]);

/// What a stateid's `other` field names: an open, a lock or a layout. Never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct StateId(pub u64);

/// A stateid: the state and how often it has changed (RFC 8881, section 8.2). Sequence 0 in a request means
/// the current one. On the wire, `other` is the state id, big-endian, and four zero bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Stateid {
    /// Changes of this state, from 1.
    pub sequence: u32,
    /// The state.
    pub id: StateId,
}

/// A storage target: one directory or disk of a data server. Chosen at random when the target is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TargetId(pub u64);

/// A data server. Chosen at random when it is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DataServerId(pub u64);

/// An ordered list of targets that layouts name (RFC 8881, section 12.2.10).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DeviceId(pub u64);

/// The incarnation of a group of metaservers: one history of the metadata. Made with the name space, and
/// again by each restore from a backup, whose metadata go their own way from then on. Servers and messages of
/// another incarnation are not obeyed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Incarnation {
    /// Random; no two incarnations have the same.
    pub id: [u8; 16],
    /// 1 for a new name space; a restore has one more than the backup. For people and for order: two restores
    /// of one backup have the same epoch, and different ids.
    pub epoch: u64,
    /// When it began: when the name space was made, or the backup restored.
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

/// What an inode is. Every match on it is exhaustive.
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

/// What only a regular file has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct File {
    /// Where its objects are, or will be when it has some: chosen when it was made.
    pub layout: FileLayout,
    /// Where its data are.
    pub data: DataPlace,
}

/// Where a file's data are. A file begins `Inline`; it goes on to `Striped`, most often by way of
/// `Migrating`, and never comes back.
///
/// ```text
/// Inline ── Migrate ──► Migrating ── objects made, data written ── Migrated ──► Striped
///    └── Migrate or LayoutGet of a file without data, whose objects were made ──▲
/// ```
///
/// A `Striped` file has an object for each column, empty or not: an object that is missing is lost, and no
/// hole.
///
/// While a file is `Migrating` nobody changes its data (`Delay`): so what is copied is what there is, however
/// often a copy is begun again after a crash. Only from `Migrating` on can there be objects, which a removal
/// has to remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum DataPlace {
    /// In the store, under a key of their own: [`Inode::written`] bytes, at most [`crate::INLINE_BYTES_MAX`].
    Inline,
    /// Still there, and on their way to the objects.
    Migrating,
    /// In objects on the data servers.
    Striped,
}

/// What only a directory has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Directory {
    /// The directory that holds it; the root holds itself.
    pub parent: InodeId,
    /// Entries, without `.` and `..`.
    pub entries: u64,
    /// The cookie that the next entry gets. Cookies are never reused, so a listing goes on where it stopped
    /// whatever came and went in between. The first is 3: NFS reserves 0 to 2.
    pub next_cookie: u64,
    /// Where new files' data go, when it is not as in the parent.
    pub stripe: Option<StripePolicy>,
}

/// How the data of new files are spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StripePolicy {
    /// Bytes on one column before the next: see [`crate::StripeUnit`].
    pub unit: crate::StripeUnit,
    /// Columns; 0 means as many as there are targets.
    pub columns: u32,
}

/// One inode, as it is stored and as reads return it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inode {
    /// Its number.
    pub id: InodeId,
    /// Part of its file handles.
    pub generation: u32,
    /// File, directory, …
    pub kind: Kind,
    /// Permission bits, set-id and sticky: 0o7777.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Names; a directory counts `.` and the `..` of its children. 0: removed, but still open.
    pub links: u32,
    /// Bytes of data; entries × 64 for a directory; target length for a symbolic link.
    pub size: u64,
    /// One past the last byte that was written, within the size: a file made longer by SETATTR alone takes no
    /// room. Of a file whose data are with its inode, how many bytes there are.
    pub written: u64,
    /// How often its size was set. A write through a metaserver that began before a truncation must not end
    /// after it.
    pub truncations: u32,
    /// Last read, as far as NFS keeps it.
    pub accessed: Time,
    /// Last change of the data.
    pub modified: Time,
    /// Last change of the attributes.
    pub changed: Time,
    /// Made.
    pub created: Time,
    /// Grows with every change of data or attributes.
    pub change: u64,
    /// Verifier of the exclusive create that made it.
    pub verifier: Option<[u8; 8]>,
}

/// How a directory's change attribute moved (RFC 8881, section 3.3.9: change_info4); always atomic here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Before the operation.
    pub before: u64,
    /// After it.
    pub after: u64,
}

/// One directory entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Where a listing goes on after it.
    pub cookie: u64,
    /// Its name.
    pub name: Vec<u8>,
    /// What it names.
    pub inode: InodeId,
}

/// OPEN's share access or deny: bits 1 (read) and 2 (write).
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

    /// Whether all of `other`'s bits are here.
    #[must_use]
    pub fn contains(self, other: Share) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any of `other`'s bits are here.
    #[must_use]
    pub fn intersects(self, other: Share) -> bool {
        self.0 & other.0 != 0
    }
}

/// Bytes `start..end`; an end of `u64::MAX` is the end of the file, wherever it moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByteRange {
    /// First byte.
    pub start: u64,
    /// One past the last byte, or `u64::MAX`.
    pub end: u64,
}

/// A byte-range lock shares or excludes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LockKind {
    /// Shared.
    Read,
    /// Exclusive.
    Write,
}

/// What a layout is for (RFC 8881, section 3.3.20).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum IoMode {
    /// Reading.
    Read,
    /// Reading and writing.
    ReadWrite,
}

/// Who made a client: only the same principal may change or destroy it (RFC 8881, section 2.10.8.3).
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

/// Deferred object operations that a command left to be done: the intent. [`crate::Command::DeferredDone`] is
/// the outcome. A crash in between leaves the record, and whoever leads next finishes it. Until then reads,
/// writes and layouts of a file with a truncation pending are answered `Delay`, so that nobody sees bytes
/// that a truncate took away.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeferredOp {
    /// Its id; ascending.
    pub id: u64,
    /// The file.
    pub inode: InodeId,
    /// Its generation, for the handles of its objects.
    pub generation: u32,
    /// Where its objects are.
    pub layout: FileLayout,
    /// What is to be done with them.
    pub kind: DeferredKind,
}

/// What is to be done with a file's objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeferredKind {
    /// Truncate the file to this many bytes.
    Truncate(u64),
    /// Remove them all.
    Remove,
}
