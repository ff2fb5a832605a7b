//! CLONE (RFC 7862, section 15.13): the objects of the target share the data of the source's (reflink).
//!
//! Each column of the target must be on the same file system, of the same data server, as its source data,
//! and the file system must support reflinks. A target without data gets its columns there. Otherwise the
//! answer is NFS4ERR_NOTSUPP: a clone must be fast and take no space, and `cp --reflink=auto` then tries
//! COPY.

use wire::nfs4::Status;
use wire::nfs4::clone::Args;

use super::copy::{Unlike, copy_small, count, in_columns_like, readable_source, target};

use crate::Metaserver;
use crate::attributes::nfs4::CLONE_BLOCK_BYTES;
use crate::compound::Context;
use crate::data::copy::{At, How};
use crate::files::Request;
use crate::files::write::{clear_set_id, end_of, wrote};
use crate::state::write_delegations::asker;

pub(crate) async fn clone(server: &Metaserver, context: &mut Context, args: Args) -> Result<(), Status> {
    let source = readable_source(server, context, args.src_stateid)?;
    let source = server.not_written_elsewhere(asker(context), source).await?;
    let source = server.data.true_inode(source).await?;
    let target = target(server, context, args.dst_stateid)?;
    let target = server.not_written_elsewhere(asker(context), target).await?;
    let count = count(&source, args.src_offset, args.count)?;
    let end = end_of(args.dst_offset, count)?;
    let source_end = args.src_offset + count;
    let block = u64::from(CLONE_BLOCK_BYTES);
    let aligned = |offset: u64| offset.is_multiple_of(block);
    // The last block of the source may be partial.
    let whole = aligned(count) || source_end >= source.size;
    let overlap = source.id == target.id && args.src_offset < end && args.dst_offset < source_end;
    if !aligned(args.src_offset) || !aligned(args.dst_offset) || !whole || overlap {
        return Err(Status::Inval);
    }
    if copy_small(server, context, &source, args.src_offset, count, &target, args.dst_offset).await? {
        return Ok(()); // small files are copied: equally fast and atomic
    }
    let user = server.caller(context)?;
    clear_set_id(server, &mut Request::Compound(context), &user, &target).await?;
    let source = server.data.in_columns(source).await?;
    let target = in_columns_like(server, &source, target, Unlike::Changes).await?;
    if Request::Compound(context).answered(server)?.is_some() {
        return Ok(());
    }
    let _room = server.data.reserve(&target, end, count).await?;
    let target = Request::Compound(context).claimed(server, target).await?;
    // Of one file, with one epoch.
    let source = if source.id == target.id { target.clone() } else { source };
    let from = At { inode: &source, offset: args.src_offset };
    let to = At { inode: &target, offset: args.dst_offset };
    server.data.copy_data(from, to, count, How::Clone).await?;
    if count > 0 {
        wrote(server, &mut Request::Compound(context), &target, end, count).await?;
    }
    Ok(())
}
