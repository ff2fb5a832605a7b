//! MKDIR (RFC 1813, section 3.3.9).

use namespace::{CallId, NewNode};
use wire::nfs3::mkdir::{Args, Res, ResFail, ResOk};

use super::wcc::Wcc;
use super::{failure, make};
use crate::Metaserver;
use crate::user::User;

/// Creates a directory.
pub(crate) async fn mkdir(server: &Metaserver, user: &User, call: &CallId, args: Args) -> Res {
    let mut wcc = Wcc::default();
    match make::make_new(server, user, call, &args.at, NewNode::Directory, &args.attributes, &mut wcc).await {
        Ok((inode, change)) => Ok(ResOk {
            obj: make::handle(server, user, &inode),
            obj_attributes: Some(server.attributes.fattr3(&inode)),
            dir_wcc: wcc.after(server, change),
        }),
        Err(status) => Err(failure(status, ResFail { dir_wcc: wcc.unchanged(server) })),
    }
}
