//! LAYOUTRETURN (RFC 8881, section 18.44).

use namespace::{Command, Reply, ReturnScope};
use wire::nfs4::layoutreturn::{Args, ResOk, Return};
use wire::nfs4::{LayoutType, Status};

use crate::Metaserver;
use crate::compound::{Context, client, stateid, wire_stateid};

pub(crate) async fn layoutreturn(
    server: &Metaserver,
    context: &mut Context,
    args: Args,
) -> Result<ResOk, Status> {
    if args.reclaim {
        return Err(Status::NoGrace);
    }
    if args.layout_type != LayoutType::FILES {
        return Err(Status::UnknownLayoutType);
    }
    let client = client(context)?;
    let scope = match args.what {
        Return::File(file) => {
            let inode = context.state.current()?.inode;
            ReturnScope::File { inode, stateid: stateid(&context.state.resolve(file.stateid)?)? }
        }
        Return::FsId => {
            context.state.current()?;
            ReturnScope::All
        }
        Return::All => ReturnScope::All,
    };
    let reply = server.change(context, |_| Ok(Command::LayoutReturn { client, scope })).await?;
    server.state.note_returned();
    match reply {
        Reply::State { stateid } => Ok(ResOk { stateid: stateid.map(wire_stateid) }),
        Reply::Done => Ok(ResOk { stateid: None }),
        _ => Err(Status::ServerFault),
    }
}
