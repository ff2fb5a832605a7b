//! READ through the metaserver (RFC 8881, section 18.22), for clients without a layout.

use namespace::Share;
use wire::nfs4::Status;
use wire::nfs4::read::{Args, ResOk};

use crate::Metaserver;
use crate::compound::Context;
use crate::state::write_delegations::asker;

/// Bytes of a reply for status, end-of-file flag and length.
const OVERHEAD_BYTES: usize = 64;

pub(crate) async fn read(server: &Metaserver, context: &Context, args: Args) -> Result<ResOk, Status> {
    let inode = {
        let view = server.machine.view()?;
        let inode = server.current_file(&*view, context)?;
        server.check_io(&*view, context, args.stateid, &inode, Share::READ)?;
        server.data.check_no_truncation(&*view, &inode)?;
        inode
    };
    let inode = server.not_written_elsewhere(asker(context), inode).await?;
    let room = context.room_bytes.saturating_sub(OVERHEAD_BYTES).min(1 << 20) as u32;
    let inode =
        server.data.true_inode_beyond(inode, args.offset.saturating_add(u64::from(args.count))).await?;
    let (data, eof) = server.data.read_data(&inode, args.offset, args.count.min(room)).await?;
    Ok(ResOk { eof, data })
}
