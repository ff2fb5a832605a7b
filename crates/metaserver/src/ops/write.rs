//! WRITE through the metaserver (RFC 8881, section 18.32), for clients without a layout.

use namespace::{Command, Inode, Share, read};
use wire::nfs4::write::{Args, ResOk};
use wire::nfs4::{StableHow, Stateid, Status};

use crate::Metaserver;
use crate::errors::store_failed;
use crate::nfs4::Context;
use crate::setattr::after_write;

pub(crate) async fn write(server: &Metaserver, context: &mut Context, args: Args) -> Result<ResOk, Status> {
    // Taken before the write: one that another write finds changed in between must not vouch for these bytes.
    let writeverf = server.write_verifier.get();
    let inode = writable(server, context, args.stateid)?;
    let count = args.data.len() as u32;
    let end = end_of(args.offset, u64::from(count))?;
    if count > 0 {
        let stable = args.stable != StableHow::Unstable;
        server.write_data(&inode, args.offset, args.data, stable).await?;
        wrote(server, context, &inode, end).await?;
    }
    let committed = match args.stable {
        StableHow::Unstable => StableHow::Unstable,
        StableHow::DataSync | StableHow::FileSync => StableHow::FileSync,
    };
    Ok(ResOk { count, committed, writeverf })
}

/// The current file, if its data may be changed under `stateid`, and can be now.
pub(super) fn writable(server: &Metaserver, context: &Context, stateid: Stateid) -> Result<Inode, Status> {
    let view = server.view()?;
    let inode = server.current_file(&*view, context)?;
    server.check_io(&*view, context, stateid, &inode, Share::WRITE)?;
    if read::pending_cut(&*view, inode.id).map_err(store_failed)? {
        return Err(Status::Delay);
    }
    Ok(inode)
}

/// The end of a range that is written, which the longest file must hold.
pub(super) fn end_of(offset: u64, len: u64) -> Result<u64, Status> {
    offset.checked_add(len).filter(|end| *end <= i64::MAX as u64).ok_or(Status::FBig)
}

/// The file's data were changed on the data servers, up to `end`: its size, times and set-id bits follow.
pub(super) async fn wrote(
    server: &Metaserver,
    context: &mut Context,
    inode: &Inode,
    end: u64,
) -> Result<(), Status> {
    let (id, cuts) = (inode.id, inode.cuts);
    server.change(context, |_| Ok(Command::Wrote { inode: id, end, cuts })).await?;
    if let Some(set) = after_write(&server.caller(context)?, inode) {
        server.change(context, |_| Ok(Command::SetAttributes { inode: id, set })).await?;
    } else {
        // A repetition may find the bits gone already: the commands after this one keep their places.
        context.state.skip_command();
    }
    Ok(())
}
