//! RECLAIM_COMPLETE (RFC 8881, section 18.51). There is no grace period and nothing to reclaim: state
//! survives a restart. Clients send the operation in any case.

use namespace::Command;
use wire::nfs4::Status;
use wire::nfs4::reclaim_complete::Args;

use crate::Metaserver;
use crate::compound::{Context, client};

pub(crate) async fn complete(server: &Metaserver, context: &mut Context, args: Args) -> Result<(), Status> {
    if args.one_fs {
        context.state.current()?;
        return Ok(());
    }
    let client = client(context)?;
    server.change(context, |_| Ok(Command::ReclaimComplete { client })).await.map(drop)
}
