//! BIND_CONN_TO_SESSION (RFC 8881, section 18.34): associates a connection with a session's back channel.

use namespace::ClientId;
use nfs::Nfs4;
use wire::nfs4::Status;
use wire::nfs4::bind_conn_to_session::{Args, DirFromClient, DirFromServer, ResOk};

use crate::Metaserver;
use crate::compound::Context;

pub(crate) async fn bind(server: &Metaserver, context: &Context, args: Args) -> Result<ResOk, Status> {
    let session = server.session(args.sessid).await.ok_or(Status::BadSession)?;
    let dir = match args.dir {
        DirFromClient::Fore => DirFromServer::Fore,
        DirFromClient::Back => DirFromServer::Back,
        DirFromClient::ForeOrBoth | DirFromClient::BackOrBoth => DirFromServer::Both,
    };
    if !server.serves_alone() && !context.connection.is_associated(args.sessid) {
        session.comes_from_elsewhere();
    }
    if !context.connection.is_associated(args.sessid) {
        // The barrier covers the client's changes at other metaservers, whatever the consistency of the export.
        server.machine.read_barrier().await?;
    }
    if dir != DirFromServer::Back {
        context.connection.associate(args.sessid);
    }
    if dir != DirFromServer::Fore {
        session.back.bind(&context.connection);
        server.state.wake_lock_waiters(ClientId(session.client()));
    }
    Ok(ResOk { sessid: args.sessid, dir, use_conn_in_rdma_mode: false })
}
