//! SYMLINK (RFC 1813, section 3.3.10).

use namespace::{CallId, Change, Inode, NewNode};
use wire::nfs3::symlink::{Args, Res, ResFail, ResOk};

use super::wcc::Wcc;
use super::{failure, make};
use crate::Metaserver;
use crate::errors::FileError;
use crate::names;
use crate::user::User;

/// Creates a symbolic link.
pub(crate) async fn symlink(server: &Metaserver, user: &User, call: &CallId, args: Args) -> Res {
    let mut wcc = Wcc::default();
    match made(server, user, call, args, &mut wcc).await {
        Ok((inode, change)) => Ok(ResOk {
            obj: make::handle(server, user, &inode),
            obj_attributes: Some(server.attributes.fattr3(&inode)),
            dir_wcc: wcc.after(server, change),
        }),
        Err(status) => Err(failure(status, ResFail { dir_wcc: wcc.unchanged(server) })),
    }
}

async fn made(
    server: &Metaserver,
    user: &User,
    call: &CallId,
    args: Args,
    wcc: &mut Wcc,
) -> Result<(Inode, Change), FileError> {
    let target = names::checked_target(&args.data);
    if let Err(why) = target {
        make::refuse(server, user, &args.at, wcc, why)?;
    }
    let node = NewNode::Symlink(target?);
    make::make_new(server, user, call, &args.at, node, &args.attributes, wcc).await
}
