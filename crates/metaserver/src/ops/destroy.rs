//! DESTROY_SESSION and DESTROY_CLIENTID (RFC 8881, sections 18.37 and 18.50).

use namespace::{ClientId, Command, SessionId, read};
use wire::nfs4::{Status, destroy_clientid, destroy_session};

use crate::Metaserver;
use crate::compound::Context;
use crate::errors::store_failed;

pub(crate) async fn session(
    server: &Metaserver,
    context: &Context,
    args: destroy_session::Args,
) -> Result<(), Status> {
    let session = SessionId(args.sessionid.0);
    // Section 18.37.3. A compound of the session itself has associated the connection with it.
    if server.state.find_session(session).is_some() && !context.connection.is_associated(args.sessionid) {
        return Err(Status::ConnNotBoundToSession);
    }
    server.state.propose(None, Command::DestroySession { session }).await?;
    server.state.sessions.remove(session);
    Ok(())
}

pub(crate) async fn client(
    server: &Metaserver,
    context: &Context,
    args: destroy_clientid::Args,
) -> Result<(), Status> {
    let client = ClientId(args.clientid.0);
    check_own(server, context, client)?;
    server.state.returns_ended(client, None).await;
    server.state.propose(None, Command::DestroyClient { client }).await?;
    server.state.forget_client(client);
    Ok(())
}

/// Checks that a client is destroyed from one of its addresses, and by a caller that an export admits or that
/// has a session. Ids of clients are easy to guess: otherwise any host could end each client between its
/// EXCHANGE_ID and its CREATE_SESSION, and write to the log with each call.
///
/// # Errors
/// `StaleClientid`, as for an unknown client: RFC 8881 lists no NFS4ERR_ACCESS for DESTROY_CLIENTID.
fn check_own(server: &Metaserver, context: &Context, client: ClientId) -> Result<(), Status> {
    let address = context.connection.peer().ip();
    let is_admitted =
        context.session.is_some() || server.admission.check_admitted(&context.connection).is_ok();
    let known = read::client(&*server.machine.view()?, client).map_err(store_failed)?;
    match known.filter(|known| is_admitted && known.addresses.contains(&address)) {
        Some(_) => Ok(()),
        None => Err(Status::StaleClientid),
    }
}
