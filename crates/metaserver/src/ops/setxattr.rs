//! SETXATTR (RFC 8276, section 8.4.2).

use namespace::{Command, Reply, XattrExists};
use wire::nfs4::Status;
use wire::nfs4::setxattr::{Args, ResOk, SetOption};

use crate::Metaserver;
use crate::attributes::xattrs;
use crate::compound::{Context, change_info};

pub(crate) async fn setxattr(
    server: &Metaserver,
    context: &mut Context,
    args: Args,
) -> Result<ResOk, Status> {
    let user = server.caller(context)?;
    let current = context.state.current()?;
    let name = xattrs::checked_name(&args.name)?;
    let exists = match args.option {
        SetOption::Either => XattrExists::Either,
        SetOption::Create => XattrExists::Create,
        SetOption::Replace => XattrExists::Replace,
    };
    let prepare = move |view: &dyn store::View| {
        let inode = server.machine.inode(view, current.inode)?;
        xattrs::check_write(&user, &inode)?;
        if args.value.len() > namespace::XATTR_VALUE_BYTES_MAX {
            return Err(Status::Xattr2Big);
        }
        Ok(Command::SetXattr { inode: inode.id, name, value: args.value.to_vec(), exists })
    };
    match server.change(context, prepare).await? {
        Reply::Changed { change } => Ok(ResOk { cinfo: change_info(change) }),
        _ => Err(Status::ServerFault),
    }
}
