//! LAYOUTGET (RFC 8881, section 18.43): the whole file, striped over its device.
//!
//! Clients address bytes at data servers by their offset in the file (sparse packing, section 13.4.4), and
//! the handle determines the offset in the object. With offsets in the object (dense packing), Linux takes
//! the end that a data server reports for an offset in the file, and an O_DIRECT read across the end of a
//! striped file returns wrong bytes.

use namespace::{
    ChainId, ClientId, Command, DataPlace, INLINE_BYTES_MAX, Inode, InodeId, IoMode, Placed, Reply, Share,
    State, read,
};
use store::View;
use wire::handle::{Holder, ObjectHandle};
use wire::nfs4::layout_files;
use wire::nfs4::layoutget::{Args, Error, Layout, ResOk};
use wire::nfs4::{LayoutIoMode, LayoutType, Stateid, Status};

use super::getdeviceinfo::{Role, WireDevice};
use crate::Metaserver;
use crate::attributes::SET_ID_BITS;
use crate::compound::{Context, client, stateid, wire_stateid};
use crate::data::hold::unheld;
use crate::data::proxy::FileData;
use crate::errors::{FileError, store_failed};

/// Bytes of a reply beside the layout's body, for `maxcount`.
const OVERHEAD_BYTES: usize = 28;

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
    // The mode is the client's intention (section 12.2.9). A client with write access gets a layout to write:
    // it needs no second layout for its first WRITE, and nfs-rs, which writes through its layout to read, can
    // commit. A set-id file is written only through the metaserver, so that the bits are cleared before the
    // first byte.
    // Near a limit of its volume or owner a file is written only through the metaserver, too, which refuses in time.
    let file = server.machine.inode(&*server.machine.view()?, inode)?;
    // In a snapshot: what is in objects is read there. Data of small files stay where they are.
    if inode.is_read_only() && (mode == IoMode::ReadWrite || file.columns().is_none()) {
        return Err(Status::LayoutUnavailable.into());
    }
    // Its first write copies the objects: not before it is known that there is one.
    let is_shared = read::shares_objects(&*server.machine.view()?, &file).map_err(store_failed)?;
    let is_for_metaserver =
        file.mode & SET_ID_BITS != 0 || server.data.is_near_limit(&*server.machine.view()?, &file)?;
    let mode = match server.admission.check_writable(context) {
        Ok(()) if is_for_metaserver && mode == IoMode::ReadWrite => {
            return Err(Status::LayoutUnavailable.into());
        }
        Ok(()) if !is_for_metaserver && !is_shared && may_write(&*server.machine.view()?, inode, client)? => {
            IoMode::ReadWrite
        }
        // The export became read-only after the OPEN: the WRITE through the metaserver returns the reason.
        Err(Status::RoFs) if mode == IoMode::ReadWrite => return Err(Status::LayoutUnavailable.into()),
        _ => mode,
    };
    // No layout names objects that are being copied. The copy may have come to nothing, too, and Linux would wait for two
    // leases: meanwhile the file is read through the metaserver.
    if mode == IoMode::Read
        && read::copy_of_objects(&*server.machine.view()?, inode).map_err(store_failed)?.is_some()
    {
        return Err(Status::LayoutUnavailable.into());
    }
    let made = make_objects_for_layouts(server, context, &args, mode).await?;
    let version = match mode {
        IoMode::Read => 0,
        IoMode::ReadWrite => {
            let file = server.machine.inode(&*server.machine.view()?, inode)?;
            server.data.version_before_grant(&file).await?
        }
    };
    let prepare = move |view: &dyn View| {
        // Checked before the grant: after an error a client believes that it has no layout.
        let file = server.machine.inode(view, inode)?;
        let layout = file.layout().ok_or(Status::LayoutUnavailable)?;
        if is_too_long(&body(server, server.data.file_data_of(&file, layout)?, mode)?, args.maxcount) {
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
    // Noted before and after: a recall that sees the grant must see the note, however long the command takes.
    server.state.granted.note(inode, client, server.machine.clock.monotonic());
    let reply = server.change(context, prepare).await?;
    server.state.granted.note(inode, client, server.machine.clock.monotonic());
    let Reply::Layout { stateid, generation, layout, layout_epoch, .. } = reply else {
        return Err(Status::ServerFault.into());
    };
    // With the epoch of the grant: if the layout was revoked since, its handles are void.
    let objects =
        read::objects(&*server.machine.view()?, &file).map_err(store_failed)?.ok_or(Status::Delay)?;
    // Objects that are a snapshot's have an epoch of their own.
    let epoch = if objects.is_own { layout_epoch } else { objects.epochs.1 };
    let data = server.data.file_data_at(objects.id, generation, (epoch, epoch), layout)?;
    let body = body(server, data, mode)?;
    if is_too_long(&body, args.maxcount) {
        // The file got more columns since the check (CLONE places a file without data): revoke the layout.
        server.state.forget_layout(client, stateid.id).await?;
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

/// Makes the missing objects of a file before a grant. Returns the placement whose objects were made here,
/// if any.
///
/// A small file has no objects that a layout could name. Linux asks for a layout in the compound of each
/// OPEN, before it knows its use, with the stateid of that OPEN as the current one. The answer is
/// LAYOUTTRYLATER, which Linux does not remember, and it asks again when the file is larger than the
/// threshold in its attributes (mdsthreshold; RFC 8881, section 5.12.4). A client that sends LAYOUTGET apart
/// from OPEN needs the layout, and gets objects; but not for reading a file smaller than the threshold, since
/// the migration of inline data is never reversed.
async fn make_objects_for_layouts(
    server: &Metaserver,
    context: &Context,
    args: &Args,
    mode: IoMode,
) -> Result<Option<Placed>, Error> {
    let inode = server.current_file(&*server.machine.view()?, context)?;
    if server.data.relocations.is_taken(inode.id) {
        return Err(Status::LayoutTryLater.into());
    }
    if inode.columns().is_some() {
        // The metaserver returns the error for lost data at once; a client would wait for the lost data
        // server.
        return match server.data.leave_lost_targets(&inode).await {
            Ok(()) if mode == IoMode::ReadWrite => own_columns(server, args, inode).await.map(|()| None),
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
        // A data server is unreachable, full or failing: the client goes through the metaserver, which
        // returns the right error.
        let made = unheld(server.data.make_objects(inode)).await;
        return made.map(Some).map_err(|_| Status::LayoutTryLater.into());
    }
    server.data.migrate_to_objects(inode.id).await?;
    Ok(None)
}

/// Gives a file that a snapshot shows objects of its own.
async fn own_columns(server: &Metaserver, args: &Args, file: Inode) -> Result<(), Error> {
    let is_shared = read::shares_objects(&*server.machine.view()?, &file).map_err(store_failed)?;
    // With its OPEN a client asks before it knows whether it will write.
    if is_shared && args.stateid == Stateid::CURRENT {
        return Err(Status::LayoutTryLater.into());
    }
    // Linux asks again for two leases after LAYOUTTRYLATER, and its program waits: not for what stays as it is.
    server.data.own_columns(file).await.map(drop).map_err(|error| match error {
        FileError::NoSpace => Status::NoSpc.into(),
        FileError::Io | FileError::ReadOnly | FileError::Quota => Status::LayoutUnavailable.into(),
        _ => Status::LayoutTryLater.into(),
    })
}

/// True if the client has the file open for writing, or a write delegation.
fn may_write(view: &dyn View, inode: InodeId, client: ClientId) -> Result<bool, Status> {
    if read::write_delegation(view, inode).map_err(store_failed)? == Some(client) {
        return Ok(true);
    }
    let opens = read::opens_of(view, inode, client).map_err(store_failed)?;
    Ok(opens.iter().any(|open| open.access.contains(Share::WRITE)))
}

/// True if the client has a layout of the file through another export. A client has one layout of a file, and
/// a recall uses one handle: through a second export the client reads and writes at the metaserver.
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

fn body(server: &Metaserver, data: FileData, mode: IoMode) -> Result<bytes::Bytes, Status> {
    let layout = data.layout;
    let holder = match mode {
        IoMode::Read => Holder::Reader,
        IoMode::ReadWrite => Holder::Writer,
    };
    let objects = data.objects();
    let inode = objects.first().map_or(InodeId::ROOT, |object| InodeId(object.file.inode));
    let role = Role::of(mode, inode, server.data.copies_of(&data.chains));
    let device = WireDevice::find(&server.cluster, &*server.machine.view()?, layout.device, role)?;
    // The list is indexed by the device's data servers, one for each chain: the client adds
    // first_stripe_index before it looks up the handle.
    let mut by_chain = vec![None; objects.len()];
    for object in objects {
        let target = role.target(&server.cluster, ChainId(object.chain)).0;
        let handle = ObjectHandle { target, ..object }.seal_for(holder, &server.machine.key);
        by_chain[layout.chain_index(object.column)] = Some(handle.into());
    }
    Ok(layout_files::to_body(&layout_files::FileLayout {
        deviceid: device.id,
        util: layout.unit.bytes(),
        first_stripe_index: layout.first,
        pattern_offset: 0,
        fh_list: by_chain.into_iter().flatten().collect(),
    }))
}
