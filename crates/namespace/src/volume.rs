//! Volumes: trees of their own in one name space, each with a root, inode numbers and, for clients, a file
//! system id.
//!
//! ```text
//! volume 0, the first     /  home  scratch        inodes          2, 3, 4, …
//!                                    │ entry
//! volume 7                           └▶ /  a  b   inodes  7 << 40 | 2, 3, 4, …
//! ```
//!
//! **Where it is put.** A volume's root is a directory whose entry is in a directory of another volume, which
//! is its parent: a path leads through both, `..` leads back, and a stripe policy is inherited. Only an
//! administrator makes and removes volumes: no name of a client goes from one volume to another
//! ([`Error::OtherVolume`]), and a client cannot remove a root ([`Error::VolumeRoot`]).
//!
//! **Whose a record is.** The upper 24 bits of an inode number are its volume. So all inodes, names, and data
//! of a volume are one range of keys each, and nothing has to be looked up to know the volume of a handle.
//!
//! **Removal.** One command takes the entry and the volume's record away: see `volume/removal.rs`.

pub(crate) mod quota;
pub(crate) mod removal;

use serde::{Deserialize, Serialize};
use store::StoreError;

pub use self::quota::{BLOCK_BYTES, Counted, Limits, Subject, Usage};
pub(crate) use self::removal::LeftVolume;
use crate::files::{create, entry};
use crate::plan::{Broken, Plan, Stop};
use crate::record::get;
use crate::{
    Directory, Error, FIRST_COOKIE, Inode, InodeId, Kind, NewAttributes, Reply, StripePolicy, Time, keys,
    pools, read,
};

/// Bits of an inode number within its volume: 10,000 new files each second for three and a half years.
pub(crate) const NUMBER_BITS: u32 = 40;

/// Maximum of volumes at one time beside the first: a status or a list reads all of them.
pub const VOLUMES_MAX: u32 = 65_536;

/// Number of the directory of a volume's snapshots: see `snapshot/mod.rs`.
const SNAPSHOTS_NUMBER: u64 = 1;

/// Id of a volume, or of a snapshot of one. 24 bits, never used again: handles may name one that was removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct VolumeId(pub u32);

impl VolumeId {
    /// The volume that has the root of the name space. It cannot be removed.
    pub const FIRST: Self = Self(0);
    /// Last id of a volume that was made empty.
    const LAST: Self = Self(Self::FIRST_CLONE.0 - 1);
    /// First id of a volume that was made as a clone.
    pub(crate) const FIRST_CLONE: Self = Self(1 << 22);
    /// First id of a snapshot.
    pub(crate) const FIRST_SNAPSHOT: Self = Self(1 << 23);
    /// Last id of a snapshot. The one after it ends ranges of keys.
    pub(crate) const LAST_SNAPSHOT: Self = Self((1 << (u64::BITS - NUMBER_BITS)) - 2);

    /// Root directory of the volume.
    #[must_use]
    pub fn root(self) -> InodeId {
        self.inode(InodeId::ROOT.0)
    }

    fn inode(self, number: u64) -> InodeId {
        InodeId(u64::from(self.0) << NUMBER_BITS | number)
    }

    /// True for the id of a snapshot.
    #[must_use]
    pub fn is_snapshot(self) -> bool {
        self >= Self::FIRST_SNAPSHOT
    }

    /// True for the id of a volume that was made as a clone.
    #[must_use]
    pub fn is_clone(self) -> bool {
        (Self::FIRST_CLONE..Self::FIRST_SNAPSHOT).contains(&self)
    }

    /// Directory of the volume's snapshots, which has no record.
    #[must_use]
    pub fn snapshots_directory(self) -> InodeId {
        self.inode(SNAPSHOTS_NUMBER)
    }

    /// First inode number of the volume, and first one of the next.
    pub(crate) fn numbers(self) -> [u64; 2] {
        [self.0, self.0 + 1].map(|id| u64::from(id) << NUMBER_BITS)
    }
}

impl InodeId {
    /// The volume of the inode.
    #[must_use]
    pub fn volume(self) -> VolumeId {
        VolumeId((self.0 >> NUMBER_BITS) as u32)
    }

    /// True for the root of any volume.
    #[must_use]
    pub fn is_root(self) -> bool {
        self == self.volume().root()
    }

    /// True for the directory of the snapshots of any volume.
    #[must_use]
    pub fn is_snapshots_directory(self) -> bool {
        self == self.volume().snapshots_directory()
    }

    /// True for what no command changes: inodes of snapshots, and directories of snapshots.
    #[must_use]
    pub fn is_read_only(self) -> bool {
        self.volume().is_snapshot() || self.is_snapshots_directory()
    }

    /// The inode with this number in another volume, or in a snapshot.
    #[must_use]
    pub fn in_volume(self, volume: VolumeId) -> InodeId {
        volume.inode(self.0 & ((1 << NUMBER_BITS) - 1))
    }
}

/// A volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Volume {
    /// Its id.
    pub id: VolumeId,
    /// Number of the next inode, within the volume.
    pub next_inode: u64,
    /// Volumes whose root has its entry in this one.
    pub volumes: u32,
    /// Time of its creation.
    pub created: Time,
    /// What it has, and may have.
    pub usage: Usage,
    /// How much of it is counted.
    pub counted: Counted,
    /// Users and groups with limits.
    pub limited: u32,
}

/// Next id, and number of volumes beside the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct VolumeCounters {
    pub next: u32,
    pub count: u32,
}

impl Default for VolumeCounters {
    fn default() -> Self {
        Self { next: 1, count: 0 }
    }
}

/// Arguments of [`crate::Command::MakeVolume`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewVolume {
    /// Directory of its entry.
    pub dir: InodeId,
    /// Name of its entry.
    pub name: Vec<u8>,
    /// Attributes of its root.
    pub attributes: NewAttributes,
    /// Stripe policy of its root; none: as in the parent.
    pub stripe: Option<StripePolicy>,
}

/// Makes a volume, with its root and the entry of the root.
pub(crate) fn make(plan: &mut Plan<'_>, new: &NewVolume) -> Result<Reply, Stop> {
    let dir = place(plan, new.dir, &new.name)?;
    let mut counters: VolumeCounters = get(plan.view(), &keys::volume_counters())?.unwrap_or_default();
    if counters.next > VolumeId::LAST.0 {
        return Err(Error::TooManyVolumes.into());
    }
    let id = VolumeId(counters.next);
    counters.next += 1;
    plan.put(&keys::volume_counters(), &counters)?;
    put(plan, &Volume::new(id, plan.now()))?;
    let root = new_inode(plan, id)?;
    let kind = Kind::Directory(Directory {
        parent: dir.id,
        entries: 0,
        next_cookie: FIRST_COOKIE,
        stripe: new.stripe,
    });
    pools::policy_changes(plan, None, new.stripe)?;
    let inode = create::new(plan, root, kind, &new.attributes);
    let (inode, dir) = create::put(plan, dir, &new.name, inode)?;
    Ok(Reply::Created { inode, existed: false, dir })
}

/// Counts one more volume, whose root is to be `name` in `dir`, and returns this directory.
///
/// # Errors
/// `Exists`, `TooManyVolumes`, and those of the directory.
pub(crate) fn place(plan: &mut Plan<'_>, dir: InodeId, name: &[u8]) -> Result<Inode, Stop> {
    let dir = plan.directory_to_change(dir)?;
    if entry::find(plan, dir.id, name)?.is_some() {
        return Err(Error::Exists.into());
    }
    let mut counters: VolumeCounters = get(plan.view(), &keys::volume_counters())?.unwrap_or_default();
    if counters.count >= VOLUMES_MAX {
        return Err(Error::TooManyVolumes.into());
    }
    counters.count += 1;
    plan.put(&keys::volume_counters(), &counters)?;
    change_volumes(plan, dir.id.volume(), |count| count.checked_add(1))?;
    Ok(dir)
}

impl Volume {
    /// A volume without inodes.
    pub(crate) fn new(id: VolumeId, created: Time) -> Self {
        let usage = Usage::default();
        Self {
            id,
            next_inode: InodeId::ROOT.0,
            volumes: 0,
            created,
            usage,
            counted: Counted::NEW,
            limited: 0,
        }
    }

    /// True if the inode is counted already: those that a clone has inherited are counted after it was made.
    pub(crate) fn counts(&self, inode: InodeId) -> bool {
        !self.id.is_clone() || inode < self.counted.bytes
    }
}

/// Takes the next inode number of a volume.
///
/// # Errors
/// `Stale` if the volume was removed, `TooManyInodes` if it has given all its numbers.
pub(crate) fn new_inode(plan: &mut Plan<'_>, id: VolumeId) -> Result<InodeId, Stop> {
    let mut volume = find(plan, id)?;
    let number = volume.next_inode;
    if number >> NUMBER_BITS != 0 {
        return Err(Error::TooManyInodes.into());
    }
    volume.next_inode += 1;
    put(plan, &volume)?;
    Ok(id.inode(number))
}

/// Checks that a volume was not removed: then nothing new may come into it.
///
/// # Errors
/// `Stale` if it was.
pub(crate) fn check_lives(plan: &Plan<'_>, inode: InodeId) -> Result<(), Stop> {
    match inode.volume() {
        VolumeId::FIRST => Ok(()),
        _ if read::volume_lives(plan.view(), inode)? => Ok(()),
        _ => Err(Error::Stale.into()),
    }
}

pub(crate) fn find(plan: &Plan<'_>, id: VolumeId) -> Result<Volume, Stop> {
    Ok(read::volume(plan.view(), id)?.ok_or(Error::Stale)?)
}

/// Puts the record of a volume. What is not counted yet is marked as work: the first volume of a store from before
/// there were quotas has no record until its first change.
pub(crate) fn put(plan: &mut Plan<'_>, volume: &Volume) -> Result<(), StoreError> {
    let mark = keys::left_count(volume.id);
    match (volume.counted.is_done(), plan.view().get(&mark)?.is_some()) {
        (true, true) => plan.delete(&mark),
        (false, false) => {
            plan.mark(&mark);
            plan.leave_work();
        }
        (true, false) | (false, true) => {}
    }
    plan.put(&keys::volume(volume.id), volume)
}

/// Changes the number of volumes in a volume.
fn change_volumes(
    plan: &mut Plan<'_>,
    within: VolumeId,
    change: impl FnOnce(u32) -> Option<u32>,
) -> Result<(), Stop> {
    let mut volume = find(plan, within)?;
    volume.volumes = change(volume.volumes).ok_or(Broken("a volume goes that was not counted"))?;
    Ok(put(plan, &volume)?)
}

/// Deletes the record of a volume.
fn forget(plan: &mut Plan<'_>, id: VolumeId) -> Result<(), Stop> {
    let mut counters: VolumeCounters = get(plan.view(), &keys::volume_counters())?.unwrap_or_default();
    counters.count = counters.count.checked_sub(1).ok_or(Broken("a volume goes that was not counted"))?;
    plan.put(&keys::volume_counters(), &counters)?;
    plan.delete(&keys::volume(id));
    Ok(())
}
