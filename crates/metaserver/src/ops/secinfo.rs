//! SECINFO and SECINFO_NO_NAME (RFC 8881, sections 18.29 and 18.45).

use namespace::{InodeId, read};
use wire::nfs4::secinfo::{AUTH_NONE, AUTH_SYS, ResOk, SecInfo};
use wire::nfs4::{Status, secinfo, secinfo_no_name};

use crate::Metaserver;
use crate::compound::Context;
use crate::errors::store_failed;
use crate::exports::admission::Via;
use crate::names;
use crate::user::Permission;

fn flavors() -> ResOk {
    vec![SecInfo::Flavor(AUTH_SYS), SecInfo::Flavor(AUTH_NONE)]
}

pub(crate) fn secinfo(
    server: &Metaserver,
    context: &mut Context,
    args: &secinfo::Args,
) -> Result<ResOk, Status> {
    let view = server.machine.view()?;
    let dir = server.current_dir(&*view, context)?;
    let name = names::checked(&args.name)?;
    server.caller(context)?.check(&dir, Permission::EXECUTE)?;
    read::lookup(&*view, dir.id, &name).map_err(store_failed)?.ok_or(Status::NoEnt)?;
    Ok(used_up(context))
}

/// Returns the reply, and clears the current filehandle (RFC 8881, section 2.6.3.1.1.8).
pub(crate) fn used_up(context: &mut Context) -> ResOk {
    context.state.current = None;
    flavors()
}

pub(crate) fn secinfo_no_name(
    server: &Metaserver,
    context: &mut Context,
    args: secinfo_no_name::Args,
) -> Result<ResOk, Status> {
    let view = server.machine.view()?;
    let inode = server.current(&*view, context)?;
    if args.style == secinfo_no_name::Style::Parent {
        server.current_dir(&*view, context)?;
        if matches!(context.state.current()?.via, Via::Export(export) if export == inode.id)
            || inode.id == InodeId::ROOT
        {
            return Err(Status::NoEnt);
        }
    }
    Ok(used_up(context))
}
