//! GETATTR (RFC 1813, section 3.3.1).

use namespace::Inode;
use wire::nfs3::getattr::{Args, Res, ResFail, ResOk};

use super::{failure, object};
use crate::Metaserver;
use crate::errors::FileError;

/// Returns the attributes of an inode; needs no permission beside the handle.
pub(crate) async fn getattr(server: &Metaserver, args: Args) -> Res {
    match found(server, args).await {
        Ok(inode) => Ok(ResOk { obj_attributes: server.attributes.fattr3(&inode) }),
        Err(status) => Err(failure(status, ResFail {})),
    }
}

async fn found(server: &Metaserver, args: Args) -> Result<Inode, FileError> {
    let inode = object(server, &args.object)?;
    let inode = server.not_written_elsewhere(None, inode).await?;
    server.data.true_inode(inode).await
}
