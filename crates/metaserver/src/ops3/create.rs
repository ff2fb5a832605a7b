//! CREATE (RFC 1813, section 3.3.8).

use namespace::{CallId, Change, Exists, Inode, Reply, SetAttributes};
use wire::nfs3::SetAttr;
use wire::nfs3::create::{Args, CreateHow, Res, ResFail, ResOk};

use super::wcc::Wcc;
use super::{failure, make, setattr};
use crate::Metaserver;
use crate::attributes::setattr as rules;
use crate::errors::FileError;
use crate::files::check_regular;
use crate::user::{Permission, User};

/// Creates a regular file.
pub(crate) async fn create(server: &Metaserver, user: &User, call: &CallId, args: Args) -> Res {
    let mut wcc = Wcc::default();
    match created(server, user, call, args, &mut wcc).await {
        Ok((inode, change)) => Ok(ResOk {
            obj: make::handle(server, user, &inode),
            obj_attributes: server.attributes.told3(&inode),
            dir_wcc: change.map_or_else(|| wcc.unchanged(server), |change| wcc.after(server, change)),
        }),
        Err(status) => Err(failure(status, ResFail { dir_wcc: wcc.unchanged(server) })),
    }
}

/// Creates or opens the file. Returns it, and the change of the directory, if any.
async fn created(
    server: &Metaserver,
    user: &User,
    call: &CallId,
    args: Args,
    wcc: &mut Wcc,
) -> Result<(Inode, Option<Change>), FileError> {
    let (set, exists) = match &args.how {
        CreateHow::Unchecked(set) => (*set, Exists::Take),
        CreateHow::Guarded(set) => (*set, Exists::Refuse),
        CreateHow::Exclusive(verifier) => (SetAttr::default(), Exists::Verify(*verifier)),
    };
    let at = make::find(server, user, &args.at, wcc)?;
    let checked = match &at.found {
        // A file that this same call has made is neither opened nor truncated: the change below is a retry.
        Some(_) if server.has_changed3(call)? => Err(FileError::Exists),
        Some(there) => match take(server, user, call, there.clone(), &args.how).await {
            Ok(taken) => return Ok((taken, None)),
            Err(status) => Err(status),
        },
        None => {
            user.check(&at.dir, Permission::WRITE_AND_SEARCH)?; // before a useless placement
            let node = server.data.place(at.dir.id).await?;
            make::command(server, user, at, node, &set, exists)
        }
    };
    let Reply::Created { inode, existed, dir: change } = server.change3(call, 0, checked).await? else {
        return Err(FileError::Fault);
    };
    if existed {
        // Made by another client meanwhile: the mode of the existing file decides, not the mode of this call.
        return Ok((take(server, user, call, inode, &args.how).await?, Some(change)));
    }
    match set.size.filter(|size| *size != inode.size) {
        // The creator of a file may set its size, whatever its mode.
        Some(size) => {
            let set = SetAttributes { size: Some(size), ..SetAttributes::default() };
            Ok((setattr::set_checked(server, call, &inode, Ok(set)).await?, Some(change)))
        }
        None => Ok((inode, Some(change))),
    }
}

/// Opens the existing file, if the mode of creation permits it.
async fn take(
    server: &Metaserver,
    user: &User,
    call: &CallId,
    there: Inode,
    how: &CreateHow,
) -> Result<Inode, FileError> {
    match how {
        CreateHow::Unchecked(set) => {
            check_regular(&there).map_err(|_| FileError::Exists)?;
            // Only the size of an existing file is set.
            let Some(size) = set.size else { return Ok(there) };
            let set = SetAttributes { size: Some(size), ..SetAttributes::default() };
            let set = rules::check(user, &there, set, (false, false))?;
            setattr::set_checked(server, call, &there, Ok(set)).await
        }
        CreateHow::Exclusive(verifier) if there.verifier == Some(*verifier) => Ok(there),
        CreateHow::Guarded(_) | CreateHow::Exclusive(_) => Err(FileError::Exists),
    }
}
