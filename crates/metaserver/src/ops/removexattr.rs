//! REMOVEXATTR (RFC 8276, section 8.4.4).

use namespace::{Command, Reply};
use wire::nfs4::Status;
use wire::nfs4::removexattr::{Args, ResOk};

use crate::Metaserver;
use crate::attributes::xattrs;
use crate::compound::{Context, change_info};

pub(crate) async fn removexattr(
    server: &Metaserver,
    context: &mut Context,
    args: Args,
) -> Result<ResOk, Status> {
    let user = server.caller(context)?;
    let current = context.state.current()?;
    let name = xattrs::checked_name(&args.name)?;
    let prepare = move |view: &dyn store::View| {
        let inode = server.machine.inode(view, current.inode)?;
        xattrs::check_write(&user, &inode)?;
        Ok(Command::RemoveXattr { inode: inode.id, name })
    };
    match server.change(context, prepare).await? {
        Reply::Changed { change } => Ok(ResOk { cinfo: change_info(change) }),
        _ => Err(Status::ServerFault),
    }
}
