//! The model's unsettled files.

use namespace::*;

use super::{Content, Outcome, Plain};

impl Plain {
    /// Unsettled files that no client has a layout to write of.
    pub fn to_settle(&self) -> Vec<InodeId> {
        let is_written = |inode: &InodeId| {
            self.layouts.values().any(|layout| layout.inode == *inode && layout.mode == IoMode::ReadWrite)
        };
        self.unsettled.keys().filter(|inode| !is_written(inode)).copied().collect()
    }

    /// Whether a file is as it was when it was looked at, but for what its objects say.
    fn is_current(&self, observed: &Observation) -> bool {
        match self.nodes.get(&observed.inode).map(|node| &node.content) {
            Some(Content::File { epoch, .. }) => *epoch == observed.epoch,
            _ => false,
        }
    }

    pub(super) fn is_news(&self, observed: &Observation) -> bool {
        let known = self.unsettled.get(&observed.inode);
        self.is_current(observed) && known.is_some_and(|(_, version)| *version != observed.version)
    }

    pub(super) fn reaches(&mut self, inode: InodeId, end: u64) {
        let Some(Content::File { size, written, space_used, .. }) =
            self.nodes.get_mut(&inode).map(|node| &mut node.content)
        else {
            return;
        };
        let end = end.min(i64::MAX as u64);
        *size = end.max(*size);
        *space_used = space_used.saturating_add(end.max(*written) - *written);
        *written = end.max(*written);
    }

    /// The objects take this space; none: unknown.
    pub(super) fn takes(&mut self, inode: InodeId, bytes: Option<u64>) {
        let node = self.nodes.get_mut(&inode).expect("is");
        if let (Content::File { space_used, .. }, Some(bytes)) = (&mut node.content, bytes) {
            *space_used = bytes;
        } else {
            self.space_changed(inode);
        }
    }

    /// The objects may take other space now.
    pub(super) fn space_changed(&mut self, inode: InodeId) {
        let node = self.nodes.get_mut(&inode).expect("is");
        if let Content::File { place: DataPlace::Striped, space_is_told, .. } = &mut node.content {
            *space_is_told = false;
        }
    }

    pub(super) fn space_told(&mut self, files: &[SpaceUsed]) -> Outcome {
        for told in files {
            let Some(node) = self.nodes.get_mut(&told.inode) else { continue };
            let change = node.change;
            if let Content::File { epoch, space_used, space_is_told: is_told @ false, .. } = &mut node.content
                && (*epoch, change) == (told.epoch, told.change)
            {
                (*space_used, *is_told) = (told.bytes, true);
            }
        }
        Ok(Reply::Done)
    }

    pub(super) fn observe(&mut self, files: &[Observation]) -> Outcome {
        for observed in files {
            if self.is_news(observed) {
                self.reaches(observed.inode, observed.end);
                self.takes(observed.inode, observed.space_used);
                let now = self.now;
                let node = self.node(observed.inode)?;
                node.modified = observed.modified.min(now).max(node.modified);
                node.changed = now;
                node.change += 1;
                node.mode &= 0o1777;
                self.unsettled.get_mut(&observed.inode).expect("is news").1 = observed.version;
            }
            if let Some(bytes) = observed.space_used.filter(|_| self.is_current(observed))
                && self.unsettled.contains_key(&observed.inode)
            {
                self.takes(observed.inode, Some(bytes));
            }
            let unchanged = self.is_current(observed)
                && self.unsettled.get(&observed.inode).is_some_and(|(grant, _)| *grant == observed.grant);
            if observed.durable && unchanged && self.to_settle().contains(&observed.inode) {
                self.unsettled.remove(&observed.inode);
            }
        }
        Ok(Reply::Done)
    }
}
