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
        let Some(Content::File { size, written, .. }) =
            self.nodes.get_mut(&inode).map(|node| &mut node.content)
        else {
            return;
        };
        let end = end.min(i64::MAX as u64);
        *size = end.max(*size);
        *written = end.max(*written);
    }

    pub(super) fn observe(&mut self, files: &[Observation]) -> Outcome {
        for observed in files {
            if self.is_news(observed) {
                self.reaches(observed.inode, observed.end);
                let now = self.now;
                let node = self.node(observed.inode)?;
                node.modified = observed.modified.min(now).max(node.modified);
                node.changed = now;
                node.change += 1;
                node.mode &= 0o1777;
                self.unsettled.get_mut(&observed.inode).expect("is news").1 = observed.version;
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
