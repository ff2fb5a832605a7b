//! The model's opens, locks and layouts.

use std::collections::BTreeSet;

use namespace::*;

use super::{Content, Outcome, Plain};

#[derive(Debug, Clone)]
pub struct PlainOpen {
    pub sequence: u32,
    pub client: ClientId,
    pub inode: InodeId,
    pub owner: Vec<u8>,
    /// Each OPEN's access and deny.
    pub opened: Vec<(Share, Share)>,
}

impl PlainOpen {
    pub fn access(&self) -> Share {
        Share(self.opened.iter().fold(0, |all, (access, _)| all | access.0))
    }

    pub fn deny(&self) -> Share {
        Share(self.opened.iter().fold(0, |all, (_, deny)| all | deny.0))
    }
}

/// The first byte that stands for itself and all after it.
pub const LAST_BYTE: u64 = 16;

#[derive(Debug, Clone)]
pub struct PlainLock {
    pub sequence: u32,
    pub client: ClientId,
    pub inode: InodeId,
    pub owner: Vec<u8>,
    pub open: StateId,
    /// The lock on each byte.
    pub bytes: [Option<LockKind>; LAST_BYTE as usize + 1],
}

impl PlainLock {
    /// The bytes as ranges of one kind.
    pub fn ranges(&self) -> Vec<(ByteRange, LockKind)> {
        let mut ranges: Vec<(ByteRange, LockKind)> = Vec::new();
        for (byte, kind) in self.bytes.iter().enumerate() {
            let Some(kind) = kind else { continue };
            let start = byte as u64;
            let end = if start == LAST_BYTE { u64::MAX } else { start + 1 };
            match ranges.last_mut() {
                Some((range, last)) if range.end == start && last == kind => range.end = end,
                _ => ranges.push((ByteRange { start, end }, *kind)),
            }
        }
        ranges
    }

    fn set(&mut self, range: ByteRange, kind: Option<LockKind>) {
        for byte in range.start..range.end.min(LAST_BYTE + 1) {
            self.bytes[byte as usize] = kind;
        }
    }
}

#[derive(Debug, Clone)]
pub struct PlainLayout {
    pub sequence: u32,
    pub client: ClientId,
    pub inode: InodeId,
    pub mode: IoMode,
    pub recalled: bool,
    pub times_set: bool,
}

impl Plain {
    // Stateids.

    pub(super) fn new_state(&mut self) -> StateId {
        self.next_state += 1;
        StateId(self.next_state - 1)
    }

    pub(super) fn current(presented: Stateid, sequence: u32) -> Result<(), Error> {
        match presented.sequence {
            0 => Ok(()),
            presented if presented == sequence => Ok(()),
            presented if presented < sequence => Err(Error::OldStateid),
            _ => Err(Error::BadStateid),
        }
    }

    fn my_open(&self, client: ClientId, stateid: Stateid) -> Result<PlainOpen, Error> {
        let open =
            self.opens.get(&stateid.id).filter(|open| open.client == client).ok_or(Error::BadStateid)?;
        Self::current(stateid, open.sequence)?;
        Ok(open.clone())
    }

    fn my_lock(&self, client: ClientId, stateid: Stateid) -> Result<PlainLock, Error> {
        let lock =
            self.locks.get(&stateid.id).filter(|lock| lock.client == client).ok_or(Error::BadStateid)?;
        Self::current(stateid, lock.sequence)?;
        Ok(lock.clone())
    }

    fn my_layout(&self, client: ClientId, inode: InodeId, stateid: Stateid) -> Result<PlainLayout, Error> {
        let layout = self.layouts.get(&stateid.id).ok_or(Error::BadStateid)?;
        if layout.client != client || layout.inode != inode || stateid.sequence > layout.sequence {
            return Err(Error::BadStateid);
        }
        Ok(layout.clone())
    }

    // Opens.

    pub(super) fn open(&mut self, open: &Open, kept: Option<Stateid>) -> Outcome {
        if !self.clients.get(&open.client).is_some_and(|client| client.confirmed) {
            return Err(Error::StaleClient);
        }
        if open.access.0 == 0 || open.access.0 > 3 || open.deny.0 > 3 {
            return Err(Error::Invalid);
        }
        let is_by_inode = matches!(open.target, OpenTarget::Inode(_));
        if kept.is_some() && (!is_by_inode || open.deny.0 != 0 || open.delegate) {
            return Err(Error::Invalid);
        }
        let (inode, dir, mut created, mut truncated) = match &open.target {
            OpenTarget::Inode(inode) => (*inode, None, false, false),
            OpenTarget::Name { dir, name } => {
                let change = self.node(*dir)?.change;
                if !self.is_directory(*dir) {
                    return Err(Error::NotDirectory);
                }
                let inode = self.find(*dir, name).ok_or(Error::NoEntry)?;
                (inode, Some(Change { before: change, after: change }), false, false)
            }
            OpenTarget::Create { create, truncate } => {
                if !matches!(create.node, NewNode::File(_)) {
                    return Err(Error::Invalid);
                }
                let (inode, dir, made) = self.create_or_find(create)?;
                (inode, Some(dir), made, *truncate && !made && create.exists == Exists::Take)
            }
        };
        let made = created;
        match self.node(inode)?.content {
            Content::File { .. } => {}
            Content::Directory { .. } => return Err(Error::IsDirectory),
            Content::Symlink(_) => return Err(Error::IsSymlink),
            Content::Other(_) => return Err(Error::WrongType),
        }
        let mine = |other: &PlainOpen| other.client == open.client && other.owner == open.owner;
        let conflict = |other: &&PlainOpen| {
            other.inode == inode
                && !mine(other)
                && (other.deny().0 & open.access.0 != 0 || other.access().0 & open.deny.0 != 0)
        };
        let holders: BTreeSet<ClientId> =
            self.opens.values().filter(conflict).map(|other| other.client).collect();
        let conflict =
            truncated || open.access.0 & 2 != 0 || open.deny.0 & 1 != 0 || self.writer(inode).is_some();
        let delegated = conflict && self.is_delegated_to_another(inode, Some(open.client));
        if open.deny.0 != 0 {
            let mut after = self.clone();
            if !after.make_way(&holders, open.client) {
                return Err(Error::ShareDenied);
            }
            if truncated {
                self.may_truncate(inode, Some(open.client))?;
            }
            if self.pending_fence(inode) {
                return Err(Error::Delay);
            }
            if after.pending_fence(inode) {
                *self = after;
                return Ok(Reply::Refused(Error::Delay));
            }
        }
        let known =
            self.opens.iter().find(|(_, other)| other.inode == inode && mine(other)).map(|(id, _)| *id);
        if let Some(given) = kept {
            let is_other = known.is_some_and(|known| known != given.id);
            if is_other || known.is_none() && !self.is_new_brief(given) {
                return match (self.make_way(&holders, open.client), delegated) {
                    (false, _) => Err(Error::ShareDenied),
                    (true, true) => Ok(Reply::Delegated { inode }),
                    (true, false) => Err(Error::BadStateid),
                };
            }
        }
        let id = kept.map(|given| given.id).or(known).unwrap_or_else(|| self.new_state());
        let (client, owner) = (open.client, open.owner.clone());
        let state = self.opens.entry(id).or_insert(PlainOpen {
            sequence: 0,
            client,
            inode,
            owner,
            opened: Vec::new(),
        });
        match kept {
            Some(_) if known.is_some() => {} // a repetition
            Some(given) => (state.sequence, state.opened) = (given.sequence, vec![(open.access, open.deny)]),
            None => {
                state.sequence += 1;
                state.opened.push((open.access, open.deny));
            }
        }
        let stateid = Stateid { sequence: state.sequence, id };
        // With ours in place, so that a file without a name stays.
        if !self.make_way(&holders, open.client) {
            return Err(Error::ShareDenied);
        }

        if let OpenTarget::Create { create: Create { exists: Exists::Verify(_), .. }, .. } = open.target {
            created = true; // now, or by the try before
        }
        let mut deferred = None;
        if std::mem::take(&mut truncated) {
            self.may_truncate(inode, Some(open.client))?;
            let (now, node) = (self.now, self.node(inode)?);
            (node.modified, node.changed, node.change) = (now, now, node.change + 1);
            deferred = self.truncate(inode, 0);
        }
        if delegated {
            return Ok(Reply::Delegated { inode });
        }
        let delegation = self.delegate(inode, open, made);
        Ok(Reply::Opened { stateid, inode: self.inode(inode), created, dir, deferred, delegation })
    }

    fn is_new_brief(&self, given: Stateid) -> bool {
        given.id.0 >> 63 == 1 && given.sequence > 0 && !self.opens.contains_key(&given.id)
    }

    pub(super) fn close(&mut self, client: ClientId, stateid: Stateid) -> Outcome {
        self.my_open(client, stateid)?;
        self.end_open(stateid.id);
        Ok(Reply::State { stateid: None })
    }

    pub(super) fn end_open(&mut self, id: StateId) {
        let PlainOpen { client, inode, .. } = self.opens.remove(&id).expect("it was there");
        self.locks.retain(|_, lock| lock.open != id);
        if let Some(layout) = self.layout_without_open(client, inode) {
            self.layouts.remove(&layout);
        }
        self.collect();
    }

    pub(super) fn downgrade(
        &mut self,
        client: ClientId,
        stateid: Stateid,
        access: Share,
        deny: Share,
    ) -> Outcome {
        self.my_open(client, stateid)?;
        if access.0 == 0 || access.0 > 3 || deny.0 > 3 {
            return Err(Error::Invalid);
        }
        let open = self.opens.get_mut(&stateid.id).expect("it is mine");
        open.opened.retain(|(a, d)| access.contains(*a) && deny.contains(*d));
        if (open.access(), open.deny()) != (access, deny) {
            return Err(Error::Invalid);
        }
        open.sequence += 1;
        Ok(Reply::State { stateid: Some(Stateid { sequence: open.sequence, id: stateid.id }) })
    }

    // Locks.

    /// The first lock in the way, by where it starts and then by age.
    pub fn conflict(
        &self,
        inode: InodeId,
        client: ClientId,
        owner: &[u8],
        kind: LockKind,
        wanted: ByteRange,
    ) -> Option<Conflict> {
        self.all_conflicts(inode, client, owner, kind, wanted).into_iter().next()
    }

    fn all_conflicts(
        &self,
        inode: InodeId,
        client: ClientId,
        owner: &[u8],
        kind: LockKind,
        wanted: ByteRange,
    ) -> Vec<Conflict> {
        let mut ways = Vec::new();
        for (id, lock) in &self.locks {
            let own = lock.client == client && lock.owner == owner;
            for (range, held) in lock.ranges() {
                let overlaps = range.start < wanted.end && wanted.start < range.end;
                let excludes = held == LockKind::Write || kind == LockKind::Write;
                if lock.inode == inode && !own && overlaps && excludes {
                    let conflict =
                        Conflict { range, kind: held, client: lock.client, owner: lock.owner.clone() };
                    ways.push((range.start, *id, conflict));
                }
            }
        }
        ways.sort_by_key(|(start, id, _)| (*start, *id));
        ways.into_iter().map(|(.., conflict)| conflict).collect()
    }

    pub(super) fn lock(
        &mut self,
        client: ClientId,
        inode: InodeId,
        owner: &LockOwner,
        kind: LockKind,
        range: ByteRange,
    ) -> Outcome {
        let (open_id, owner) = match owner {
            LockOwner::New { open, owner } => {
                self.my_open(client, *open)?;
                (open.id, owner.clone())
            }
            LockOwner::Known { lock } => {
                let lock = self.my_lock(client, *lock)?;
                (lock.open, lock.owner)
            }
        };
        let open = &self.opens[&open_id];
        if open.inode != inode {
            return Err(Error::BadStateid);
        }
        if range.start >= range.end {
            return Err(Error::BadRange);
        }
        let allowed = match kind {
            LockKind::Read => open.access().contains(Share::READ),
            LockKind::Write => open.access().contains(Share::WRITE),
        };
        if !allowed {
            return Err(Error::OpenMode);
        }
        if self.pending_fence(inode) {
            return Err(Error::Delay);
        }
        let conflicts = self.all_conflicts(inode, client, &owner, kind, range);
        let holders = conflicts.iter().map(|conflict| conflict.client).collect();
        if let Some(conflict) = conflicts.into_iter().next()
            && !self.make_way(&holders, client)
        {
            return Ok(Reply::Denied(conflict));
        }
        if self.pending_fence(inode) {
            return Ok(Reply::Refused(Error::Delay));
        }
        let mine = |lock: &PlainLock| lock.client == client && lock.inode == inode && lock.owner == owner;
        let known = self.locks.iter().find(|(_, lock)| mine(lock)).map(|(id, _)| *id);
        let id = known.unwrap_or_else(|| self.new_state());
        let bytes = [None; LAST_BYTE as usize + 1];
        let lock = self.locks.entry(id).or_insert(PlainLock {
            sequence: 0,
            client,
            inode,
            owner,
            open: open_id,
            bytes,
        });
        lock.sequence += 1;
        lock.set(range, Some(kind));
        Ok(Reply::State { stateid: Some(Stateid { sequence: lock.sequence, id }) })
    }

    pub(super) fn unlock(&mut self, client: ClientId, stateid: Stateid, range: ByteRange) -> Outcome {
        self.my_lock(client, stateid)?;
        if range.start >= range.end {
            return Err(Error::BadRange);
        }
        let lock = self.locks.get_mut(&stateid.id).expect("it is mine");
        lock.sequence += 1;
        lock.set(range, None);
        Ok(Reply::State { stateid: Some(Stateid { sequence: lock.sequence, id: stateid.id }) })
    }

    pub(super) fn free_state(&mut self, client: ClientId, stateid: Stateid) -> Outcome {
        if self.opens.contains_key(&stateid.id) {
            self.my_open(client, stateid)?;
            return Err(Error::LocksHeld);
        }
        if let Some(delegation) = self.delegations.get(&stateid.id).filter(|held| held.client == client) {
            Self::current(stateid, 1)?;
            if !delegation.is_revoked() {
                return Err(Error::LocksHeld);
            }
            self.delegations.remove(&stateid.id);
            return Ok(Reply::Done);
        }
        let lock = self.my_lock(client, stateid)?;
        if !lock.ranges().is_empty() {
            return Err(Error::LocksHeld);
        }
        self.locks.remove(&stateid.id);
        Ok(Reply::Done)
    }

    // Layouts.

    pub(super) fn layout_get(
        &mut self,
        client: ClientId,
        inode: InodeId,
        stateid: Stateid,
        mode: IoMode,
        made: Option<Placed>,
        version: u64,
    ) -> Outcome {
        let node = self.node(inode)?;
        let generation = node.generation;
        let Content::File { layout, .. } = node.content else { return Err(Error::WrongType) };
        let of_this_file = if self.opens.contains_key(&stateid.id) {
            // Whose it is and of which file counts before its sequence.
            self.opens[&stateid.id].inode == inode && self.my_open(client, stateid).map(|_| true)?
        } else if self.locks.contains_key(&stateid.id) {
            self.locks[&stateid.id].inode == inode && self.my_lock(client, stateid).map(|_| true)?
        } else if let Some(delegation) = self.delegations.get(&stateid.id) {
            if delegation.client != client || delegation.inode != inode {
                return Err(Error::BadStateid);
            }
            if delegation.is_revoked() {
                return Err(Error::DelegationRevoked);
            }
            Self::current(stateid, 1).map(|()| true)?
        } else {
            self.my_layout(client, inode, stateid).is_ok()
        };
        if !of_this_file {
            return Err(Error::BadStateid);
        }
        let writes = |open: &PlainOpen| {
            open.client == client && open.inode == inode && open.access().contains(Share::WRITE)
        };
        let may_write = self.opens.values().any(writes) || self.writer(inode) == Some(client);
        if mode == IoMode::ReadWrite && !may_write {
            return Err(Error::OpenMode);
        }
        if mode == IoMode::ReadWrite && self.node(inode)?.mode & 0o6000 != 0 {
            return Err(Error::LayoutUnavailable);
        }
        if self.pending_truncation(inode) {
            return Err(Error::Delay);
        }
        self.have_objects_for_layout(inode, mode)?;
        self.migrate(inode, made)?;
        if self.place(inode) != Some(DataPlace::Striped) {
            return Err(Error::Delay);
        }
        let mine = |layout: &PlainLayout| layout.client == client && layout.inode == inode;
        let known = self.layouts.iter().find(|(_, layout)| mine(layout)).map(|(id, _)| *id);
        let id = known.unwrap_or_else(|| self.new_state());
        let state = self.layouts.entry(id).or_insert(PlainLayout {
            sequence: 0,
            client,
            inode,
            mode,
            recalled: false,
            times_set: false,
        });
        state.sequence += 1;
        state.recalled = false;
        if mode == IoMode::ReadWrite {
            state.mode = mode;
        }
        let stateid = Stateid { sequence: state.sequence, id };
        if mode == IoMode::ReadWrite {
            self.unsettled.entry(inode).or_insert((0, version)).0 = self.random;
        }
        Ok(Reply::Layout { stateid, inode, generation, layout, layout_epoch: self.inode(inode).layout_epoch })
    }

    pub(super) fn layout_commit(
        &mut self,
        client: ClientId,
        inode: InodeId,
        stateid: Stateid,
        last_write: Option<u64>,
        modified: Option<Time>,
        observed: Option<Observation>,
    ) -> Outcome {
        self.node(inode)?;
        if self.my_layout(client, inode, stateid)?.mode == IoMode::Read {
            return Err(Error::OpenMode);
        }
        if last_write.is_some_and(|last| last >= i64::MAX as u64) {
            return Err(Error::TooLarge);
        }
        let now = self.now;
        let layout = self.layouts.get_mut(&stateid.id).expect("it is mine");
        let times_set = std::mem::replace(&mut layout.times_set, false);
        let node = self.node(inode)?;
        let Content::File { size, written, space_used, .. } = &mut node.content else {
            panic!("only files have layouts")
        };
        let before = *size;
        if let Some(last) = last_write {
            *space_used += (last + 1).max(*written) - *written;
            *written = (last + 1).max(*written);
            *size = (last + 1).max(*size);
        }
        node.modified = match modified {
            Some(modified) if modified > node.modified => modified,
            None if times_set => node.modified,
            _ => now,
        };
        node.changed = now;
        node.change += 1;
        if let Some(observed) = observed.filter(|observed| observed.inode == inode && self.is_news(observed))
        {
            self.reaches(inode, observed.end);
            self.takes(inode, observed.space_used);
            self.unsettled.get_mut(&inode).expect("it has a layout").1 = observed.version;
        }
        let size = self.inode(inode).size;
        Ok(Reply::Committed { size: (size > before).then_some(size) })
    }

    /// The client loses a layout, and may still write through it.
    pub(super) fn lose_layout(&mut self, id: StateId) {
        if let Some(layout) = self.layouts.remove(&id)
            && layout.mode == IoMode::ReadWrite
        {
            self.fence(layout.inode);
        }
    }

    pub(super) fn layout_recall(&mut self, client: ClientId, inode: InodeId) -> Outcome {
        for (id, layout) in &mut self.layouts {
            if layout.client == client && layout.inode == inode {
                layout.sequence += u32::from(!std::mem::replace(&mut layout.recalled, true));
                return Ok(Reply::State { stateid: Some(Stateid { sequence: layout.sequence, id: *id }) });
            }
        }
        Ok(Reply::State { stateid: None })
    }

    pub(super) fn layout_return(&mut self, client: ClientId, scope: &ReturnScope) -> Outcome {
        match scope {
            ReturnScope::File { inode, stateid } => {
                self.my_layout(client, *inode, *stateid)?;
                self.layouts.remove(&stateid.id);
            }
            ReturnScope::All => self.layouts.retain(|_, layout| layout.client != client),
            ReturnScope::Revoke { layout } => {
                if self.layouts.get(layout).is_some_and(|held| held.client == client) {
                    self.lose_layout(*layout);
                }
            }
            ReturnScope::Unknown { layout } => {
                self.layouts.retain(|id, held| held.client != client || id != layout);
            }
        }
        self.collect();
        Ok(Reply::State { stateid: None })
    }
}
