//! Snapshots as views: reads of their inodes, names, data and attributes find what the volume had.
//!
//! Keys of live records go to the store as they are, after a look at the inode in the key; those of clones: see
//! `clones/view.rs`.

use std::ops::ControlFlow;

use serde::Serialize;
use store::{StoreError, View, Visitor};

use crate::clones::view::{self as clones, Records, merge};
use crate::keys::{self, Key};
use crate::record::{CookieEntry, Name, decode, encode, get, restamp, stamp_of};
use crate::{
    DataPlace, Directory, FIRST_COOKIE, File, Inode, InodeId, Kind, Snapshot, VolumeId, read, volume::Volume,
};

/// Kept values that a scan reads at a time: a listing mostly ends before the next ones.
const KEPT_AT_ONCE: usize = 64;
/// Bytes that an entry adds to the size of the directory of snapshots.
const ENTRY_BYTES: u64 = 64;

/// View with the snapshots of all volumes, and the directories that list them.
#[derive(Debug, Clone)]
pub struct Snapshots<V>(pub V);

impl<V: View> View for Snapshots<V> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let store = &self.0;
        match keys::inode_of(key) {
            Some(inode) if inode.volume().is_snapshot() => match shown(store, inode.volume())? {
                Some(snapshot) => snapshot.get(store, key),
                None => Ok(None),
            },
            Some(inode) if inode.is_snapshots_directory() => Listing(inode.volume()).get(store, key),
            Some(inode) if keys::is_snapshots_name(key, inode) => match clones::get(store, key)? {
                Some(own) => Ok(Some(own)),
                None => Listing(inode.volume()).entry_of_root(store, key),
            },
            Some(_) | None => clones::get(store, key),
        }
    }

    fn scan(&self, from: &[u8], to: &[u8], visit: &mut Visitor<'_>) -> Result<(), StoreError> {
        let store = &self.0;
        // Ranges of several volumes are of the store alone.
        match keys::inode_of(from).filter(|inode| keys::is_within(inode.volume(), from, to)) {
            Some(inode) if inode.volume().is_snapshot() => match shown(store, inode.volume())? {
                Some(snapshot) => snapshot.scan(store, from, to, visit),
                None => Ok(()),
            },
            Some(inode) if inode.is_snapshots_directory() => {
                Listing(inode.volume()).scan(store, from, to, visit)
            }
            Some(_) => clones::scan(store, from, to, visit),
            None => store.scan(from, to, visit),
        }
    }
}

fn shown(store: &dyn View, id: VolumeId) -> Result<Option<Snapshot>, StoreError> {
    get(store, &keys::snapshot(id))
}

impl Snapshot {
    fn get(&self, store: &dyn View, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(live) = self.live(key) else { return Ok(None) };
        match self.value(store, &live)? {
            Some(value) => self.translate(&live, &value, key),
            None => Ok(None),
        }
    }

    /// Key of the live record; none for a table that snapshots do not show.
    fn live(&self, key: &[u8]) -> Option<Key> {
        let [first, last] = keys::SHOWN;
        let inode = keys::inode_of(key).filter(|_| (first..=last).contains(&key[0]))?;
        Some(keys::with_inode(key, inode.in_volume(self.volume)))
    }

    /// Value of a live key at the time of the snapshot.
    fn value(&self, store: &dyn View, live: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let mut kept = None;
        let (from, to) = (keys::kept_value(live, self.version), keys::kept_value(live, u32::MAX));
        store.scan(&from, &to, &mut |at, value| match keys::kept(at) {
            Some((of, _)) if of == live => {
                kept = Some(value.to_vec());
                ControlFlow::Break(())
            }
            // A longer name that sorts in between.
            Some(_) | None => ControlFlow::Continue(()),
        })?;
        let value = match kept {
            Some(kept) => Some(kept),
            None => clones::get(store, live)?,
        };
        Ok(value.filter(|value| self.sees(value)))
    }

    /// True if the value was there when the snapshot was made.
    fn sees(&self, value: &[u8]) -> bool {
        stamp_of(value) < self.version
    }

    /// The value as it is shown; none for an entry of another volume.
    fn translate(&self, live: &[u8], value: &[u8], key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let here = |inode: InodeId| inode.in_volume(self.id);
        match key[0] {
            keys::INODES => {
                let mut inode: Inode = decode(live, value)?;
                inode.id = here(inode.id);
                match &mut inode.kind {
                    Kind::Directory(directory) if inode.id.is_root() => {
                        directory.parent = self.volume.snapshots_directory();
                    }
                    Kind::Directory(directory) => directory.parent = here(directory.parent),
                    // A migration has only begun to copy the data.
                    Kind::File(File { data: data @ DataPlace::Migrating, .. }) => *data = DataPlace::Inline,
                    _ => {}
                }
                shown_as(key, &inode)
            }
            keys::NAMES => {
                let name: Name = decode(live, value)?;
                let is_here = name.inode.volume() == self.volume;
                if is_here { shown_as(key, &Name { inode: here(name.inode), ..name }) } else { Ok(None) }
            }
            keys::COOKIES => {
                let entry: CookieEntry = decode(live, value)?;
                let is_here = entry.inode.volume() == self.volume;
                if is_here {
                    shown_as(key, &CookieEntry { inode: here(entry.inode), ..entry })
                } else {
                    Ok(None)
                }
            }
            _ => restamp((live, value), key, 0).map(Some),
        }
    }

    /// Scans keys of one table.
    fn scan(
        &self,
        store: &dyn View,
        from: &[u8],
        to: &[u8],
        visit: &mut Visitor<'_>,
    ) -> Result<(), StoreError> {
        let Some(live_from) = self.live(from) else { return Ok(()) };
        let live_to = self.end_of_entries(store, &live_from, keys::moved(to, self.id, self.volume))?;
        let mut at = Some(live_from);
        while let Some(from) = at {
            let (kept, next) = self.kept(store, &from, &live_to)?;
            let upper = next.as_deref().unwrap_or(&live_to);
            if self.merge(store, kept, (&from, upper), visit)?.is_break() {
                return Ok(());
            }
            at = next;
        }
        Ok(())
    }

    /// End of a range of live keys, without the entries that a directory got after the snapshot, which may be millions: an
    /// entry gets the next cookie of its directory.
    fn end_of_entries(&self, store: &dyn View, from: &[u8], to: Key) -> Result<Key, StoreError> {
        let Some(dir) = keys::inode_of(from).filter(|_| from[0] == keys::COOKIES) else { return Ok(to) };
        if to > keys::of(keys::COOKIES, &[dir.0.saturating_add(1)]) {
            return Ok(to); // entries of other directories, too
        }
        let live = keys::inode(dir);
        let Some(value) = self.value(store, &live)? else { return Ok(to) };
        Ok(match decode::<Inode>(&live, &value)?.directory() {
            Some(directory) => to.min(keys::cookie(dir, directory.next_cookie)),
            None => to,
        })
    }

    /// What was kept of some keys from `from` on, and the key at which to go on: for each the value that this snapshot
    /// shows, if it shows any.
    fn kept(&self, store: &dyn View, from: &[u8], to: &[u8]) -> Result<(Records, Option<Key>), StoreError> {
        let (mut kept, mut next) = (Records::new(), None);
        let [lower, upper] = [from, to].map(|key| [&[keys::KEPT], key].concat());
        store.scan(&lower, &upper, &mut |at, value| {
            let Some((key, version)) = keys::kept(at) else { return ControlFlow::Continue(()) };
            let is_within = from <= key && key < to && version >= self.version;
            if !is_within || kept.contains_key(key) {
                return ControlFlow::Continue(());
            }
            if kept.len() >= KEPT_AT_ONCE {
                next = Some(key.to_vec());
                return ControlFlow::Break(());
            }
            kept.insert(key.to_vec(), self.sees(value).then(|| value.to_vec()));
            ControlFlow::Continue(())
        })?;
        Ok((kept, next))
    }

    /// Visits live and kept values of a range of live keys, in their order.
    fn merge(
        &self,
        store: &dyn View,
        kept: Records,
        (from, to): (&[u8], &[u8]),
        visit: &mut Visitor<'_>,
    ) -> Result<ControlFlow<()>, StoreError> {
        let mut outcome = Ok(());
        let show = &mut |live: &[u8], value: &[u8]| {
            let key = keys::moved(live, self.volume, self.id);
            match self.translate(live, value, &key) {
                Ok(Some(value)) => visit(&key, &value),
                Ok(None) => ControlFlow::Continue(()),
                Err(error) => {
                    outcome = Err(error);
                    ControlFlow::Break(())
                }
            }
        };
        let under = &mut |visit: &mut Visitor<'_>| {
            clones::scan(store, from, to, &mut |live, value| match self.sees(value) {
                true => visit(live, value),
                false => ControlFlow::Continue(()),
            })
        };
        let flow = merge(kept, under, show)?;
        outcome.map(|()| flow)
    }
}

/// The directory that lists the snapshots of a volume.
struct Listing(VolumeId);

impl Listing {
    fn get(&self, store: &dyn View, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let rest = key.get(9..).unwrap_or_default();
        match key[0] {
            keys::INODES => match self.inode(store)? {
                Some(inode) => shown_as(key, &inode),
                None => Ok(None),
            },
            keys::NAMES => {
                let Some(id) = get::<VolumeId>(store, &keys::snapshot_name(self.0, rest))? else {
                    return Ok(None);
                };
                let Some(snapshot) = shown(store, id)? else { return Ok(None) };
                shown_as(key, &Name { cookie: cookie(snapshot.version), inode: id.root() })
            }
            _ => Ok(None),
        }
    }

    /// The entry of the directory in the root of its volume.
    fn entry_of_root(&self, store: &dyn View, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        match self.volume(store)? {
            // A cookie that no entry has.
            Some(_) => shown_as(key, &Name { cookie: 0, inode: self.0.snapshots_directory() }),
            None => Ok(None),
        }
    }

    fn volume(&self, store: &dyn View) -> Result<Option<Volume>, StoreError> {
        read::volume(store, self.0)
    }

    fn inode(&self, store: &dyn View) -> Result<Option<Inode>, StoreError> {
        let (Some(volume), Some(root)) = (self.volume(store)?, read::inode(store, self.0.root())?) else {
            return Ok(None);
        };
        let history = read::history(store, self.0)?;
        let changed = history.changed.max(volume.created);
        let directory = Directory {
            parent: root.id,
            entries: history.count.into(),
            next_cookie: cookie(history.last) + 1,
            stripe: None,
        };
        Ok(Some(Inode {
            id: self.0.snapshots_directory(),
            generation: root.generation,
            kind: Kind::Directory(directory),
            mode: 0o555,
            uid: 0,
            gid: 0,
            links: history.count.saturating_add(2),
            size: u64::from(history.count) * ENTRY_BYTES,
            written: 0,
            space_used: 0,
            space_is_told: true,
            epoch: 0,
            layout_epoch: 0,
            accessed: changed,
            modified: changed,
            changed,
            created: volume.created,
            change: history.changes + 1,
            verifier: None,
        }))
    }

    /// Scans names, or entries by cookie.
    fn scan(
        &self,
        store: &dyn View,
        from: &[u8],
        to: &[u8],
        visit: &mut Visitor<'_>,
    ) -> Result<(), StoreError> {
        let mut all = read::snapshots(store, self.0)?;
        if from[0] == keys::NAMES {
            all.sort_by(|one, other| one.name.cmp(&other.name));
        }
        let dir = self.0.snapshots_directory();
        for Snapshot { id, version, name, .. } in all {
            let (inode, cookie) = (id.root(), cookie(version));
            let (key, value) = match from[0] {
                keys::NAMES => {
                    let key = keys::name(dir, &name);
                    let value = encode(&key, &Name { cookie, inode })?;
                    (key, value)
                }
                keys::COOKIES => {
                    let key = keys::cookie(dir, cookie);
                    let value = encode(&key, &CookieEntry { name, inode })?;
                    (key, value)
                }
                _ => return Ok(()),
            };
            let is_within = from <= key.as_slice() && key.as_slice() < to;
            if is_within && visit(&key, &value).is_break() {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// Cookie of a snapshot in the directory of its volume's snapshots.
fn cookie(version: u32) -> u64 {
    FIRST_COOKIE + u64::from(version)
}

fn shown_as<T: Serialize>(key: &[u8], record: &T) -> Result<Option<Vec<u8>>, StoreError> {
    encode(key, record).map(Some)
}
