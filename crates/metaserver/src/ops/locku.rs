//! LOCKU (RFC 8881, section 18.12).

use namespace::{Command, Reply};
use wire::nfs4::Status;
use wire::nfs4::locku::{Args, ResOk};

use super::lock::range;
use crate::Metaserver;
use crate::compound::{Context, client, stateid, wire_stateid};
use crate::nfs4::check_file_of;

pub(crate) async fn locku(server: &Metaserver, context: &mut Context, args: Args) -> Result<ResOk, Status> {
    let client = client(context)?;
    let inode = context.state.current()?.inode;
    let given = stateid(&context.state.resolve(args.lock_stateid)?)?;
    let range = range(args.offset, args.length)?;
    let prepare = move |view: &dyn store::View| {
        check_file_of(view, given.id, inode)?;
        Ok(Command::Unlock { client, stateid: given, range })
    };
    match server.change(context, prepare).await? {
        Reply::State { stateid: Some(stateid) } => {
            let lock_stateid = wire_stateid(stateid);
            context.state.set_stateid(lock_stateid);
            server.state.tell_lock_waiters(inode);
            Ok(ResOk { lock_stateid })
        }
        _ => Err(Status::ServerFault),
    }
}
