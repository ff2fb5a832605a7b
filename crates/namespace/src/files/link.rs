//! LINK.

use super::entry;
use crate::plan::{Plan, Stop};
use crate::states::delegation;
use crate::{Error, InodeId, LINKS_MAX, Reply};

pub(crate) fn link(plan: &mut Plan<'_>, inode: InodeId, dir: InodeId, name: &[u8]) -> Result<Reply, Stop> {
    let mut dir = plan.directory_to_change(dir)?;
    let mut inode = plan.inode(inode)?;
    if entry::find(plan, dir.id, name)?.is_some() {
        return Err(Error::Exists.into());
    }
    if inode.directory().is_some() {
        return Err(Error::IsDirectory.into());
    }
    if inode.id.volume() != dir.id.volume() {
        return Err(Error::OtherVolume.into());
    }
    if inode.links == 0 {
        return Err(Error::NoEntry.into()); // removed, and only still open: refused as in Linux
    }
    if inode.links >= LINKS_MAX {
        return Err(Error::TooManyLinks.into());
    }
    delegation::check(plan, inode.id)?;
    entry::add(plan, &mut dir, name, inode.id)?;
    let change = dir.data_changed(plan.now());
    plan.put_inode(&dir)?;
    inode.links += 1;
    inode.attributes_changed(plan.now());
    plan.put_inode(&inode)?;
    Ok(Reply::Linked { inode, dir: change })
}

#[cfg(test)]
mod tests {
    use store::{Durability, MemoryStore, Store};

    use super::*;
    use crate::{Inode, Kind, Stamp, format};

    #[test]
    fn an_inode_has_at_most_65_000_names() {
        let store = MemoryStore::new();
        let stamp = Stamp::default();
        store
            .batch(Durability::Deferred, &mut |edit| {
                format(edit, &stamp, [7; 16])?;
                let mut plan = Plan::new(&*edit, stamp);
                let root = crate::read::inode(&*edit, InodeId::ROOT)?.expect("the root");
                let file = Inode { id: InodeId(9), kind: Kind::Fifo, links: LINKS_MAX - 1, ..root };
                plan.put_inode(&file)?;
                let mut link = |name| link(&mut plan, file.id, InodeId::ROOT, name);
                assert!(matches!(
                    link(b"last"),
                    Ok(Reply::Linked { inode: Inode { links: 65_000, .. }, .. })
                ));
                assert!(matches!(link(b"more"), Err(Stop::Refused(Error::TooManyLinks))));
                Ok(())
            })
            .expect("applies");
    }
}
