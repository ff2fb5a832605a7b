//! The model's small files.

use namespace::*;

use super::{Content, Outcome, Plain};

impl Plain {
    /// The data that a file keeps with its inode.
    pub fn inline_data(&self, inode: InodeId) -> Vec<u8> {
        match &self.nodes[&inode].content {
            Content::File { bytes, .. } => bytes.clone(),
            _ => Vec::new(),
        }
    }

    pub fn place(&self, inode: InodeId) -> Option<DataPlace> {
        match self.nodes.get(&inode).map(|node| &node.content) {
            Some(Content::File { place, .. }) => Some(*place),
            _ => None,
        }
    }

    fn need_file(&self, inode: InodeId) -> Result<DataPlace, Error> {
        match self.nodes.get(&inode).map(|node| &node.content) {
            Some(Content::File { place, .. }) => Ok(*place),
            Some(Content::Directory { .. }) => Err(Error::IsDirectory),
            Some(_) => Err(Error::WrongType),
            None => Err(Error::Stale),
        }
    }

    pub(super) fn write_inline(&mut self, inode: InodeId, offset: u64, data: &[u8]) -> Outcome {
        let place = self.need_file(inode)?;
        if offset + data.len() as u64 > 65_536 {
            return Err(Error::TooLarge);
        }
        if data.is_empty() {
            return Err(Error::Invalid);
        }
        if place != DataPlace::Inline {
            return Err(Error::Delay);
        }
        if self.is_delegated_to_another(inode, self.caller) {
            return Ok(Reply::Delegated { inode });
        }
        if let Content::File { bytes, size, written, space_used, .. } = &mut self.node(inode)?.content {
            for (at, byte) in data.iter().enumerate() {
                let at = offset as usize + at;
                while bytes.len() <= at {
                    bytes.push(0);
                }
                bytes[at] = *byte;
            }
            *space_used += bytes.len() as u64 - *written;
            *written = bytes.len() as u64;
            *size = (*size).max(*written);
        }
        self.touch(inode, true);
        Ok(Reply::Attributes { inode: self.inode(inode), deferred: None })
    }

    pub(super) fn migrate(&mut self, inode: InodeId, made: Option<Placed>) -> Outcome {
        if self.need_file(inode)? == DataPlace::Inline {
            self.name_objects(inode);
        }
        let Content::File { place, bytes, layout, epoch, .. } = &mut self.node(inode)?.content else {
            panic!("only files have data")
        };
        match place {
            DataPlace::Inline => {
                let all_there = bytes.is_empty() && made == Some(Placed { layout: *layout, epoch: *epoch });
                *place = if all_there { DataPlace::Striped } else { DataPlace::Migrating };
                if all_there {
                    self.objects_made(inode);
                }
            }
            DataPlace::Migrating => *epoch += 1,
            DataPlace::Striped => {}
        }
        Ok(Reply::Attributes { inode: self.inode(inode), deferred: None })
    }

    pub(super) fn migrated(&mut self, inode: InodeId, to: FileLayout, attempt: u32) -> Outcome {
        if self.need_file(inode)? == DataPlace::Inline {
            return Err(Error::Invalid);
        }
        if let Content::File { layout, place, bytes, epoch, space_is_told, .. } =
            &mut self.node(inode)?.content
        {
            if *place == DataPlace::Migrating && (*layout != to || *epoch != attempt) {
                return Err(Error::Delay);
            }
            let is_new = *place == DataPlace::Migrating;
            *space_is_told &= !is_new;
            (*place, *bytes) = (DataPlace::Striped, Vec::new());
            if is_new {
                self.objects_made(inode);
            }
        }
        Ok(Reply::Attributes { inode: self.inode(inode), deferred: None })
    }

    pub(super) fn place_as(&mut self, inode: InodeId, to: FileLayout) -> Outcome {
        let place = self.need_file(inode)?;
        if to.columns == 0 {
            return Err(Error::Invalid);
        }
        match &mut self.node(inode)?.content {
            Content::File { layout, bytes, epoch, .. } if place == DataPlace::Inline && bytes.is_empty() => {
                (*layout, *epoch) = (to, *epoch + 1);
            }
            _ => return Err(Error::Delay),
        }
        Ok(Reply::Attributes { inode: self.inode(inode), deferred: None })
    }

    /// Where the file's columns are.
    pub fn layout_of(&self, inode: InodeId) -> Option<FileLayout> {
        match &self.nodes.get(&inode)?.content {
            Content::File { layout, .. } => Some(*layout),
            _ => None,
        }
    }

    pub(super) fn relocate(
        &mut self,
        inode: InodeId,
        from: FileLayout,
        to: FileLayout,
        checked: FileVersion,
    ) -> Outcome {
        let place = self.need_file(inode)?;
        let busy =
            self.pending_truncation(inode) || self.layouts.values().any(|layout| layout.inode == inode);
        let version = self.version(inode);
        let closed = self.is_put_on_closed_chain(from, to) || self.is_shared(inode);
        let Content::File { layout, epoch, .. } = &mut self.node(inode)?.content else {
            panic!("only files have columns")
        };
        if *layout != to {
            if *layout != from || version != checked {
                return Err(Error::Delay);
            }
            if place == DataPlace::Striped {
                if (to.unit, to.columns) != (from.unit, from.columns) {
                    return Err(Error::Invalid);
                }
                if busy || closed {
                    return Err(Error::Delay);
                }
            }
            *epoch += 1;
            *layout = to;
            self.repeat_pending(inode);
        }
        Ok(Reply::Attributes { inode: self.inode(inode), deferred: None })
    }

    /// True if a column of a target alone gets a chain with this target that takes no columns which exist.
    fn is_put_on_closed_chain(&self, from: FileLayout, to: FileLayout) -> bool {
        let chains_of = |layout: &FileLayout| {
            self.devices.iter().find(|device| device.id == layout.device).map(|device| device.chains.clone())
        };
        let (Some(before), Some(after)) = (chains_of(&from), chains_of(&to)) else { return false };
        (0..from.columns).any(|column| {
            let [was, is] =
                [(&from, &before), (&to, &after)].map(|(layout, chains)| layout.chain(chains, column));
            let chain = is.filter(|is| was != Some(*is)).and_then(|is| self.chains.get(&is));
            chain.is_some_and(|chain| {
                was.is_some_and(|was| chain.members.iter().any(|member| member.target.0 == was.0))
                    && (chain.members.len() > 1 || chain.leaving != Some(chain.members[0].target))
            })
        })
    }
}
