//! Keeper of a mount's lease: mounts, renews, binds the back channel again, and frees what was revoked.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use wire::nfs4::backchannel_ctl::CallbackSec;
use wire::nfs4::create_session::{Args as CreateArgs, CONN_BACK_CHAN, ChannelAttrs};
use wire::nfs4::exchange_id::{Args as ExchangeArgs, ClientOwner, StateProtectArgs, USE_PNFS_MDS};
use wire::nfs4::{ArgOp, ResOp, Status, free_stateid, reclaim_complete};

use super::callbacks::CALLBACK_PROGRAM;
use super::{KEEPER, Known, Mount, SLOTS, Session};
use crate::claims::LEASE_MS;

/// Slots of the back channel.
const BACK_SLOTS: u32 = 16;

impl Mount {
    /// Keeps the lease, for ever.
    pub(super) async fn keep(self: Arc<Self>) {
        loop {
            let session = self.known().session;
            match session {
                None => self.mount().await,
                Some(session) => {
                    let (must_bind, must_free) = {
                        let known = self.known();
                        (known.must_bind, known.must_free)
                    };
                    let connection = self.known().connection.clone().filter(|_| must_bind);
                    if let Some(connection) = connection {
                        self.bind(&connection, session).await;
                    }
                    let ops = if must_free { self.frees() } else { vec![] };
                    let _ = self.compound(session, KEEPER, ops).await;
                    let pause_ms = self.within(LEASE_MS / 4..=LEASE_MS * 6 / 10);
                    tokio::time::sleep(Duration::from_millis(pause_ms)).await;
                }
            }
        }
    }

    /// FREE_STATEID for a delegation that was recalled and not given back.
    fn frees(&self) -> Vec<ArgOp> {
        let mut known = self.known();
        let kept = known.delegations.iter().find(|(_, delegation)| delegation.is_recalled);
        let Some((file, stateid)) = kept.map(|(file, held)| (file.clone(), held.stateid)) else {
            return vec![];
        };
        known.delegations.remove(&file);
        vec![ArgOp::FreeStateid(free_stateid::Args { stateid })]
    }

    /// EXCHANGE_ID, CREATE_SESSION, RECLAIM_COMPLETE.
    async fn mount(self: &Arc<Self>) {
        let owner = Bytes::from(format!("client {}", self.address));
        let exchange = ExchangeArgs {
            clientowner: ClientOwner { verifier: self.boot.to_be_bytes(), ownerid: owner.into() },
            flags: USE_PNFS_MDS,
            state_protect: StateProtectArgs::None,
            client_impl_id: None,
        };
        let ResOp::ExchangeId(Ok(exchanged)) = self.alone(ArgOp::ExchangeId(exchange)).await else { return };
        let attrs = ChannelAttrs {
            max_request_size: 1 << 20,
            max_response_size: 1 << 20,
            max_response_size_cached: 8192,
            max_operations: 16,
            max_requests: SLOTS as u32,
            ..ChannelAttrs::default()
        };
        let create = CreateArgs {
            clientid: exchanged.clientid,
            sequence: exchanged.sequenceid,
            flags: CONN_BACK_CHAN,
            fore_chan_attrs: attrs,
            back_chan_attrs: ChannelAttrs { max_requests: BACK_SLOTS, ..attrs },
            cb_program: CALLBACK_PROGRAM,
            sec_parms: vec![CallbackSec::None],
        };
        let ResOp::CreateSession(Ok(made)) = self.alone(ArgOp::CreateSession(create)).await else { return };
        let session = Session {
            id: made.sessionid,
            client: exchanged.clientid,
            life: (self.address, exchanged.clientid.0),
        };
        {
            let mut known = self.known();
            *known = Known {
                connection: known.connection.take(),
                at: known.at,
                session: Some(session),
                ..Known::default()
            };
        }
        let (address, client) = (self.address, exchanged.clientid.0);
        self.shared.note(|| format!("client {address} mounts as {client:x}"));
        let complete = ArgOp::ReclaimComplete(reclaim_complete::Args { one_fs: false });
        let done = self.compound(session, KEEPER, vec![complete]).await;
        let done = done.ok().and_then(|results| results.first().map(ResOp::status));
        if matches!(done, Some(Status::Ok | Status::CompleteAlready)) {
            self.mounted.notify_waiters();
        }
    }
}
