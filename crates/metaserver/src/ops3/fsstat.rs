//! FSSTAT (RFC 1813, section 3.3.18).

use namespace::Inode;
use wire::nfs3::fsstat::{Args, Res, ResFail, ResOk};

use super::failure;
use crate::Metaserver;
use crate::attributes::room::Room;
use crate::errors::FileError;

/// Returns the space and the number of files, used and free.
pub(crate) fn fsstat(server: &Metaserver, args: Args) -> Res {
    let (inode, room) =
        look(server, &args).map_err(|status| failure(status, ResFail { obj_attributes: None }))?;
    Ok(ResOk {
        obj_attributes: Some(server.attributes.fattr3(&inode)),
        tbytes: room.bytes_total,
        fbytes: room.bytes_free,
        abytes: room.bytes_free,
        tfiles: room.inodes_total,
        ffiles: room.inodes_free,
        afiles: room.inodes_free,
        invarsec: 0,
    })
}

fn look(server: &Metaserver, args: &Args) -> Result<(Inode, Room), FileError> {
    let view = server.machine.view()?;
    let inode = server.machine.inode_of(&*view, &args.fsroot)?;
    let room = server.attributes.room(&*view, &inode)?;
    Ok((inode, room))
}
