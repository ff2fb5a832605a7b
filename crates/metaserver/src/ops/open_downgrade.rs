//! OPEN_DOWNGRADE (RFC 8881, section 18.18).

use namespace::{Command, Reply};
use wire::nfs4::Status;
use wire::nfs4::open_downgrade::{Args, ResOk};

use super::open::{access_share, deny_share};
use crate::Metaserver;
use crate::compound::{Context, client, stateid, wire_stateid};
use crate::nfs4::check_file_of;

pub(crate) async fn downgrade(
    server: &Metaserver,
    context: &mut Context,
    args: Args,
) -> Result<ResOk, Status> {
    let client = client(context)?;
    let file = context.state.current()?.inode;
    let given = stateid(&context.state.resolve(args.open_stateid)?)?;
    let (access, deny) = (access_share(args.share_access)?, deny_share(args.share_deny)?);
    let command = Command::OpenDowngrade { client, stateid: given, access, deny };
    let prepare = move |view: &dyn store::View| {
        check_file_of(view, given.id, file)?;
        Ok(command)
    };
    match server.change(context, prepare).await? {
        Reply::State { stateid: Some(stateid) } => {
            let open_stateid = wire_stateid(stateid);
            context.state.set_stateid(open_stateid);
            Ok(ResOk { open_stateid })
        }
        _ => Err(Status::ServerFault),
    }
}
