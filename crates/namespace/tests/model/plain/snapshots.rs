//! The model's snapshots: copies of the whole world.

use namespace::*;

use super::{Outcome, Plain};

#[derive(Debug, Clone)]
pub struct PlainSnapshot {
    pub snapshot: Snapshot,
    /// The world as it was.
    pub then: Box<Plain>,
}

/// Snapshots that a volume has had.
#[derive(Debug, Clone, Copy, Default)]
pub struct PlainHistory {
    pub last: u32,
    pub changes: u64,
    pub changed: Time,
}

impl Plain {
    pub fn snapshots_of(&self, volume: VolumeId) -> Vec<Snapshot> {
        let all = self.snapshots.values().map(|snapshot| snapshot.snapshot.clone());
        let mut all: Vec<Snapshot> = all.filter(|snapshot| snapshot.volume == volume).collect();
        all.sort_by_key(|snapshot| snapshot.version);
        all
    }

    pub(super) fn make_snapshot(&mut self, volume: VolumeId, name: &[u8]) -> Outcome {
        if !self.volumes.contains_key(&volume) {
            return Err(Error::Stale);
        }
        if name.is_empty() || name == b".." || name.contains(&b'/') {
            return Err(Error::Invalid);
        }
        if self.snapshots_of(volume).iter().any(|snapshot| snapshot.name == name) {
            return Err(Error::Exists);
        }
        let mut then = self.clone();
        then.snapshots.clear();
        let id = VolumeId(self.next_snapshot);
        self.next_snapshot += 1;
        let history = self.histories.entry(volume).or_default();
        *history = PlainHistory { last: history.last + 1, changes: history.changes + 1, changed: self.now };
        let snapshot = Snapshot { id, volume, version: history.last, name: name.to_vec(), created: self.now };
        let made = Some(snapshot.clone());
        self.snapshots.insert(id, PlainSnapshot { snapshot, then: Box::new(then) });
        Ok(Reply::Snapshot { made })
    }

    pub(super) fn remove_snapshot(&mut self, volume: VolumeId, name: &[u8], force: bool) -> Outcome {
        let all = self.snapshots_of(volume);
        let found = all.iter().find(|snapshot| snapshot.name == name).ok_or(Error::NoEntry)?;
        if !force && self.opens.values().any(|open| open.inode.volume() == found.id) {
            return Err(Error::FilesOpen);
        }
        self.snapshots.remove(&found.id);
        let history = self.histories.entry(volume).or_default();
        (history.changes, history.changed) = (history.changes + 1, self.now);
        Ok(Reply::Done)
    }

    /// All that a snapshot shows, under the numbers that it has there: inodes, entries and data.
    pub fn shown(&self, id: VolumeId) -> Vec<(Inode, Vec<Entry>, Vec<u8>)> {
        let PlainSnapshot { snapshot, then } = &self.snapshots[&id];
        let here = |inode: InodeId| InodeId(u64::from(id.0) << 40 | inode.0 & ((1 << 40) - 1));
        let (mut reached, mut shown) = (vec![snapshot.volume.root()], vec![]);
        while let Some(at) = reached.pop() {
            let mut inode = then.inode(at);
            inode.id = here(at);
            match &mut inode.kind {
                Kind::Directory(directory) if at == snapshot.volume.root() => {
                    directory.parent = snapshot.volume.snapshots_directory();
                }
                Kind::Directory(directory) => directory.parent = here(directory.parent),
                Kind::File(file) if file.data == DataPlace::Migrating => file.data = DataPlace::Inline,
                _ => {}
            }
            let inside = then.entries().filter(|(dir, .., to)| *dir == at && to.volume() == at.volume());
            let mut entries: Vec<Entry> =
                inside.map(|(_, name, cookie, to)| Entry { cookie, name: name.clone(), inode: to }).collect();
            entries.sort_by_key(|entry| entry.cookie);
            reached.extend(entries.iter().map(|entry| entry.inode));
            entries.iter_mut().for_each(|entry| entry.inode = here(entry.inode));
            shown.push((inode, entries, then.inline_data(at)));
        }
        shown.sort_by_key(|(inode, ..)| inode.id);
        shown.dedup_by_key(|(inode, ..)| inode.id); // files with several names
        shown
    }
}
