//! READ_PLUS (RFC 7862, section 15.10) through the metaserver: READ with holes reported apart.

use namespace::Share;
use wire::data::Run;
use wire::nfs4::Status;
use wire::nfs4::read_plus::{Args, Content, Data, Hole, ResOk};

use crate::Metaserver;
use crate::compound::Context;
use crate::data::ranges::RUNS_MAX;
use crate::state::write_delegations::asker;

/// Bytes of a reply for status, end-of-file flag and number of pieces, and for the headers of all pieces.
const OVERHEAD_BYTES: usize = 64 + RUNS_MAX * 24;

pub(crate) async fn read_plus(server: &Metaserver, context: &Context, args: Args) -> Result<ResOk, Status> {
    let inode = {
        let view = server.machine.view()?;
        let inode = server.current_file(&*view, context)?;
        server.check_io(&*view, context, args.stateid, &inode, Share::READ)?;
        server.data.check_no_truncation(&*view, &inode)?;
        inode
    };
    let inode = server.not_written_elsewhere(asker(context), inode).await?;
    let room = context.room_bytes.saturating_sub(OVERHEAD_BYTES).min(1 << 20) as u32;
    let count = args.count.min(room);
    if count == 0 && args.count > 0 {
        return Err(Status::RepTooBig);
    }
    let inode = server.data.true_inode_beyond(inode, args.offset.saturating_add(u64::from(count))).await?;
    let (runs, eof) = server.data.read_runs(&inode, args.offset, count).await?;
    let mut offset = args.offset;
    let content = |run| {
        let (content, len) = match run {
            Run::Data(data) => {
                let len = data.len() as u64;
                (Content::Data(Data { offset, data }), len)
            }
            Run::Hole(length) => (Content::Hole(Hole { offset, length }), length),
        };
        offset += len;
        content
    };
    Ok(ResOk { eof, contents: runs.into_iter().map(content).collect() })
}
