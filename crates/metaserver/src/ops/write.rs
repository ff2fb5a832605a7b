//! WRITE through the metaserver (RFC 8881, section 18.32), for clients without a layout, and for small files.

use namespace::{Command, Inode, Share};
use wire::nfs4::write::{Args, ResOk};
use wire::nfs4::{StableHow, Stateid, Status};
use wire::xdr::Payload;

use crate::Metaserver;
use crate::attributes::setattr::after_write;
use crate::data::migration;
use crate::nfs4::{Context, Step};

pub(crate) async fn write(server: &Metaserver, context: &mut Context, args: Args) -> Result<ResOk, Status> {
    // Taken before the write: one that another write finds changed in between must not vouch for these bytes.
    let writeverf = server.data.write_verifier.get();
    let inode = writable(server, context, args.stateid)?;
    let count = args.data.len() as u32;
    end_of(args.offset, u64::from(count))?;
    let committed = match count {
        0 => committed(args.stable),
        _ => write_bytes(server, context, &inode, args.offset, args.data, args.stable).await?,
    };
    Ok(ResOk { count, committed, writeverf })
}

/// Size and times are durable with their command in any case.
fn committed(stable: StableHow) -> StableHow {
    match stable {
        StableHow::Unstable => StableHow::Unstable,
        StableHow::DataSync | StableHow::FileSync => StableHow::FileSync,
    }
}

/// The current file, if its data may be changed under `stateid`, and can be now.
pub(super) fn writable(server: &Metaserver, context: &Context, stateid: Stateid) -> Result<Inode, Status> {
    let view = server.machine.view()?;
    let inode = server.current_file(&*view, context)?;
    server.check_io(&*view, context, stateid, &inode, Share::WRITE)?;
    server.data.check_no_truncation(&*view, &inode)?;
    Ok(inode)
}

/// The end of a range that is written, which the longest file must hold.
pub(super) fn end_of(offset: u64, len: u64) -> Result<u64, Status> {
    offset.checked_add(len).filter(|end| *end <= i64::MAX as u64).ok_or(Status::FBig)
}

/// Writes bytes, not none, to where the file's data are. How safe they are then.
pub(super) async fn write_bytes(
    server: &Metaserver,
    context: &mut Context,
    inode: &Inode,
    offset: u64,
    data: Payload,
    stable: StableHow,
) -> Result<StableHow, Status> {
    let end = end_of(offset, data.len() as u64)?;
    without_set_id(server, context, inode).await?;
    match with_inode(server, context, inode, offset, end, &data).await {
        Ok(()) => return Ok(StableHow::FileSync),
        // Too much for that, or the file's data are not there any more.
        Err(Status::Delay) => {}
        Err(status) => return Err(status),
    }
    let inode = server.data.in_columns(inode.clone()).await?;
    let inode = server.data.write_or_relocate(inode, offset, data, stable != StableHow::Unstable).await?;
    wrote(server, context, &inode, end).await?;
    Ok(committed(stable))
}

/// A small file: one command holds the data, and they are durable with it. `Delay` when it is not, or not any
/// more.
async fn with_inode(
    server: &Metaserver,
    context: &mut Context,
    inode: &Inode,
    offset: u64,
    end: u64,
    data: &Payload,
) -> Result<(), Status> {
    let prepare = |_: &dyn store::View| match migration::fits(inode, end) {
        true => Ok(Command::WriteInline { inode: inode.id, offset, data: data.to_bytes() }),
        false => Err(Status::Delay),
    };
    server.change_step(context, Step::WriteInline, prepare).await?;
    server.metrics.file_bytes_written.inc_by(end - offset);
    Ok(())
}

/// The file's data were changed on the data servers, up to `end`: its size and times follow. The set-id bits
/// went before, see [`without_set_id`].
pub(super) async fn wrote(
    server: &Metaserver,
    context: &mut Context,
    inode: &Inode,
    end: u64,
) -> Result<(), Status> {
    let (id, truncations) = (inode.id, inode.truncations);
    server.change(context, |_| Ok(Command::Wrote { inode: id, end, truncations })).await.map(drop)
}

/// Clears the set-id bits that a write by this caller takes away. Called before the first byte is changed: a
/// crash in between must not leave a program with another user's data and its owner's rights.
pub(super) async fn without_set_id(
    server: &Metaserver,
    context: &mut Context,
    inode: &Inode,
) -> Result<(), Status> {
    let id = inode.id;
    if let Some(set) = after_write(&server.caller(context)?, inode) {
        let clear = |_: &dyn store::View| Ok(Command::SetAttributes { inode: id, set });
        server.change_step(context, Step::ClearSetId, clear).await?;
    }
    Ok(())
}
