//! The model's clones: copies of what a snapshot shows.

use namespace::*;

use super::{Content, Outcome, Plain, PlainVolume};

/// Where a clone was copied from.
#[derive(Debug, Clone, Copy)]
pub struct PlainOrigin {
    pub snapshot: VolumeId,
    pub first: u64,
    pub depth: u8,
    pub promotes: bool,
}

/// Number of the objects that a clone's file shares with its origin.
pub const INHERITED: InodeId = InodeId(0);

impl Plain {
    pub(super) fn make_clone(&mut self, snapshot: VolumeId, dir: InodeId, name: &[u8]) -> Outcome {
        let of = self.snapshots.get(&snapshot).ok_or(Error::NoEntry)?;
        let (of, then) = (of.snapshot.clone(), of.then.clone());
        if of.volumes > 0 {
            return Err(Error::HoldsVolumes);
        }
        let depth = 1 + self.origins.get(&of.volume).map_or(0, |origin| origin.depth);
        if depth > CLONES_DEEP_MAX {
            return Err(Error::ClonesTooDeep);
        }
        self.need_directory(dir)?;
        if self.find(dir, name).is_some() {
            return Err(Error::Exists);
        }
        let id = VolumeId(self.next_clone);
        self.next_clone += 1;
        let first = self.volumes[&of.volume].next_inode;
        self.volumes.insert(id, PlainVolume::new(first, self.now));
        self.origins.insert(id, PlainOrigin { snapshot, first, depth, promotes: false });
        let here = |inode: InodeId| inode.in_volume(id);
        let mut root_policy = None;
        for (at, node) in then.nodes.iter().filter(|(at, _)| at.volume() == of.volume) {
            if then.inode(*at).links == 0 {
                continue;
            }
            let mut node = node.clone();
            match &mut node.content {
                Content::Directory { entries, stripe, .. } => {
                    entries.values_mut().for_each(|(_, inode)| *inode = here(*inode));
                    let policy = stripe.take();
                    root_policy = if at.is_root() { policy } else { root_policy };
                }
                Content::File { place, space_is_told, .. } => {
                    *space_is_told = true;
                    if *place == DataPlace::Migrating {
                        *place = DataPlace::Inline;
                    }
                }
                _ => {}
            }
            self.nodes.insert(here(*at), node);
        }
        let has_targets =
            |pool| pool == PoolId::DEFAULT || self.pools_of_targets.values().any(|of| *of == pool);
        let kept = root_policy.filter(|policy| has_targets(policy.pool));
        if let Content::Directory { stripe, .. } = &mut self.node(id.root())?.content {
            *stripe = kept;
        }
        self.touch(id.root(), false);
        self.enter(dir, name, id.root());
        let dir = self.touch(dir, true);
        Ok(Reply::Created { inode: self.inode(id.root()), existed: false, dir })
    }

    pub(super) fn promote(&mut self, id: VolumeId) -> Outcome {
        if !self.volumes.contains_key(&id) {
            return Err(Error::Stale);
        }
        if !self.origins.contains_key(&id) {
            return Err(Error::NotClone);
        }
        if !self.snapshots_of(id).is_empty() {
            return Err(Error::HoldsSnapshots);
        }
        self.origins.get_mut(&id).expect("is").promotes = true;
        Ok(Reply::Done)
    }

    /// After a command: clones that share nothing any more are none.
    pub(super) fn end_promotions(&mut self) {
        let inherits = |id: VolumeId| {
            let mut of = self.nodes.keys().filter(|inode| inode.volume() == id);
            of.any(|inode| self.place(*inode) == Some(DataPlace::Striped) && self.own(*inode).id == INHERITED)
        };
        let promoted = self.origins.iter().filter(|(_, origin)| origin.promotes);
        let ended: Vec<VolumeId> = promoted.map(|(id, _)| *id).filter(|id| !inherits(*id)).collect();
        self.origins.retain(|id, _| !ended.contains(id));
    }

    pub fn clones_of(&self, snapshot: VolumeId) -> Vec<VolumeId> {
        let all = self.origins.iter().filter(|(_, origin)| origin.snapshot == snapshot);
        all.map(|(id, _)| *id).collect()
    }

    /// Number of the objects of a file.
    pub fn live_objects(&self, file: InodeId) -> Option<InodeId> {
        match self.own(file).id {
            INHERITED => self.inherited_objects(self.origins[&file.volume()], file),
            own => Some(own),
        }
    }

    pub(super) fn inherited_objects(&self, origin: PlainOrigin, file: InodeId) -> Option<InodeId> {
        let of = &self.snapshots[&origin.snapshot].snapshot;
        self.shown_objects(of, file.in_volume(of.volume))
    }
}
