//! Clones: their origins, marks and copies under way.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use store::{StoreError, View};

use super::{Findings, marks, records};
use crate::clones::{CloneCounters, view};
use crate::keys::Key;
use crate::plan::Plan;
use crate::{Inode, InodeId, Origin, Stage, Stamp, VolumeId, keys, read};

/// The store with records of their own for all that clones show: what other checks read.
pub(super) fn whole(view: &dyn View) -> Result<Plan<'_>, StoreError> {
    let mut whole = Plan::new(view, Stamp::default());
    let (from, to) = (keys::origin(VolumeId::FIRST), keys::after(&[keys::ORIGINS]));
    let origins = read::some_keys(view, &from, &to, usize::MAX)?;
    for id in origins.iter().map(|key| VolumeId(keys::number(key, 1) as u32)) {
        let mut inodes = BTreeSet::new();
        let [first, last] = keys::SHOWN;
        for tag in first..=last {
            let (from, to) = keys::of_volume(tag, id);
            view::scan(view, &from, &to, &mut |key, value| {
                let Some(inode) = keys::inode_of(key) else { return ControlFlow::Continue(()) };
                if tag == keys::INODES {
                    inodes.insert(inode);
                }
                // Data and attributes of files that had no name any more are not reached.
                if inodes.contains(&inode) {
                    whole.put_value(key, value.to_vec());
                }
                ControlFlow::Continue(())
            })?;
        }
    }
    Ok(whole)
}

/// Checks clones. `store`: without what they inherit.
pub(super) fn check(
    store: &dyn View,
    inodes: &BTreeMap<InodeId, Inode>,
    findings: &mut Findings,
) -> Result<(), StoreError> {
    let first = keys::origin(VolumeId::FIRST);
    let next = records::<CloneCounters>(store, &[keys::ORIGINS], &first, findings)?;
    let next = next.into_values().next().unwrap_or_default().next;
    let all: BTreeMap<VolumeId, Origin> =
        records::<Origin>(store, &first, &keys::after(&[keys::ORIGINS]), findings)?
            .into_iter()
            .map(|(key, origin)| (VolumeId(keys::number(&key, 1) as u32), origin))
            .collect();
    let mut listed: BTreeSet<Key> = marks(store, keys::CLONES)?.into_iter().collect();
    for (id, origin) in &all {
        let is_there = read::volume(store, *id)?.is_some();
        let is_listed = listed.remove(&keys::clone_of(origin.snapshot, *id));
        let has_snapshot = read::snapshot(store, origin.snapshot)?.is_some();
        let is_removed = read::left_volume(store, *id)?.is_some();
        let agrees = match origin.stage {
            Stage::Inherits | Stage::Promotes => is_there && is_listed && has_snapshot,
            Stage::Removed => is_removed && !is_there && !is_listed,
        };
        findings.expect(agrees && id.is_clone() && id.0 < next, || format!("{id:?} has {origin:?}"));
    }
    findings.expect(listed.is_empty(), || format!("clones are listed that are not there: {listed:02x?}"));
    for key in marks(store, keys::HIDDEN)? {
        let inode = keys::inode_of(key.get(1..).unwrap_or_default()).unwrap_or(InodeId(0));
        let of = all.get(&inode.volume());
        let is_left = store.get(&keys::left_marks(inode.volume()))?.is_some();
        findings.expect(of.is_some_and(|origin| origin.has(inode)) || is_left, || {
            format!("{key:02x?} is hidden, and of no clone")
        });
    }
    copies(store, &all, inodes, findings)
}

/// Checks that the files are marked whose objects are to be copied.
fn copies(
    store: &dyn View,
    origins: &BTreeMap<VolumeId, Origin>,
    inodes: &BTreeMap<InodeId, Inode>,
    findings: &mut Findings,
) -> Result<(), StoreError> {
    let mut marked: BTreeSet<InodeId> = BTreeSet::new();
    for key in marks(store, keys::TO_COPY)? {
        let file = InodeId(keys::number(&key, 1));
        let stage = origins.get(&file.volume()).map(|origin| origin.stage);
        if stage != Some(Stage::Removed) {
            findings
                .expect(stage == Some(Stage::Promotes), || format!("{file:?} is copied, and of no clone"));
            marked.insert(file);
        }
    }
    for (id, origin) in origins {
        if origin.stage != Stage::Promotes {
            continue;
        }
        let is_under_way = store.get(&keys::left_promotion(*id))?.is_some();
        for inode in inodes.values().filter(|inode| inode.id.volume() == *id) {
            let is_inherited =
                inode.columns().is_some() && read::own_objects(store, inode.id)?.are_inherited();
            let is_marked = marked.remove(&inode.id);
            findings.expect(is_inherited == is_marked || is_inherited && is_under_way, || {
                format!(
                    "{:?} is to be copied: {is_marked}, its objects are inherited: {is_inherited}",
                    inode.id
                )
            });
        }
    }
    findings.expect(marked.is_empty(), || format!("{marked:?} are to be copied, and not there"));
    Ok(())
}
