//! CLOSE (RFC 8881, section 18.2). The last close returns layouts, and deletes the data of a removed file.

use namespace::Command;
use wire::nfs4::close::{Args, ResOk};
use wire::nfs4::{Stateid, Status};

use crate::Metaserver;
use crate::compound::{Context, client, stateid};
use crate::nfs4::check_file_of;
use crate::state::brief_opens::Found;

pub(crate) async fn close(server: &Metaserver, context: &mut Context, args: Args) -> Result<ResOk, Status> {
    let given = stateid(&context.state.resolve(args.open_stateid)?)?;
    let client = client(context)?;
    let inode = context.state.current()?.inode;
    if given.id.is_brief() {
        match server.state.brief_opens.close(client, given, inode)? {
            Found::Here(_) => return Ok(ResOk { open_stateid: Stateid::INVALID }),
            Found::BeingWritten(open) => server.state.write_opens(vec![open]).await,
            Found::Elsewhere => {}
        }
    }
    let prepare = move |view: &dyn store::View| {
        check_file_of(view, given.id, inode)?;
        if given.id.is_brief() {
            server.state_of(view, given.id)?; // else it was closed, or lost with its leader
        }
        Ok(Command::Close { client, stateid: given })
    };
    server.change(context, prepare).await?;
    server.state.note_returned();
    server.state.tell_lock_waiters(inode); // the close has released its locks
    // The state is removed. RFC 8881 has the invalid stateid returned, so that it is not used again.
    Ok(ResOk { open_stateid: Stateid::INVALID })
}
