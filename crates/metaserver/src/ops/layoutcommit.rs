//! LAYOUTCOMMIT (RFC 8881, section 18.42): updates size and times after writes to the data servers.

use namespace::{Command, Reply};
use wire::nfs4::layoutcommit::{Args, ResOk};
use wire::nfs4::{LayoutType, Status};

use crate::Metaserver;
use crate::attributes::nfs4::time_from;
use crate::compound::{Context, client, stateid};
use crate::files::Request;
use crate::files::write::clear_set_id;

pub(crate) async fn layoutcommit(
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
    let inode = context.state.current()?.inode;
    let given = stateid(&context.state.resolve(args.stateid)?)?;
    let last_write = args.last_write_offset;
    let modified = args.time_modify.map(time_from).transpose()?;
    // Other writes of this client that have arrived are included: fewer changes of the file, for the client
    // as well.
    let observed = server.data.observation(inode).await;
    let is_observed = observed.is_some();
    let command = Command::LayoutCommit { client, inode, stateid: given, last_write, modified, observed };
    let user = server.caller(context)?;
    match server.change(context, |_| Ok(command)).await {
        Ok(Reply::Committed { size }) => {
            let file = server.machine.inode(&*server.machine.view()?, inode)?;
            if last_write.is_some() {
                clear_set_id(server, &mut Request::Compound(context), &user, &file).await?;
            }
            context.state.observed = Some(inode).filter(|_| is_observed);
            Ok(ResOk { newsize: size })
        }
        Ok(_) => Err(Status::ServerFault),
        // The layout is only for reading.
        Err(Status::OpenMode) => Err(Status::BadIoMode),
        Err(status) => Err(status),
    }
}
