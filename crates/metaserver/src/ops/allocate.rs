//! ALLOCATE (RFC 7862, section 15.1): reserves space for a range on the data servers. The size of the file is
//! then as if zeros had been written to the range where it had no data. All of it is durable before the
//! reply.

use wire::nfs4::Status;
use wire::nfs4::allocate::Args;

use super::write::writable;
use crate::Metaserver;
use crate::compound::Context;
use crate::files::Request;
use crate::files::write::{clear_set_id, end_of, wrote};
use crate::state::write_delegations::asker;

pub(crate) async fn allocate(server: &Metaserver, context: &mut Context, args: Args) -> Result<(), Status> {
    let inode = writable(server, context, args.stateid)?;
    let inode = server.not_written_elsewhere(asker(context), inode).await?;
    if args.length == 0 {
        return Err(Status::Inval);
    }
    let end = end_of(args.offset, args.length)?;
    let inode = server.data.own_columns(inode).await?;
    let user = server.caller(context)?;
    clear_set_id(server, &mut Request::Compound(context), &user, &inode).await?;
    if Request::Compound(context).answered(server)?.is_some() {
        return Ok(());
    }
    let _room = server.data.reserve(&inode, end, args.length).await?;
    let inode = Request::Compound(context).claimed(server, inode).await?;
    server.data.allocate_data(&inode, args.offset, args.length).await?;
    wrote(server, &mut Request::Compound(context), &inode, end, args.length).await?;
    Ok(())
}
