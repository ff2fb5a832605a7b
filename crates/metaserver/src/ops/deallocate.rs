//! DEALLOCATE (RFC 7862, section 15.4): a range becomes a hole in the objects, durably, and the data servers
//! have its room again. The size stays, also where the range goes beyond it.

use wire::nfs4::Status;
use wire::nfs4::deallocate::Args;

use super::write::{end_of, without_set_id, writable, wrote};
use crate::Metaserver;
use crate::nfs4::Context;

pub(crate) async fn deallocate(server: &Metaserver, context: &mut Context, args: Args) -> Result<(), Status> {
    let inode = writable(server, context, args.stateid)?;
    if args.length == 0 {
        return Err(Status::Inval);
    }
    end_of(args.offset, args.length)?;
    let inode = server.data.in_columns(inode).await?;
    without_set_id(server, context, &inode).await?;
    // No layout is recalled: to other clients this is a write of zeros. What they write there at the same
    // time may come before or after it, as with any two writes.
    server.data.punch_data(&inode, args.offset, args.length).await?;
    wrote(server, context, &inode, 0).await
}
