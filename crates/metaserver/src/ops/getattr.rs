//! GETATTR (RFC 8881, section 18.7).

use namespace::{State, read};
use wire::nfs4::getattr::{Args, ResOk};
use wire::nfs4::{AttrReply, Stateid, Status};

use crate::Metaserver;
use crate::attributes::nfs4::check_readable;
use crate::compound::{Context, client, stateid};
use crate::data::unsettled::depend_on_data;
use crate::errors::store_failed;

pub(crate) async fn getattr(server: &Metaserver, context: &Context, args: Args) -> Result<ResOk, Status> {
    check_readable(&args.attr_request)?;
    let mut inode = server.current(&*server.machine.view()?, context)?;
    // LAYOUTCOMMIT, in this compound, asked the data servers a moment ago.
    if depend_on_data(&args.attr_request) && context.state.observed != Some(inode.id) {
        inode = server.data.true_inode(inode).await?;
    }
    let view = server.machine.view()?;
    let attrs = Box::new(server.attributes.attributes(
        context,
        &*view,
        &inode,
        context.state.current()?.via,
        &args.attr_request,
    )?);
    if let Some(returned) = context.returns_next
        && !holds(server, context, returned)?
    {
        return Err(Status::Access);
    }
    Ok(AttrReply { requested: args.attr_request, attrs })
}

/// Whether the client still holds the delegation that it is about to return; asked once the attributes were
/// read.
///
/// Linux takes what GETATTR says before DELEGRETURN for its own doing, since nobody else may change a
/// delegated file, and goes on with the data that it has cached: also if DELEGRETURN is then told that the
/// delegation is gone, and others have changed the file (nfs4_delegreturn_release in fs/nfs/nfs4proc.c). Told
/// ACCESS, it returns the delegation once more without asking for attributes.
fn holds(server: &Metaserver, context: &Context, returned: Stateid) -> Result<bool, Status> {
    let Ok(returned) = context.state.resolve(returned).and_then(|returned| stateid(&returned)) else {
        return Ok(true); // DELEGRETURN refuses what it says
    };
    let state = read::state(&*server.machine.view()?, returned.id).map_err(store_failed)?;
    let client = client(context)?;
    Ok(matches!(state, Some(State::Delegation(held)) if held.client == client && !held.revoked))
}
