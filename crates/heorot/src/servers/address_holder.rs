//! Service addresses of a data server: its own, and those of others that are silent.
//!
//! Each metaserver is told the held addresses and their connected clients, so that the next holder can tell
//! the clients. The leader grants addresses for a lease; without a grant the kernel removes them.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use dataserver::DataServer;
use host::interface::{HOLD_MIN, Patience};
use host::{SystemClock, SystemEntropy};
use nfs::{CallFailure, ConnectedClients, HeldAddresses, Peer, Server};
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use wire::cluster::hold_addresses::{Args, Connections, Res, ResOk};
use wire::cluster::{Procedure, Status};

use crate::servers::known_metaservers::KnownMetaservers;

/// Most of what a metaserver may grant for: a hanging server keeps the address for so long.
const LEASE_MAX: Duration = Duration::from_secs(10);
/// A grant that took longer to come has used up too much of its lease.
const ANSWER_TIME_MAX: Duration = Duration::from_millis(400);
/// Pause after a call without an answer, and the bounds of what a metaserver asks for.
const PAUSE: Duration = Duration::from_millis(300);
const BEAT_MIN: Duration = Duration::from_millis(50);
const BEAT_MAX: Duration = Duration::from_secs(1);
/// Time to check that no other machine has an address.
const PATIENCE: Patience = Patience { solicitations: 2, gap: Duration::from_millis(30) };
/// Most addresses in a grant, and clients of one address, that are looked at.
const ADDRESSES_MAX: usize = 4096;
const CLIENTS_MAX: usize = 65_536;

/// The task that holds the addresses of a data server.
pub(crate) struct AddressHolder {
    server: Arc<DataServer>,
    held: HeldAddresses,
    /// Addresses held at the last look: those that are gone since were removed by the kernel.
    before: Mutex<BTreeSet<IpAddr>>,
    /// Only one grant is carried out at a time.
    carries_out: tokio::sync::Mutex<()>,
    /// True if the server stops.
    takes_none: AtomicBool,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl AddressHolder {
    /// Starts to ask the metaservers for addresses. `nfs` serves them.
    pub(crate) fn start(
        own: IpAddr,
        server: &Arc<DataServer>,
        nfs: &Server,
        metaservers: Arc<KnownMetaservers>,
    ) -> Arc<Self> {
        let (clock, entropy) = (Arc::new(SystemClock::default()), Arc::new(SystemEntropy));
        let open = Box::new(nfs::open_interfaces);
        let held = HeldAddresses::new(nfs, None, open, PATIENCE, clock, entropy);
        held.learn([own]);
        server.lease_service_addresses([own], Duration::ZERO);
        let holder = Arc::new(Self {
            server: Arc::clone(server),
            held,
            before: Mutex::default(),
            carries_out: tokio::sync::Mutex::default(),
            takes_none: AtomicBool::new(false),
            task: Mutex::default(),
        });
        let asks = Arc::clone(&holder);
        let task = async move {
            let each = |peer| Arc::clone(&asks).ask(peer);
            metaservers.with_each(each, || {}).await;
        };
        *holder.task.lock() = Some(tokio::spawn(task));
        holder
    }

    /// Ends the task and gives all addresses back.
    pub(crate) async fn stop(&self) {
        if let Some(task) = self.task.lock().take() {
            task.abort();
        }
        self.takes_none.store(true, Ordering::SeqCst);
        let _last = self.carries_out.lock().await;
        self.held.held().unwrap_or_default().into_iter().for_each(|address| self.held.release(address));
    }

    /// Tells one metaserver of the held addresses, again and again, and carries out its grants.
    async fn ask(self: Arc<Self>, peer: Arc<Peer>) {
        let mut told: Option<ConnectedClients> = None;
        loop {
            let pause = self.ask_once(&peer, &mut told).await.unwrap_or_else(|why| {
                tracing::debug!(metaserver = %peer.address(), "no service addresses from there: {why}");
                told = None;
                PAUSE
            });
            tokio::time::sleep(pause).await;
        }
    }

    async fn ask_once(&self, peer: &Peer, told: &mut Option<ConnectedClients>) -> Result<Duration, String> {
        let held = match self.look() {
            Ok(held) => held,
            Err(error) => {
                self.held.note_refusal(error.to_string());
                return Err(error.to_string());
            }
        };
        let clients = self.held.clients(&held);
        let tells_connections = told.as_ref() != Some(&clients);
        let args = Args {
            server: self.server.id(),
            port: self.held.listens().port().into(),
            held: held.iter().map(text).collect(),
            tells_connections,
            connections: if tells_connections { to_wire(&clients) } else { vec![] },
        };
        let (asked, lease_begins) = (Instant::now(), self.server.lease_begins());
        let answer: Result<Res, CallFailure> =
            peer.call(Procedure::HoldAddresses as u32, &args, ANSWER_TIME_MAX).await;
        let granted = match answer {
            Ok(Ok(granted)) => granted,
            Ok(Err(status)) => return Err(refused(status)),
            Err(error) => return Err(error.to_string()),
        };
        *told = Some(clients);
        if granted.leads && asked.elapsed() < ANSWER_TIME_MAX {
            self.carry_out(&granted, &held, lease_begins).await;
        }
        Ok(Duration::from_millis(granted.beat_ms.into()).clamp(BEAT_MIN, BEAT_MAX))
    }

    /// Addresses on this machine now. The connections to those that the kernel has removed are closed.
    fn look(&self) -> host::interface::Result<BTreeSet<IpAddr>> {
        let held = self.held.held()?;
        let mut before = self.before.lock();
        before.difference(&held).for_each(|address| self.held.lost(*address));
        before.clone_from(&held);
        Ok(held)
    }

    async fn carry_out(&self, grant: &ResOk, held: &BTreeSet<IpAddr>, lease_begins: Duration) {
        let lease = Duration::from_millis(grant.lease_ms.into()).clamp(HOLD_MIN, LEASE_MAX);
        let _one = self.carries_out.lock().await;
        if self.takes_none.load(Ordering::SeqCst) {
            return;
        }
        let granted: BTreeSet<IpAddr> = grant.granted.iter().take(ADDRESSES_MAX).filter_map(parsed).collect();
        for address in held.difference(&granted) {
            self.held.release(*address);
            self.before.lock().remove(address);
        }
        // Before clients can reach the addresses.
        self.held.learn(granted.iter().copied());
        self.server.lease_service_addresses(granted.iter().copied(), lease_begins + lease);
        for address in held.intersection(&granted) {
            self.held.renew(*address, lease);
        }
        let taken = granted.difference(held).map(|address| {
            let clients = connected(*address, &grant.connections);
            self.held.take(*address, lease, std::future::ready(clients))
        });
        // At the same time: each address is probed first.
        futures_util::future::join_all(taken).await;
    }
}

fn refused(status: Status) -> String {
    format!("the metaserver answers {status:?}")
}

fn text(address: &impl ToString) -> Bytes {
    Bytes::from(address.to_string())
}

fn parsed<T: std::str::FromStr>(text: &Bytes) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn to_wire(clients: &ConnectedClients) -> Vec<Connections> {
    let of = |(address, clients): (&IpAddr, &BTreeSet<SocketAddr>)| Connections {
        address: text(address),
        clients: clients.iter().map(text).collect(),
    };
    clients.iter().map(of).collect()
}

/// Clients that were connected to this address at its holder before.
fn connected(address: IpAddr, all: &[Connections]) -> BTreeSet<SocketAddr> {
    let of = all.iter().filter(|connections| parsed(&connections.address) == Some(address));
    of.flat_map(|connections| connections.clients.iter().take(CLIENTS_MAX).filter_map(parsed)).collect()
}
