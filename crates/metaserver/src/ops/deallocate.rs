//! DEALLOCATE (RFC 7862, section 15.4): punches a hole into the objects, durably, which frees space on the
//! data servers. The size does not change, even if the range goes beyond it.

use wire::nfs4::Status;
use wire::nfs4::deallocate::Args;

use super::write::writable;
use crate::Metaserver;
use crate::compound::Context;
use crate::files::Request;
use crate::files::write::{clear_set_id, end_of, wrote};
use crate::state::write_delegations::asker;

pub(crate) async fn deallocate(server: &Metaserver, context: &mut Context, args: Args) -> Result<(), Status> {
    let inode = writable(server, context, args.stateid)?;
    let inode = server.not_written_elsewhere(asker(context), inode).await?;
    if args.length == 0 {
        return Err(Status::Inval);
    }
    end_of(args.offset, args.length)?;
    let inode = server.data.own_columns(inode).await?;
    let user = server.caller(context)?;
    clear_set_id(server, &mut Request::Compound(context), &user, &inode).await?;
    if Request::Compound(context).answered(server)?.is_some() {
        return Ok(());
    }
    let inode = Request::Compound(context).claimed(server, inode).await?;
    // No layout recall: for other clients this is a write of zeros. Their concurrent writes may come before
    // or after it, as with any two writes.
    server.data.punch_data(&inode, args.offset, args.length).await?;
    wrote(server, &mut Request::Compound(context), &inode, 0, 0).await?;
    Ok(())
}
