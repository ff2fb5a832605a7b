//! REMOVE (RFC 8881, section 18.25). An open file continues to exist without a name until its last close.

use namespace::{Command, Expect, Reply, read};
use wire::nfs4::Status;
use wire::nfs4::remove::{Args, ResOk};

use crate::Metaserver;
use crate::compound::{Context, change_info};
use crate::errors::store_failed;
use crate::names;

pub(crate) async fn remove(server: &Metaserver, context: &mut Context, args: Args) -> Result<ResOk, Status> {
    let user = server.caller(context)?;
    let name = names::checked(&args.target)?;
    let current = context.state.current()?;
    let prepare = move |view: &dyn store::View| {
        let dir = server.machine.inode(view, current.inode)?;
        if !matches!(dir.kind, namespace::Kind::Directory(_)) {
            return Err(Status::NotDir);
        }
        let victim = read::lookup(view, dir.id, &name).map_err(store_failed)?.ok_or(Status::NoEnt)?;
        user.check_delete(&dir, &server.machine.inode(view, victim)?)?;
        Ok(Command::Remove { dir: dir.id, name, expect: Expect::Anything })
    };
    match server.change(context, prepare).await? {
        Reply::Removed { dir, .. } => Ok(ResOk { cinfo: change_info(dir) }),
        _ => Err(Status::ServerFault),
    }
}
