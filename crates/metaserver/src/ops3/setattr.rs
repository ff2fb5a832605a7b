//! SETATTR (RFC 1813, section 3.3.2).

use namespace::{Command, Inode, Reply, SetAttributes, Share};
use wire::nfs3::setattr::{Args, Res, ResFail, ResOk};
use wire::nfs4::Status;

use super::wcc::Wcc;
use super::{failure, object};
use crate::attributes3::time;
use crate::recall::CUT_TRIES_MAX;
use crate::user::User;
use crate::{Metaserver, setattr as rules};

/// Changes attributes of an object.
pub(crate) async fn setattr(server: &Metaserver, user: &User, args: Args) -> Res {
    let mut wcc = Wcc::default();
    match set(server, user, args, &mut wcc).await {
        Ok(after) => Ok(ResOk { obj_wcc: wcc.left(server, &after) }),
        Err(status) => Err(failure(status, ResFail { obj_wcc: wcc.unchanged(server) })),
    }
}

async fn set(server: &Metaserver, user: &User, args: Args, wcc: &mut Wcc) -> Result<Inode, Status> {
    let inode = object(server, &args.object)?;
    wcc.before(&inode);
    let (set, to_now) = server.attributes_to_set(&args.new_attributes)?;
    let mut set = rules::check(user, &inode, set, to_now)?;
    if let Some(guard) = args.guard {
        if guard != time(inode.changed) {
            return Err(Status::Same); // NFS3ERR_NOT_SYNC
        }
        set.guard = Some(inode.changed);
    }
    if (SetAttributes { guard: None, ..set }) == SetAttributes::default() {
        return Ok(inode);
    }
    set_attributes(server, &inode, set).await
}

/// Has checked attributes set; a size with everything that it takes: nobody may go on writing through a layout of
/// what is cut, and nobody is answered before the objects are.
pub(super) async fn set_attributes(
    server: &Metaserver,
    inode: &Inode,
    set: SetAttributes,
) -> Result<Inode, Status> {
    if set.size.is_some() {
        server.check_share(&*server.view()?, inode.id, Share::WRITE).map_err(|status| match status {
            Status::Locked => Status::ShareDenied,
            other => other,
        })?;
    }
    for _ in 0..CUT_TRIES_MAX {
        match server.propose(None, Command::SetAttributes { inode: inode.id, set }).await {
            // Layouts are out.
            Err(Status::Delay) if set.size.is_some() => {
                let inode = server.inode(&*server.view()?, inode.id)?;
                server.before_cut(&inode, None).await?;
            }
            Ok(Reply::Attributes { inode, work }) => {
                server.finish_work(work).await?;
                return Ok(inode);
            }
            Ok(_) => return Err(Status::ServerFault),
            Err(status) => return Err(status),
        }
    }
    Err(Status::Delay)
}
