//! Sessions of a mount with data servers: one slot each, whose request is sent again under the same sequence until it
//! is answered, or given up together with the session.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nfs::{CallFailure, Connection, Programs};
use tokio::sync::Mutex;
use wire::nfs4::compound::{CompoundCall, CompoundReply};
use wire::nfs4::create_session::{Args as CreateArgs, ChannelAttrs};
use wire::nfs4::exchange_id::{Args as ExchangeArgs, ClientOwner, StateProtectArgs, USE_PNFS_DS};
use wire::nfs4::layout_files::{DsAddr, FileLayout, from_body};
use wire::nfs4::{self, ArgOp, Bitmap, LayoutType, NetAddr, ResOp, SessionId, Status};
use wire::nfs4::{getdeviceinfo, sequence};
use wire::rpc::{AuthSys, Credential};

use super::{Gone, Mount, Session};
use crate::stream_network::SimNetwork;

/// Longest time of a connection attempt.
const CONNECT_TIME_MAX: Duration = Duration::from_millis(500);
/// Longest time of an answer: longer than a data server holds a call that waits for its chain.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);
/// Attempts at a request, each with the time of an answer.
const ATTEMPTS: usize = 2;

/// No answer: the request may have been carried out, or be carried out later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoAnswer;

/// Data servers of a layout, and the handles of its columns.
#[derive(Debug, Clone)]
pub struct Columns {
    unit: u64,
    /// Address and handle of each column.
    columns: Vec<(SocketAddr, Bytes)>,
}

impl Columns {
    /// The column of a byte of the file.
    #[must_use]
    pub fn at(&self, offset: u64) -> Option<(SocketAddr, Bytes)> {
        let unit = offset.checked_div(self.unit)? as usize;
        self.columns.get(unit.checked_rem(self.columns.len())?).cloned()
    }
}

/// The session with one data server.
#[derive(Default)]
struct DataSession {
    connection: Option<Arc<Connection>>,
    session: Option<(SessionId, u32)>,
}

/// All of a mount.
#[derive(Default)]
pub struct DataSessions {
    all: parking_lot::Mutex<BTreeMap<SocketAddr, Arc<Mutex<DataSession>>>>,
}

fn address(of: &NetAddr) -> Option<SocketAddr> {
    let text = std::str::from_utf8(&of.uaddr).ok()?;
    let parts: Vec<u8> = text.split('.').map(str::parse).collect::<Result<_, _>>().ok()?;
    let [a, b, c, d, high, low] = parts[..] else { return None };
    Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::new(a, b, c, d)), u16::from_be_bytes([high, low])))
}

impl Mount {
    /// The columns of a layout, whose device the metaserver is asked for. None: it does not know the device any more.
    pub(super) async fn columns(
        self: &Arc<Self>,
        session: Session,
        slot: u32,
        layout: &FileLayout,
    ) -> Result<Option<Columns>, Gone> {
        let get = getdeviceinfo::Args {
            device_id: layout.deviceid,
            layout_type: LayoutType::FILES,
            maxcount: 65_536,
            notify_types: Bitmap::default(),
        };
        let results = self.compound(session, slot, vec![ArgOp::GetDeviceInfo(get)]).await?;
        let Some(ResOp::GetDeviceInfo(Ok(device))) = results.into_iter().next() else { return Ok(None) };
        let Ok(device) = from_body::<DsAddr>(device.device_addr.body) else {
            self.unexpected("GETDEVICEINFO: a body that cannot be read".into());
            return Ok(None);
        };
        let count = device.stripe_indices.len();
        let column = |(n, handle): (usize, &nfs4::FileHandle)| {
            let index = device.stripe_indices.get((layout.first_stripe_index as usize + n) % count.max(1))?;
            let at = device.multipath_ds_list.get(*index as usize)?.first()?;
            Some((address(at)?, handle.0.clone()))
        };
        let columns: Option<Vec<_>> = layout.fh_list.iter().enumerate().map(column).collect();
        if columns.is_none() {
            self.unexpected(format!("GETDEVICEINFO: {device:?} is none for {layout:?}"));
        }
        Ok(columns.map(|columns| Columns { unit: layout.stripe_unit_bytes().into(), columns }))
    }

    /// These operations at a data server, after SEQUENCE; their results.
    ///
    /// # Errors
    /// [`NoAnswer`].
    pub(super) async fn at_data_server(
        &self,
        at: SocketAddr,
        ops: Vec<ArgOp>,
    ) -> Result<Vec<ResOp>, NoAnswer> {
        let own = Arc::clone(self.data_sessions.all.lock().entry(at).or_default());
        let mut own = own.lock().await;
        // Counts for one request: a new session begins with another sequence.
        let mut sent: Option<(SessionId, u32)> = None;
        for _ in 0..ATTEMPTS {
            let Some(connection) = self.data_connection(at, &mut own).await else { continue };
            if own.session.is_none() {
                own.session = self.data_session(&connection).await.map(|id| (id, 0));
            }
            let Some((id, sequence)) = own.session.as_mut() else { continue };
            if sent.is_none_or(|(of, _)| of != *id) {
                *sequence += 1;
                sent = Some((*id, *sequence));
            }
            let first = sequence::Args {
                sessionid: *id,
                sequenceid: *sequence,
                slotid: 0,
                highest_slotid: 0,
                cachethis: false,
            };
            let all = [vec![ArgOp::Sequence(first)], ops.clone()].concat();
            let Ok(reply) = data_call(&connection, all).await else {
                connection.close();
                own.connection = None;
                continue;
            };
            let mut results = reply.ops.into_iter();
            match results.next() {
                Some(ResOp::Sequence(Ok(_))) => return Ok(results.collect()),
                // The reply was not kept: it was carried out, and that is all.
                Some(other) if other.status() == Status::RetryUncachedRep => return Err(NoAnswer),
                Some(_) | None => own.session = None,
            }
        }
        // The next request has another slot, in effect: this one may still be under way.
        own.session = None;
        Err(NoAnswer)
    }

    async fn data_connection(&self, at: SocketAddr, own: &mut DataSession) -> Option<Arc<Connection>> {
        if let Some(open) = own.connection.clone().filter(|connection| connection.is_open()) {
            return Some(open);
        }
        let network = SimNetwork::new(self.address, &self.shared);
        let dialled = Connection::dial(&network, at, Programs::default());
        let made = tokio::time::timeout(CONNECT_TIME_MAX, dialled).await;
        let Ok(Ok(connection)) = made else {
            tokio::time::sleep(Duration::from_millis(self.within(1..=200))).await;
            return None;
        };
        own.connection = Some(Arc::clone(&connection));
        Some(connection)
    }

    /// EXCHANGE_ID and CREATE_SESSION.
    async fn data_session(&self, connection: &Connection) -> Option<SessionId> {
        let owner = Bytes::from(format!("client {}", self.address));
        let exchange = ExchangeArgs {
            clientowner: ClientOwner { verifier: self.boot.to_be_bytes(), ownerid: owner.into() },
            flags: USE_PNFS_DS,
            state_protect: StateProtectArgs::None,
            client_impl_id: None,
        };
        let reply = data_call(connection, vec![ArgOp::ExchangeId(exchange)]).await.ok()?;
        let Some(ResOp::ExchangeId(Ok(known))) = reply.ops.into_iter().next() else { return None };
        let attrs = ChannelAttrs {
            max_request_size: 1 << 17,
            max_response_size: 1 << 17,
            max_response_size_cached: 4096,
            max_operations: 8,
            max_requests: 1,
            ..ChannelAttrs::default()
        };
        let create = CreateArgs {
            clientid: known.clientid,
            sequence: known.sequenceid,
            flags: 0,
            fore_chan_attrs: attrs,
            back_chan_attrs: attrs,
            cb_program: 0,
            sec_parms: vec![],
        };
        let reply = data_call(connection, vec![ArgOp::CreateSession(create)]).await.ok()?;
        let Some(ResOp::CreateSession(Ok(made))) = reply.ops.into_iter().next() else { return None };
        Some(made.sessionid)
    }
}

async fn data_call(connection: &Connection, ops: Vec<ArgOp>) -> Result<CompoundReply, CallFailure> {
    let procedure = (nfs4::PROGRAM, nfs4::VERSION, nfs4::PROC_COMPOUND);
    let call = CompoundCall::new(1, ops);
    let results =
        connection.call(procedure, Credential::Sys(AuthSys::default()), &call, ANSWER_TIME_MAX).await?;
    CompoundReply::decode_all(results).map_err(|_| CallFailure::Malformed)
}
