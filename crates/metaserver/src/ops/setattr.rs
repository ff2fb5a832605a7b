//! SETATTR (RFC 8881, section 18.30).

use namespace::{Command, Reply, SetAttributes, Share};
use wire::nfs4::setattr::{Args, Res};
use wire::nfs4::{Bitmap, Status};

use crate::Metaserver;
use crate::attributes::nfs4::{Wanted, settable_of};
use crate::attributes::setattr::check;
use crate::nfs4::{Context, Step, client};
use crate::state::recall::{Holders, TRUNCATION_TRIES_MAX};

pub(crate) async fn setattr(server: &Metaserver, context: &mut Context, args: Args) -> Res {
    let attrsset = settable_of(&args.obj_attributes);
    match set(server, context, args).await {
        Ok(()) => Res { status: Status::Ok, attrsset },
        Err(status) => Res { status, attrsset: Bitmap::EMPTY },
    }
}

async fn set(server: &Metaserver, context: &mut Context, args: Args) -> Result<(), Status> {
    let user = server.caller(context)?;
    let client = client(context)?;
    let wanted = Wanted::for_set(&args.obj_attributes, &server.attributes.idmap())?;
    let sizes = wanted.size.is_some();
    let inode = {
        let view = server.machine.view()?;
        let inode = if sizes {
            let file = server.current_file(&*view, context).map_err(|status| match status {
                Status::WrongType | Status::Symlink => Status::Inval,
                other => other,
            })?;
            server.check_io(&*view, context, args.stateid, &file, Share::WRITE)?;
            file
        } else {
            server.current(&*view, context)?
        };
        check(&user, &inode, wanted.with_mode_of(&inode).set(server.machine.now()), wanted.to_now())?;
        inode
    };
    if wanted.modified.is_some() || wanted.to_now().1 {
        // What was written before the time was set must not change it later (`cp -p`).
        let _ = server.data.true_inode(inode.clone()).await;
    }
    if sizes {
        server.data.leave_lost_targets(&inode).await?;
    }
    let now = server.machine.now();
    let prepare = |view: &dyn store::View| {
        let inode = server.machine.inode(view, inode.id)?;
        let set = check(&user, &inode, wanted.with_mode_of(&inode).set(now), wanted.to_now())?;
        Ok(Command::SetAttributes { inode: inode.id, set: SetAttributes { layout_of: Some(client), ..set } })
    };
    for step in (0..TRUNCATION_TRIES_MAX).map(Step::Truncate) {
        match server.change_step(context, step, prepare).await {
            // Whoever else holds a layout finishes what it writes before the file is truncated.
            Err(Status::Delay) if sizes && server.was_put_off(context, step)? => {
                let inode = server.machine.inode(&*server.machine.view()?, inode.id)?;
                server.data.before_truncation(&inode, Holders::AllBut(client)).await?;
            }
            Ok(Reply::Attributes { deferred, .. }) => {
                return Ok(server.data.finish_deferred(deferred).await?);
            }
            Ok(_) => return Err(Status::ServerFault),
            Err(status) => return Err(status),
        }
    }
    Err(Status::Delay)
}
