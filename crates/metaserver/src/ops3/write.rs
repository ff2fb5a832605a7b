//! WRITE (RFC 1813, section 3.3.7).

use namespace::{Inode, Share};
use wire::nfs3::StableHow;
use wire::nfs3::write::{Args, Res, ResFail, ResOk};

use super::wcc::Wcc;
use super::{TRANSFER_BYTES_MAX, check_data, failure};
use crate::Metaserver;
use crate::errors::FileError;
use crate::files::Request;
use crate::files::write::{Written, write_bytes};
use crate::user::User;

/// Writes to a file through the metaserver.
pub(crate) async fn write(server: &Metaserver, user: &User, args: Args) -> Res {
    // Read before the data are sent. If it were read after them, it could already have changed for a data
    // server that lost them in between, as noticed by another write, and COMMIT would seem to vouch for lost
    // bytes.
    let verf = server.data.write_verifier.get();
    let mut wcc = Wcc::default();
    match wrote(server, user, args, &mut wcc).await {
        Ok((after, count, committed)) => {
            Ok(ResOk { file_wcc: wcc.left(server, &after), count, committed, verf })
        }
        Err(status) => Err(failure(status, ResFail { file_wcc: wcc.unchanged(server) })),
    }
}

/// Writes the bytes. Returns the resulting inode, the number of bytes written, and their stability.
async fn wrote(
    server: &Metaserver,
    user: &User,
    args: Args,
    wcc: &mut Wcc,
) -> Result<(Inode, u32, StableHow), FileError> {
    let inode = check(server, user, &args, wcc)?;
    if args.data.len() < args.count as usize {
        return Err(FileError::Invalid);
    }
    // A count above the limit of FSINFO is cut; the client sees the count in the reply.
    let count = args.count.min(TRANSFER_BYTES_MAX);
    let durable = args.stable != StableHow::Unstable;
    let written = match count {
        0 => Written { inode, is_durable: durable },
        _ => {
            let data = args.data.slice(0, count as usize);
            write_bytes(server, &mut Request::Write, user, inode, args.offset, data, durable).await?
        }
    };
    // Size and times are always durable with their command.
    let committed = if written.is_durable { StableHow::FileSync } else { StableHow::Unstable };
    Ok((written.inode, count, committed))
}

fn check(server: &Metaserver, user: &User, args: &Args, wcc: &mut Wcc) -> Result<Inode, FileError> {
    let view = server.machine.view()?;
    let inode = server.machine.inode_of(&*view, &args.file)?;
    wcc.before(&inode);
    check_data(server, &*view, user, &inode, Share::WRITE)?;
    Ok(inode)
}
