//! The model's object epochs.

use namespace::*;

use super::{Content, Outcome, Plain};

impl Plain {
    pub fn version(&self, inode: InodeId) -> FileVersion {
        let grant = self.unsettled.get(&inode).map_or(0, |(grant, _)| *grant);
        let change = self.nodes.get(&inode).map_or(0, |node| node.change);
        FileVersion { epoch: self.epoch(inode), change, grant, data: self.place(inode) }
    }

    pub fn pending_truncation(&self, inode: InodeId) -> bool {
        let truncates = |op: &DeferredOp| op.inode == inode && matches!(op.kind, DeferredKind::Truncate(_));
        self.deferred.values().any(truncates)
    }

    /// Whether a data server of the file may not know its epoch.
    pub(super) fn pending_fence(&self, inode: InodeId) -> bool {
        self.deferred.values().any(|op| op.inode == inode && op.kind != DeferredKind::Remove)
    }

    pub(super) fn raise_epoch(&mut self, inode: InodeId, expected: u32) -> Outcome {
        self.node(inode)?;
        if self.place(inode) == Some(DataPlace::Striped) && self.epoch(inode) == expected {
            self.next_epoch(inode);
            self.repeat_pending(inode);
        }
        Ok(Reply::Attributes { inode: self.inode(inode), deferred: None })
    }

    pub(super) fn claim_write(&mut self, inode: InodeId, id: u64, of: &CompoundRequest) -> Outcome {
        let slot = self.sessions.get(&of.session).and_then(|session| session.slots.get(&of.slot));
        if slot.is_some_and(|slot| slot.0 == of.sequence && slot.1.contains_key(&of.index)) {
            return Err(Error::Misordered);
        }
        self.node(inode)?;
        if self.place(inode) == Some(DataPlace::Striped) {
            self.next_epoch(inode);
            self.repeat_pending(inode);
        }
        Ok(Reply::Claimed { id })
    }

    pub(super) fn next_epoch(&mut self, inode: InodeId) {
        if let Some(Content::File { epoch, .. }) = self.nodes.get_mut(&inode).map(|node| &mut node.content) {
            *epoch += 1;
        }
    }

    /// What is pending is done with the epoch of now.
    pub(super) fn repeat_pending(&mut self, inode: InodeId) {
        if self.pending_fence(inode) {
            self.fence_again(inode);
        }
    }

    /// A client that lost a layout to write may still write.
    pub(super) fn fence(&mut self, inode: InodeId) {
        if self.place(inode) == Some(DataPlace::Striped) {
            self.next_epoch(inode);
            if let Some(Content::File { epoch, layout_epoch, .. }) =
                self.nodes.get_mut(&inode).map(|node| &mut node.content)
            {
                *layout_epoch = *epoch;
            }
            self.fence_again(inode);
        }
    }

    fn fence_again(&mut self, inode: InodeId) {
        let mut kind = DeferredKind::Fence;
        self.deferred.retain(|_, op| {
            let pending = op.inode == inode && op.kind != DeferredKind::Remove;
            if pending {
                kind = op.kind;
            }
            !pending
        });
        let (Some(layout), generation) = (self.layout_of(inode), self.nodes[&inode].generation) else {
            panic!("only files are fenced")
        };
        self.defer(inode, generation, layout, kind);
    }
}
