//! EXCHANGE_ID, CREATE_SESSION and BIND_CONN_TO_SESSION at a data server.

use nfs::CompoundContext;
use wire::nfs4::bind_conn_to_session::{Args, DirFromClient, DirFromServer, ResOk};
use wire::nfs4::{Status, create_session, exchange_id};
use wire::rpc::Credential;

use super::{NfsServer, State};
use crate::clients::Principal;

type Context = CompoundContext<State>;

impl NfsServer {
    /// EXCHANGE_ID: served to a client with an export.
    ///
    /// Other clients get NFS4ERR_PERM: Linux gives up the data server for two minutes, goes through the
    /// metaserver, and its state manager ends its recovery. Linux would repeat the call for ever after
    /// NFS4ERR_DELAY, and after NFS4ERR_ACCESS when it recovers a session (nfs4_handle_reclaim_lease_error).
    pub(super) async fn exchange_id(
        &self,
        context: &Context,
        args: exchange_id::Args,
    ) -> Result<exchange_id::ResOk, Status> {
        let address = context.connection.peer().ip();
        if !self.networks.admit_soon(address).await {
            self.note_refusal(context);
            return Err(Status::Perm);
        }
        let local = context.connection.local().ip();
        self.clients.exchange_id(args, principal(&context.credential), (local, address))
    }

    /// CREATE_SESSION: likewise.
    pub(super) fn create_session(
        &self,
        context: &Context,
        args: &create_session::Args,
    ) -> Result<create_session::ResOk, Status> {
        let address = context.connection.peer().ip();
        if !self.networks.admit(address) {
            self.note_refusal(context);
            return Err(Status::Perm);
        }
        self.clients.create_session(args, principal(&context.credential), address)
    }

    /// Every connection may carry every session (SP4_NONE), and there is no back channel that a connection
    /// could be needed for; so this only says yes.
    pub(super) fn bind_conn_to_session(&self, args: &Args) -> Result<ResOk, Status> {
        self.clients.session(args.sessid).ok_or(Status::BadSession)?;
        let dir = match args.dir {
            DirFromClient::Fore | DirFromClient::ForeOrBoth => DirFromServer::Fore,
            DirFromClient::Back => DirFromServer::Back,
            DirFromClient::BackOrBoth => DirFromServer::Both,
        };
        Ok(ResOk { sessid: args.sessid, dir, use_conn_in_rdma_mode: false })
    }

    /// Counts a call of a client that is not admitted, and logs it now and then.
    pub(super) fn note_refusal(&self, context: &Context) {
        self.metrics.refused_clients.inc();
        self.networks.log_refusal(context.connection.peer().ip());
    }
}

fn principal(credential: &Credential) -> Principal {
    match credential {
        Credential::Sys(sys) => Some(sys.uid),
        Credential::None | Credential::Unknown(_) => None,
    }
}
