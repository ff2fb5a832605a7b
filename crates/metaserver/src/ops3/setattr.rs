//! SETATTR (RFC 1813, section 3.3.2).

use namespace::{CallId, Command, Inode, Reply, SetAttributes, Share};
use wire::nfs3::SetTime;
use wire::nfs3::setattr::{Args, Res, ResFail, ResOk};

use super::wcc::Wcc;
use super::{failure, object};
use crate::Metaserver;
use crate::attributes::nfs3::time;
use crate::attributes::setattr as rules;
use crate::errors::FileError;
use crate::state::recall::{Holders, TRUNCATION_TRIES_MAX};
use crate::user::User;

/// Changes attributes of an object.
pub(crate) async fn setattr(server: &Metaserver, user: &User, call: &CallId, args: Args) -> Res {
    let mut wcc = Wcc::default();
    match set(server, user, call, args, &mut wcc).await {
        Ok(after) => Ok(ResOk { obj_wcc: wcc.left(server, &after) }),
        Err(status) => Err(failure(status, ResFail { obj_wcc: wcc.unchanged(server) })),
    }
}

async fn set(
    server: &Metaserver,
    user: &User,
    call: &CallId,
    args: Args,
    wcc: &mut Wcc,
) -> Result<Inode, FileError> {
    let inode = object(server, &args.object)?;
    wcc.before(&inode);
    if inode.layout().is_some() && args.new_attributes.mtime != SetTime::DontChange {
        // What was written before the time was set must not change it later (`cp -p`).
        let _ = server.data.true_inode(inode.clone()).await;
    }
    match check(server, user, &inode, &args) {
        Ok(None) => Ok(inode),
        Ok(Some(set)) => set_attributes(server, call, 0, &inode, set).await,
        Err(status) => finish(server, server.change3(call, 0, Err(status)).await?).await,
    }
}

/// What is to be set, if anything is.
fn check(
    server: &Metaserver,
    user: &User,
    inode: &Inode,
    args: &Args,
) -> Result<Option<SetAttributes>, FileError> {
    let (set, to_now) = server.attributes.attributes_to_set(&args.new_attributes)?;
    let mut set = rules::check(user, inode, set, to_now)?;
    if let Some(guard) = args.guard {
        if guard != time(inode.changed) {
            return Err(FileError::NotSync); // NFS3ERR_NOT_SYNC
        }
        set.guard = Some(inode.changed);
    }
    Ok(Some(set).filter(|set| SetAttributes { guard: None, ..*set } != SetAttributes::default()))
}

/// Has checked attributes set, by the command `index` of the call; a size with everything that it takes:
/// nobody may go on writing through a layout of what is truncated, and nobody is answered before the objects
/// are.
pub(super) async fn set_attributes(
    server: &Metaserver,
    call: &CallId,
    index: u32,
    inode: &Inode,
    set: SetAttributes,
) -> Result<Inode, FileError> {
    if set.size.is_some() {
        server.state.check_share(&*server.machine.view()?, inode.id, Share::WRITE).map_err(|status| {
            match status {
                FileError::Locked => FileError::Locked,
                other => other,
            }
        })?;
    }
    if set.size.is_some() {
        server.data.leave_lost_targets(inode).await?;
    }
    for _ in 0..TRUNCATION_TRIES_MAX {
        let command = Command::SetAttributes { inode: inode.id, set };
        match server.change3(call, index, Ok(command)).await {
            // Layouts are out.
            Err(FileError::Delay) if set.size.is_some() => {
                let inode = server.machine.inode(&*server.machine.view()?, inode.id)?;
                server.data.before_truncation(&inode, Holders::All).await?;
            }
            outcome => return finish(server, outcome?).await,
        }
    }
    Err(FileError::Delay)
}

async fn finish(server: &Metaserver, reply: Reply) -> Result<Inode, FileError> {
    let Reply::Attributes { inode, deferred } = reply else { return Err(FileError::Fault) };
    server.data.finish_deferred(deferred).await?;
    Ok(inode)
}
