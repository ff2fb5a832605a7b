//! GETXATTR (RFC 8276, section 8.4.1).

use namespace::read;
use wire::nfs4::Status;
use wire::nfs4::getxattr::{Args, ResOk};

use crate::Metaserver;
use crate::attributes::xattrs;
use crate::compound::Context;
use crate::errors::store_failed;

pub(crate) fn getxattr(server: &Metaserver, context: &Context, args: &Args) -> Result<ResOk, Status> {
    let view = server.machine.view()?;
    let inode = server.current(&*view, context)?;
    let name = xattrs::checked_name(&args.name)?;
    xattrs::check_read(&server.caller(context)?, &inode)?;
    let value = read::xattr(&*view, inode.id, &name).map_err(store_failed)?.ok_or(Status::NoXattr)?;
    Ok(ResOk { value: value.into() })
}
