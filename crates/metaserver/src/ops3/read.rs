//! READ (RFC 1813, section 3.3.6).

use namespace::{Inode, Share};
use wire::nfs3::PostOpAttr;
use wire::nfs3::read::{Args, Res, ResFail, ResOk};
use wire::xdr::Payload;

use super::{TRANSFER_BYTES_MAX, check_data, failure};
use crate::Metaserver;
use crate::errors::FileError;
use crate::user::User;

/// Reads from a file through the metaserver.
pub(crate) async fn read(server: &Metaserver, user: &User, args: Args) -> Res {
    let mut file_attributes = None;
    match data(server, user, args, &mut file_attributes).await {
        Ok((data, eof)) => {
            Ok(ResOk { file_attributes, count: u32::try_from(data.len()).unwrap_or(u32::MAX), eof, data })
        }
        Err(status) => Err(failure(status, ResFail { file_attributes })),
    }
}

async fn data(
    server: &Metaserver,
    user: &User,
    args: Args,
    attributes: &mut PostOpAttr,
) -> Result<(Payload, bool), FileError> {
    let inode = check(server, user, &args, attributes)?;
    let inode = server.not_written_elsewhere(None, inode).await?;
    let inode =
        server.data.true_inode_beyond(inode, args.offset.saturating_add(u64::from(args.count))).await?;
    server.data.read_data(&inode, args.offset, args.count.min(TRANSFER_BYTES_MAX)).await
}

fn check(
    server: &Metaserver,
    user: &User,
    args: &Args,
    attributes: &mut PostOpAttr,
) -> Result<Inode, FileError> {
    let view = server.machine.view()?;
    let inode = server.machine.inode_of(&*view, &args.file)?;
    *attributes = server.attributes.told3(&inode);
    check_data(server, &*view, user, &inode, Share::READ)?;
    Ok(inode)
}
