//! Reads of a clone's records: its own ones, and for the rest what its origin shows.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use store::{StoreError, View, Visitor};

use super::{Origin, Stage};
use crate::keys::{self, Key};
use crate::record::{CookieEntry, Name, decode, encode, restamp};
use crate::{Inode, InodeId, Kind, Snapshots, VolumeId, read};

/// Own records that a scan reads at a time: a listing mostly ends before the next ones.
const OWN_AT_ONCE: usize = 64;

/// Records that hide those below them; none: nothing is shown under the key.
pub(crate) type Records = BTreeMap<Key, Option<Vec<u8>>>;

/// Origin of a clone that inherits.
pub(crate) fn inheriting(store: &dyn View, volume: VolumeId) -> Result<Option<Origin>, StoreError> {
    Ok(read::origin(store, volume)?.filter(|origin| origin.stage != Stage::Removed))
}

/// Value of a record of a volume, which may be a clone.
pub(crate) fn get(store: &dyn View, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
    match (store.get(key)?, volume_of(key)) {
        (None, Some(volume)) if volume.is_clone() => inherited(store, volume, key),
        (own, _) => Ok(own),
    }
}

fn inherited(store: &dyn View, volume: VolumeId, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
    let Some(origin) = inheriting(store, volume)? else { return Ok(None) };
    if !keys::inode_of(key).is_some_and(|inode| origin.has(inode)) || store.get(&keys::hidden(key))?.is_some()
    {
        return Ok(None);
    }
    shown_by_origin(&Snapshots(store), &origin, key)
}

/// Value that the origin of a clone shows under a key of the clone. `view`: one with snapshots.
pub(crate) fn shown_by_origin(
    view: &dyn View,
    origin: &Origin,
    key: &[u8],
) -> Result<Option<Vec<u8>>, StoreError> {
    let Some(inode) = keys::inode_of(key) else { return Ok(None) };
    let there = keys::with_inode(key, inode.in_volume(origin.snapshot));
    match view.get(&there)? {
        Some(value) => translate((&there, &value), key),
        None => Ok(None),
    }
}

/// Visits records of a volume, which may be a clone: a range within one table.
pub(crate) fn scan(
    store: &dyn View,
    from: &[u8],
    to: &[u8],
    visit: &mut Visitor<'_>,
) -> Result<(), StoreError> {
    let volume = volume_of(from).filter(|volume| volume.is_clone());
    let origin = match volume {
        Some(volume) => inheriting(store, volume)?.map(|origin| (volume, origin)),
        None => None,
    };
    let Some((volume, origin)) = origin else { return store.scan(from, to, visit) };
    let mut at = Some(from.to_vec());
    while let Some(from) = at {
        let (own, next) = own(store, &from, to)?;
        let upper = next.as_deref().unwrap_or(to);
        let under = &mut |visit: &mut Visitor<'_>| scan_origin(store, volume, &origin, (&from, upper), visit);
        if merge(own, under, visit)?.is_break() {
            return Ok(());
        }
        at = next;
    }
    Ok(())
}

/// Own records of a clone from `from` on, marks of what it has removed, and the key at which to go on.
fn own(store: &dyn View, from: &[u8], to: &[u8]) -> Result<(Records, Option<Key>), StoreError> {
    let (mut own, mut next) = (Records::new(), None);
    store.scan(from, to, &mut |key, value| {
        if own.len() == OWN_AT_ONCE {
            next = Some(key.to_vec());
            return ControlFlow::Break(());
        }
        own.insert(key.to_vec(), Some(value.to_vec()));
        ControlFlow::Continue(())
    })?;
    let upper = next.clone().unwrap_or_else(|| to.to_vec());
    let mut hidden = 0;
    store.scan(&keys::hidden(from), &keys::hidden(&upper), &mut |mark, _| {
        let key = mark.get(1..).unwrap_or_default();
        if hidden == OWN_AT_ONCE {
            next = Some(key.to_vec());
            return ControlFlow::Break(());
        }
        hidden += 1;
        own.entry(key.to_vec()).or_insert(None);
        ControlFlow::Continue(())
    })?;
    if let Some(next) = &next {
        own.split_off(next);
    }
    Ok((own, next))
}

/// Visits what the origin shows of a range of the clone's keys.
fn scan_origin(
    store: &dyn View,
    volume: VolumeId,
    origin: &Origin,
    (from, to): (&[u8], &[u8]),
    visit: &mut Visitor<'_>,
) -> Result<(), StoreError> {
    let (from, to) = (keys::moved(from, volume, origin.snapshot), keys::moved(to, volume, origin.snapshot));
    let mut outcome = Ok(());
    Snapshots(store).scan(&from, &to, &mut |there, value| {
        let key = keys::moved(there, origin.snapshot, volume);
        match translate((there, value), &key) {
            Ok(Some(value)) => visit(&key, &value),
            Ok(None) => ControlFlow::Continue(()),
            Err(error) => {
                outcome = Err(error);
                ControlFlow::Break(())
            }
        }
    })?;
    outcome
}

/// The value as the clone shows it; none for a file without a name, which a client had open.
fn translate((there, value): (&[u8], &[u8]), key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
    let Some(volume) = volume_of(key) else { return Ok(None) };
    let here = |inode: InodeId| inode.in_volume(volume);
    match key[0] {
        keys::INODES => {
            let mut inode: Inode = decode(there, value)?;
            if inode.links == 0 {
                return Ok(None);
            }
            inode.id = here(inode.id);
            inode.space_is_told = true;
            if let Kind::Directory(directory) = &mut inode.kind {
                directory.parent = here(directory.parent);
                directory.stripe = None;
            }
            encode(key, &inode).map(Some)
        }
        keys::NAMES => {
            let name: Name = decode(there, value)?;
            encode(key, &Name { inode: here(name.inode), ..name }).map(Some)
        }
        keys::COOKIES => {
            let entry: CookieEntry = decode(there, value)?;
            encode(key, &CookieEntry { inode: here(entry.inode), ..entry }).map(Some)
        }
        _ => restamp((there, value), key, 0).map(Some),
    }
}

/// Visits, in the order of their keys, records and what `under` visits, unless a record hides it. Breaks as `visit` does.
pub(crate) fn merge(
    over: Records,
    under: &mut dyn FnMut(&mut Visitor<'_>) -> Result<(), StoreError>,
    visit: &mut Visitor<'_>,
) -> Result<ControlFlow<()>, StoreError> {
    let mut over = over.into_iter().peekable();
    let mut flow = ControlFlow::Continue(());
    under(&mut |key, value| {
        let mut is_hidden = false;
        while let Some((at, now)) = over.next_if(|(at, _)| at.as_slice() <= key) {
            is_hidden |= at == key;
            flow = now.map_or(ControlFlow::Continue(()), |now| visit(&at, &now));
            if flow.is_break() {
                return flow;
            }
        }
        if !is_hidden {
            flow = visit(key, value);
        }
        flow
    })?;
    if flow.is_continue() {
        flow = over.try_for_each(|(at, now)| now.map_or(ControlFlow::Continue(()), |now| visit(&at, &now)));
    }
    Ok(flow)
}

/// Volume of a key of a table that snapshots show.
fn volume_of(key: &[u8]) -> Option<VolumeId> {
    let [first, last] = keys::SHOWN;
    key.first().filter(|tag| (first..=last).contains(tag))?;
    keys::inode_of(key).map(InodeId::volume)
}
