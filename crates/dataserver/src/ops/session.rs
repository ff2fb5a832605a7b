//! BIND_CONN_TO_SESSION at a data server. Every connection may carry every session (SP4_NONE), and there is no back
//! channel that a connection could be needed for; so this only says yes.

use wire::nfs4::Status;
use wire::nfs4::bind_conn_to_session::{Args, DirFromClient, DirFromServer, ResOk};

use super::NfsServer;

impl NfsServer {
    pub(super) fn bind_conn_to_session(&self, args: &Args) -> Result<ResOk, Status> {
        self.clients.session(args.sessid).ok_or(Status::BadSession)?;
        let dir = match args.dir {
            DirFromClient::Fore | DirFromClient::ForeOrBoth => DirFromServer::Fore,
            DirFromClient::Back => DirFromServer::Back,
            DirFromClient::BackOrBoth => DirFromServer::Both,
        };
        Ok(ResOk { sessid: args.sessid, dir, use_conn_in_rdma_mode: false })
    }
}
