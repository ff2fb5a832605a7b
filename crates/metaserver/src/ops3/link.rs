//! LINK (RFC 1813, section 3.3.15).

use namespace::{CallId, Change, Command, Inode, InodeId, Reply};
use wire::nfs3::link::{Args, Res, ResFail, ResOk};

use super::wcc::Wcc;
use super::{failure, make, object};
use crate::Metaserver;
use crate::errors::FileError;
use crate::user::{Permission, User};

/// Gives a file one more name.
pub(crate) async fn link(server: &Metaserver, user: &User, call: &CallId, args: Args) -> Res {
    let (mut wcc, mut file) = (Wcc::default(), None);
    match linked(server, user, call, args, &mut file, &mut wcc).await {
        Ok((inode, change)) => Ok(ResOk {
            file_attributes: server.attributes.told3(&inode),
            linkdir_wcc: wcc.after(server, change),
        }),
        Err(status) => {
            let file_attributes = file.and_then(|id| server.attributes.post_op_attr(id));
            Err(failure(status, ResFail { file_attributes, linkdir_wcc: wcc.unchanged(server) }))
        }
    }
}

async fn linked(
    server: &Metaserver,
    user: &User,
    call: &CallId,
    args: Args,
    file: &mut Option<InodeId>,
    wcc: &mut Wcc,
) -> Result<(Inode, Change), FileError> {
    let inode = object(server, &args.file)?;
    *file = Some(inode.id);
    let checked = make::find(server, user, &args.link, wcc).and_then(|at| {
        if at.found.is_some() {
            return Err(FileError::Exists);
        }
        user.check(&at.dir, Permission::WRITE_AND_SEARCH)?;
        Ok(Command::Link { inode: inode.id, dir: at.dir.id, name: at.name })
    });
    match server.change3(call, 0, checked).await? {
        Reply::Linked { inode, dir } => Ok((inode, dir)),
        _ => Err(FileError::Fault),
    }
}
