//! Volumes: their counts, and removals under way.

use std::collections::{BTreeMap, BTreeSet};

use store::{StoreError, View};

use super::{Findings, marks, records};
use crate::record::Counters;
use crate::volume::{LeftVolume, VolumeCounters};
use crate::{Inode, InodeId, Volume, VolumeId, keys};

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
    counters: &Counters,
    inodes: &BTreeMap<InodeId, Inode>,
    findings: &mut Findings,
) -> Result<Volumes, StoreError> {
    let (first, end) = (keys::volume(VolumeId::FIRST), keys::after(&[keys::VOLUMES]));
    let all = records::<VolumeCounters>(view, &[keys::VOLUMES], &first, findings)?;
    let all = all.into_values().next().unwrap_or_default();
    let volumes: BTreeMap<VolumeId, Volume> = records::<Volume>(view, &first, &end, findings)?
        .into_iter()
        .map(|(key, volume)| (VolumeId(keys::number(&key, 1) as u32), volume))
        .collect();
    let (first, end) = (keys::left_volume(VolumeId::FIRST), keys::after(&keys::of(keys::LEFTOVERS, &[5])));
    let removed: BTreeMap<VolumeId, LeftVolume> = records::<LeftVolume>(view, &first, &end, findings)?
        .into_iter()
        .map(|(key, left)| (VolumeId(keys::number(&key, 9) as u32), left))
        .collect();
    findings.expect(volumes.len() == all.count as usize, || {
        format!("{} volumes are counted beside the first, there are {}", all.count, volumes.len())
    });

    let mut there: BTreeMap<VolumeId, u64> = BTreeMap::new();
    let mut within: BTreeMap<VolumeId, u32> = BTreeMap::new();
    for inode in inodes.values() {
        *there.entry(inode.id.volume()).or_default() += 1;
        let is_counted = inode.id.is_root() && volumes.contains_key(&inode.id.volume());
        if let Some(directory) = inode.directory().filter(|_| is_counted) {
            *within.entry(directory.parent.volume()).or_default() += 1;
        }
    }
    there.remove(&VolumeId::FIRST); // it has all that the others have not
    for (id, volume) in &volumes {
        let (there, within) =
            (there.remove(id).unwrap_or_default(), within.get(id).copied().unwrap_or_default());
        findings.expect(*id == volume.id && id.0 < all.next, || format!("{id:?} is {volume:?}"));
        findings.expect((volume.inodes, volume.volumes) == (there, within), || {
            format!("{volume:?} has {there} inodes, and {within} volumes in it")
        });
        let root = inodes.get(&id.root()).is_some_and(|root| root.directory().is_some());
        findings.expect(root, || format!("{id:?} has no root"));
        check_next(*id, volume.next_inode, inodes, findings);
    }
    check_next(VolumeId::FIRST, counters.next_inode, inodes, findings);
    for (id, left) in &removed {
        let there = there.remove(id).unwrap_or_default();
        findings.expect(there == left.inodes && id.0 < all.next && !volumes.contains_key(id), || {
            format!("{id:?} was removed: {left:?}, and there are {there} inodes")
        });
    }
    findings.expect(there.is_empty(), || format!("inodes are of no volume: {there:?}"));
    let is_known = |id| id == VolumeId::FIRST || volumes.contains_key(&id) || removed.contains_key(&id);
    for tag in [keys::NAMES, keys::COOKIES] {
        for key in marks(view, tag)? {
            let dir = InodeId(keys::number(&key, 1));
            findings.expect(is_known(dir.volume()), || format!("{key:02x?} is of no volume"));
        }
    }
    Ok(Volumes(volumes.into_keys().chain([VolumeId::FIRST]).collect()))
}

/// Checks that no inode of a volume has the next number, or a later one.
fn check_next(id: VolumeId, next: u64, inodes: &BTreeMap<InodeId, Inode>, findings: &mut Findings) {
    let [first, end] = id.numbers();
    let last = inodes.range(InodeId(first)..InodeId(end)).next_back().map(|(last, _)| *last);
    findings.expect(last.is_none_or(|last| last.0 < first + next) && first + next <= end, || {
        format!("{last:?} is yet to be given in {id:?}, the next is {next}")
    });
}
