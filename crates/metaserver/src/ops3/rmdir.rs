//! RMDIR (RFC 1813, section 3.3.13).

use namespace::{CallId, Expect};
use wire::nfs3::rmdir::{Args, Res, ResFail, ResOk};

use super::failure;
use super::remove::remove_entry;
use super::wcc::Wcc;
use crate::Metaserver;
use crate::user::User;

/// Removes an empty directory.
pub(crate) async fn rmdir(server: &Metaserver, user: &User, call: &CallId, args: Args) -> Res {
    let mut wcc = Wcc::default();
    match remove_entry(server, user, call, &args.object, Expect::Directory, &mut wcc).await {
        Ok(change) => Ok(ResOk { dir_wcc: wcc.after(server, change) }),
        Err(status) => Err(failure(status, ResFail { dir_wcc: wcc.unchanged(server) })),
    }
}
