//! TEST_STATEID and FREE_STATEID (RFC 8881, sections 18.48 and 18.38).

use namespace::{Command, State};
use wire::nfs4::{Stateid, Status, free_stateid, test_stateid};

use crate::Metaserver;
use crate::compound::{Context, client, stateid};
use crate::nfs4::check_sequence;

pub(crate) async fn free(
    server: &Metaserver,
    context: &mut Context,
    args: free_stateid::Args,
) -> Result<(), Status> {
    let client = client(context)?;
    let given = stateid(&context.state.resolve(args.stateid)?)?;
    if server.state.returns.has(given.id) {
        server.state.returns_ended(client, None).await;
    }
    server.change(context, |_| Ok(Command::FreeState { client, stateid: given })).await?;
    Ok(server.state.acknowledged(client)?)
}

pub(crate) fn test(
    server: &Metaserver,
    context: &Context,
    args: &test_stateid::Args,
) -> Result<test_stateid::ResOk, Status> {
    let status_codes = args.stateids.iter().map(|s| test_one(server, context, s)).collect();
    Ok(test_stateid::ResOk { status_codes })
}

fn test_one(server: &Metaserver, context: &Context, given: &Stateid) -> Status {
    let tested = || {
        let given = stateid(given)?;
        let view = server.machine.view()?;
        let state = server.state_of(&*view, given.id)?;
        if state.client() != client(context)? {
            return Err(Status::BadStateid);
        }
        check_sequence(given.sequence, state.stateid().sequence)?;
        match state {
            State::Delegation(delegation) if delegation.is_revoked() => Err(Status::DelegRevoked),
            _ => Ok(()),
        }
    };
    tested().err().unwrap_or(Status::Ok)
}
