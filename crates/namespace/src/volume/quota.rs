//! Quotas: what a volume has, and users and groups in it, and how much that may be.
//!
//! ```text
//! put_inode, discard ─▶ Plan: the charge of the inode before its first change
//! end of the command ─▶ settle: charges before and after ─▶ usage of volume, user, group ─┬▶ records
//!                                                                        above a limit └▶ Quota, no changes
//! ```
//!
//! **Exact.** Each command charges and refunds in its own changes, so the usage of a volume is the sum over its
//! inodes (`check` compares them). An inode is charged with one file and the bytes that `du` shows. The objects of a
//! file tell their space later ([`crate::SpaceUsed`]); until then what was written is charged.
//!
//! Objects that are kept for snapshots count for the hard limit of their volume, and no user's or group's.
//!
//! **Refused in time.** Only commands that a client waits for are refused. Data that a data server has are charged
//! whatever the limit is: a metaserver asks for the room before it sends data ([`crate::read::room`]).
//!
//! **Counted later.** Users and groups are counted from the first limit on, and a store from before there were quotas
//! from its first change on: some inodes in each `RemoveLeftovers`, in the order of their numbers. An inode above the
//! mark is not charged, and will be counted. In the same way what a clone has inherited is counted, inodes too.

use std::collections::BTreeMap;

use super::{Volume, VolumeId, find};
use crate::plan::{Broken, Plan, Stop};
use crate::record::get;
use crate::{DataPlace, Error, Inode, InodeId, Kind, Reply, Snapshots, Time, keys, read};
use serde::{Deserialize, Serialize};

/// Block of the objects of a file, and what a directory takes, in bytes: what is charged is a multiple of it.
pub const BLOCK_BYTES: u64 = 4096;
/// Block of data that are kept with their inode, which are in no blocks of a disk: the unit of `du`.
const SMALL_BLOCK_BYTES: u64 = 512;
/// Inodes that one command counts: each may be of another user and another group.
const COUNTED_MAX: usize = crate::RECORDS_OF_COMMAND_MAX / 2;
/// The mark of a count that is done.
const ALL: InodeId = InodeId(u64::MAX);

/// Whose usage is counted in a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Subject {
    /// The volume itself.
    Volume,
    /// The inodes of a user.
    User(u32),
    /// The inodes of a group.
    Group(u32),
}

/// Limits; 0: none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Limits {
    /// Bytes that are never exceeded.
    pub bytes_hard: u64,
    /// Bytes that may be exceeded for `grace_seconds`.
    pub bytes_soft: u64,
    /// Inodes that are never exceeded.
    pub inodes_hard: u64,
    /// Inodes that may be exceeded for `grace_seconds`.
    pub inodes_soft: u64,
    /// Time above a soft limit after which it is as a hard one.
    pub grace_seconds: u32,
}

/// What a volume has, or a user or a group in it, and its limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Bytes, as `du` shows them. Few files of the greatest size have more than 64 bits can count, until the data
    /// servers have told that they are mostly holes.
    pub bytes: u128,
    /// Inodes, orphans included.
    pub inodes: u64,
    /// Its limits.
    pub limits: Limits,
    /// Time since which it has more bytes than the soft limit.
    pub bytes_over: Option<Time>,
    /// Time since which it has more inodes than the soft limit.
    pub inodes_over: Option<Time>,
}

/// How far a volume is counted: inodes below a mark are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// Mark for the bytes of the volume.
    pub bytes: InodeId,
    /// Mark for users and groups; none: they are not counted.
    pub owners: Option<InodeId>,
}

impl Counted {
    /// Of a volume that was counted from its beginning, without users and groups.
    pub(crate) const NEW: Self = Self { bytes: ALL, owners: None };
    /// Of a volume from before there were quotas.
    pub(crate) const NOTHING: Self = Self { bytes: InodeId(0), owners: None };

    /// True if all is counted that is to be counted.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.bytes == ALL && self.owners.is_none_or(|mark| mark == ALL)
    }
}

/// What an inode is charged with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Charge {
    uid: u32,
    gid: u32,
    bytes: u64,
}

impl From<&Inode> for Charge {
    fn from(inode: &Inode) -> Self {
        Self { uid: inode.uid, gid: inode.gid, bytes: inode.used_bytes() }
    }
}

impl Inode {
    /// Used space in bytes, as shown by `du`.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        let in_blocks = |bytes: u64, block: u64| bytes.div_ceil(block).saturating_mul(block);
        match &self.kind {
            Kind::File(file) => match file.data {
                DataPlace::Inline | DataPlace::Migrating => in_blocks(self.written, SMALL_BLOCK_BYTES),
                // What was told is of whole blocks; what was appended since is not.
                DataPlace::Striped => in_blocks(self.space_used, BLOCK_BYTES),
            },
            Kind::Directory(_) => BLOCK_BYTES,
            Kind::Symlink(_)
            | Kind::Fifo
            | Kind::Socket
            | Kind::CharacterDevice(..)
            | Kind::BlockDevice(..) => 0,
        }
    }
}

/// Change of a usage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Delta {
    bytes: i128,
    inodes: i64,
}

impl Delta {
    fn add(&mut self, charge: Charge, sign: i64) {
        self.bytes += i128::from(sign) * i128::from(charge.bytes);
        self.inodes += sign;
    }
}

impl Usage {
    fn change(&mut self, delta: Delta, now: Time) -> Result<(), Broken> {
        const UNCHARGED: Broken = Broken("something is refunded that was not charged");
        self.bytes = self.bytes.checked_add_signed(delta.bytes).ok_or(UNCHARGED)?;
        self.inodes = self.inodes.checked_add_signed(delta.inodes).ok_or(UNCHARGED)?;
        self.note_soft(now);
        Ok(())
    }

    /// Begins or ends the times above the soft limits.
    fn note_soft(&mut self, now: Time) {
        let since = |over: Option<Time>, has: u128, soft: u64| {
            (soft > 0 && has > soft.into()).then(|| over.unwrap_or(now))
        };
        self.bytes_over = since(self.bytes_over, self.bytes, self.limits.bytes_soft);
        self.inodes_over = since(self.inodes_over, self.inodes.into(), self.limits.inodes_soft);
    }

    /// Bytes that may still be charged at this time.
    #[must_use]
    pub fn room_bytes(&self, now: Time) -> u64 {
        let Limits { bytes_hard: hard, bytes_soft: soft, .. } = self.limits;
        let limit = if self.is_late(self.bytes_over, now) { soft } else { hard };
        if limit == 0 { u64::MAX } else { limit.saturating_sub(self.bytes_shown()) }
    }

    /// Bytes, as 64 bits can show them.
    #[must_use]
    pub fn bytes_shown(&self) -> u64 {
        u64::try_from(self.bytes).unwrap_or(u64::MAX)
    }

    fn is_late(&self, over: Option<Time>, now: Time) -> bool {
        over.is_some_and(|since| {
            now.seconds.saturating_sub(since.seconds) >= self.limits.grace_seconds.into()
        })
    }

    /// True if the usage may not grow by `delta`, which is contained in it.
    fn forbids(&self, delta: Delta, now: Time) -> bool {
        let is_above = |has: u128, hard: u64, over| hard > 0 && has > hard.into() || self.is_late(over, now);
        delta.bytes > 0 && is_above(self.bytes, self.limits.bytes_hard, self.bytes_over)
            || delta.inodes > 0 && is_above(self.inodes.into(), self.limits.inodes_hard, self.inodes_over)
    }
}

/// Charges what the command has changed. `enforces`: a growth above a limit is refused.
///
/// # Errors
/// `Quota`.
pub(crate) fn settle(plan: &mut Plan<'_>, enforces: bool) -> Result<(), Stop> {
    let mut changed: BTreeMap<VolumeId, Vec<(InodeId, Charge, i64)>> = BTreeMap::new();
    for (id, before) in plan.take_touched() {
        let after = read::inode(plan.view(), id)?.as_ref().map(Charge::from);
        if before != after {
            let of_volume = changed.entry(id.volume()).or_default();
            of_volume.extend(before.map(|charge| (id, charge, -1)));
            of_volume.extend(after.map(|charge| (id, charge, 1)));
        }
    }
    for (id, charges) in changed {
        let volume = read::volume(plan.view(), id)?;
        // Those of a clone that was removed were refunded with it.
        let is_counted = |inode| volume.as_ref().map_or(!id.is_clone(), |volume| volume.counts(inode));
        let counted = charges.iter().filter(|(inode, ..)| is_counted(*inode));
        let inodes: i64 = counted.map(|(.., sign)| sign).sum();
        count_inodes(plan, inodes)?;
        match volume {
            Some(volume) => settle_volume(plan, volume, &charges, enforces)?,
            None => super::removal::settle(plan, id, inodes)?,
        }
    }
    Ok(())
}

/// Counts inodes for all volumes together.
pub(super) fn count_inodes(plan: &mut Plan<'_>, inodes: i64) -> Result<(), Stop> {
    if inodes != 0 {
        let counted = |all: &mut u64| all.checked_add_signed(inodes).map(|sum| *all = sum);
        plan.count(|counters| counted(&mut counters.inodes))?
            .ok_or(Broken("inodes go that were not counted"))?;
    }
    Ok(())
}

fn settle_volume(
    plan: &mut Plan<'_>,
    mut volume: Volume,
    charges: &[(InodeId, Charge, i64)],
    enforces: bool,
) -> Result<(), Stop> {
    let (id, now) = (volume.id, plan.now());
    let mut of_volume = Delta::default();
    let mut of_owners: BTreeMap<Subject, Delta> = BTreeMap::new();
    for (inode, charge, sign) in charges {
        match *inode < volume.counted.bytes {
            true => of_volume.add(*charge, *sign),
            false => of_volume.inodes += if volume.counts(*inode) { *sign } else { 0 },
        }
        if volume.counted.owners.is_some_and(|mark| *inode < mark) {
            for subject in [Subject::User(charge.uid), Subject::Group(charge.gid)] {
                of_owners.entry(subject).or_default().add(*charge, *sign);
            }
        }
    }
    if of_volume != Delta::default() {
        volume.usage.change(of_volume, now)?;
        if enforces && read::with_kept(plan.view(), &volume)?.forbids(of_volume, now) {
            return Err(Error::Quota.into());
        }
        super::put(plan, &volume)?;
    }
    for (subject, delta) in of_owners.into_iter().filter(|(_, delta)| *delta != Delta::default()) {
        let key = keys::usage(id, subject);
        let mut usage: Usage = get(plan.view(), &key)?.unwrap_or_default();
        usage.change(delta, now)?;
        if enforces && usage.forbids(delta, now) {
            return Err(Error::Quota.into());
        }
        plan.put_or_delete(&key, &usage)?;
    }
    Ok(())
}

/// Sets the limits of a volume, or of a user or group in it.
///
/// # Errors
/// `Stale` if there is no such volume, `Invalid` for a soft limit above its hard one.
pub(crate) fn set(
    plan: &mut Plan<'_>,
    id: VolumeId,
    subject: Subject,
    limits: Limits,
) -> Result<Reply, Stop> {
    let is_above = |soft: u64, hard: u64| hard > 0 && soft > hard;
    if is_above(limits.bytes_soft, limits.bytes_hard) || is_above(limits.inodes_soft, limits.inodes_hard) {
        return Err(Error::Invalid.into());
    }
    let (mut volume, now) = (find(plan, id)?, plan.now());
    if subject == Subject::Volume {
        volume.usage.limits = limits;
        volume.usage.note_soft(now);
        super::put(plan, &volume)?;
    } else {
        let key = keys::usage(id, subject);
        let mut usage: Usage = get(plan.view(), &key)?.unwrap_or_default();
        let has = |limits: Limits| u32::from(limits != Limits::default());
        let more = volume.limited.checked_add(has(limits));
        let left = more.and_then(|more| more.checked_sub(has(usage.limits)));
        volume.limited = left.ok_or(Broken("limits go that were not counted"))?;
        usage.limits = limits;
        usage.note_soft(now);
        plan.put_or_delete(&key, &usage)?;
        volume.counted.owners.get_or_insert(InodeId(0));
        super::put(plan, &volume)?;
    }
    if !volume.counted.is_done() {
        count_some(plan, id)?; // all of a small volume
    }
    Ok(Reply::Done)
}

/// Counts some inodes of a volume that are not counted yet. Returns true if that were all.
pub(crate) fn count_some(plan: &mut Plan<'_>, id: VolumeId) -> Result<bool, Stop> {
    let Some(mut volume) = read::volume(plan.view(), id)? else { return Ok(true) };
    let now = plan.now();
    let counts_bytes = volume.counted.bytes != ALL;
    let mark = if counts_bytes { volume.counted.bytes } else { volume.counted.owners.unwrap_or(ALL) };
    let (first, end) = keys::of_volume(keys::INODES, id);
    let from = keys::inode(mark).max(first);
    // What its volume made after the snapshot is looked at, too: so as many numbers, not inodes.
    let window = InodeId(mark.0.max(id.numbers()[0]) + COUNTED_MAX as u64);
    let is_window = id.is_clone() && window.0 < id.numbers()[0] + volume.next_inode;
    let end = if is_window { keys::inode(window) } else { end };
    // A clone may have been made by this command.
    let some = read::collect_some::<Inode>(&Snapshots(plan.view()), &from, &end, COUNTED_MAX)?;
    let mark = match some.last() {
        Some((_, last)) if some.len() == COUNTED_MAX => InodeId(last.id.0 + 1),
        _ if is_window => window,
        Some(_) | None => ALL,
    };
    let mut sums: BTreeMap<Subject, Delta> = BTreeMap::new();
    for (_, inode) in &some {
        let charge = Charge::from(inode);
        if counts_bytes {
            let of_volume = sums.entry(Subject::Volume).or_default();
            of_volume.bytes += i128::from(charge.bytes);
            // Those of other volumes were counted before there were quotas.
            of_volume.inodes += i64::from(id.is_clone());
        } else {
            for subject in [Subject::User(charge.uid), Subject::Group(charge.gid)] {
                sums.entry(subject).or_default().add(charge, 1);
            }
        }
    }
    for (subject, delta) in sums {
        if subject == Subject::Volume {
            volume.usage.change(delta, now)?;
            count_inodes(plan, delta.inodes)?;
            continue;
        }
        let key = keys::usage(id, subject);
        let mut usage: Usage = get(plan.view(), &key)?.unwrap_or_default();
        usage.change(delta, now)?;
        plan.put(&key, &usage)?;
    }
    if counts_bytes {
        volume.counted.bytes = mark;
    } else {
        volume.counted.owners = Some(mark);
    }
    super::put(plan, &volume)?;
    Ok(volume.counted.is_done())
}
