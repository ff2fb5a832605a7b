//! Volumes: their counts, and removals under way.

use std::collections::{BTreeMap, BTreeSet};

use store::{StoreError, View};

use super::{Findings, marks, records, table};
use crate::volume::{LeftVolume, VolumeCounters};
use crate::{Inode, InodeId, Limits, Subject, Usage, Volume, VolumeId, keys, read};

/// Volumes that were not removed.
pub(super) struct Volumes(BTreeSet<VolumeId>);

impl Volumes {
    /// True if the inode is in one of them.
    pub fn has(&self, inode: InodeId) -> bool {
        self.0.contains(&inode.volume())
    }
}

/// Checks the counts of all volumes, and that each inode and each entry is of one.
pub(super) fn check(
    view: &dyn View,
    inodes: &BTreeMap<InodeId, Inode>,
    findings: &mut Findings,
) -> Result<Volumes, StoreError> {
    let (first, end) = (keys::volume(VolumeId::FIRST), keys::after(&[keys::VOLUMES]));
    let all = records::<VolumeCounters>(view, &[keys::VOLUMES], &first, findings)?;
    let all = all.into_values().next().unwrap_or_default();
    let mut volumes: BTreeMap<VolumeId, Volume> = records::<Volume>(view, &first, &end, findings)?
        .into_iter()
        .map(|(key, volume)| (VolumeId(keys::number(&key, 1) as u32), volume))
        .collect();
    if view.get(&first)?.is_none() {
        volumes.extend(read::volume(view, VolumeId::FIRST)?.map(|first| (first.id, first)));
    }
    let (first, end) = (keys::left_volume(VolumeId::FIRST), keys::after(&keys::of(keys::LEFTOVERS, &[5])));
    let removed: BTreeMap<VolumeId, LeftVolume> = records::<LeftVolume>(view, &first, &end, findings)?
        .into_iter()
        .map(|(key, left)| (VolumeId(keys::number(&key, 9) as u32), left))
        .collect();
    findings.expect(volumes.len() == all.count as usize + 1, || {
        format!("{} volumes are counted beside the first, there are {}", all.count, volumes.len())
    });

    let mut there: BTreeMap<VolumeId, u64> = BTreeMap::new();
    let mut within: BTreeMap<VolumeId, u32> = BTreeMap::new();
    for inode in inodes.values() {
        let id = inode.id.volume();
        *there.entry(id).or_default() += u64::from(counts(&volumes, inode.id));
        let is_counted = inode.id.is_root() && inode.id != InodeId::ROOT;
        let is_counted = is_counted && volumes.contains_key(&inode.id.volume());
        if let Some(directory) = inode.directory().filter(|_| is_counted) {
            *within.entry(directory.parent.volume()).or_default() += 1;
        }
    }
    for (id, volume) in &volumes {
        let (there, within) =
            (there.remove(id).unwrap_or_default(), within.get(id).copied().unwrap_or_default());
        let is_given = id.is_clone() || id.0 < all.next;
        findings.expect(*id == volume.id && is_given, || format!("{id:?} is {volume:?}"));
        findings.expect((volume.usage.inodes, volume.volumes) == (there, within), || {
            format!("{volume:?} has {there} inodes, and {within} volumes in it")
        });
        let root = inodes.get(&id.root()).is_some_and(|root| root.directory().is_some());
        findings.expect(root, || format!("{id:?} has no root"));
        check_next(*id, volume.next_inode, inodes, findings);
        let is_marked = view.get(&keys::left_count(*id))?.is_some();
        let is_of_before = *id == VolumeId::FIRST && view.get(&keys::volume(*id))?.is_none();
        findings.expect(is_marked != volume.counted.is_done() || is_of_before, || {
            format!("{volume:?} is to be counted: {is_marked}")
        });
    }
    usages(view, &volumes, &removed, inodes, findings)?;
    for (id, left) in &removed {
        let there = there.remove(id).unwrap_or_default();
        let is_given = id.is_clone() || id.0 < all.next;
        findings.expect(there == left.inodes && is_given && !volumes.contains_key(id), || {
            format!("{id:?} was removed: {left:?}, and there are {there} inodes")
        });
    }
    findings.expect(there.is_empty(), || format!("inodes are of no volume: {there:?}"));
    let is_known = |id| volumes.contains_key(&id) || removed.contains_key(&id);
    for tag in [keys::NAMES, keys::COOKIES] {
        for key in marks(view, tag)? {
            let dir = InodeId(keys::number(&key, 1));
            findings.expect(is_known(dir.volume()), || format!("{key:02x?} is of no volume"));
        }
    }
    let mut whole = BTreeSet::new();
    for id in volumes.into_keys() {
        // Half of one that is rolled back is as it was.
        if !read::history(view, id)?.rolls_back {
            whole.insert(id);
        }
    }
    Ok(Volumes(whole))
}

/// True if an inode counts for its volume: those of a clone that was removed do not, nor those that are yet to be counted.
fn counts(volumes: &BTreeMap<VolumeId, Volume>, inode: InodeId) -> bool {
    volumes.get(&inode.volume()).map_or(!inode.volume().is_clone(), |volume| volume.counts(inode))
}

/// How many inodes count for their volumes.
pub(super) fn counted(view: &dyn View, inodes: &BTreeMap<InodeId, Inode>) -> Result<u64, StoreError> {
    let volumes = read::volumes(view)?.into_iter().map(|volume| (volume.id, volume)).collect();
    Ok(inodes.keys().filter(|inode| counts(&volumes, **inode)).count() as u64)
}

/// Checks that what volumes, users and groups are charged with is the sum over inodes, as far as they are counted.
fn usages(
    view: &dyn View,
    volumes: &BTreeMap<VolumeId, Volume>,
    removed: &BTreeMap<VolumeId, LeftVolume>,
    inodes: &BTreeMap<InodeId, Inode>,
    findings: &mut Findings,
) -> Result<(), StoreError> {
    let mut bytes: BTreeMap<VolumeId, u128> = BTreeMap::new();
    let mut of_owners: BTreeMap<(VolumeId, Subject), (u128, u64)> = BTreeMap::new();
    for inode in inodes.values() {
        let id = inode.id.volume();
        let Some(volume) = volumes.get(&id) else { continue };
        if inode.id < volume.counted.bytes {
            *bytes.entry(id).or_default() += u128::from(inode.used_bytes());
        }
        if volume.counted.owners.is_some_and(|mark| inode.id < mark) {
            for subject in [Subject::User(inode.uid), Subject::Group(inode.gid)] {
                let (bytes, inodes) = of_owners.entry((id, subject)).or_default();
                (*bytes, *inodes) = (*bytes + u128::from(inode.used_bytes()), *inodes + 1);
            }
        }
    }
    for (id, volume) in volumes {
        let there = bytes.remove(id).unwrap_or_default();
        findings.expect(there == volume.usage.bytes, || format!("{volume:?} has {there} bytes"));
    }
    let mut limited: BTreeMap<VolumeId, u32> = BTreeMap::new();
    for (key, usage) in table::<Usage>(view, keys::USAGES, findings)? {
        let Some((id, subject)) = keys::subject(&key) else {
            findings.add(format!("usage {key:02x?} is of no known kind"));
            continue;
        };
        if removed.contains_key(&id) {
            continue;
        }
        *limited.entry(id).or_default() += u32::from(usage.limits != Limits::default());
        let there = of_owners.remove(&(id, subject)).unwrap_or_default();
        findings.expect((usage.bytes, usage.inodes) == there, || {
            format!("{subject:?} in {id:?} has {there:?}, and is charged with {usage:?}")
        });
        findings.expect(usage != Usage::default() && volumes.contains_key(&id), || {
            format!("{subject:?} in {id:?} has nothing")
        });
    }
    for (id, volume) in volumes {
        let there = limited.remove(id).unwrap_or_default();
        findings.expect(there == volume.limited, || {
            format!("{volume:?} has {there} users and groups with limits")
        });
    }
    findings.expect(of_owners.is_empty(), || format!("uncharged are {of_owners:?}"));
    Ok(())
}

/// Checks that no inode of a volume has the next number, or a later one.
fn check_next(id: VolumeId, next: u64, inodes: &BTreeMap<InodeId, Inode>, findings: &mut Findings) {
    let [first, end] = id.numbers();
    let last = inodes.range(InodeId(first)..InodeId(end)).next_back().map(|(last, _)| *last);
    findings.expect(last.is_none_or(|last| last.0 < first + next) && first + next <= end, || {
        format!("{last:?} is yet to be given in {id:?}, the next is {next}")
    });
}
