//! The model's name space.

use namespace::*;

use super::{Content, Node, Outcome, Plain, PlainLayout};

impl Plain {
    // What is counted.

    /// All entries: directory, name, cookie, inode.
    pub fn entries(&self) -> impl Iterator<Item = (InodeId, &Vec<u8>, u64, InodeId)> {
        self.nodes.iter().flat_map(|(dir, node)| {
            let entries = match &node.content {
                Content::Directory { entries, .. } => Some(entries),
                _ => None,
            };
            entries.into_iter().flatten().map(|(name, (cookie, inode))| (*dir, name, *cookie, *inode))
        })
    }

    pub fn is_directory(&self, id: InodeId) -> bool {
        matches!(self.nodes.get(&id), Some(Node { content: Content::Directory { .. }, .. }))
    }

    pub fn is_file(&self, id: InodeId) -> bool {
        matches!(self.nodes.get(&id), Some(Node { content: Content::File { .. }, .. }))
    }

    pub(super) fn parent(&self, dir: InodeId) -> InodeId {
        self.entries().find(|(_, _, _, inode)| *inode == dir).map_or(InodeId::ROOT, |(parent, ..)| parent)
    }

    fn links(&self, id: InodeId) -> u32 {
        let named = self.entries().filter(|(.., inode)| *inode == id).count();
        let subdirectories =
            self.entries().filter(|(dir, .., inode)| *dir == id && self.is_directory(*inode)).count();
        let links = if !self.is_directory(id) {
            named
        } else if named == 0 && id != InodeId::ROOT {
            0 // removed
        } else {
            2 + subdirectories
        };
        u32::try_from(links).expect("the tree is small")
    }

    /// The inode as the machine should show it.
    pub fn inode(&self, id: InodeId) -> Inode {
        let node = &self.nodes[&id];
        let (written, epoch, layout_epoch) = match &node.content {
            Content::File { written, epoch, layout_epoch, .. } => (*written, *epoch, *layout_epoch),
            _ => (0, 0, 0),
        };
        let (space_used, space_is_told) = match &node.content {
            Content::File { space_used, space_is_told, .. } => (*space_used, *space_is_told),
            _ => (0, true),
        };
        let (kind, size) = match &node.content {
            Content::File { layout, place, size, .. } => {
                (Kind::File(File { layout: *layout, data: *place }), *size)
            }
            Content::Directory { entries, next_cookie, stripe } => {
                let entries = entries.len() as u64;
                let parent = self.parent(id);
                let directory = Directory { parent, entries, next_cookie: *next_cookie, stripe: *stripe };
                (Kind::Directory(directory), entries * 64)
            }
            Content::Symlink(target) => (Kind::Symlink(target.clone()), target.len() as u64),
            Content::Other(kind) => (kind.clone(), 0),
        };
        Inode {
            id,
            generation: node.generation,
            kind,
            mode: node.mode,
            uid: node.uid,
            gid: node.gid,
            links: self.links(id),
            size,
            written,
            space_used,
            space_is_told,
            epoch,
            layout_epoch,
            accessed: node.accessed,
            modified: node.modified,
            changed: node.changed,
            created: node.created,
            change: node.change,
            verifier: node.verifier,
        }
    }

    // Small steps.

    pub(super) fn node(&mut self, id: InodeId) -> Result<&mut Node, Error> {
        self.nodes.get_mut(&id).ok_or(Error::Stale)
    }

    pub(super) fn need_directory(&mut self, id: InodeId) -> Result<(), Error> {
        self.node(id)?;
        if self.is_directory(id) { Ok(()) } else { Err(Error::NotDirectory) }
    }

    pub(super) fn find(&self, dir: InodeId, wanted: &[u8]) -> Option<InodeId> {
        self.entries().find(|(at, name, ..)| *at == dir && *name == wanted).map(|(.., inode)| inode)
    }

    pub(super) fn enter(&mut self, dir: InodeId, name: &[u8], inode: InodeId) {
        if let Content::Directory { entries, next_cookie, .. } =
            &mut self.nodes.get_mut(&dir).expect("is").content
        {
            // An entry that is replaced keeps its cookie.
            let cookie = match entries.get(name) {
                Some((cookie, _)) => *cookie,
                None => {
                    *next_cookie += 1;
                    *next_cookie - 1
                }
            };
            entries.insert(name.to_vec(), (cookie, inode));
        }
    }

    pub(super) fn leave(&mut self, dir: InodeId, name: &[u8]) {
        if let Content::Directory { entries, .. } = &mut self.nodes.get_mut(&dir).expect("is").content {
            entries.remove(name);
        }
    }

    /// The attributes of `id` changed; its data too, if `data`.
    pub(super) fn touch(&mut self, id: InodeId, data: bool) -> Change {
        let now = self.now;
        let node = self.nodes.get_mut(&id).expect("is");
        node.changed = now;
        if data {
            node.modified = now;
        }
        node.change += 1;
        Change { before: node.change - 1, after: node.change }
    }

    fn still(&self, id: InodeId) -> Change {
        let change = self.nodes[&id].change;
        Change { before: change, after: change }
    }

    /// Whatever has no name and is not held goes.
    pub(super) fn collect(&mut self) {
        let contended = std::mem::take(&mut self.contended);
        self.contended = contended.into_iter().filter(|id| self.is_delegated(*id)).collect();
        let gone: Vec<InodeId> = self
            .nodes
            .keys()
            .filter(|id| self.links(**id) == 0)
            .filter(|id| !self.opens.values().any(|open| open.inode == **id))
            .filter(|id| !self.layouts.values().any(|layout| layout.inode == **id))
            .filter(|id| !self.is_delegated(**id))
            .copied()
            .collect();
        for id in gone {
            self.forget(id);
        }
    }

    pub(super) fn forget(&mut self, id: InodeId) {
        self.lose_objects(id);
        self.nodes.remove(&id).expect("is");
        self.unsettled.remove(&id);
    }

    pub(super) fn defer(
        &mut self,
        inode: InodeId,
        generation: u32,
        layout: FileLayout,
        kind: DeferredKind,
    ) -> u64 {
        let id = self.next_deferred;
        self.next_deferred += 1;
        self.deferred.insert(id, DeferredOp { id, inode, generation, layout, kind });
        id
    }

    /// Whether a size can be set now: no data on their way to objects, and no layout but that of one client.
    pub(super) fn may_truncate(&self, inode: InodeId, layout_of: Option<ClientId>) -> Result<(), Error> {
        if self.place(inode) == Some(DataPlace::Migrating) {
            return Err(Error::Delay);
        }
        self.have_own_objects(inode)?;
        self.have_no_layout(inode, layout_of)
    }

    /// No client but `layout_of` has a layout of the file.
    pub(super) fn have_no_layout(&self, inode: InodeId, layout_of: Option<ClientId>) -> Result<(), Error> {
        let others = |layout: &PlainLayout| layout.inode == inode && Some(layout.client) != layout_of;
        if self.layouts.values().any(others) { Err(Error::Delay) } else { Ok(()) }
    }

    /// The file has `size` bytes now, and nothing above.
    pub(super) fn truncate(&mut self, inode: InodeId, new: u64) -> Option<u64> {
        let node = self.nodes.get_mut(&inode).expect("is");
        let Content::File { layout, place, bytes, size, written, space_used, space_is_told, epoch, .. } =
            &mut node.content
        else {
            panic!("only files are truncated")
        };
        *size = new;
        *written = new.min(*written);
        *space_used = new.min(*space_used);
        *space_is_told &= *place != DataPlace::Striped;
        bytes.truncate(usize::try_from(new).unwrap_or(usize::MAX));
        if *place == DataPlace::Inline {
            return None;
        }
        *epoch += 1;
        let (layout, generation) = (*layout, node.generation);
        let mut least = new;
        self.deferred.retain(|_, deferred| match deferred.kind {
            DeferredKind::Truncate(size) if deferred.inode == inode => {
                least = least.min(size);
                false
            }
            DeferredKind::Fence => deferred.inode != inode,
            _ => true,
        });
        Some(self.defer(inode, generation, layout, DeferredKind::Truncate(least)))
    }

    // Operations.

    pub(super) fn create(&mut self, create: &Create) -> Outcome {
        match self.create_or_find(create)? {
            (inode, dir, true) => Ok(Reply::Created { inode: self.inode(inode), existed: false, dir }),
            (inode, dir, false) => {
                let asked_for_file = matches!(create.node, NewNode::File(_));
                if !self.is_file(inode) || !asked_for_file {
                    return Err(Error::Exists);
                }
                let existed = create.exists == Exists::Take;
                Ok(Reply::Created { inode: self.inode(inode), existed, dir })
            }
        }
    }

    /// The inode at the name, and whether it was made now.
    pub(super) fn create_or_find(&mut self, create: &Create) -> Result<(InodeId, Change, bool), Error> {
        if matches!(create.node, NewNode::File(FileLayout { columns: 0, .. })) {
            return Err(Error::Invalid);
        }
        self.need_directory(create.dir)?;
        if let Some(known) = self.find(create.dir, &create.name) {
            let take = match create.exists {
                Exists::Take => true,
                Exists::Refuse => false,
                Exists::Verify(verifier) => self.nodes[&known].verifier == Some(verifier),
            };
            return if take { Ok((known, self.still(create.dir), false)) } else { Err(Error::Exists) };
        }
        let content = match create.node.clone() {
            NewNode::File(layout) => Content::File {
                layout,
                place: DataPlace::Inline,
                bytes: Vec::new(),
                size: 0,
                written: 0,
                space_used: 0,
                space_is_told: true,
                epoch: 1,
                layout_epoch: 0,
            },
            NewNode::Directory => {
                Content::Directory { entries: Default::default(), next_cookie: 3, stripe: None }
            }
            NewNode::Symlink(target) => Content::Symlink(target),
            NewNode::Fifo => Content::Other(Kind::Fifo),
            NewNode::Socket => Content::Other(Kind::Socket),
            NewNode::CharacterDevice(major, minor) => Content::Other(Kind::CharacterDevice(major, minor)),
            NewNode::BlockDevice(major, minor) => Content::Other(Kind::BlockDevice(major, minor)),
        };
        let node = Node {
            generation: (self.random as u32).max(1),
            content,
            mode: create.attributes.mode & 0o7777,
            uid: create.attributes.uid,
            gid: create.attributes.gid,
            accessed: create.attributes.accessed.unwrap_or(self.now),
            modified: create.attributes.modified.unwrap_or(self.now),
            changed: self.now,
            created: self.now,
            change: 1,
            verifier: if let Exists::Verify(verifier) = create.exists { Some(verifier) } else { None },
            xattrs: Default::default(),
        };
        let id = self.next_inode(create.dir.volume());
        self.nodes.insert(id, node);
        self.enter(create.dir, &create.name, id);
        Ok((id, self.touch(create.dir, true), true))
    }

    pub(super) fn link(&mut self, inode: InodeId, dir: InodeId, name: &[u8]) -> Outcome {
        self.need_directory(dir)?;
        self.node(inode)?;
        if self.find(dir, name).is_some() {
            return Err(Error::Exists);
        }
        if self.is_directory(inode) {
            return Err(Error::IsDirectory);
        }
        if inode.volume() != dir.volume() {
            return Err(Error::OtherVolume);
        }
        if self.links(inode) == 0 {
            return Err(Error::NoEntry);
        }
        if self.is_delegated_to_another(inode, self.caller) {
            return Ok(Reply::Delegated { inode });
        }
        self.enter(dir, name, inode);
        self.touch(inode, false);
        let dir = self.touch(dir, true);
        Ok(Reply::Linked { inode: self.inode(inode), dir })
    }

    pub(super) fn remove(&mut self, dir: InodeId, name: &[u8], expect: Expect) -> Outcome {
        self.need_directory(dir)?;
        let inode = self.find(dir, name).ok_or(Error::NoEntry)?;
        let is_directory = self.is_directory(inode);
        if expect == Expect::NotDirectory && is_directory {
            return Err(Error::IsDirectory);
        }
        if expect == Expect::Directory && !is_directory {
            return Err(Error::NotDirectory);
        }
        if inode.volume() != dir.volume() {
            return Err(Error::VolumeRoot);
        }
        if self.entries().any(|(at, ..)| at == inode) {
            return Err(Error::NotEmpty);
        }
        if self.is_delegated_to_another(inode, self.caller) {
            return Ok(Reply::Delegated { inode });
        }
        // What a removed directory says of its parent is what it said last.
        let parent = dir;
        self.leave(dir, name);
        self.touch(inode, false);
        let dir = self.touch(dir, true);
        let mut removed = self.inode(inode);
        if let Kind::Directory(directory) = &mut removed.kind {
            directory.parent = parent;
        }
        self.collect();
        Ok(Reply::Removed { inode: removed, dir })
    }

    pub(super) fn rename(&mut self, from_dir: InodeId, from: &[u8], to_dir: InodeId, to: &[u8]) -> Outcome {
        self.need_directory(from_dir)?;
        self.need_directory(to_dir)?;
        if from_dir.volume() != to_dir.volume() {
            return Err(Error::OtherVolume);
        }
        let moved = self.find(from_dir, from).ok_or(Error::NoEntry)?;
        let over = self.find(to_dir, to);
        if over == Some(moved) {
            let (from, to) = (self.still(from_dir), self.still(to_dir));
            return Ok(Reply::Renamed { from, to, moved, replaced: None });
        }
        let mut at = to_dir;
        loop {
            if at == moved {
                return Err(Error::Invalid);
            }
            if at == InodeId::ROOT {
                break;
            }
            at = self.parent(at);
        }
        if let Some(over) = over {
            match (self.is_directory(moved), self.is_directory(over)) {
                (true, false) => return Err(Error::NotDirectory),
                (false, true) => return Err(Error::IsDirectory),
                _ if over.volume() != to_dir.volume() => return Err(Error::VolumeRoot),
                _ if self.entries().any(|(at, ..)| at == over) => return Err(Error::NotEmpty),
                _ => {}
            }
        }
        for inode in [Some(moved), over].into_iter().flatten() {
            if self.is_delegated_to_another(inode, self.caller) {
                return Ok(Reply::Delegated { inode });
            }
        }
        self.leave(from_dir, from);
        self.enter(to_dir, to, moved);
        let from = self.touch(from_dir, true);
        let to = if to_dir == from_dir { from } else { self.touch(to_dir, true) };
        self.touch(moved, false);
        if let Some(over) = over {
            self.touch(over, false);
        }
        self.collect();
        Ok(Reply::Renamed { from, to, moved, replaced: over })
    }

    pub(super) fn set_attributes(&mut self, inode: InodeId, set: &SetAttributes) -> Outcome {
        let changed = self.node(inode)?.changed;
        if set.guard.is_some() && set.guard != Some(changed) {
            return Err(Error::NotSync);
        }
        let is_file = self.is_file(inode);
        if let Some(size) = set.size {
            if self.is_directory(inode) {
                return Err(Error::IsDirectory);
            }
            if !is_file {
                return Err(Error::Invalid);
            }
            if size > i64::MAX as u64 {
                return Err(Error::TooLarge);
            }
            self.may_truncate(inode, set.layout_of)?;
        }
        let before = self.node(inode)?.mode;
        if is_file && set.mode.is_some_and(|mode| mode & 0o6000 & !before != 0) {
            self.have_no_layout(inode, set.layout_of)?;
        }
        if self.is_delegated_to_another(inode, self.caller) {
            return Ok(Reply::Delegated { inode });
        }
        self.touch(inode, set.size.is_some());
        let deferred = set.size.and_then(|size| self.truncate(inode, size));
        let node = self.node(inode)?;
        if is_file && (set.uid.is_some() || set.gid.is_some()) {
            node.mode &= 0o1777;
        }
        if let Some(mode) = set.mode {
            node.mode = mode & 0o7777;
        }
        if let Some(uid) = set.uid {
            node.uid = uid;
        }
        if let Some(gid) = set.gid {
            node.gid = gid;
        }
        if let Some(accessed) = set.accessed {
            node.accessed = accessed;
        }
        if let Some(modified) = set.modified {
            node.modified = modified;
            for layout in self.layouts.values_mut() {
                layout.times_set |= layout.inode == inode && layout.mode == IoMode::ReadWrite;
            }
        }
        Ok(Reply::Attributes { inode: self.inode(inode), deferred })
    }

    /// How often the file's size was set.
    pub fn epoch(&self, inode: InodeId) -> u32 {
        match self.nodes.get(&inode).map(|node| &node.content) {
            Some(Content::File { epoch, .. }) => *epoch,
            _ => 0,
        }
    }

    pub(super) fn wrote(&mut self, inode: InodeId, end: u64, bytes: u64, seen: u32) -> Outcome {
        self.node(inode)?;
        let is_shared = self.is_shared(inode);
        match &mut self.node(inode)?.content {
            Content::File { .. } if end > i64::MAX as u64 => return Err(Error::TooLarge),
            Content::File { epoch, place, .. }
                if is_shared || *epoch != seen || *place != DataPlace::Striped =>
            {
                return Err(Error::Delay);
            }
            Content::File { size, written, space_used, .. } => {
                *size = end.max(*size);
                // In holes, and at the end.
                *space_used += end.max(*written).saturating_sub(*space_used).min(bytes);
                *written = end.max(*written);
            }
            Content::Directory { .. } => return Err(Error::IsDirectory),
            _ => return Err(Error::WrongType),
        }
        if self.is_delegated_to_another(inode, self.caller) {
            return Ok(Reply::Delegated { inode });
        }
        self.space_changed(inode);
        self.touch(inode, true);
        Ok(Reply::Attributes { inode: self.inode(inode), deferred: None })
    }

    pub(super) fn set_stripe(&mut self, dir: InodeId, policy: Option<StripePolicy>) -> Outcome {
        self.need_directory(dir)?;
        self.policy_of(dir, policy)?;
        self.touch(dir, false);
        Ok(Reply::Attributes { inode: self.inode(dir), deferred: None })
    }

    pub(super) fn policy_of(&mut self, dir: InodeId, policy: Option<StripePolicy>) -> Result<(), Error> {
        if policy.is_some_and(|policy| !self.is_pool(policy.pool)) {
            return Err(Error::NoEntry);
        }
        let pool = |policy: Option<StripePolicy>| policy.map_or(PoolId::DEFAULT, |policy| policy.pool);
        let Content::Directory { stripe: before, .. } = &self.nodes[&dir].content else { unreachable!() };
        let is_bare = |id| self.pools().iter().any(|pool| pool.id == id && pool.targets == 0);
        if pool(*before) != pool(policy) && is_bare(pool(policy)) {
            return Err(Error::NoDevice);
        }
        if let Content::Directory { stripe, .. } = &mut self.node(dir)?.content {
            *stripe = policy;
        }
        Ok(())
    }

    /// The policy for new files in a directory.
    pub fn stripe_policy(&self, dir: InodeId) -> Option<StripePolicy> {
        match &self.nodes[&dir].content {
            Content::Directory { stripe: Some(policy), .. } => Some(*policy),
            _ if dir == InodeId::ROOT => None,
            _ => self.stripe_policy(self.parent(dir)),
        }
    }
}
