//! IO_ADVISE (RFC 7862, section 15.5): checked, and answered with an empty list of followed hints. The
//! kernels of the data servers detect access patterns themselves.

use namespace::Share;
use wire::nfs4::io_advise::{Args, ResOk};
use wire::nfs4::{Bitmap, Status};

use crate::Metaserver;
use crate::compound::Context;

pub(crate) fn io_advise(server: &Metaserver, context: &Context, args: Args) -> Result<ResOk, Status> {
    let view = server.machine.view()?;
    let inode = server.current_file(&*view, context)?;
    server.check_io(&*view, context, args.stateid, &inode, Share::READ)?;
    if args.offset.checked_add(args.count).is_none() {
        return Err(Status::Inval);
    }
    Ok(ResOk { hints: Bitmap::EMPTY })
}
