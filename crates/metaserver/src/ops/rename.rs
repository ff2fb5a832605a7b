//! RENAME (RFC 8881, section 18.26): from the saved directory to the current one.

use namespace::{Command, Kind, Reply, read};
use wire::nfs4::Status;
use wire::nfs4::rename::{Args, ResOk};

use crate::Metaserver;
use crate::compound::{Context, change_info};
use crate::errors::store_failed;
use crate::names;

pub(crate) async fn rename(server: &Metaserver, context: &mut Context, args: Args) -> Result<ResOk, Status> {
    let user = server.caller(context)?;
    let (from, to) = (names::checked(&args.oldname)?, names::checked(&args.newname)?);
    let source = context.state.saved_in_same_export()?;
    let target = context.state.current()?;
    let prepare = move |view: &dyn store::View| {
        let from_dir = server.machine.inode(view, source.inode)?;
        let to_dir = server.machine.inode(view, target.inode)?;
        for dir in [&from_dir, &to_dir] {
            if !matches!(dir.kind, Kind::Directory(_)) {
                return Err(Status::NotDir);
            }
            server.admission.check_inside(view, user.export, dir)?;
        }
        let moved = read::lookup(view, from_dir.id, &from).map_err(store_failed)?.ok_or(Status::NoEnt)?;
        let moved = server.machine.inode(view, moved)?;
        let replaced = read::lookup(view, to_dir.id, &to).map_err(store_failed)?;
        let replaced = replaced.map(|id| server.machine.inode(view, id)).transpose()?;
        user.check_rename((&from_dir, &moved), (&to_dir, replaced.as_ref()))?;
        Ok(Command::Rename { from_dir: from_dir.id, from, to_dir: to_dir.id, to })
    };
    match server.change(context, prepare).await? {
        Reply::Renamed { from, to, .. } => {
            Ok(ResOk { source_cinfo: change_info(from), target_cinfo: change_info(to) })
        }
        _ => Err(Status::ServerFault),
    }
}
