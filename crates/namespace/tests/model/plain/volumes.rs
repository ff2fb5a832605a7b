//! The model's volumes.

use std::collections::{BTreeMap, BTreeSet};

use namespace::*;

use super::{Content, Node, Outcome, Plain};

/// A volume, without what is counted.
#[derive(Debug, Clone)]
pub struct PlainVolume {
    pub next_inode: u64,
    pub created: Time,
    pub limits: BTreeMap<Subject, Limits>,
    /// Since when there are more bytes and inodes than the soft limits.
    pub over: BTreeMap<Subject, (Option<Time>, Option<Time>)>,
    /// Whether users and groups are counted.
    pub owners: bool,
}

impl PlainVolume {
    pub fn new(next_inode: u64, created: Time) -> Self {
        let (limits, over) = (BTreeMap::new(), BTreeMap::new());
        Self { next_inode, created, limits, over, owners: false }
    }
}

/// What `du` shows of an inode.
pub(super) fn used(node: &Node) -> u64 {
    match &node.content {
        Content::File { place: DataPlace::Striped, space_used, .. } => space_used.next_multiple_of(4096),
        Content::File { written, .. } => written.next_multiple_of(512),
        Content::Directory { .. } => 4096,
        _ => 0,
    }
}

impl Plain {
    pub fn volumes(&self) -> Vec<Volume> {
        let one = |(id, volume): (&VolumeId, &PlainVolume)| {
            let within =
                |root: &VolumeId| *root != VolumeId::FIRST && self.parent(root.root()).volume() == *id;
            let all = InodeId(u64::MAX);
            Volume {
                id: *id,
                next_inode: volume.next_inode,
                volumes: self.volumes.keys().filter(|root| within(root)).count() as u32,
                created: volume.created,
                usage: self.usage(*id, Subject::Volume),
                counted: Counted { bytes: all, owners: volume.owners.then_some(all) },
                limited: volume
                    .limits
                    .iter()
                    .filter(|(of, limits)| **of != Subject::Volume && **limits != Limits::default())
                    .count() as u32,
            }
        };
        self.volumes.iter().map(one).collect()
    }

    /// The users and groups that something is known of.
    pub fn usages(&self, id: VolumeId) -> Vec<(Subject, Usage)> {
        let volume = &self.volumes[&id];
        if !volume.owners {
            return vec![];
        }
        let mut subjects: BTreeSet<Subject> = volume.limits.keys().copied().collect();
        for (_, node) in self.nodes.iter().filter(|(inode, _)| inode.volume() == id) {
            subjects.extend([Subject::User(node.uid), Subject::Group(node.gid)]);
        }
        subjects.remove(&Subject::Volume);
        let all = subjects.into_iter().map(|subject| (subject, self.usage(id, subject)));
        all.filter(|(_, usage)| *usage != Usage::default()).collect()
    }

    fn usage(&self, id: VolumeId, subject: Subject) -> Usage {
        let volume = &self.volumes[&id];
        let is_of = |node: &Node| match subject {
            Subject::Volume => true,
            Subject::User(uid) => node.uid == uid,
            Subject::Group(gid) => node.gid == gid,
        };
        let nodes = self.nodes.range(InodeId(u64::from(id.0) << 40)..InodeId((u64::from(id.0) + 1) << 40));
        let nodes: Vec<&Node> = nodes.map(|(_, node)| node).filter(|node| is_of(node)).collect();
        let (bytes_over, inodes_over) = volume.over.get(&subject).copied().unwrap_or_default();
        Usage {
            bytes: nodes.iter().map(|node| u128::from(used(node))).sum(),
            inodes: nodes.len() as u64,
            limits: volume.limits.get(&subject).copied().unwrap_or_default(),
            bytes_over,
            inodes_over,
        }
    }

    /// All that may have a limit.
    fn limited(&self) -> Vec<(VolumeId, Subject)> {
        let of = |(id, volume): (&VolumeId, &PlainVolume)| {
            let id = *id;
            volume.limits.keys().map(move |subject| (id, *subject)).collect::<Vec<_>>()
        };
        self.volumes.iter().flat_map(of).collect()
    }

    /// After a command: what is above a soft limit now, and whether `before` may become this.
    pub(super) fn settle(&mut self, before: &Plain, is_limited: bool) -> Result<(), Error> {
        for (id, subject) in self.limited() {
            let usage = self.usage(id, subject);
            let since = |over: Option<Time>, has, soft| {
                (soft > 0 && has > u128::from(soft)).then(|| over.unwrap_or(self.now))
            };
            let bytes = since(usage.bytes_over, usage.bytes, usage.limits.bytes_soft);
            let inodes = since(usage.inodes_over, usage.inodes.into(), usage.limits.inodes_soft);
            let had =
                if before.volumes.contains_key(&id) { before.usage(id, subject) } else { Usage::default() };
            let is_late =
                |over: Option<Time>| over.is_some_and(|over| self.late(over, &usage.limits, self.now));
            let is_above = |has: u128, hard: u64, over| hard > 0 && has > hard.into() || is_late(over);
            let charged = usage.bytes + if subject == Subject::Volume { self.kept_bytes(id) } else { 0 };
            let grows = usage.bytes > had.bytes && is_above(charged, usage.limits.bytes_hard, bytes)
                || usage.inodes > had.inodes
                    && is_above(usage.inodes.into(), usage.limits.inodes_hard, inodes);
            if is_limited && grows {
                return Err(Error::Quota);
            }
            self.volumes.get_mut(&id).expect("is").over.insert(subject, (bytes, inodes));
        }
        Ok(())
    }

    fn late(&self, over: Time, limits: &Limits, now: Time) -> bool {
        now.seconds - over.seconds >= i64::from(limits.grace_seconds)
    }

    /// How many bytes a file may still grow by.
    pub fn room(&self, inode: InodeId, now: Time) -> u64 {
        let node = &self.nodes[&inode];
        let subjects = [Subject::Volume, Subject::User(node.uid), Subject::Group(node.gid)];
        let room = |subject| {
            let usage = self.usage(inode.volume(), subject);
            let late = usage.bytes_over.is_some_and(|over| self.late(over, &usage.limits, now));
            let limit = if late { usage.limits.bytes_soft } else { usage.limits.bytes_hard };
            if limit == 0 {
                u64::MAX
            } else {
                let kept = if subject == Subject::Volume { self.kept_bytes(inode.volume()) } else { 0 };
                limit.saturating_sub(u64::try_from(usage.bytes + kept).unwrap_or(u64::MAX))
            }
        };
        subjects.into_iter().map(room).min().expect("three")
    }

    pub(super) fn set_limits(&mut self, id: VolumeId, subject: Subject, limits: Limits) -> Outcome {
        let is_odd = |soft: u64, hard: u64| hard > 0 && soft > hard;
        if is_odd(limits.bytes_soft, limits.bytes_hard) || is_odd(limits.inodes_soft, limits.inodes_hard) {
            return Err(Error::Invalid);
        }
        let volume = self.volumes.get_mut(&id).ok_or(Error::Stale)?;
        volume.limits.insert(subject, limits);
        volume.owners |= subject != Subject::Volume;
        Ok(Reply::Done)
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
        self.volumes.insert(id, PlainVolume::new(2, self.now));
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
        if !self.snapshots_of(volume).is_empty() {
            return Err(Error::HoldsSnapshots);
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
        self.origins.remove(&volume);
        Ok(Reply::Removed { inode: removed, dir })
    }

    /// An inode goes, with all its uses.
    fn lose(&mut self, id: InodeId) {
        self.lose_uses(id);
        self.forget(id);
    }

    /// All uses of an inode go.
    pub(super) fn lose_uses(&mut self, id: InodeId) {
        let mut layouts: Vec<(ClientId, StateId)> = Vec::new();
        layouts.extend(self.layouts.iter().filter(|(_, at)| at.inode == id).map(|(of, at)| (at.client, *of)));
        layouts.sort_unstable();
        for (_, layout) in layouts {
            self.lose_layout(layout);
        }
        self.locks.retain(|_, lock| lock.inode != id);
        self.opens.retain(|_, open| open.inode != id);
        self.delegations.retain(|_, held| held.inode != id || held.is_revoked());
        self.contended.remove(&id);
    }
}
