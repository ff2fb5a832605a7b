//! GETATTR (RFC 8881, section 18.7).

use namespace::{Inode, State, read};
use wire::nfs4::getattr::{Args, ResOk};
use wire::nfs4::{AttrReply, Stateid, Status, attr};

use crate::Metaserver;
use crate::attributes::nfs4::check_readable;
use crate::compound::{Context, client, stateid};
use crate::data::unsettled::depend_on_data;
use crate::errors::store_failed;
use crate::state::write_delegations::asker;

pub(crate) async fn getattr(server: &Metaserver, context: &Context, args: Args) -> Result<ResOk, Status> {
    check_readable(&args.attr_request)?;
    let mut inode = server.current(&*server.machine.view()?, context)?;
    // A LAYOUTCOMMIT in this compound has asked the data servers already.
    if depend_on_data(&args.attr_request) && context.state.observed != Some(inode.id) {
        // A client reads up to the size that it is told; others need attributes for `stat` and `rm`.
        inode = server.not_written_elsewhere(asker(context), inode).await?;
        inode = match context.stands_by_itself() && is_open(server, context, &inode)? {
            true => server.data.true_inode(inode).await?,
            false => server.data.known_inode(inode).await?,
        };
    }
    if args.attr_request.contains(attr::SPACE_USED) && writes_alone(server, context, &inode)? {
        inode = server.data.space_now(inode).await;
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

/// True if the client has a write delegation of the file.
fn writes_alone(server: &Metaserver, context: &Context, inode: &Inode) -> Result<bool, Status> {
    let holder = read::write_delegation(&*server.machine.view()?, inode.id).map_err(store_failed)?;
    Ok(holder.is_some() && holder == asker(context))
}

/// True if the client has the file open.
fn is_open(server: &Metaserver, context: &Context, inode: &Inode) -> Result<bool, Status> {
    let view = server.machine.view()?;
    let opens = read::opens_of(&*view, inode.id, client(context)?).map_err(store_failed)?;
    Ok(!opens.is_empty())
}

/// True if the client still holds the delegation that it is about to return; checked after the attributes
/// were read.
///
/// Linux takes a change seen by GETATTR before DELEGRETURN for its own, since other clients may not change a
/// delegated file, and keeps its cached data. It does so even if DELEGRETURN then reports that the delegation
/// was revoked and others have changed the file (nfs4_delegreturn_release in fs/nfs/nfs4proc.c). After the
/// error ACCESS, Linux sends DELEGRETURN once more without GETATTR.
fn holds(server: &Metaserver, context: &Context, returned: Stateid) -> Result<bool, Status> {
    let Ok(returned) = context.state.resolve(returned).and_then(|returned| stateid(&returned)) else {
        return Ok(true); // DELEGRETURN reports the error
    };
    let state = read::state(&*server.machine.view()?, returned.id).map_err(store_failed)?;
    let client = client(context)?;
    Ok(matches!(state, Some(State::Delegation(held)) if held.client == client && !held.is_revoked()))
}
