//! DELEGRETURN (RFC 8881, section 18.6).

use namespace::Command;
use wire::nfs4::Status;
use wire::nfs4::delegreturn::Args;

use crate::Metaserver;
use crate::compound::{Context, client, stateid};

pub(crate) async fn delegreturn(
    server: &Metaserver,
    context: &mut Context,
    args: Args,
) -> Result<(), Status> {
    let client = client(context)?;
    context.state.current()?;
    let given = stateid(&context.state.resolve(args.stateid)?)?;
    if server.state.returns.has(given.id) {
        return Err(Status::BadStateid); // a retry gets its first answer from the slot
    }
    if server.state.take_return(client, given)? {
        server.state.delegations.returned(client);
        return Ok(());
    }
    server.change(context, |_| Ok(Command::DelegationReturn { client, stateid: given })).await?;
    server.state.delegations.settled(given.id);
    server.state.delegations.returned(client);
    // Wakes waiting operations. The return may also have ended a layout, and an open of a removed file.
    server.state.note_returned();
    Ok(())
}
