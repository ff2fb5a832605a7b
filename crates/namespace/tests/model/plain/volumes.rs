//! The model's volumes.

use namespace::*;

use super::{Content, Node, Outcome, Plain};

/// A volume, without what is counted.
#[derive(Debug, Clone)]
pub struct PlainVolume {
    pub next_inode: u64,
    pub created: Time,
}

impl Plain {
    pub fn volumes(&self) -> Vec<Volume> {
        let one = |(id, volume): (&VolumeId, &PlainVolume)| {
            let within =
                |root: &VolumeId| *root != VolumeId::FIRST && self.parent(root.root()).volume() == *id;
            Volume {
                id: *id,
                next_inode: volume.next_inode,
                inodes: self.nodes.keys().filter(|inode| inode.volume() == *id).count() as u64,
                volumes: self.volumes.keys().filter(|root| within(root)).count() as u32,
                created: volume.created,
            }
        };
        self.volumes.iter().map(one).collect()
    }

    pub(super) fn next_inode(&mut self, id: VolumeId) -> InodeId {
        let volume = self.volumes.get_mut(&id).expect("a directory is of a volume");
        volume.next_inode += 1;
        InodeId((u64::from(id.0) << 40) + volume.next_inode - 1)
    }

    pub(super) fn make_volume(&mut self, new: &NewVolume) -> Outcome {
        self.need_directory(new.dir)?;
        if self.find(new.dir, &new.name).is_some() {
            return Err(Error::Exists);
        }
        let id = VolumeId(self.next_volume);
        self.next_volume += 1;
        self.volumes.insert(id, PlainVolume { next_inode: 2, created: self.now });
        let root = self.next_inode(id);
        let content = Content::Directory { entries: Default::default(), next_cookie: 3, stripe: None };
        let node = Node {
            generation: (self.random as u32).max(1),
            content,
            mode: new.attributes.mode & 0o7777,
            uid: new.attributes.uid,
            gid: new.attributes.gid,
            accessed: new.attributes.accessed.unwrap_or(self.now),
            modified: new.attributes.modified.unwrap_or(self.now),
            changed: self.now,
            created: self.now,
            change: 1,
            verifier: None,
            xattrs: Default::default(),
        };
        self.nodes.insert(root, node);
        self.policy_of(root, new.stripe)?;
        self.enter(new.dir, &new.name, root);
        let dir = self.touch(new.dir, true);
        Ok(Reply::Created { inode: self.inode(root), existed: false, dir })
    }

    pub(super) fn remove_volume(&mut self, dir: InodeId, name: &[u8], force: bool) -> Outcome {
        self.need_directory(dir)?;
        let root = self.find(dir, name).ok_or(Error::NoEntry)?;
        let volume = root.volume();
        if volume == dir.volume() {
            return Err(Error::NotVolume);
        }
        if self.entries().any(|(at, .., inode)| at.volume() == volume && inode.volume() != volume) {
            return Err(Error::HoldsVolumes);
        }
        if !force && self.opens.values().any(|open| open.inode.volume() == volume) {
            return Err(Error::FilesOpen);
        }
        let inodes: Vec<InodeId> = self.nodes.keys().copied().filter(|id| id.volume() == volume).collect();
        if !force && inodes.len() > 1 {
            return Err(Error::NotEmpty);
        }
        let removed = Inode { links: 0, ..self.inode(root) };
        self.leave(dir, name);
        let dir = self.touch(dir, true);
        for id in inodes {
            self.lose(id);
        }
        self.volumes.remove(&volume);
        Ok(Reply::Removed { inode: removed, dir })
    }

    /// An inode goes, whoever uses it.
    fn lose(&mut self, id: InodeId) {
        let mut layouts: Vec<(ClientId, StateId)> = Vec::new();
        layouts.extend(self.layouts.iter().filter(|(_, at)| at.inode == id).map(|(of, at)| (at.client, *of)));
        layouts.sort_unstable();
        for (_, layout) in layouts {
            self.lose_layout(layout);
        }
        self.locks.retain(|_, lock| lock.inode != id);
        self.opens.retain(|_, open| open.inode != id);
        self.delegations.retain(|_, held| held.inode != id || held.revoked);
        self.contended.remove(&id);
        self.forget(id);
    }
}
