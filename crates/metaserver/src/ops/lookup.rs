//! LOOKUP and LOOKUPP (RFC 8881, sections 18.13 and 18.14).

use namespace::{Kind, read};
use wire::nfs4::Status;
use wire::nfs4::lookup::Args;

use crate::Metaserver;
use crate::compound::Context;
use crate::errors::store_failed;
use crate::exports::admission::Via;
use crate::names;
use crate::user::Permission;

pub(crate) fn lookup(server: &Metaserver, context: &mut Context, args: &Args) -> Result<(), Status> {
    let view = server.machine.view()?;
    let dir = server.current_dir(&*view, context)?;
    let name = names::checked(&args.objname)?;
    server.caller(context)?.check(&dir, Permission::EXECUTE)?;
    let found = read::lookup(&*view, dir.id, &name).map_err(store_failed)?.ok_or(Status::NoEnt)?;
    let inode = server.machine.inode(&*view, found)?;
    let via = context.state.current()?.via;
    context.state.set_current(&inode, via);
    Ok(())
}

pub(crate) fn lookupp(server: &Metaserver, context: &mut Context) -> Result<(), Status> {
    let view = server.machine.view()?;
    let dir = server.current_dir(&*view, context)?;
    server.caller(context)?.check(&dir, Permission::EXECUTE)?;
    let Kind::Directory(directory) = &dir.kind else { return Err(Status::NotDir) };
    let export = context.state.export()?;
    if dir.id == export {
        return Err(Status::NoEnt);
    }
    let parent = server.machine.inode(&*view, directory.parent)?;
    context.state.set_current(&parent, Via::Export(export));
    Ok(())
}
