//! The model's extended attributes.

use namespace::*;

use super::{Outcome, Plain};

impl Plain {
    fn can_have_xattrs(&mut self, id: InodeId) -> Result<(), Error> {
        self.node(id)?;
        if self.is_file(id) || self.is_directory(id) { Ok(()) } else { Err(Error::WrongType) }
    }

    pub(super) fn set_xattr(
        &mut self,
        inode: InodeId,
        name: Vec<u8>,
        value: Vec<u8>,
        exists: XattrExists,
    ) -> Outcome {
        self.can_have_xattrs(inode)?;
        if name.is_empty() || name.len() > 255 {
            return Err(Error::Invalid);
        }
        if value.len() > 65_536 {
            return Err(Error::XattrTooBig);
        }
        let known = self.node(inode)?.xattrs.get(&name).map(|(cookie, _)| *cookie);
        match exists {
            XattrExists::Create if known.is_some() => return Err(Error::Exists),
            XattrExists::Replace if known.is_none() => return Err(Error::NoXattr),
            _ => {}
        }
        let change = self.touch(inode, false);
        let node = self.node(inode)?;
        node.xattrs.insert(name, (known.unwrap_or(change.after), value));
        let bytes: usize = node.xattrs.iter().map(|(name, (_, value))| name.len() + value.len()).sum();
        if node.xattrs.len() > 250 || bytes > 262_144 {
            return Err(Error::NoXattrRoom);
        }
        if self.is_delegated_to_another(inode, self.caller) {
            return Ok(Reply::Delegated { inode });
        }
        Ok(Reply::Changed { change })
    }

    pub(super) fn remove_xattr(&mut self, inode: InodeId, name: &[u8]) -> Outcome {
        self.can_have_xattrs(inode)?;
        self.node(inode)?.xattrs.remove(name).ok_or(Error::NoXattr)?;
        if self.is_delegated_to_another(inode, self.caller) {
            return Ok(Reply::Delegated { inode });
        }
        Ok(Reply::Changed { change: self.touch(inode, false) })
    }
}
