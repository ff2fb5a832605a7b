//! SEEK (RFC 7862, section 15.11): the data servers look for data and holes in what they have; the first one
//! is it.

use namespace::Share;
use wire::data::seek::What;
use wire::nfs4::Status;
use wire::nfs4::seek::{Args, DATA, HOLE, ResOk};

use crate::Metaserver;
use crate::compound::Context;

pub(crate) async fn seek(server: &Metaserver, context: &Context, args: Args) -> Result<ResOk, Status> {
    let inode = {
        let view = server.machine.view()?;
        let inode = server.current_file(&*view, context)?;
        server.check_io(&*view, context, args.stateid, &inode, Share::READ)?;
        server.data.check_no_truncation(&*view, &inode)?;
        inode
    };
    let what = match args.what {
        DATA => What::Data,
        HOLE => What::Hole,
        _ => return Err(Status::UnionNotSupp),
    };
    let inode = server.data.true_inode(inode).await?;
    let size = inode.size;
    if args.offset >= size {
        return Err(Status::NxIo);
    }
    let found = server.data.seek_data(&inode, args.offset, what).await?;
    // No more data, or the hole that every file ends in: eof, and where that is.
    let offset = found.map_or(size, |found| found.clamp(args.offset, size));
    Ok(ResOk { eof: offset == size, offset })
}
