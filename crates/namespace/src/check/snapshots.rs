//! Snapshots: their indexes, and what is kept for them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use store::{StoreError, View};

use super::{Findings, marks, records, table};
use crate::keys::{self, Key};
use crate::record::{decode, is_sound, stamp_of};
use crate::snapshot::SnapshotCounters;
use crate::snapshot::objects::{Objects, kept as kept_objects};
use crate::{History, Inode, InodeId, Snapshot, VolumeId};

/// A version of a volume.
type Version = (VolumeId, u32);

pub(super) fn check(
    view: &dyn View,
    inodes: &BTreeMap<InodeId, Inode>,
    findings: &mut Findings,
) -> Result<(), StoreError> {
    let first = keys::snapshot(VolumeId::FIRST);
    let next = records::<SnapshotCounters>(view, &[keys::SNAPSHOTS], &first, findings)?;
    let next = next.into_values().next().unwrap_or_default().next;
    let all = records::<Snapshot>(view, &first, &keys::after(&[keys::SNAPSHOTS]), findings)?;
    let histories: BTreeMap<VolumeId, History> = table::<History>(view, keys::HISTORIES, findings)?
        .into_iter()
        .map(|(key, history)| (VolumeId(keys::number(&key, 1) as u32), history))
        .collect();
    let mut by_version: BTreeMap<Key, VolumeId> = table(view, keys::SNAPSHOTS_OF, findings)?;
    let mut by_name: BTreeMap<Key, VolumeId> = table(view, keys::SNAPSHOT_NAMES, findings)?;
    let mut of_volumes: BTreeMap<VolumeId, BTreeSet<u32>> = BTreeMap::new();
    for (key, snapshot) in &all {
        let Snapshot { id, volume, version, name, .. } = snapshot;
        let listed = by_version.remove(&keys::snapshot_of(*volume, *version));
        let named = by_name.remove(&keys::snapshot_name(*volume, name));
        let is_known = *key == keys::snapshot(*id) && id.is_snapshot() && id.0 < next;
        findings.expect(is_known && [listed, named] == [Some(*id); 2], || {
            format!("{snapshot:?} is listed as {listed:?}, and named as {named:?}")
        });
        of_volumes.entry(*volume).or_default().insert(*version);
    }
    findings.expect(by_version.is_empty() && by_name.is_empty(), || {
        format!("snapshots are listed that are not there: {by_version:02x?} {by_name:02x?}")
    });
    let kept = kept(view, &of_volumes, &histories, findings)?;
    let volumes: BTreeSet<VolumeId> =
        of_volumes.keys().chain(kept.keys()).chain(histories.keys()).copied().collect();
    for volume in volumes {
        let versions = of_volumes.remove(&volume).unwrap_or_default();
        let history = histories.get(&volume).copied().unwrap_or_default();
        let newest = versions.last().copied().unwrap_or_default();
        let counted = (history.newest, history.count as usize, (history.kept, history.bytes));
        let there = (newest, versions.len(), kept.get(&volume).copied().unwrap_or_default());
        findings.expect(counted == there && newest <= history.last, || {
            format!("{volume:?} has {history:?}, there are (newest, count, (kept, bytes)) {there:?}")
        });
    }
    objects(view, inodes, findings)
}

/// Checks that all objects are of one file, and those that are not named as their inode are listed.
fn objects(
    view: &dyn View,
    inodes: &BTreeMap<InodeId, Inode>,
    findings: &mut Findings,
) -> Result<(), StoreError> {
    let mut owners: BTreeMap<InodeId, InodeId> = BTreeMap::new();
    let mut add = |object: InodeId, file: InodeId, findings: &mut Findings| {
        let other = owners.insert(object, file);
        findings.expect(other.is_none(), || format!("{object:?} are objects of {file:?}, and of {other:?}"));
    };
    for (key, record) in table::<Objects>(view, keys::OBJECTS, findings)? {
        let file = InodeId(keys::number(&key, 1));
        let layout = inodes.get(&file).and_then(Inode::layout);
        findings.expect(layout.is_some(), || format!("{file:?} has {record:?}, and is no file"));
        let own = Some(record.id).filter(|_| !record.are_inherited());
        for object in [own, record.copy.map(|copy| copy.id)].into_iter().flatten() {
            add(object, file, findings);
        }
    }
    let from = [keys::KEPT, keys::OBJECTS];
    view.scan(&from, &keys::after(&from), &mut |at, value| {
        let Some((key, _)) = keys::kept(at) else { return ControlFlow::Continue(()) };
        match kept_objects(key, value) {
            Ok(kept) => add(kept.id, InodeId(keys::number(key, 1)), findings),
            Err(error) => findings.add(error),
        }
        ControlFlow::Continue(())
    })?;
    let named: BTreeMap<InodeId, InodeId> = table::<InodeId>(view, keys::OBJECT_OWNERS, findings)?
        .into_iter()
        .map(|(key, file)| (InodeId(keys::number(&key, 1)), file))
        .collect();
    owners.retain(|object, file| object != file);
    findings.expect(owners == named, || format!("objects are of {owners:?}, and listed as of {named:?}"));
    Ok(())
}

/// Checks what is kept, and returns how many values each volume has, and how many bytes of objects.
fn kept(
    view: &dyn View,
    snapshots: &BTreeMap<VolumeId, BTreeSet<u32>>,
    histories: &BTreeMap<VolumeId, History>,
    findings: &mut Findings,
) -> Result<BTreeMap<VolumeId, (u64, u128)>, StoreError> {
    let removed: BTreeSet<Version> = crate::read::removed_snapshots(view)?.into_iter().collect();
    let mut index: BTreeSet<Key> = marks(view, keys::KEPT_FOR)?.into_iter().collect();
    let mut counts: BTreeMap<VolumeId, (u64, u128)> = BTreeMap::new();
    // Of each key: the last version under which a value is kept.
    let mut last: BTreeMap<Key, u32> = BTreeMap::new();
    view.scan(&[keys::KEPT], &keys::after(&[keys::KEPT]), &mut |at, value| {
        let known =
            keys::kept(at).and_then(|(key, version)| Some((key, version, keys::inode_of(key)?.volume())));
        let Some((key, version, volume)) = known else {
            findings.add(format!("{at:02x?} is kept, and of no key"));
            return ControlFlow::Continue(());
        };
        let (kept, bytes) = counts.entry(volume).or_default();
        *kept += 1;
        if key.first() == Some(&keys::OBJECTS) {
            *bytes += kept_objects(key, value).map_or(0, |kept| u128::from(kept.bytes));
        }
        let stamp = stamp_of(value);
        findings.expect(index.remove(&keys::kept_for(volume, version, key)), || {
            format!("{at:02x?} is kept for no snapshot")
        });
        findings.expect(is_sound(at, value), || format!("what is kept under {at:02x?} is damaged"));
        let before = last.insert(key.to_vec(), version);
        findings.expect(stamp < version && before.is_none_or(|before| stamp >= before), || {
            format!("{at:02x?} was kept from {stamp} on, and before until {before:?}")
        });
        let lives = snapshots.get(&volume).is_some_and(|all| all.contains(&version));
        let is_left = removed.contains(&(volume, version));
        findings.expect(lives != is_left, || format!("{at:02x?} is kept for no snapshot that is there"));
        ControlFlow::Continue(())
    })?;
    findings.expect(index.is_empty(), || format!("values are not kept: {index:02x?}"));
    for (key, version) in last {
        let live = view.get(&key)?;
        let stamp = match (key.first(), live) {
            (_, None) => u32::MAX,
            (Some(&keys::OBJECTS), Some(live)) => decode::<Objects>(&key, &live).map_or(0, |own| own.version),
            (_, Some(live)) => stamp_of(&live),
        };
        findings.expect(stamp >= version, || format!("{key:02x?} was kept for {version}, and is of {stamp}"));
    }
    stamps(view, histories, findings)?;
    Ok(counts)
}

/// Checks that no record has a stamp of a snapshot that is yet to be made.
fn stamps(
    view: &dyn View,
    histories: &BTreeMap<VolumeId, History>,
    findings: &mut Findings,
) -> Result<(), StoreError> {
    let [first, last] = keys::SHOWN;
    view.scan(&[first], &[last + 1], &mut |key, value| {
        let volume = keys::inode_of(key).map(InodeId::volume);
        // Records of a removed volume go after its history.
        let history = volume.and_then(|volume| histories.get(&volume));
        findings.expect(history.is_none_or(|history| stamp_of(value) <= history.last), || {
            format!("{key:02x?} is of a snapshot that is yet to be made: {history:?}")
        });
        ControlFlow::Continue(())
    })
}
