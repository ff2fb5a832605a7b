//! Records of opens, locks, layouts and delegations.

use serde::{Deserialize, Serialize};

use crate::{ByteRange, ClientId, InodeId, IoMode, LockKind, Share, StateId, Stateid};

/// State of a stateid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    /// An open.
    Open(OpenState),
    /// The locks of one lock-owner on one file.
    Lock(LockState),
    /// A client's layout of one file.
    Layout(LayoutState),
    /// A client's read delegation of one file.
    Delegation(DelegationState),
}

/// Numbers of states, by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StateCounts {
    /// Opens.
    pub opens: u64,
    /// Lock stateids.
    pub locks: u64,
    /// Layouts.
    pub layouts: u64,
    /// Delegations, revoked ones included until they are freed.
    pub delegations: u64,
}

impl StateCounts {
    /// Count of the states of the same kind as `state`.
    pub(crate) fn of(&mut self, state: &State) -> &mut u64 {
        match state {
            State::Open(_) => &mut self.opens,
            State::Lock(_) => &mut self.locks,
            State::Layout(_) => &mut self.layouts,
            State::Delegation(_) => &mut self.delegations,
        }
    }
}

impl State {
    /// Current stateid.
    #[must_use]
    pub fn stateid(&self) -> Stateid {
        match self {
            State::Open(open) => open.stateid,
            State::Lock(lock) => lock.stateid,
            State::Layout(layout) => layout.stateid,
            State::Delegation(delegation) => delegation.stateid,
        }
    }

    /// Client.
    #[must_use]
    pub fn client(&self) -> ClientId {
        match self {
            State::Open(open) => open.client,
            State::Lock(lock) => lock.client,
            State::Layout(layout) => layout.client,
            State::Delegation(delegation) => delegation.client,
        }
    }

    /// File.
    #[must_use]
    pub fn inode(&self) -> InodeId {
        match self {
            State::Open(open) => open.inode,
            State::Lock(lock) => lock.inode,
            State::Layout(layout) => layout.inode,
            State::Delegation(delegation) => delegation.inode,
        }
    }
}

/// Open of a file by an open-owner: one state for each file, whatever the number of OPENs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenState {
    /// Current stateid.
    pub stateid: Stateid,
    /// The client.
    pub client: ClientId,
    /// The file.
    pub inode: InodeId,
    /// The open-owner.
    pub owner: Vec<u8>,
    /// Union of the access of all OPENs.
    pub access: Share,
    /// Union of the deny of all OPENs.
    pub deny: Share,
    /// Pairs of access and deny of all OPENs, one bit for each pair: OPEN_DOWNGRADE may only go to a union of
    /// some of them (RFC 8881, section 18.18.3).
    pub opened: u16,
}

/// Locks of one lock-owner of a client on one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockState {
    /// Current stateid.
    pub stateid: Stateid,
    /// The client.
    pub client: ClientId,
    /// The file.
    pub inode: InodeId,
    /// The lock-owner.
    pub owner: Vec<u8>,
    /// Open of the first lock; its CLOSE ends this state.
    pub open: StateId,
    /// Number of locked ranges.
    pub ranges: u32,
    /// Set of its ranges: at first its own id, and another one after the removal of many ranges at once.
    pub set: u64,
}

/// Layout of one file of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayoutState {
    /// Current stateid.
    pub stateid: Stateid,
    /// The client.
    pub client: ClientId,
    /// The file.
    pub inode: InodeId,
    /// Highest mode that was granted.
    pub mode: IoMode,
    /// True during a recall: the sequence has been advanced for it.
    pub recalled: bool,
    /// The file's change attribute at the grant to write, or at a later LAYOUTCOMMIT: compared with
    /// [`Unsettled::times_set`].
    pub committed: u64,
    /// Exported directory in the client's first file handle: a recall uses the same handle.
    pub export: InodeId,
}

/// Mark of an unsettled file: a client has, or had, a layout to write of it. Size, times and change attribute
/// of its inode may be older than the writes that the data servers have acknowledged: a client reports them
/// later (LAYOUTCOMMIT) or, if it dies or only called fdatasync, never.
///
/// ```text
///            grant of a layout to write            last one ended             Observe, durable
/// settled ──────────────────────────────▶ marked ───────────────────▶ to settle ───────────────▶ settled
///                                           ▲                             │
///                                           └──── the next grant ─────────┘
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unsettled {
    /// Last grant of such a layout, as random bits. An earlier observation does not settle the file.
    pub grant: u64,
    /// [`crate::Observation::version`] of the inode's attributes.
    pub version: u64,
    /// The file's change attribute at the last change of its modification time, or 0. A client writes its
    /// data before the SETATTR, but sends LAYOUTCOMMIT only afterwards, without the time of the writes (Linux
    /// never sends `loca_time_modify`). So the time that was set, by `cp -p` or `tar x`, stays.
    pub times_set: u64,
}

impl Unsettled {
    /// True if the modification time was set after the grant or the last commit of this layout to write.
    #[must_use]
    pub fn has_times_set(&self, layout: &LayoutState) -> bool {
        layout.mode == IoMode::ReadWrite && self.times_set > layout.committed
    }
}

/// Kind of a delegation. Builds before write delegations had a bool here, with the same bytes: true was revoked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum DelegationKind {
    /// Its client opens the file for reading without a request. Several clients may have one.
    Read,
    /// It was revoked, and its client has not acknowledged that with FREE_STATEID yet.
    Revoked,
    /// Its client opens, reads and writes the file, and locks ranges of it, without a request. No other client has it open.
    Write,
}

/// Delegation of one file of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DelegationState {
    /// Its stateid.
    pub stateid: Stateid,
    /// The client.
    pub client: ClientId,
    /// File; for a revoked delegation it may not exist any more.
    pub inode: InodeId,
    /// Its kind.
    pub kind: DelegationKind,
    /// Exported directory in the client's file handle: a recall uses the same handle.
    pub export: InodeId,
}

impl DelegationState {
    /// True if it was revoked.
    #[must_use]
    pub fn is_revoked(&self) -> bool {
        self.kind == DelegationKind::Revoked
    }

    /// True if its client may write under it.
    #[must_use]
    pub fn writes(&self) -> bool {
        self.kind == DelegationKind::Write
    }
}

/// One locked range; its end and its set are in its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HeldLock {
    pub start: u64,
    pub kind: LockKind,
    pub inode: InodeId,
}

/// Index entry of a locked range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RangeOf {
    /// Lock state that made it, and holds it if its set is still the set in the key.
    pub state: StateId,
    /// Start of the range, if the key has its end; otherwise its end.
    pub other_end: u64,
}

/// A locked range with its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// The range.
    pub range: ByteRange,
    /// Shared or exclusive.
    pub kind: LockKind,
    /// Lock state of the range.
    pub state: StateId,
}

/// Progress of the removal of an ended client's states, in the order of their ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct LeftStates {
    /// Last state that was removed.
    pub after: StateId,
}

/// Progress of the removal of a set of ranges, in the order of their ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct LeftRanges {
    /// Ranges that end here or before are removed.
    pub after: u64,
}

/// Progress of the removal of the lock states of a closed open, in the order of their owners.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LeftLocks {
    pub inode: InodeId,
    pub client: ClientId,
    /// Lock states of owners before this one are removed.
    pub from: Vec<u8>,
}

/// Progress of the removal of layouts after a return of all layouts, in the order of their ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct LeftLayouts {
    /// Layouts with ids below this are returned.
    pub before: StateId,
    /// States up to this one were checked.
    pub after: StateId,
}

/// Summary of a file's use, so that an OPEN need not read every other open of the file to find that there is
/// no conflict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Use {
    pub opens: u32,
    /// Opens with access to read; the other fields are similar.
    pub reading: u32,
    pub writing: u32,
    pub denying_read: u32,
    pub denying_write: u32,
    pub layouts: u32,
    pub delegations: u32,
    /// Layouts to write.
    pub writing_layouts: u32,
}
