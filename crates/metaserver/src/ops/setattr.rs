//! SETATTR (RFC 8881, section 18.30).

use namespace::Share;
use wire::nfs4::setattr::{Args, Res};
use wire::nfs4::{Bitmap, Status};

use crate::Metaserver;
use crate::attributes::nfs4::{Wanted, settable_of};
use crate::attributes::setattr::check;
use crate::compound::{Context, client};
use crate::files::Request;
use crate::files::set_attributes::{set_attributes, settle_before_times};

pub(crate) async fn setattr(server: &Metaserver, context: &mut Context, args: Args) -> Res {
    let attrsset = settable_of(&args.obj_attributes);
    match set(server, context, args).await {
        Ok(()) => Res { status: Status::Ok, attrsset },
        Err(status) => Res { status, attrsset: Bitmap::EMPTY },
    }
}

async fn set(server: &Metaserver, context: &mut Context, args: Args) -> Result<(), Status> {
    let user = server.caller(context)?;
    client(context)?;
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
        settle_before_times(server, &inode).await;
    }
    let now = server.machine.now();
    let checked = |view: &dyn store::View| {
        let inode = server.machine.inode(view, inode.id)?;
        check(&user, &inode, wanted.with_mode_of(&inode).set(now), wanted.to_now())
    };
    set_attributes(server, &mut Request::Compound(context), &inode, sizes, checked).await?;
    Ok(())
}
