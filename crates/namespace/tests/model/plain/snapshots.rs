//! The model's snapshots: copies of the whole world.

use namespace::*;

use super::volumes::used;

const DEFAULT_POOL_ID: PoolId = PoolId(0);
use super::{Content, INHERITED, Outcome, Plain, PlainDelegation};

/// An inode that a snapshot shows, with its entries, its data, and the number of its objects.
pub type Shown = (Inode, Vec<Entry>, Vec<u8>, Option<InodeId>);

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
    /// Until when no layout to write is granted.
    pub quiet_until: Time,
    pub schedule: Schedule,
}

/// Which objects are a file's, and of how many snapshots none shows them.
#[derive(Debug, Clone, Copy)]
pub struct PlainObjects {
    pub id: InodeId,
    pub version: u32,
    /// Copies that are being made, and the newest snapshot when they were begun.
    pub copy: Option<(InodeId, u32)>,
}

/// Objects that the snapshots above `from`, up to `until`, show.
#[derive(Debug, Clone, Copy)]
pub struct PlainKept {
    pub file: InodeId,
    pub objects: InodeId,
    pub generation: u32,
    pub layout: FileLayout,
    pub from: u32,
    pub until: u32,
    pub bytes: u64,
    pub epoch: u32,
}

impl Plain {
    pub fn own(&self, inode: InodeId) -> PlainObjects {
        let number = inode.0 & ((1 << 40) - 1);
        let is_inherited = self.origins.get(&inode.volume()).is_some_and(|origin| number < origin.first);
        let id = if is_inherited { INHERITED } else { inode };
        self.objects.get(&inode).copied().unwrap_or(PlainObjects { id, version: 0, copy: None })
    }

    fn newest(&self, volume: VolumeId) -> u32 {
        self.snapshots_of(volume).last().map_or(0, |snapshot| snapshot.version)
    }

    pub fn is_shared(&self, inode: InodeId) -> bool {
        let own = self.own(inode);
        let is_shown = own.id == INHERITED || own.version < self.newest(inode.volume());
        self.place(inode) == Some(DataPlace::Striped) && is_shown
    }

    pub(super) fn have_own_objects(&self, inode: InodeId) -> Result<(), Error> {
        if self.is_shared(inode) { Err(Error::Delay) } else { Ok(()) }
    }

    pub(super) fn have_objects_for_layout(&self, inode: InodeId, mode: IoMode) -> Result<(), Error> {
        let quiet_until = self.histories.get(&inode.volume()).map(|history| history.quiet_until);
        let writes = mode == IoMode::ReadWrite;
        let is_copied = self.is_shared(inode) && self.own(inode).copy.is_some();
        if is_copied || writes && quiet_until.is_some_and(|until| self.now < until) {
            return Err(Error::Delay);
        }
        if writes { self.have_own_objects(inode) } else { Ok(()) }
    }

    pub(super) fn objects_made(&mut self, inode: InodeId) {
        self.name_objects(inode);
        let version = self.histories.get(&inode.volume()).map_or(0, |history| history.last);
        if version > 0 {
            let id = self.own(inode).id;
            self.objects.insert(inode, PlainObjects { id, version, copy: None });
        }
    }

    /// Objects of its own for a file that has none.
    pub(super) fn name_objects(&mut self, inode: InodeId) {
        if self.own(inode).id == INHERITED {
            let version = self.histories.get(&inode.volume()).map_or(0, |history| history.last);
            self.objects.insert(inode, PlainObjects { id: inode, version, copy: None });
        }
    }

    pub(super) fn set_schedule(&mut self, volume: VolumeId, schedule: Schedule) -> Outcome {
        if !self.volumes.contains_key(&volume) {
            return Err(Error::Stale);
        }
        self.histories.entry(volume).or_default().schedule = schedule;
        Ok(Reply::Done)
    }

    pub(super) fn copy_objects(&mut self, inode: InodeId) -> Outcome {
        let generation = self.node(inode)?.generation;
        if self.place(inode) != Some(DataPlace::Striped) {
            return Err(Error::Invalid);
        }
        if self.is_shared(inode) {
            self.have_no_layout(inode, None)?;
            if self.pending_fence(inode) {
                return Err(Error::Delay);
            }
            let (mut own, layout) = (self.own(inode), self.layout_of(inode).expect("a file"));
            if let Some((copy, _)) = own.copy {
                self.defer(copy, generation, layout, DeferredKind::Remove);
            }
            own.copy = Some((self.next_inode(inode.volume()), self.newest(inode.volume())));
            self.objects.insert(inode, own);
            self.next_epoch(inode);
        }
        Ok(Reply::Attributes { inode: self.inode(inode), deferred: None })
    }

    pub(super) fn copied_objects(&mut self, inode: InodeId, copy: InodeId, attempt: u32) -> Outcome {
        let generation = self.node(inode)?.generation;
        if self.place(inode) != Some(DataPlace::Striped) {
            return Err(Error::Invalid);
        }
        let mut own = self.own(inode);
        if own.id == copy && own.copy.is_none() {
            return Ok(Reply::Attributes { inode: self.inode(inode), deferred: None });
        }
        let begun = own.copy.filter(|(id, _)| *id == copy && self.epoch(inode) == attempt);
        let (_, newest) = begun.ok_or(Error::Delay)?;
        own.copy = None;
        let all = self.snapshots_of(inode.volume());
        let is_unchanged = all.iter().any(|one| (own.version + 1..=newest).contains(&one.version));
        let layout = self.layout_of(inode).expect("a file");
        if own.id == INHERITED || is_unchanged {
            if own.id != INHERITED {
                self.keep_objects(inode);
            }
            let version = self.histories.get(&inode.volume()).map_or(0, |history| history.last);
            own = PlainObjects { id: copy, version, copy: None };
            self.space_changed(inode);
        } else {
            self.defer(copy, generation, layout, DeferredKind::Remove);
        }
        self.objects.insert(inode, own);
        Ok(Reply::Attributes { inode: self.inode(inode), deferred: None })
    }

    fn keep_objects(&mut self, file: InodeId) {
        let node = &self.nodes[&file];
        let (own, layout) = (self.own(file), self.layout_of(file).expect("a file"));
        self.kept.push(PlainKept {
            file,
            objects: own.id,
            generation: node.generation,
            layout,
            from: own.version,
            until: self.newest(file.volume()),
            bytes: used(node),
            epoch: self.epoch(file),
        });
    }

    /// The objects of a file that goes.
    pub(super) fn lose_objects(&mut self, id: InodeId) {
        let node = &self.nodes[&id];
        let Content::File { layout, place, .. } = node.content else { return };
        if place == DataPlace::Inline {
            self.objects.remove(&id);
            return;
        }
        let (own, generation) = (self.own(id), node.generation);
        if let Some((copy, _)) = own.copy {
            self.defer(copy, generation, layout, DeferredKind::Remove);
        }
        self.deferred.retain(|_, op| op.inode != id || op.kind == DeferredKind::Remove);
        if own.id == INHERITED {
            // They are the origin's.
        } else if self.is_shared(id) {
            self.keep_objects(id);
        } else {
            self.defer(own.id, generation, layout, DeferredKind::Remove);
        }
        self.objects.remove(&id);
    }

    /// What was kept for a snapshot that was removed.
    fn keep_no_longer(&mut self, volume: VolumeId, version: u32) {
        let all = self.snapshots_of(volume);
        let before = all.iter().map(|one| one.version).filter(|one| *one < version).max().unwrap_or(0);
        let mut unneeded = vec![];
        self.kept.retain_mut(|kept| {
            let is_of = kept.file.volume() == volume && kept.until == version;
            let goes_on = !is_of || kept.from < before;
            if is_of && goes_on {
                kept.until = before;
            } else if is_of {
                unneeded.push(*kept);
            }
            goes_on
        });
        unneeded.sort_by_key(|kept| kept.file);
        for kept in unneeded {
            self.defer(kept.objects, kept.generation, kept.layout, DeferredKind::Remove);
        }
    }

    /// Bytes of the objects that are kept in a volume.
    pub fn kept_bytes(&self, volume: VolumeId) -> u128 {
        let of_volume = self.kept.iter().filter(|kept| kept.file.volume() == volume);
        of_volume.map(|kept| u128::from(kept.bytes)).sum()
    }

    /// True if a layout to write is out, or what was written with one is not known.
    fn is_written(&self, volume: VolumeId) -> bool {
        let is_unknown = |op: &DeferredOp| match op.kind {
            DeferredKind::Fence => true,
            DeferredKind::Truncate(size) => self.inode(op.inode).size > size,
            DeferredKind::Remove => false,
        };
        let mut ops = self.deferred.values().filter(|op| op.inode.volume() == volume);
        let writes =
            |held: &PlainDelegation| held.kind == DelegationKind::Write && held.inode.volume() == volume;
        ops.any(is_unknown)
            || self.unsettled.keys().any(|file| file.volume() == volume)
            || self.delegations.values().any(writes)
    }

    /// Number in the names of the objects that a snapshot shows of a file; none while they are being truncated.
    pub(super) fn shown_objects(&self, snapshot: &Snapshot, file: InodeId) -> Option<InodeId> {
        let then = &self.snapshots[&snapshot.id].then;
        if then.own(file).id == INHERITED {
            return self.inherited_objects(then.origins[&file.volume()], file);
        }
        let shows =
            |kept: &&PlainKept| kept.file == file && (kept.from + 1..=kept.until).contains(&snapshot.version);
        match self.kept.iter().find(shows) {
            Some(kept) => Some(kept.objects),
            None if self.pending_truncation(file) => None,
            None => Some(self.own(file).id),
        }
    }
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
        if self.origins.get(&volume).is_some_and(|origin| origin.promotes) {
            return Err(Error::Promotes);
        }
        if self.is_written(volume) {
            let quiet_until = Time { seconds: self.now.seconds + 10, ..self.now };
            self.histories.entry(volume).or_default().quiet_until = quiet_until;
            return Ok(Reply::Snapshot { made: None });
        }
        let mut then = self.clone();
        then.snapshots.clear();
        let id = VolumeId(self.next_snapshot);
        self.next_snapshot += 1;
        let history = self.histories.entry(volume).or_default();
        *history = PlainHistory {
            last: history.last + 1,
            changes: history.changes + 1,
            changed: self.now,
            quiet_until: Time::default(),
            schedule: history.schedule,
        };
        let version = history.last;
        let volumes = self.volumes_within(volume);
        let snapshot = Snapshot { id, volume, version, name: name.to_vec(), created: self.now, volumes };
        let made = Some(snapshot.clone());
        self.snapshots.insert(id, PlainSnapshot { snapshot, then: Box::new(then) });
        Ok(Reply::Snapshot { made })
    }

    pub(super) fn remove_snapshot(&mut self, volume: VolumeId, name: &[u8], force: bool) -> Outcome {
        let all = self.snapshots_of(volume);
        let found = all.iter().find(|snapshot| snapshot.name == name).ok_or(Error::NoEntry)?;
        if !self.clones_of(found.id).is_empty() {
            return Err(Error::HoldsClones);
        }
        if !force && self.opens.values().any(|open| open.inode.volume() == found.id) {
            return Err(Error::FilesOpen);
        }
        let version = found.version;
        self.snapshots.remove(&found.id);
        self.keep_no_longer(volume, version);
        let history = self.histories.entry(volume).or_default();
        (history.changes, history.changed) = (history.changes + 1, self.now);
        Ok(Reply::Done)
    }

    /// Volumes whose root is in this one.
    fn volumes_within(&self, volume: VolumeId) -> u32 {
        let roots = self.entries().filter(|(dir, .., to)| dir.volume() == volume && to.volume() != volume);
        roots.count() as u32
    }

    pub(super) fn roll_back(&mut self, volume: VolumeId, name: &[u8], force: bool) -> Outcome {
        if !self.volumes.contains_key(&volume) {
            return Err(Error::Stale);
        }
        let all = self.snapshots_of(volume);
        let snapshot = all.iter().find(|snapshot| snapshot.name == name).ok_or(Error::NoEntry)?;
        if self.newest(volume) != snapshot.version {
            return Err(Error::NewerSnapshots);
        }
        if self.volumes_within(volume) > 0 || snapshot.volumes > 0 {
            return Err(Error::HoldsVolumes);
        }
        if !force && self.opens.values().any(|open| open.inode.volume() == volume) {
            return Err(Error::FilesOpen);
        }
        let held = |held: &PlainDelegation| !held.is_revoked() && held.inode.volume() == volume;
        if self.is_written(volume) || !force && self.delegations.values().any(held) {
            let quiet_until = Time { seconds: self.now.seconds + 10, ..self.now };
            self.histories.entry(volume).or_default().quiet_until = quiet_until;
            return Ok(Reply::RolledBack { begun: false });
        }
        let inodes: Vec<InodeId> = self.nodes.keys().copied().filter(|id| id.volume() == volume).collect();
        for id in inodes {
            self.lose_uses(id);
            if !self.is_directory(id) && self.inode(id).links == 0 {
                self.forget(id);
            }
        }
        let (now, then) = (self.clone(), self.snapshots[&snapshot.id].then.clone());
        let is_of = |id: &&InodeId| id.volume() == volume;
        for id in then.nodes.keys().filter(is_of) {
            if then.inode(*id).links > 0 || *id == InodeId::ROOT {
                self.put_back(*id, snapshot.version, &now, &then);
            }
        }
        for id in now.nodes.keys().filter(is_of).filter(|id| !then.nodes.contains_key(id)) {
            self.forget(*id);
        }
        Ok(Reply::RolledBack { begun: true })
    }

    fn put_back(&mut self, id: InodeId, version: u32, now: &Plain, then: &Plain) {
        let is_there = now.nodes.contains_key(&id);
        if is_there && now.inode(id) == then.inode(id) {
            return;
        }
        let mut node = then.nodes[&id].clone();
        let kept = self.kept.iter().position(|kept| kept.file == id && kept.until == version);
        let kept = kept.map(|at| self.kept.remove(at));
        let history_last = self.histories[&id.volume()].last;
        let mut epochs = None;
        if let Content::File { place, .. } = &mut node.content {
            let was = is_there.then(|| now.place(id)).flatten();
            epochs = Some(match (is_there, kept) {
                (true, _) => now.epoch(id),
                (false, Some(kept)) => kept.epoch,
                (false, None) => then.epoch(id),
            });
            if *place == DataPlace::Striped {
                if let Some(kept) = kept {
                    self.lose_names(id, was);
                    let own = PlainObjects { id: kept.objects, version: kept.from, copy: None };
                    self.objects.insert(id, own);
                } else if is_there && id.volume().is_clone() && self.own(id).version >= version {
                    self.lose_names(id, was); // the origin's are shown again
                }
            } else {
                *place = DataPlace::Inline;
                if was != Some(DataPlace::Inline) {
                    self.lose_names(id, was);
                    let number = self.next_inode(id.volume());
                    let own = PlainObjects { id: number, version: history_last, copy: None };
                    self.objects.insert(id, own);
                }
            }
        }
        if let Content::File { place, epoch, layout_epoch, space_is_told, .. } = &mut node.content {
            *epoch = epochs.expect("a file").wrapping_add(1);
            *layout_epoch = *epoch;
            *space_is_told = *place != DataPlace::Striped;
        }
        if let Content::Directory { stripe, .. } = &mut node.content {
            let before = match now.nodes.get(&id).map(|node| &node.content) {
                Some(Content::Directory { stripe, .. }) => stripe.map(|policy| policy.pool),
                _ => None,
            };
            let has_targets =
                |pool| pool == DEFAULT_POOL_ID || self.pools_of_targets.values().any(|of| *of == pool);
            if stripe.is_some_and(|policy| before != Some(policy.pool) && !has_targets(policy.pool)) {
                *stripe = None;
            }
        }
        let change = if is_there { now.nodes[&id].change } else { 0 };
        node.change = node.change.max(change) + 1;
        node.changed = self.now;
        self.nodes.insert(id, node);
    }

    /// The objects that a file has go.
    fn lose_names(&mut self, id: InodeId, place: Option<DataPlace>) {
        if let Some(DataPlace::Striped | DataPlace::Migrating) = place {
            let (own, layout) = (self.own(id), self.layout_of(id).expect("a file"));
            let generation = self.nodes[&id].generation;
            let name = Some(own.id).filter(|name| *name != INHERITED);
            for objects in [name, own.copy.map(|(copy, _)| copy)].into_iter().flatten() {
                self.defer(objects, generation, layout, DeferredKind::Remove);
            }
            self.deferred.retain(|_, op| op.inode != id || op.kind == DeferredKind::Remove);
        }
        self.objects.remove(&id);
    }

    /// All that a snapshot shows, under the numbers that it has there: inodes, entries and data.
    pub fn shown(&self, id: VolumeId) -> Vec<Shown> {
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
            let objects = inode.columns().and_then(|_| self.shown_objects(snapshot, at));
            shown.push((inode, entries, then.inline_data(at), objects));
        }
        shown.sort_by_key(|(inode, ..)| inode.id);
        shown.dedup_by_key(|(inode, ..)| inode.id); // files with several names
        shown
    }
}
