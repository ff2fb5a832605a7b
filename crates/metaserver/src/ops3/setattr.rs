//! SETATTR (RFC 1813, section 3.3.2).

use namespace::{CallId, Inode, SetAttributes, Share};
use store::View;
use wire::nfs3::SetTime;
use wire::nfs3::setattr::{Args, Res, ResFail, ResOk};

use super::wcc::Wcc;
use super::{failure, object};
use crate::Metaserver;
use crate::attributes::nfs3::time;
use crate::attributes::setattr as rules;
use crate::errors::FileError;
use crate::files::Request;
use crate::files::set_attributes::{set_attributes, settle_before_times};
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
    if args.new_attributes.mtime != SetTime::DontChange {
        settle_before_times(server, &inode).await;
    }
    let checked = match check(server, user, &inode, &args) {
        Ok(None) => return Ok(inode),
        Ok(Some(set)) => Ok(set),
        Err(error) => Err(error),
    };
    set_checked(server, call, &inode, checked).await
}

/// Returns the attributes to set, if any.
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

/// Sets checked attributes, as a step of a call that may be a retry.
pub(super) async fn set_checked(
    server: &Metaserver,
    call: &CallId,
    inode: &Inode,
    checked: Result<SetAttributes, FileError>,
) -> Result<Inode, FileError> {
    let sizes = checked.is_ok_and(|set| set.size.is_some());
    let check = |view: &dyn View| {
        if sizes {
            server.state.check_share(view, inode.id, Share::WRITE)?;
        }
        checked
    };
    set_attributes(server, &mut Request::Call(call), inode, sizes, check).await
}
