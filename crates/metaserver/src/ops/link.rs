//! LINK (RFC 8881, section 18.9): makes a name in the current directory for the saved filehandle.

use namespace::{Command, Kind, Reply};
use wire::nfs4::Status;
use wire::nfs4::link::{Args, ResOk};

use crate::Metaserver;
use crate::compound::{Context, change_info};
use crate::names;
use crate::user::Permission;

pub(crate) async fn link(server: &Metaserver, context: &mut Context, args: Args) -> Result<ResOk, Status> {
    let user = server.caller(context)?;
    let name = names::checked(&args.newname)?;
    let source = context.state.saved_in_same_export()?;
    let target = context.state.current()?;
    let prepare = move |view: &dyn store::View| {
        let inode = server.machine.inode(view, source.inode)?;
        if matches!(inode.kind, Kind::Directory(_)) {
            return Err(Status::IsDir);
        }
        let dir = server.machine.inode(view, target.inode)?;
        if !matches!(dir.kind, Kind::Directory(_)) {
            return Err(Status::NotDir);
        }
        user.check(&dir, Permission::WRITE_AND_SEARCH)?;
        Ok(Command::Link { inode: source.inode, dir: target.inode, name })
    };
    match server.change(context, prepare).await? {
        Reply::Linked { dir, .. } => Ok(ResOk { cinfo: change_info(dir) }),
        _ => Err(Status::ServerFault),
    }
}
