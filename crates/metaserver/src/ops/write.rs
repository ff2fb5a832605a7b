//! WRITE through the metaserver (RFC 8881, section 18.32), for clients without a layout, and for small files.

use namespace::{Inode, Share};
use wire::nfs4::write::{Args, ResOk};
use wire::nfs4::{StableHow, Stateid, Status};

use crate::Metaserver;
use crate::compound::Context;
use crate::files::Request;
use crate::files::write::{end_of, write_bytes};

pub(crate) async fn write(server: &Metaserver, context: &mut Context, args: Args) -> Result<ResOk, Status> {
    // Read before the write: a verifier that changes in between must not vouch for these bytes.
    let writeverf = server.data.write_verifier.get();
    let inode = writable(server, context, args.stateid)?;
    let count = args.data.len() as u32;
    end_of(args.offset, u64::from(count))?;
    let durable = args.stable != StableHow::Unstable;
    let is_durable = match count {
        0 => durable,
        _ => {
            let (user, request) = (server.caller(context)?, &mut Request::Compound(context));
            write_bytes(server, request, &user, inode, args.offset, args.data, durable).await?.is_durable
        }
    };
    // Size and times are always durable with their command.
    let committed = if is_durable { StableHow::FileSync } else { StableHow::Unstable };
    Ok(ResOk { count, committed, writeverf })
}

/// Returns the current file, if `stateid` permits changing its data and they are available.
pub(super) fn writable(server: &Metaserver, context: &Context, stateid: Stateid) -> Result<Inode, Status> {
    let view = server.machine.view()?;
    let inode = server.current_file(&*view, context)?;
    server.check_io(&*view, context, stateid, &inode, Share::WRITE)?;
    server.data.check_no_truncation(&*view, &inode)?;
    Ok(inode)
}
