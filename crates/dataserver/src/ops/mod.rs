//! NFS operations of a data server (RFC 8881, section 13.1): data, and the sessions around them.
//! Everything else is a metaserver's, and answered NFS4ERR_NOTSUPP.

mod commit;
mod getattr;
mod putfh;
mod read;
mod session;
mod write;

use std::sync::Arc;

use nfs::{CompoundContext, Metrics, Nfs4, Session};
use wire::nfs4::{ArgOp, ResOp, SessionId, Status, secinfo, test_stateid};

use crate::chain::{Chains, Trouble};
use crate::clients::Clients;
use crate::found::Found;
use crate::objects::ObjectError;
use crate::targets::Targets;
use crate::{ClientNetworks, ObjectLengths};

/// State that the operations of one compound share.
#[derive(Default)]
pub(crate) struct State {
    current: Option<Found>,
}

impl State {
    fn current(&self) -> Result<&Found, Status> {
        self.current.as_ref().ok_or(Status::NoFileHandle)
    }
}

/// The NFS side of a data server.
pub(crate) struct NfsServer {
    targets: Arc<Targets>,
    clients: Clients,
    lengths: Arc<dyn ObjectLengths>,
    networks: Arc<ClientNetworks>,
    chains: Arc<Chains>,
    metrics: Arc<Metrics>,
}

impl NfsServer {
    pub(crate) fn new(
        targets: Arc<Targets>,
        clients: Clients,
        lengths: Arc<dyn ObjectLengths>,
        networks: Arc<ClientNetworks>,
        chains: Arc<Chains>,
    ) -> Self {
        Self { targets, clients, lengths, networks, chains, metrics: Arc::default() }
    }

    pub(crate) fn clients(&self) -> &Clients {
        &self.clients
    }

    pub(crate) fn counters(&self) -> &Arc<Metrics> {
        &self.metrics
    }
}

impl Nfs4 for NfsServer {
    type State = State;

    async fn session(&self, id: SessionId) -> Option<Arc<Session>> {
        self.clients.session(id)
    }

    fn knows(&self, id: SessionId) -> bool {
        self.clients.session(id).is_some()
    }

    async fn sequenced(&self, _: &Session, context: &mut CompoundContext<State>) -> Result<u32, Status> {
        // A process that hung finds calls that their clients have long sent to the next holder of the address.
        match self.clients.may_serve_at(context.connection.local().ip()) {
            true => Ok(0),
            false => Err(Status::BadSession),
        }
    }

    async fn operation(&self, context: &mut CompoundContext<State>, op: ArgOp) -> ResOp {
        match op {
            ArgOp::PutFh(args) => ResOp::PutFh(self.putfh(context, &args)),
            ArgOp::Read(args) => ResOp::Read(self.read(context, args).await),
            ArgOp::Write(args) => ResOp::Write(self.write(&context.state, args).await),
            ArgOp::Commit(_) => ResOp::Commit(self.commit(&context.state).await),
            ArgOp::GetAttr(args) => ResOp::GetAttr(self.getattr(&context.state, &args)),
            ArgOp::ExchangeId(args) => ResOp::ExchangeId(self.exchange_id(context, args).await),
            ArgOp::CreateSession(args) => ResOp::CreateSession(self.create_session(context, &args)),
            ArgOp::DestroySession(args) => {
                ResOp::DestroySession(self.clients.destroy_session(args.sessionid))
            }
            ArgOp::DestroyClientid(args) => {
                let address = context.connection.peer().ip();
                ResOp::DestroyClientid(self.clients.destroy_client(args.clientid, address))
            }
            ArgOp::BindConnToSession(args) => ResOp::BindConnToSession(self.bind_conn_to_session(&args)),
            // There is no state here that could be reclaimed, tested or freed.
            ArgOp::ReclaimComplete(_) => ResOp::ReclaimComplete(Ok(())),
            ArgOp::TestStateid(args) => {
                let status_codes = vec![Status::BadStateid; args.stateids.len()];
                ResOp::TestStateid(Ok(test_stateid::ResOk { status_codes }))
            }
            ArgOp::FreeStateid(_) => ResOp::FreeStateid(Err(Status::BadStateid)),
            ArgOp::SecInfoNoName(_) => {
                context.state.current = None;
                ResOp::SecInfoNoName(Ok(vec![secinfo::SecInfo::Flavor(secinfo::AUTH_SYS)]))
            }
            ArgOp::Illegal(_) => ResOp::Illegal,
            other => other.refused(Status::NotSupp),
        }
    }

    fn metrics(&self) -> &Metrics {
        &self.metrics
    }
}

/// Linux takes NFS4ERR_IO for a dead data server, and leaves the whole device alone for two minutes, with all
/// data servers that are in it. After NFS4ERR_PNFS_NO_LAYOUT it gives up the layout of this file and asks a
/// metaserver, and tells its user what that one answers; so it does after any other error, but for the
/// layout. Only after NFS4ERR_DELAY it waits, for 15 seconds (filelayout_async_handle_error).
fn refusal(error: ObjectError) -> Status {
    match error {
        ObjectError::NoSpace => Status::NoSpc,
        ObjectError::Io
        | ObjectError::Lost
        | ObjectError::Damaged
        | ObjectError::TargetLost
        | ObjectError::StaleEpoch => Status::PnfsNoLayout,
        ObjectError::Stale => Status::Stale,
        ObjectError::TooLarge => Status::FBig,
        ObjectError::ReadOnly => Status::RoFs,
        ObjectError::Busy => Status::ServerFault,
        ObjectError::NotSupported => Status::NotSupp,
    }
}

/// The answer to an operation of a column with copies that was not done. The client gives up the layout, and
/// asks a metaserver, when another member or nobody serves the column.
fn refusal_of_chain(trouble: Trouble) -> Status {
    use wire::data::Status as Of;
    match trouble {
        Trouble::Refused(Of::NoSpace) => Status::NoSpc,
        Trouble::Refused(Of::Stale) => Status::Stale,
        Trouble::Refused(Of::Invalid) => Status::FBig,
        Trouble::Refused(Of::ReadOnly) => Status::RoFs,
        Trouble::Refused(Of::Delay) => Status::ServerFault,
        Trouble::Refused(_) | Trouble::Unknown => Status::PnfsNoLayout,
    }
}
