//! Service addresses of a server on its machine: taken, renewed and released with their connections.
//!
//! In: the addresses that the leader grants. Out: addresses on an interface, each with a lifetime
//! ([`host::interface`]); their clients learn of the move. The assignment is the leader's.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use host::interface::{
    ANNOUNCEMENT_GAPS, Error, Interfaces, Patience, Result, SystemInterfaces, announce_with_gaps, take,
};
use host::{Clock, Entropy};
use parking_lot::Mutex;

use crate::{Connections, Server};

/// Time without a log line for an address in use: the holder before may lose the address late, and that is no
/// fault yet.
const IN_USE_MAX: Duration = Duration::from_secs(4);
/// Gaps before each tickle of a client: a segment may be lost, the client's network may not know yet where
/// the address is, and Linux answers a connection's strange segments only once in half a second.
const TICKLE_GAPS: [Duration; 4] =
    [Duration::ZERO, Duration::from_millis(100), Duration::from_millis(600), Duration::from_secs(2)];

/// Gives access to this machine's interfaces.
pub type OpenInterfaces = Box<dyn Fn() -> Result<Arc<dyn Interfaces>> + Send + Sync>;

/// Clients that are connected to each address.
pub type ConnectedClients = BTreeMap<IpAddr, BTreeSet<SocketAddr>>;

/// Opens the interfaces of this machine, such that service addresses go with the process where that is
/// possible.
///
/// # Errors
/// When the kernel gives no access.
pub fn open_interfaces() -> Result<Arc<dyn Interfaces>> {
    let mut interfaces = SystemInterfaces::open()?;
    if let Err(why) = interfaces.go_with_process() {
        tracing::warn!(
            %why,
            "if this process dies its service addresses stay for two seconds, and clients wait longer"
        );
    }
    Ok(Arc::new(interfaces))
}

/// Service addresses of this process, and the connections to them.
pub struct HeldAddresses {
    /// Interface for them; none: the interface with their network.
    interface: Option<String>,
    /// Called when there are addresses to hold, until it succeeds.
    open: OpenInterfaces,
    interfaces: OnceLock<Arc<dyn Interfaces>>,
    /// One opens them: a second device would have no number that is high enough.
    opening: Mutex<()>,
    /// Every service address since the start of this process: a removed one must be released, too.
    known: Mutex<BTreeSet<IpAddr>>,
    connections: Connections,
    listens: SocketAddr,
    /// Time to check for another holder.
    patience: Patience,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    /// The last logged error of each address, so that each error is logged once, and the start of the trouble.
    troubles: Mutex<BTreeMap<IpAddr, (String, Duration)>>,
    /// The last logged reason why no address can be held here.
    refusal: Mutex<Option<String>>,
}

impl HeldAddresses {
    /// Service addresses of `server`. `patience`: time to check for another holder.
    #[must_use]
    pub fn new(
        server: &Server,
        interface: Option<String>,
        open: OpenInterfaces,
        patience: Patience,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Self {
        Self {
            interface,
            open,
            interfaces: OnceLock::new(),
            opening: Mutex::default(),
            known: Mutex::default(),
            connections: server.connections(),
            listens: server.address(),
            patience,
            clock,
            entropy,
            troubles: Mutex::default(),
            refusal: Mutex::default(),
        }
    }

    /// Address that the server listens on: the unspecified one, if it can hold service addresses.
    #[must_use]
    pub fn listens(&self) -> SocketAddr {
        self.listens
    }

    /// Notes these addresses as service addresses.
    pub fn learn(&self, addresses: impl IntoIterator<Item = IpAddr>) {
        self.known.lock().extend(addresses);
    }

    /// True if this is a service address.
    #[must_use]
    pub fn knows(&self, address: IpAddr) -> bool {
        self.known.lock().contains(&address)
    }

    /// Service addresses on this machine now.
    ///
    /// # Errors
    /// When the kernel does not answer, or allows no access.
    pub fn held(&self) -> Result<BTreeSet<IpAddr>> {
        let Some(interfaces) = self.interfaces()? else { return Ok(BTreeSet::new()) };
        let held = interfaces.held()?.into_iter().map(|holding| holding.address);
        Ok(held.filter(|address| self.knows(*address)).collect())
    }

    /// Clients connected to each of these addresses.
    #[must_use]
    pub fn clients(&self, held: &BTreeSet<IpAddr>) -> ConnectedClients {
        let mut clients: ConnectedClients = held.iter().map(|address| (*address, BTreeSet::new())).collect();
        for (local, peer) in self.connections.ends() {
            if let Some(clients) = clients.get_mut(&local.ip()) {
                clients.insert(peer);
            }
        }
        clients
    }

    /// Closes the connections to an address that the kernel has removed.
    pub fn lost(&self, address: IpAddr) {
        tracing::info!(%address, "a service address is gone");
        self.connections.abandon(address);
    }

    /// Gives an address back: removes it and closes its connections.
    pub fn release(&self, address: IpAddr) {
        let Some(interfaces) = self.interfaces.get() else { return };
        match interfaces.release(address) {
            Ok(()) => self.connections.abandon(address),
            Err(error) => tracing::warn!(%address, %error, "a service address is not given back"),
        }
    }

    /// Renews an address that is held: from now on for `lease`, at least [`host::interface::HOLD_MIN`]. Logs a
    /// failure once.
    pub fn renew(&self, address: IpAddr, lease: Duration) {
        let Some(interfaces) = self.interfaces.get() else { return };
        let found = interfaces.find(address, self.interface.as_deref());
        self.note(address, found.and_then(|interface| interfaces.hold(address, &interface, lease)));
    }

    /// Takes an address that no other machine answers for, announces it, and tells the clients of the holder
    /// before. Logs a failure once. Returns true if the address is here.
    pub async fn take(
        &self,
        address: IpAddr,
        lease: Duration,
        clients: impl Future<Output = BTreeSet<SocketAddr>>,
    ) -> bool {
        let taken = self.try_to_take(address, lease, clients).await;
        let is_taken = taken.is_ok();
        self.note(address, taken);
        is_taken
    }

    async fn try_to_take(
        &self,
        address: IpAddr,
        lease: Duration,
        clients: impl Future<Output = BTreeSet<SocketAddr>>,
    ) -> Result<()> {
        let Some(interfaces) = self.interfaces.get() else { return Ok(()) };
        let named = self.interface.as_deref();
        let taken = take(&**interfaces, address, named, lease, self.patience, tokio::time::sleep);
        let (taken, clients) = tokio::join!(taken, clients);
        let interface = taken?;
        tracing::info!(%address, %interface, clients = clients.len(), "holds a service address");
        let from = SocketAddr::new(address, self.listens.port());
        tokio::spawn(tickle(Arc::clone(interfaces), Arc::clone(&self.entropy), from, clients));
        let interfaces = Arc::clone(interfaces);
        tokio::spawn(async move {
            let gaps = &ANNOUNCEMENT_GAPS;
            let _ = announce_with_gaps(&*interfaces, address, &interface, gaps, tokio::time::sleep).await;
        });
        Ok(())
    }

    /// Logs once why this process holds no address at all.
    pub fn note_refusal(&self, why: String) {
        let mut refusal = self.refusal.lock();
        if refusal.as_ref() != Some(&why) {
            tracing::error!("no service addresses are held here: {why}");
            *refusal = Some(why);
        }
    }

    /// This machine's interfaces, once there is an address to hold.
    fn interfaces(&self) -> Result<Option<&Arc<dyn Interfaces>>> {
        if let Some(interfaces) = self.interfaces.get() {
            return Ok(Some(interfaces));
        }
        if self.known.lock().is_empty() {
            return Ok(None);
        }
        let _alone = self.opening.lock();
        if self.interfaces.get().is_none() {
            let opened = (self.open)()?;
            let _ = self.interfaces.set(opened);
        }
        Ok(self.interfaces.get())
    }

    /// Logs the error of an address once.
    fn note(&self, address: IpAddr, outcome: Result<()>) {
        let mut troubles = self.troubles.lock();
        let Err(error) = outcome else { return drop(troubles.remove(&address)) };
        let now = self.clock.monotonic();
        let (logged, since) = troubles.entry(address).or_insert_with(|| (String::new(), now));
        if matches!(error, Error::InUse { .. }) && now.saturating_sub(*since) < IN_USE_MAX {
            return;
        }
        let error = error.to_string();
        if *logged != error {
            tracing::error!(%address, %error, "a service address cannot be held");
            *logged = error;
        }
    }
}

/// Tells the clients of an address, which this machine has taken, that their connections are gone.
async fn tickle(
    interfaces: Arc<dyn Interfaces>,
    entropy: Arc<dyn Entropy>,
    from: SocketAddr,
    clients: BTreeSet<SocketAddr>,
) {
    for gap in TICKLE_GAPS {
        tokio::time::sleep(gap).await;
        if !interfaces.holds(from.ip()).unwrap_or(false) {
            return;
        }
        for client in &clients {
            let sequence = entropy.u64() as u32;
            if let Err(error) = interfaces.tickle(from, *client, sequence) {
                tracing::debug!(%client, %error, "a client finds out by itself that its connection is gone");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use host::interface::FakeNetwork;
    use host::{SystemClock, SystemEntropy};

    use super::*;
    use crate::{Limits, Programs};

    #[tokio::test]
    async fn the_interfaces_are_opened_once() {
        let any = "127.0.0.1:0".parse().unwrap();
        let server =
            Server::start(any, Programs::new(vec![]), Limits::default(), Arc::default()).await.unwrap();
        let clock = Arc::new(SystemClock::default());
        let (opened, network) = (Arc::new(AtomicUsize::new(0)), FakeNetwork::new(clock.clone()));
        let open = {
            let opened = Arc::clone(&opened);
            move || -> Result<Arc<dyn Interfaces>> {
                opened.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(20)); // so that others come meanwhile
                Ok(Arc::new(network.join("machine")))
            }
        };
        let patience = Patience { solicitations: 1, gap: Duration::from_millis(1) };
        let held =
            HeldAddresses::new(&server, None, Box::new(open), patience, clock, Arc::new(SystemEntropy));
        assert!(
            held.held().unwrap().is_empty() && opened.load(Ordering::Relaxed) == 0,
            "no address is known"
        );
        held.learn(["10.77.0.9".parse().unwrap()]);
        std::thread::scope(|scope| {
            (0..8).for_each(|_| drop(scope.spawn(|| held.held().unwrap())));
        });
        assert_eq!(opened.load(Ordering::Relaxed), 1);
    }
}
