//! PUTFH, PUTROOTFH, PUTPUBFH, GETFH, SAVEFH, RESTOREFH (RFC 8881, sections 18.8, 18.19 to 18.21, 18.27,
//! 18.28).

use namespace::InodeId;
use wire::nfs4::{FileHandle, Status, getfh, putfh};

use crate::Metaserver;
use crate::compound::Context;
use crate::errors::FileError;
use crate::exports::admission::Via;

pub(crate) fn putfh(server: &Metaserver, context: &mut Context, args: &putfh::Args) -> Result<(), Status> {
    let view = server.machine.view()?;
    let (inode, via) = server.machine.inode_and_via(&*view, &args.object.0)?;
    context.state.set_current(&inode, via);
    Ok(())
}

/// PUTROOTFH: the root of the volume for a client that it is exported to; for clients of exported directories
/// the root of the pseudo file system (RFC 8881, section 7.3).
pub(crate) fn putrootfh(server: &Metaserver, context: &mut Context) -> Result<(), Status> {
    let view = server.machine.view()?;
    let root = server.machine.inode(&*view, InodeId::ROOT)?;
    let of_volume = server.admission.rules(&context.connection, InodeId::ROOT);
    // For a client without any export the next operation fails.
    let via = if of_volume == Err(FileError::Stale) { Via::Pseudo } else { Via::Export(InodeId::ROOT) };
    context.state.set_current(&root, via);
    Ok(())
}

pub(crate) fn getfh(server: &Metaserver, context: &Context) -> Result<getfh::ResOk, Status> {
    let current = context.state.current()?;
    Ok(getfh::ResOk {
        object: FileHandle::from(server.machine.handle(current.via, current.inode, current.generation)),
    })
}

pub(crate) fn savefh(context: &mut Context) -> Result<(), Status> {
    context.state.saved = Some(context.state.current()?);
    Ok(())
}

pub(crate) fn restorefh(context: &mut Context) -> Result<(), Status> {
    context.state.current = Some(context.state.saved.ok_or(Status::NoFileHandle)?);
    Ok(())
}
