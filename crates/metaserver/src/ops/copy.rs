//! COPY (RFC 7862, section 15.2) within the cluster: data is copied between data servers.
//!
//! COPY is always synchronous, so OFFLOAD_STATUS and OFFLOAD_CANCEL never find a copy. The count in a reply
//! is the number of bytes from the start of the range, without a gap: for the client they are copied in
//! order. They are durable after a COMMIT with the same verifier, like unstable writes.

use std::collections::BTreeSet;

use namespace::{ChainId, Command, DataPlace, FileLayout, INLINE_BYTES_MAX, Inode, Kind, Share};
use wire::nfs4::copy::{Args, Requirements, ResOk};
use wire::nfs4::{StableHow, Stateid, Status, WriteResponse};

use super::write::writable;
use crate::Metaserver;
use crate::compound::Context;
use crate::data::copy::{At, How};
use crate::files::Request;
use crate::files::write::{clear_set_id, end_of, write_bytes, wrote};
use crate::state::write_delegations::asker;

pub(crate) async fn copy(server: &Metaserver, context: &mut Context, args: Args) -> Result<ResOk, Status> {
    // Read before the first byte is copied: see WRITE.
    let writeverf = server.data.write_verifier.get();
    if !args.source_server.is_empty() {
        // From another server. The error is not NOTSUPP, after which Linux never tries COPY again. This error
        // makes a client read and write (section 11.1.2.3).
        return Err(Status::OffloadDenied);
    }
    let source = readable_source(server, context, args.src_stateid)?;
    let source = server.not_written_elsewhere(asker(context), source).await?;
    let source = server.data.true_inode(source).await?;
    let target = target(server, context, args.dst_stateid)?;
    let target = server.not_written_elsewhere(asker(context), target).await?;
    if source.id == target.id {
        return Err(Status::Inval);
    }
    let count = count(&source, args.src_offset, args.count)?;
    let end = end_of(args.dst_offset, count)?;
    let done = |count, committed| {
        let response = WriteResponse { callback_id: None, count, committed, writeverf };
        ResOk { response, requirements: Requirements { consecutive: true, synchronous: true } }
    };
    if copy_small(server, context, &source, args.src_offset, count, &target, args.dst_offset).await? {
        return Ok(done(count, StableHow::FileSync));
    }
    let user = server.caller(context)?;
    clear_set_id(server, &mut Request::Compound(context), &user, &target).await?;
    let source = server.data.in_columns(source).await?;
    let target = in_columns_like(server, &source, target, Unlike::Stays).await?;
    let _room = server.data.reserve(&target, end, count).await?;
    let target = Request::Compound(context).claimed(server, target).await?;
    let from = At { inode: &source, offset: args.src_offset };
    let to = At { inode: &target, offset: args.dst_offset };
    let copied = server.data.copy_data(from, to, count, How::Copy).await?;
    if copied > 0 {
        let end = args.dst_offset + copied;
        wrote(server, &mut Request::Compound(context), &target, end, copied).await?;
    }
    let committed = if copied > 0 { StableHow::Unstable } else { StableHow::FileSync };
    Ok(done(copied, committed))
}

/// Copies a small file: reads it here, and writes it to the target's data, mostly in one durable command.
/// Returns true if the source was a small file.
pub(super) async fn copy_small(
    server: &Metaserver,
    context: &mut Context,
    source: &Inode,
    from: u64,
    count: u64,
    target: &Inode,
    to: u64,
) -> Result<bool, Status> {
    if source.columns().is_some() || count > INLINE_BYTES_MAX {
        return Ok(false);
    }
    if count > 0 {
        let (data, _) = server.data.read_data(source, from, count as u32).await?;
        let (user, request) = (server.caller(context)?, &mut Request::Compound(context));
        write_bytes(server, request, &user, target.clone(), to, data, true).await?;
    }
    Ok(true)
}

/// Rule for a target whose striping would differ from its source's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unlike {
    /// The target keeps the striping of its directory.
    Stays,
    /// The target gets the source's striping: data can be shared only between equal layouts.
    Changes,
}

/// Returns the target with its data in objects. If the target has no data and no objects yet, its columns are
/// placed on the source's targets, provided these take new files (a copy moves data off a draining server).
/// Then the copy needs no network, or shares the data.
pub(super) async fn in_columns_like(
    server: &Metaserver,
    source: &Inode,
    target: Inode,
    unlike: Unlike,
) -> Result<Inode, Status> {
    if let (Some(layout), Some(planned)) = (source.columns(), target.layout())
        && target.data() == Some(DataPlace::Inline)
        && target.written == 0
        && layout != planned
        && (unlike == Unlike::Changes || (layout.unit, layout.columns) == (planned.unit, planned.columns))
        && take_new_files(server, source, layout)?
        && are_alike(server, (source, layout), (&target, planned))?
    {
        server.state.propose(None, Command::PlaceAs { inode: target.id, layout }).await?;
    }
    Ok(server.data.own_columns(target).await?)
}

/// True if the source has as many copies as are planned for the target, in the same pool.
fn are_alike(
    server: &Metaserver,
    source: (&Inode, FileLayout),
    planned: (&Inode, FileLayout),
) -> Result<bool, Status> {
    let kind = |(inode, layout): (&Inode, FileLayout)| {
        let chains = server.data.file_data_of(inode, layout)?.chains;
        Ok::<_, Status>((server.data.copies_of(&chains), server.data.pool_of(&chains)))
    };
    Ok(kind(source)? == kind(planned)?)
}

/// True if all chains of a source's columns take new files.
fn take_new_files(server: &Metaserver, source: &Inode, layout: FileLayout) -> Result<bool, Status> {
    let data = server.data.file_data_of(source, layout)?;
    let candidates = server.data.candidates_beside(&data.chains);
    let usable: BTreeSet<ChainId> =
        candidates.iter().filter(|found| found.has_room).map(|found| found.chain).collect();
    Ok(data.chains.iter().all(|chain| usable.contains(chain)))
}

/// Returns the saved file, if `stateid` permits reading it and its data are available.
pub(super) fn readable_source(
    server: &Metaserver,
    context: &Context,
    stateid: Stateid,
) -> Result<Inode, Status> {
    let view = server.machine.view()?;
    let saved = context.state.saved_in_same_export()?;
    let inode = server.machine.inode(&*view, saved.inode)?;
    if inode.generation != saved.generation {
        return Err(Status::Stale);
    }
    let Kind::File(_) = inode.kind else { return Err(Status::WrongType) };
    // "The current stateid" here means the stateid of the saved filehandle.
    let stateid =
        if stateid == Stateid::CURRENT { saved.stateid.ok_or(Status::BadStateid)? } else { stateid };
    server.check_io(&*view, context, stateid, &inode, Share::READ)?;
    server.data.check_no_truncation(&*view, &inode)?;
    Ok(inode)
}

/// Returns the current file, if `stateid` permits writing it and its data are available.
pub(super) fn target(server: &Metaserver, context: &Context, stateid: Stateid) -> Result<Inode, Status> {
    writable(server, context, stateid).map_err(|status| match status {
        Status::IsDir | Status::Symlink => Status::WrongType,
        other => other,
    })
}

/// Number of bytes of a copy: a count of 0 means all up to the end of the source. The range must not go
/// beyond that end.
pub(super) fn count(source: &Inode, offset: u64, count: u64) -> Result<u64, Status> {
    let size = source.size;
    let there = size.checked_sub(offset).ok_or(Status::Inval)?;
    match count {
        0 => Ok(there),
        count if count <= there => Ok(count),
        _ => Err(Status::Inval),
    }
}
