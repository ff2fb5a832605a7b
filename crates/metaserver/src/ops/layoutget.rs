//! LAYOUTGET (RFC 8881, section 18.43): the whole file, striped over its device.
//!
//! Clients name bytes to data servers by their offset in the file (sparse packing, section 13.4.4), and the
//! handle says where in the object these are. With offsets in the object (dense), Linux takes the end that a
//! data server tells for one in the file, and an O_DIRECT read across the end of a striped file returns bytes
//! that nobody wrote.

use namespace::{
    ClientId, Command, DataPlace, FileLayout, INLINE_BYTES_MAX, InodeId, IoMode, Reply, Share, State, read,
};
use store::View;
use wire::nfs4::layout_files;
use wire::nfs4::layoutget::{Args, Error, Layout, ResOk};
use wire::nfs4::{LayoutIoMode, LayoutType, Stateid, Status};

use super::getdeviceinfo::WireDevice;
use crate::Metaserver;
use crate::compound::{Context, client, stateid, wire_stateid};
use crate::errors::{FileError, store_failed};

/// What stands around the layout's body in a reply, for `maxcount`.
const OVERHEAD_BYTES: usize = 28;
/// Set-user-id and set-group-id.
const SET_ID_BITS: u32 = 0o6000;

pub(crate) async fn layoutget(
    server: &Metaserver,
    context: &mut Context,
    args: Args,
) -> Result<ResOk, Error> {
    if args.layout_type != LayoutType::FILES {
        return Err(Status::UnknownLayoutType.into());
    }
    let mode = match args.iomode {
        LayoutIoMode::Read => IoMode::Read,
        LayoutIoMode::ReadWrite => IoMode::ReadWrite,
        LayoutIoMode::Any => return Err(Status::BadIoMode.into()),
    };
    if args.length == 0 || args.minlength > args.length {
        return Err(Status::Inval.into());
    }
    if args.length != u64::MAX && args.offset.checked_add(args.length).is_none() {
        return Err(Status::Inval.into());
    }
    let client = client(context)?;
    let inode = context.state.current()?.inode;
    let export = context.state.export()?;
    let given = stateid(&context.state.resolve(args.stateid)?)?;
    // The mode says what the client intends (section 12.2.9). Who may write gets a layout to write through:
    // it needs no second one for its first WRITE, and nfs-rs, which writes through the layout that it has
    // read with, can commit. A set-id file is written through here only, so that the bits go before the first
    // byte.
    let has_set_id = server.machine.inode(&*server.machine.view()?, inode)?.mode & SET_ID_BITS != 0;
    let mode = match server.admission.check_writable(context) {
        Ok(()) if has_set_id && mode == IoMode::ReadWrite => return Err(Status::LayoutUnavailable.into()),
        Ok(()) if !has_set_id && may_write(&*server.machine.view()?, inode, client)? => IoMode::ReadWrite,
        // What was opened for writing while that was permitted: the WRITE through here tells why not.
        Err(Status::RoFs) if mode == IoMode::ReadWrite => return Err(Status::LayoutUnavailable.into()),
        _ => mode,
    };
    let made = make_objects_for_layouts(server, context, &args, mode).await?;
    let version = match mode {
        IoMode::Read => 0,
        IoMode::ReadWrite => {
            let file = server.machine.inode(&*server.machine.view()?, inode)?;
            server.data.version_before_grant(&file).await?
        }
    };
    let prepare = move |view: &dyn View| {
        // Checked before the grant: a client that is refused believes that it has no layout.
        let file = server.machine.inode(view, inode)?;
        let layout = file.layout().ok_or(Status::LayoutUnavailable)?;
        if is_too_long(&body(server, inode, file.generation, layout, mode)?, args.maxcount) {
            return Err(Status::TooSmall);
        }
        if read::pending_truncation(view, inode).map_err(store_failed)? {
            return Err(Status::LayoutTryLater);
        }
        if has_layout_of_another_export(view, inode, client, export)? {
            return Err(Status::LayoutUnavailable);
        }
        Ok(Command::LayoutGet { client, inode, stateid: given, mode, made, version, export })
    };
    // Before and after: a recall that sees the grant has to see this too, however long the change takes.
    server.state.granted.note(inode, client, server.machine.clock.monotonic());
    let reply = server.change(context, prepare).await?;
    server.state.granted.note(inode, client, server.machine.clock.monotonic());
    let Reply::Layout { stateid, generation, layout, .. } = reply else {
        return Err(Status::ServerFault.into());
    };
    let body = body(server, inode, generation, layout, mode)?;
    if is_too_long(&body, args.maxcount) {
        // The file got more columns since the check (CLONE places a file without data): the layout goes
        // again.
        server.state.revoke(client, stateid.id).await?;
        return Err(Status::TooSmall.into());
    }
    let stateid = wire_stateid(stateid);
    context.state.set_stateid(stateid);
    let iomode = match mode {
        IoMode::Read => LayoutIoMode::Read,
        IoMode::ReadWrite => LayoutIoMode::ReadWrite,
    };
    let layout = Layout { offset: 0, length: u64::MAX, iomode, layout_type: LayoutType::FILES, body };
    Ok(ResOk { return_on_close: true, stateid, layouts: vec![layout] })
}

/// A small file has no objects that a layout could name. Returns the layout whose objects were made here, if
/// any.
///
/// Linux asks for a layout in the compound of each OPEN, before it knows what for, with the stateid of that
/// OPEN as the current one: it is told to come again, which it takes as nothing to remember, and comes when
/// the file is past the threshold that it was told with the attributes (RFC 8881, section 5.12.4). Whoever
/// asks by itself has reason to, and gets objects; but not only to read what is smaller than the threshold,
/// which would never be small again.
async fn make_objects_for_layouts(
    server: &Metaserver,
    context: &Context,
    args: &Args,
    mode: IoMode,
) -> Result<Option<FileLayout>, Error> {
    let inode = server.current_file(&*server.machine.view()?, context)?;
    if server.data.relocations.is_taken(inode.id) {
        return Err(Status::LayoutTryLater.into());
    }
    if inode.columns().is_some() {
        // Through here the client is told at once that data are lost; a data server that is gone it would
        // wait for.
        return match server.data.leave_lost_targets(&inode).await {
            Ok(()) => Ok(None),
            Err(FileError::Io) => Err(Status::LayoutUnavailable.into()),
            Err(error) => Err(error.into()),
        };
    }
    if args.stateid == Stateid::CURRENT {
        return Err(Status::LayoutTryLater.into());
    }
    if mode == IoMode::Read && inode.size <= INLINE_BYTES_MAX {
        return Err(Status::LayoutUnavailable.into());
    }
    if inode.data() == Some(DataPlace::Inline) && inode.written == 0 {
        // A data server that is away, full or failing: the client goes through here, where that is answered
        // properly.
        let made = server.data.make_objects(&inode).await;
        return made.map(Some).map_err(|_| Status::LayoutTryLater.into());
    }
    server.data.migrate_to_objects(inode.id).await?;
    Ok(None)
}

/// Whether the client has the file open for writing.
fn may_write(view: &dyn View, inode: InodeId, client: ClientId) -> Result<bool, Status> {
    for id in read::opens(view, inode).map_err(store_failed)? {
        if let Some(State::Open(open)) = read::state(view, id).map_err(store_failed)?
            && open.client == client
            && open.access.contains(Share::WRITE)
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A client has one layout of a file, which is called back by one handle: through a second export it reads
/// and writes here.
fn has_layout_of_another_export(
    view: &dyn View,
    inode: InodeId,
    client: ClientId,
    export: InodeId,
) -> Result<bool, Status> {
    let layouts = read::layouts(view, inode).map_err(store_failed)?;
    let Some((_, own, _)) = layouts.into_iter().find(|(holder, ..)| *holder == client) else {
        return Ok(false);
    };
    let state = read::state(view, own.id).map_err(store_failed)?;
    Ok(matches!(state, Some(State::Layout(layout)) if layout.export != export))
}

fn is_too_long(body: &[u8], maxcount: u32) -> bool {
    body.len() + OVERHEAD_BYTES > maxcount as usize
}

fn body(
    server: &Metaserver,
    inode: InodeId,
    generation: u32,
    layout: FileLayout,
    mode: IoMode,
) -> Result<bytes::Bytes, Status> {
    let data = server.data.file_data_of(inode, generation, layout)?;
    let by_column = server.data.object_handles_for(&data, mode);
    let device = WireDevice::find(&*server.machine.view()?, layout.device)?;
    // The list goes by the device's data servers, of which each target is one: the client adds
    // first_stripe_index before it looks the handle up.
    let mut by_target = vec![None; by_column.len()];
    for (column, (_, handle)) in by_column.into_iter().enumerate() {
        by_target[layout.target_index(column as u32)] = Some(handle.into());
    }
    Ok(layout_files::to_body(&layout_files::FileLayout {
        deviceid: device.id,
        util: layout.unit.bytes(),
        first_stripe_index: layout.first,
        pattern_offset: 0,
        fh_list: by_target.into_iter().flatten().collect(),
    }))
}
