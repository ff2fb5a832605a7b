//! SEEK (RFC 7862, section 15.11): each data server searches its objects for data or holes, and the lowest
//! offset is the result.

use namespace::Share;
use wire::data::seek::What;
use wire::nfs4::Status;
use wire::nfs4::seek::{Args, DATA, HOLE, ResOk};

use crate::Metaserver;
use crate::compound::Context;
use crate::state::write_delegations::asker;

pub(crate) async fn seek(server: &Metaserver, context: &Context, args: Args) -> Result<ResOk, Status> {
    let inode = {
        let view = server.machine.view()?;
        let inode = server.current_file(&*view, context)?;
        server.check_io(&*view, context, args.stateid, &inode, Share::READ)?;
        server.data.check_no_truncation(&*view, &inode)?;
        inode
    };
    let inode = server.not_written_elsewhere(asker(context), inode).await?;
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
    // Without more data, or at the hole at the end of the file: eof, with the file's size as offset.
    let offset = found.map_or(size, |found| found.clamp(args.offset, size));
    Ok(ResOk { eof: offset == size, offset })
}
