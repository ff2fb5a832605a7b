//! FSSTAT (RFC 1813, section 3.3.18).

use namespace::{Inode, read};
use wire::nfs3::fsstat::{Args, Res, ResFail, ResOk};

use super::failure;
use crate::Metaserver;
use crate::attributes::nfs4::INODES_MAX;
use crate::errors::FileError;

/// Returns the space and the number of files, used and free.
pub(crate) fn fsstat(server: &Metaserver, args: Args) -> Res {
    let (inode, files) =
        look(server, &args).map_err(|status| failure(status, ResFail { obj_attributes: None }))?;
    let (total, free) = server.cluster.data_servers.space();
    let free_files = INODES_MAX.saturating_sub(files);
    Ok(ResOk {
        obj_attributes: Some(server.attributes.fattr3(&inode)),
        tbytes: total,
        fbytes: free,
        abytes: free,
        tfiles: INODES_MAX,
        ffiles: free_files,
        afiles: free_files,
        invarsec: 0,
    })
}

fn look(server: &Metaserver, args: &Args) -> Result<(Inode, u64), FileError> {
    let view = server.machine.view()?;
    let inode = server.machine.inode_of(&*view, &args.fsroot)?;
    Ok((inode, read::counts(&*view)?))
}
