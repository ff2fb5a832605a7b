//! NFS clients of a data server, and their sessions. All of it is in memory: after a restart a client's
//! session is unknown, it makes a new one, and nothing is lost, for a data server keeps no opens, locks or
//! layouts.
//!
//! ```text
//! EXCHANGE_ID ─▶ client, unconfirmed ─CREATE_SESSION─▶ confirmed, with sessions ─idle too long─▶ forgotten
//! ```

mod records;
mod service_addresses;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use host::{Clock, Entropy};
use nfs::{Backchannel, Session, SessionLimits};
use parking_lot::{Mutex, MutexGuard, RwLock};
use wire::nfs4::create_session::{self, ChannelAttrs};
use wire::nfs4::exchange_id::{self, ServerOwner, StateProtectArgs, StateProtectRes};
use wire::nfs4::{ClientId, OwnerName, SessionId, Status, Verifier};
use wire::rpc::Credential;

use self::records::{Records, Use, of_network};
use self::service_addresses::ServiceAddresses;

/// A client that is silent for so long may be forgotten when its place is needed. Told to clients as
/// lease_time.
pub(crate) const LEASE: Duration = Duration::from_secs(60);
/// A client that is silent for so long is forgotten anyway. Coming back costs it two round trips.
const IDLE_MAX: Duration = Duration::from_secs(10 * 60);
/// Clients that are forgotten with one that begins, of each kind: more than begin, so that it does not take
/// long after many.
const SWEPT_MAX: usize = 4;
/// Clients at one time: the design's "thousands of nodes" with room for their restarts.
const CLIENTS_MAX: usize = 16_384;
/// Clients from one address at one time, so that one machine cannot push out the others: containers and
/// mounts with names of their own share their machine's address.
const CLIENTS_OF_ADDRESS_MAX: usize = 1024;
/// Sessions of one client: Linux makes one. The oldest goes when it makes more.
const SESSIONS_MAX: usize = 4;
/// Further networks of one client: a machine with more interfaces uses one of those that it used first.
const NETWORKS_MAX: usize = 7;
/// Slots of a session: Linux asks for 64, and each may hold a call of a megabyte.
const SLOTS_MAX: u32 = 64;
/// One megabyte of payload and its headers, as [`nfs::Limits`] has it.
const MESSAGE_BYTES_MAX: u32 = (1 << 20) + (64 << 10);
/// Below this not even a COMMIT fits.
const MESSAGE_BYTES_MIN: u32 = 512;
/// A kept reply: those of WRITE and COMMIT take 200 bytes; replies of READ need not be kept.
const CACHED_BYTES_MAX: u32 = 4096;
/// SEQUENCE, PUTFH, WRITE and GETATTR are four; Linux insists on getting the eight that it asks for.
const OPERATIONS_MAX: u32 = 16;

/// Principal of a client's calls: the user id of AUTH_SYS.
pub(crate) type Principal = Option<u32>;

/// The network that an address counts for: an IPv4 address, or the 64 bits that one IPv6 host can choose
/// among.
fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() >> 64 << 64).into()),
        v4 => v4,
    }
}

fn known_as(name: OwnerName, id: u64, client: &Client) -> exchange_id::ResOk {
    let confirmed = if client.confirmed { exchange_id::CONFIRMED_R } else { 0 };
    exchange_id::ResOk {
        clientid: ClientId(id),
        sequenceid: client.sequence.wrapping_add(1),
        flags: exchange_id::USE_PNFS_DS | confirmed,
        state_protect: StateProtectRes::None,
        server_owner: ServerOwner { minor_id: 0, major_id: name.clone() },
        server_scope: name,
        server_impl_id: None,
    }
}

struct Client {
    owner: OwnerName,
    /// Source address of EXCHANGE_ID.
    address: IpAddr,
    /// Network in which the client is counted.
    network: IpAddr,
    /// Other networks that showed its verifier.
    more_networks: Vec<IpAddr>,
    /// Time since which nothing is exported to its address any more.
    not_admitted_since: Option<Duration>,
    verifier: Verifier,
    principal: Principal,
    confirmed: bool,
    /// Sequence of the last CREATE_SESSION that succeeded.
    sequence: u32,
    /// Answer of that CREATE_SESSION, for a retry.
    created: Option<create_session::ResOk>,
    sessions: Vec<SessionId>,
    /// Time of its last call, in milliseconds of the monotonic clock.
    heard_ms: Arc<AtomicU64>,
}

struct Held {
    session: Arc<Session>,
    heard_ms: Arc<AtomicU64>,
}

/// The clients of one data server.
pub(crate) struct Clients {
    owner: OwnerName,
    service_addresses: ServiceAddresses,
    /// High half of client ids: another one after each start, so that an id of the last life is not taken for
    /// ours.
    start: u32,
    clients_max: usize,
    clients_of_address_max: usize,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    records: Mutex<Records>,
    /// Apart from the records, because every request looks here.
    sessions: RwLock<HashMap<SessionId, Held>>,
}

impl Clients {
    pub(crate) fn new(server: u64, clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>) -> Self {
        // Clients must never take two of our servers for one: they would use a session of the one at the
        // other.
        let owner = OwnerName::from(Bytes::from(format!("heorot-ds-{server:016x}")));
        let start = (entropy.u64() >> 32) as u32;
        let (clients_max, clients_of_address_max) = (CLIENTS_MAX, CLIENTS_OF_ADDRESS_MAX);
        Self {
            owner,
            service_addresses: ServiceAddresses::default(),
            start,
            clients_max,
            clients_of_address_max,
            clock,
            entropy,
            records: Mutex::default(),
            sessions: RwLock::default(),
        }
    }

    /// EXCHANGE_ID (RFC 8881, section 18.35).
    pub(crate) fn exchange_id(
        &self,
        args: exchange_id::Args,
        principal: Principal,
        (local, address): (IpAddr, IpAddr),
    ) -> Result<exchange_id::ResOk, Status> {
        let network = network_of(address);
        let name = self.name_at(local);
        if args.flags & !exchange_id::FLAGS_FROM_CLIENT != 0 {
            return Err(Status::Inval);
        }
        match args.state_protect {
            StateProtectArgs::None => {}
            // Both need RPCSEC_GSS, which a data server does not speak yet.
            StateProtectArgs::MachCred(_) => return Err(Status::Inval),
            StateProtectArgs::Ssv(_) => return Err(Status::EncrAlgUnsupp),
        }
        let update = args.flags & exchange_id::UPD_CONFIRMED_REC_A != 0;
        // A copy: a slice would keep the whole record that it came in. With the server's name: a client has a
        // record at each address.
        let owner = OwnerName::from(Bytes::from([&name.0[..], b"/", &args.clientowner.ownerid.0].concat()));
        let verifier = args.clientowner.verifier;
        let mut records = self.records();
        self.sweep(&mut records);
        let of_owner = records.of_owner(&owner.0);
        let known = |id: &u64| Some((*id, records.get(*id).filter(|client| client.confirmed)?));
        match of_owner.iter().find_map(known) {
            // Section 18.35.4: cases 6 to 9, an update of the record.
            Some((_, client)) if update && client.verifier != verifier => return Err(Status::NotSame),
            Some((_, client)) if update && client.principal != principal => return Err(Status::Perm),
            None if update => return Err(Status::NoEnt),
            // Case 3: another user has the name, and is alive.
            Some((_, client)) if client.principal != principal && self.is_alive(client) => {
                return Err(Status::ClidInUse);
            }
            // The same name from another address: knowing a client's name must not suffice to end its
            // sessions.
            Some((_, client))
                if client.verifier != verifier && client.network != network && self.is_alive(client) =>
            {
                return Err(Status::ClidInUse);
            }
            // Case 2: the client asks again.
            Some((id, client)) if client.verifier == verifier => {
                let known = known_as(name, id, client);
                if !client.is_from(network) && client.more_networks.len() < NETWORKS_MAX {
                    records.change(id, |client| client.more_networks.push(network));
                }
                return Ok(known);
            }
            // Cases 1, 4 and 5: new, never confirmed, or restarted. Its earlier state goes when it confirms.
            _ => {}
        }
        // A record with this name from another network stays: another client may claim the name, nothing is
        // known of that client yet, and both may confirm.
        for id in of_owner {
            if records.get(id).is_some_and(|client| !client.confirmed && client.network == network) {
                records.remove(id);
            }
        }
        self.make_room(&mut records, network);
        records.next = records.next.wrapping_add(1);
        let id = u64::from(self.start) << 32 | u64::from(records.next);
        let client = Client {
            owner,
            address,
            network,
            more_networks: Vec::new(),
            not_admitted_since: None,
            verifier,
            principal,
            confirmed: false,
            sequence: 0,
            created: None,
            sessions: Vec::new(),
            heard_ms: Arc::new(AtomicU64::new(self.now_ms())),
        };
        let answer = known_as(name, id, &client);
        records.insert(id, client);
        Ok(answer)
    }

    /// CREATE_SESSION (RFC 8881, section 18.36).
    pub(crate) fn create_session(
        &self,
        args: &create_session::Args,
        principal: Principal,
        address: IpAddr,
    ) -> Result<create_session::ResOk, Status> {
        let mut records = self.records();
        let id = args.clientid.0;
        let client = of_network(&records, args.clientid, address)?;
        if args.sequence == client.sequence
            && let Some(created) = client.created
        {
            return Ok(created);
        }
        if args.sequence != client.sequence.wrapping_add(1) {
            return Err(Status::SeqMisordered);
        }
        if !client.confirmed && client.principal != principal {
            return Err(Status::ClidInUse);
        }
        let fore = fore_channel(&args.fore_chan_attrs)?;
        // Never NFS4ERR_DELAY: Linux would ask again for ever. A session that is in use is made again.
        let oldest = (client.sessions.len() >= SESSIONS_MAX).then(|| client.sessions[0]);
        let session = self.new_session(id, &fore);
        let created = create_session::ResOk {
            sessionid: session.id(),
            sequence: args.sequence,
            // No reply outlives us, and we never call back.
            flags: 0,
            fore_chan_attrs: fore,
            back_chan_attrs: back_channel(&args.back_chan_attrs),
        };
        let (heard_ms, owner, now_ms) = (Arc::clone(&client.heard_ms), client.owner.clone(), self.now_ms());
        records.change(id, |client| {
            client.confirmed = true;
            client.sequence = args.sequence;
            client.created = Some(created);
            client.sessions.retain(|session| Some(*session) != oldest);
            client.sessions.push(session.id());
            client.heard_ms.store(now_ms, Ordering::Relaxed);
        });
        {
            let mut sessions = self.sessions_mut();
            oldest.map(|oldest| sessions.remove(&oldest));
            sessions.insert(session.id(), Held { session, heard_ms });
        }
        // The client's earlier life is over.
        let earlier: Vec<u64> = records.of_owner(&owner.0).into_iter().filter(|other| *other != id).collect();
        self.forget(&mut records, &earlier);
        Ok(created)
    }

    fn new_session(&self, client: u64, fore: &ChannelAttrs) -> Arc<Session> {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&client.to_be_bytes());
        id[8..].copy_from_slice(&self.entropy.u64().to_be_bytes());
        let id = SessionId(id);
        let limits = SessionLimits {
            request_bytes_max: fore.max_request_size,
            response_bytes_max: fore.max_response_size,
            cached_bytes_max: fore.max_response_size_cached,
            operations_max: fore.max_operations,
            slots: fore.max_requests,
        };
        Arc::new(Session::new(id, client, limits, Backchannel::new(id, 0, Credential::None, 1, false), false))
    }

    /// The session that SEQUENCE names; its client has been heard of.
    pub(crate) fn session(&self, id: SessionId) -> Option<Arc<Session>> {
        let sessions = self.sessions.read();
        let held = sessions.get(&id)?;
        held.heard_ms.store(self.now_ms(), Ordering::Relaxed);
        Some(Arc::clone(&held.session))
    }

    /// DESTROY_SESSION (RFC 8881, section 18.37).
    pub(crate) fn destroy_session(&self, id: SessionId) -> Result<(), Status> {
        let mut records = self.records();
        let held = self.sessions_mut().remove(&id).ok_or(Status::BadSession)?;
        records.change(held.session.client(), |client| client.sessions.retain(|session| *session != id));
        Ok(())
    }

    /// DESTROY_CLIENTID (RFC 8881, section 18.50).
    pub(crate) fn destroy_client(&self, id: ClientId, address: IpAddr) -> Result<(), Status> {
        let mut records = self.records();
        let client = of_network(&records, id, address)?;
        if !client.sessions.is_empty() {
            return Err(Status::ClientidBusy);
        }
        records.remove(id.0);
        Ok(())
    }

    fn now_ms(&self) -> u64 {
        self.clock.monotonic().as_millis() as u64
    }

    fn idle(&self, client: &Client) -> Duration {
        Duration::from_millis(self.now_ms().saturating_sub(client.heard_ms.load(Ordering::Relaxed)))
    }

    fn is_alive(&self, client: &Client) -> bool {
        !client.sessions.is_empty() && self.idle(client) <= LEASE
    }

    /// Forgets the clients that have not been admitted for a lease. Looks at all of them.
    pub(crate) fn end_not_admitted(&self, admits: impl Fn(IpAddr) -> bool) {
        let mut records = self.records();
        let now = self.clock.monotonic();
        let mut over = Vec::new();
        for (id, client) in records.all_mut() {
            client.not_admitted_since = match client.not_admitted_since {
                _ if admits(client.address) => None,
                since => since.or(Some(now)),
            };
            if client.not_admitted_since.is_some_and(|since| now.saturating_sub(since) >= LEASE) {
                over.push(id);
            }
        }
        self.forget(&mut records, &over);
    }

    /// Forgets clients that have been silent for long: some, with each client that begins.
    fn sweep(&self, records: &mut Records) {
        for used in [Use::Unconfirmed, Use::NoSession, Use::Session] {
            for _ in 0..SWEPT_MAX {
                let Some(id) = records.idlest(used, None) else { break };
                if records.get(id).is_none_or(|client| self.idle(client) <= IDLE_MAX) {
                    break;
                }
                self.forget(records, &[id]);
            }
        }
    }

    /// Makes room for one more client from `network`. Never refused, since Linux repeats an EXCHANGE_ID that
    /// is answered NFS4ERR_DELAY for ever: where all are in use, the idlest client of the network that has
    /// most is forgotten, and comes back with two round trips if it lives.
    fn make_room(&self, records: &mut Records, network: IpAddr) {
        let place = if records.len_of(network) >= self.clients_of_address_max {
            let own = Some(network);
            [Use::Unconfirmed, Use::NoSession, Use::Session]
                .into_iter()
                .find_map(|used| records.idlest(used, own))
        } else if records.len() >= self.clients_max {
            let unused =
                [Use::Unconfirmed, Use::NoSession].into_iter().find_map(|used| records.idlest(used, None));
            let is_over = |id: &u64, records: &Records| {
                records.get(*id).is_some_and(|client| self.idle(client) > LEASE)
            };
            let over =
                unused.or_else(|| records.idlest(Use::Session, None).filter(|id| is_over(id, records)));
            over.or_else(|| {
                let largest = records.largest_network();
                records.idlest(Use::Session, largest)
            })
        } else {
            None
        };
        if let Some(place) = place {
            self.forget(records, &[place]);
        }
    }

    fn forget(&self, records: &mut Records, ids: &[u64]) {
        let gone: Vec<_> = ids.iter().filter_map(|id| records.remove(*id)).collect();
        if gone.is_empty() {
            return;
        }
        let mut sessions = self.sessions_mut();
        for session in gone.iter().flat_map(|client| &client.sessions) {
            sessions.remove(session);
        }
    }

    fn records(&self) -> MutexGuard<'_, Records> {
        self.records.lock()
    }

    fn sessions_mut(&self) -> parking_lot::RwLockWriteGuard<'_, HashMap<SessionId, Held>> {
        self.sessions.write()
    }
}

/// The granted attributes: never more than the client asked for.
fn fore_channel(asked: &ChannelAttrs) -> Result<ChannelAttrs, Status> {
    let smallest = asked.max_request_size.min(asked.max_response_size);
    if smallest < MESSAGE_BYTES_MIN || asked.max_operations < 2 || asked.max_requests < 1 {
        return Err(Status::TooSmall);
    }
    Ok(ChannelAttrs {
        header_pad_size: 0,
        max_request_size: asked.max_request_size.min(MESSAGE_BYTES_MAX),
        max_response_size: asked.max_response_size.min(MESSAGE_BYTES_MAX),
        max_response_size_cached: asked.max_response_size_cached.min(CACHED_BYTES_MAX),
        max_operations: asked.max_operations.min(OPERATIONS_MAX),
        max_requests: asked.max_requests.min(SLOTS_MAX),
        rdma_ird: None,
    })
}

/// We never use it: whatever the client likes, within reason.
fn back_channel(asked: &ChannelAttrs) -> ChannelAttrs {
    ChannelAttrs {
        header_pad_size: 0,
        max_request_size: asked.max_request_size.min(MESSAGE_BYTES_MAX),
        max_response_size: asked.max_response_size.min(MESSAGE_BYTES_MAX),
        max_response_size_cached: asked.max_response_size_cached.min(CACHED_BYTES_MAX),
        max_operations: asked.max_operations.min(OPERATIONS_MAX),
        max_requests: asked.max_requests.min(1),
        rdma_ird: None,
    }
}

#[cfg(test)]
mod tests;
