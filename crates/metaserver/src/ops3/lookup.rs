//! LOOKUP (RFC 1813, section 3.3.3).

use namespace::{Inode, read};
use wire::nfs3::PostOpAttr;
use wire::nfs3::lookup::{Args, Res, ResFail, ResOk};

use super::readdir::parent_in_export;
use super::{directory_in_export, entry, failure};
use crate::Metaserver;
use crate::errors::FileError;
use crate::exports::admission::Via;
use crate::state::write_delegations::is_written_elsewhere;
use crate::user::{Permission, User};

/// Finds a name in a directory.
pub(crate) async fn lookup(server: &Metaserver, user: &User, args: Args) -> Res {
    let mut dir_attributes = None;
    match find(server, user, &args, &mut dir_attributes) {
        Ok(inode) => Ok(ResOk {
            object: server.machine.handle(Via::Export(user.export), inode.id, inode.generation).into(),
            obj_attributes: told_soon(server, inode).await,
            dir_attributes,
        }),
        Err(status) => Err(failure(status, ResFail { dir_attributes })),
    }
}

/// Attributes of an inode, unless others know newer ones: without these the client sends GETATTR.
async fn told_soon(server: &Metaserver, inode: Inode) -> PostOpAttr {
    if is_written_elsewhere(&*server.machine.view().ok()?, inode.id, None).ok()? {
        return None;
    }
    server.data.true_inode_soon(inode).await.map(|inode| server.attributes.fattr3(&inode))
}

fn find(
    server: &Metaserver,
    user: &User,
    args: &Args,
    dir_attributes: &mut PostOpAttr,
) -> Result<Inode, FileError> {
    let view = server.machine.view()?;
    let dir = server.machine.inode_of(&*view, &args.what.dir)?;
    *dir_attributes = Some(server.attributes.fattr3(&dir));
    directory_in_export(server, &*view, user, &args.what.dir)?;
    let parent = parent_in_export(&dir, user.export)?;
    user.check(&dir, Permission::EXECUTE)?;
    let found = match &args.what.name[..] {
        b"." => Some(dir.id),
        b".." => Some(parent),
        name => read::lookup(&*view, dir.id, &entry::name(name)?)?,
    };
    server.machine.inode(&*view, found.ok_or(FileError::NoEntry)?)
}
