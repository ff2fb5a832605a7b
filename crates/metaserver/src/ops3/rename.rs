//! RENAME (RFC 1813, section 3.3.14).

use namespace::{CallId, Change, Command, Reply};
use wire::nfs3::rename::{Args, Res, ResFail, ResOk};

use super::entry;
use super::failure;
use super::wcc::Wcc;
use crate::Metaserver;
use crate::errors::FileError;
use crate::user::User;

/// Renames an object.
pub(crate) async fn rename(server: &Metaserver, user: &User, call: &CallId, args: Args) -> Res {
    let (mut from, mut to) = (Wcc::default(), Wcc::default());
    match renamed(server, user, call, &args, &mut from, &mut to).await {
        Ok((from_change, to_change)) => {
            Ok(ResOk { fromdir_wcc: from.after(server, from_change), todir_wcc: to.after(server, to_change) })
        }
        Err(status) => {
            let (fromdir_wcc, todir_wcc) = (from.unchanged(server), to.unchanged(server));
            Err(failure(status, ResFail { fromdir_wcc, todir_wcc }))
        }
    }
}

async fn renamed(
    server: &Metaserver,
    user: &User,
    call: &CallId,
    args: &Args,
    from_wcc: &mut Wcc,
    to_wcc: &mut Wcc,
) -> Result<(Change, Change), FileError> {
    let from = entry::find(server, user, &args.from, from_wcc);
    let to = entry::find(server, user, &args.to, to_wcc);
    let checked = from.and_then(|from| {
        let to = to?;
        user.check_rename((&from.dir, from.there()?), (&to.dir, to.found.as_ref()))?;
        Ok(Command::Rename { from_dir: from.dir.id, from: from.name, to_dir: to.dir.id, to: to.name })
    });
    let Reply::Renamed { from, to, .. } = server.change3(call, 0, checked).await? else {
        return Err(FileError::Fault);
    };
    Ok((from, to))
}
