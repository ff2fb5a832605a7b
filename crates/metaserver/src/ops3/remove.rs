//! REMOVE (RFC 1813, section 3.3.12).

use namespace::{CallId, Change, Command, Expect, Reply};
use wire::nfs3::DirOpArgs;
use wire::nfs3::remove::{Args, Res, ResFail, ResOk};

use super::wcc::Wcc;
use super::{entry, failure};
use crate::Metaserver;
use crate::errors::FileError;
use crate::user::User;

/// Removes a name that is not a directory.
pub(crate) async fn remove(server: &Metaserver, user: &User, call: &CallId, args: Args) -> Res {
    let mut wcc = Wcc::default();
    match remove_entry(server, user, call, &args.object, Expect::NotDirectory, &mut wcc).await {
        Ok(change) => Ok(ResOk { dir_wcc: wcc.after(server, change) }),
        Err(status) => Err(failure(status, ResFail { dir_wcc: wcc.unchanged(server) })),
    }
}

/// Removes a name; the objects of a file without another name are removed in the background.
pub(super) async fn remove_entry(
    server: &Metaserver,
    user: &User,
    call: &CallId,
    at: &DirOpArgs,
    expect: Expect,
    wcc: &mut Wcc,
) -> Result<Change, FileError> {
    let checked = entry::find(server, user, at, wcc).and_then(|at| {
        user.check_delete(&at.dir, at.there()?)?;
        Ok(Command::Remove { dir: at.dir.id, name: at.name, expect })
    });
    let Reply::Removed { dir, .. } = server.change3(call, 0, checked).await? else {
        return Err(FileError::Fault);
    };
    Ok(dir)
}
