//! Snapshots: a volume as it was at one point of the order of commands, read-only, whatever its size.
//!
//! ```text
//! MakeSnapshot 5         ─▶ one record; every record of the volume has a stamp below 5
//! a change of record k   ─▶ stamp below 5: its value is kept as (k, 5); the new one gets stamp 5   (history.rs)
//! a read of k in 5       ─▶ the value kept for the first version from 5 on, otherwise the live one, if its
//!                           stamp is below 5: else k was not there                                 (view.rs)
//! RemoveSnapshot 5       ─▶ kept values go on to the snapshot before, if it needs them             (removal.rs)
//! ```
//!
//! **Live records stay as they are**, and so do reads of them. A volume that has had no snapshot yet costs one read of
//! its history in each command.
//!
//! **Inode numbers.** A snapshot has a volume id of its own, with the highest bit set, and its inodes have the numbers
//! that they have in their volume: so handles, states and file system ids tell a snapshot from its volume, and all
//! reads work on it ([`Snapshots`]). No command changes records of a snapshot ([`Error::ReadOnly`]).
//!
//! **Where it is shown.** The root of each volume has an entry `.snapshot` that no listing shows: inode 1 of the volume,
//! a directory of its snapshots. None of these has records.
//!
//! Data in objects: see `objects.rs`. Volumes in the volume are not in its snapshots.

pub(crate) mod history;
pub(crate) mod objects;
pub(crate) mod removal;
pub(crate) mod rollback;
mod view;

use serde::{Deserialize, Serialize};

pub use self::view::Snapshots;
use crate::plan::{Plan, Stop};
use crate::record::get;
use crate::{Error, Reply, Stage, Time, VolumeId, keys, read};

/// Maximum of snapshots of one volume: one each hour for half a year. A removal reads the list of them.
pub const SNAPSHOTS_OF_VOLUME_MAX: u32 = 4096;

/// Time for which no layout to write is granted after a try to make a snapshot: the leader recalls those that are out.
const QUIET_SECONDS: i64 = 10;

/// Maximum length of a snapshot's name in bytes: that of a file name.
const NAME_BYTES_MAX: usize = 255;

/// Last version: the highest byte of a version in a key is zero, so that it sorts before any byte of a name.
const LAST_VERSION: u32 = (1 << 24) - 1;

/// A snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Id, in the numbers of its inodes.
    pub id: VolumeId,
    /// The volume.
    pub volume: VolumeId,
    /// How many snapshots its volume had had, this one included.
    pub version: u32,
    /// Its name.
    pub name: Vec<u8>,
    /// Time at which it was made.
    pub created: Time,
    /// Volumes that were in the volume then.
    pub volumes: u32,
}

/// Snapshots of a volume, in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct History {
    /// Version of the last snapshot that was made; 0: there was none.
    pub last: u32,
    /// Version of the newest snapshot that was not removed; 0: there is none.
    pub newest: u32,
    /// Snapshots that were not removed.
    pub count: u32,
    /// Values that are kept for snapshots, and for those whose removal is under way.
    pub kept: u64,
    /// Bytes of the objects that are kept for them, as `du` showed them.
    pub bytes: u128,
    /// Time until which no layout to write and no write delegation is granted, so that a snapshot can be made.
    pub quiet_until: Time,
    /// How often a snapshot was made or removed.
    pub changes: u64,
    /// Time of the last of these changes.
    pub changed: Time,
    /// Snapshots that the leader makes and removes by itself.
    pub schedule: Schedule,
    /// True while the volume is rolled back.
    pub rolls_back: bool,
}

impl History {
    /// Has no layout to write granted for a while.
    pub(crate) fn be_quiet(&mut self, now: Time) {
        self.quiet_until = Time { seconds: now.seconds + QUIET_SECONDS, ..now };
    }
}

/// How many snapshots of each kind are kept; 0: none is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Schedule {
    /// Of each hour.
    pub hourly: u16,
    /// Of each day.
    pub daily: u16,
    /// Of each week.
    pub weekly: u16,
}

/// Next id of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SnapshotCounters {
    pub next: u32,
}

impl Default for SnapshotCounters {
    fn default() -> Self {
        Self { next: VolumeId::FIRST_SNAPSHOT.0 }
    }
}

/// Makes a snapshot of a volume, if nothing can write to its files unseen. Otherwise no layout to write is granted for a
/// while, so that the next try may succeed once those that are out have been returned.
///
/// # Errors
/// `Stale` if there is no such volume, `Exists`, `Invalid` for a name that no client can look up, `TooManySnapshots`,
/// `Promotes`.
pub(crate) fn make(plan: &mut Plan<'_>, volume: VolumeId, name: &[u8]) -> Result<Reply, Stop> {
    let of_volume =
        read::volume(plan.view(), volume)?.filter(|_| !volume.is_snapshot()).ok_or(Error::Stale)?;
    let is_odd = |byte: &u8| matches!(byte, b'/' | 0);
    if name.is_empty() || name.len() > NAME_BYTES_MAX || [&b"."[..], b".."].contains(&name) {
        return Err(Error::Invalid.into());
    }
    if name.iter().any(is_odd) {
        return Err(Error::Invalid.into());
    }
    if plan.view().get(&keys::snapshot_name(volume, name))?.is_some() {
        return Err(Error::Exists.into());
    }
    let mut history = read::history(plan.view(), volume)?;
    if history.rolls_back {
        return Err(Error::Delay.into());
    }
    // What it shares with its origin would be shown by the snapshot.
    if read::origin(plan.view(), volume)?.is_some_and(|origin| origin.stage == Stage::Promotes) {
        return Err(Error::Promotes.into());
    }
    if !objects::is_quiet(plan, volume)? {
        history.be_quiet(plan.now());
        plan.put(&keys::history(volume), &history)?;
        return Ok(Reply::Snapshot { made: None });
    }
    let mut counters: SnapshotCounters = get(plan.view(), &keys::snapshot_counters())?.unwrap_or_default();
    if history.count >= SNAPSHOTS_OF_VOLUME_MAX
        || history.last >= LAST_VERSION
        || counters.next > VolumeId::LAST_SNAPSHOT.0
    {
        return Err(Error::TooManySnapshots.into());
    }
    let id = VolumeId(counters.next);
    counters.next += 1;
    plan.put(&keys::snapshot_counters(), &counters)?;
    history.quiet_until = Time::default();
    history.last += 1;
    history.newest = history.last;
    history.count += 1;
    changed(plan, volume, &mut history)?;
    let (version, created) = (history.last, plan.now());
    let snapshot = Snapshot { id, volume, version, name: name.to_vec(), created, volumes: of_volume.volumes };
    plan.put(&keys::snapshot(id), &snapshot)?;
    plan.put(&keys::snapshot_of(volume, version), &id)?;
    plan.put(&keys::snapshot_name(volume, name), &id)?;
    Ok(Reply::Snapshot { made: Some(snapshot) })
}

/// Sets the schedule of a volume.
///
/// # Errors
/// `Stale` if there is no such volume.
pub(crate) fn set_schedule(plan: &mut Plan<'_>, volume: VolumeId, schedule: Schedule) -> Result<Reply, Stop> {
    if volume.is_snapshot() || read::volume(plan.view(), volume)?.is_none() {
        return Err(Error::Stale.into());
    }
    let mut history = read::history(plan.view(), volume)?;
    history.schedule = schedule;
    plan.put(&keys::history(volume), &history)?;
    Ok(Reply::Done)
}

/// Puts a history with another set of snapshots.
fn changed(plan: &mut Plan<'_>, volume: VolumeId, history: &mut History) -> Result<(), Stop> {
    history.changes += 1;
    history.changed = plan.now();
    Ok(plan.put(&keys::history(volume), history)?)
}
