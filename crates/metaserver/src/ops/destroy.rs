//! DESTROY_SESSION and DESTROY_CLIENTID (RFC 8881, sections 18.37 and 18.50).

use namespace::{ClientId, Command, SessionId};
use wire::nfs4::{Status, destroy_clientid, destroy_session};

use crate::Metaserver;
use crate::compound::Context;

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

pub(crate) async fn client(server: &Metaserver, args: destroy_clientid::Args) -> Result<(), Status> {
    let client = ClientId(args.clientid.0);
    server.state.propose(None, Command::DestroyClient { client }).await?;
    server.state.forget_client(client);
    Ok(())
}
