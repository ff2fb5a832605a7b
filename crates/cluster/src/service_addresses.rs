//! Service addresses: clients mount one of them, and each is always on a live metaserver.
//!
//! ```text
//! every metaserver ──every 150 ms: "these I hold"──▶ leader: the assignment
//!        ▲                                              │
//!        └──────"these you may hold for a second"───────┘
//! ```
//!
//! The holder puts each granted address on an interface with that lifetime ([`host::interface`]). The kernel
//! removes an address that is not granted again, because the holder hangs or is cut off; it removes the
//! addresses of a dead holder at once. Then the leader grants the address to another member: at once if the
//! kernel of the dead holder refuses a connection, else at the end of the address lease. The next holder
//! tells the clients ([`clients`]).
//!
//! Data servers may have service addresses, too, each its own ([`of_data_servers`]).
//!
//! A metaserver that stops releases its addresses and tells the leader. When an address becomes free, the
//! leader tells all members to ask at once: no member waits for its next beat.

mod assignment;
pub(crate) mod clients;
pub(crate) mod of_data_servers;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use host::interface::Patience;
use nfs::{Connection, HeldAddresses, OpenInterfaces, Server};
use parking_lot::Mutex;
use replica::{Member, NodeId};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use self::assignment::{ASKING, Assignment, BEAT, LEASE};
use self::clients::{Known, Told};
use crate::cluster::Cluster;

/// An address of a live metaserver moves after a second ([`LEASE`]), not before.
const MOVES_AFTER: Duration = Duration::from_millis(500);
/// Time for the other members to take the addresses of a leader that stops: they need a tenth of a second.
const TAKEN_TIME_MAX: Duration = Duration::from_secs(1);

/// Settings of this machine for service addresses; the cluster map lists the addresses.
pub struct ServiceAddresses {
    /// Interface for them; none: the interface with their network.
    pub interface: Option<String>,
    /// Called when there are addresses to hold, until it succeeds.
    pub open: OpenInterfaces,
    /// File with the connected clients of the addresses.
    pub clients_file: PathBuf,
}

/// State of a metaserver for service addresses.
#[derive(Default)]
pub(crate) struct Addressing {
    /// The leader's assignment, while this metaserver leads.
    assignment: Mutex<Option<Assignment<NodeId>>>,
    /// The same of the data servers' addresses.
    of_data_servers: Mutex<of_data_servers::Assignments>,
    pub(crate) clients: Known,
    /// Addresses of this machine, once it holds any.
    held: OnceLock<Arc<HeldAddresses>>,
    holder: Mutex<Option<JoinHandle<()>>>,
    /// Notification to ask the leader now, before the next beat.
    ask_now: Notify,
    /// Notification that the leader's assignment may have changed.
    assignment_changed: Notify,
}

/// The task that holds service addresses.
struct Holder {
    server: Arc<Cluster>,
    held: Arc<HeldAddresses>,
    clients_file: PathBuf,
    told: Mutex<Told>,
}

impl Cluster {
    /// Holds the addresses that the leader grants, until [`Cluster::release_addresses`]; `server` is the NFS
    /// server for clients.
    pub fn hold_addresses(self: &Arc<Self>, service: ServiceAddresses, server: &Server) {
        self.addressing.clients.read(&service.clients_file);
        let patience = Patience { solicitations: 2, gap: ASKING / 2 };
        let (clock, entropy) = (Arc::clone(&self.group.clock), Arc::clone(&self.group.entropy));
        let held = HeldAddresses::new(server, service.interface, service.open, patience, clock, entropy);
        let held = Arc::new(held);
        let _ = self.addressing.held.set(Arc::clone(&held));
        let (server, clients_file) = (Arc::clone(self), service.clients_file);
        let holder = Holder { server, held, clients_file, told: Mutex::default() };
        let holds = async move {
            tokio::join!(holder.beat(), holder.server.watch_holders());
        };
        *self.addressing.holder.lock() = Some(tokio::spawn(holds));
    }

    /// Releases all addresses to other members, before this metaserver stops. A leader should lead until
    /// then: its assignment is complete, and the next leader's is complete only after a beat of every member.
    pub async fn release_addresses(self: &Arc<Self>) {
        let Some(here) = self.addressing.held.get() else { return };
        if let Some(holder) = self.holds_no_more() {
            let _ = holder.await; // it may just be taking one
        }
        let held = here.held().unwrap_or_default();
        self.addressing.clients.learn(here.clients(&held));
        for address in held {
            here.release(address);
        }
        self.holds_none().await;
        let status = self.group.replica.status();
        if self.group.replica.leads() && status.reachable.len() > 1 {
            let taken = self.taken_by_others(status.id);
            if tokio::time::timeout(TAKEN_TIME_MAX, taken).await.is_err() {
                tracing::warn!("not all service addresses are with other metaservers yet");
            }
        }
    }

    /// Aborts the task that asks for addresses; the held addresses expire at the end of their lease.
    pub fn holds_no_more(&self) -> Option<JoinHandle<()>> {
        let holder = self.addressing.holder.lock().take()?;
        holder.abort();
        Some(holder)
    }

    /// Returns when other members hold all addresses, by the assignment of this leader, or when this
    /// metaserver does not lead any more.
    async fn taken_by_others(&self, id: NodeId) {
        loop {
            let changed = self.addressing.assignment_changed.notified();
            if self.with_assignment(|assignment, _| assignment.is_held_without(id)).unwrap_or(true) {
                return;
            }
            changed.await;
        }
    }

    /// Checks, while this metaserver leads, if silent members are dead.
    async fn watch_holders(self: &Arc<Self>) {
        let mut often = tokio::time::interval(BEAT);
        often.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            often.tick().await;
            let suspects =
                self.with_assignment(|assignment, now| assignment.suspects(now)).unwrap_or_default();
            for member in suspects {
                let status = self.group.replica.status();
                let known = status.members.into_iter().find(|(id, ..)| *id == member && *id != status.id);
                let Some((_, known, _)) = known else { continue };
                if self.group.replica.process_is_dead(&known).await {
                    tracing::info!(name = %known.name, "is dead: its service addresses are free");
                    self.addresses_free(member);
                }
            }
        }
    }

    fn with_assignment<T>(&self, look: impl FnOnce(&mut Assignment<NodeId>, Duration) -> T) -> Option<T> {
        let mut assignment = self.addressing.assignment.lock();
        Some(look(assignment.as_mut()?, self.group.clock.monotonic()))
    }

    /// Notes that `member` is dead, or stops: its addresses are free.
    pub(crate) fn addresses_free(self: &Arc<Self>, member: NodeId) {
        self.with_assignment(|assignment, now| assignment.gone(member, now));
        self.tell_of_free_addresses();
    }

    /// If an address has become free in the assignment, tells all members to ask now.
    fn tell_of_free_addresses(self: &Arc<Self>) {
        if self.with_assignment(|assignment, _| assignment.take_freed()) == Some(true) {
            self.ask_for_addresses_now();
            let server = Arc::clone(self);
            tokio::spawn(async move { server.have_others_ask_for_addresses().await });
        }
    }

    /// Asks the leader for addresses now: one may be free.
    pub(crate) fn ask_for_addresses_now(&self) {
        self.addressing.ask_now.notify_one();
    }

    /// Starts the assignment of a leader, if this metaserver still leads.
    async fn keep_assignment(&self) -> Option<()> {
        // A deposed leader that does not know it yet must not grant an address that the new leader grants,
        // too.
        tokio::time::timeout(BEAT, self.group.read_barrier()).await.ok()?.ok()?;
        let (status, now) = (self.group.replica.status(), self.group.clock.monotonic());
        let mut assignment = self.addressing.assignment.lock();
        let members = status.members.iter().map(|(id, ..)| *id);
        assignment.get_or_insert_with(|| Assignment::new(&self.map().head.service_addresses, members, now));
        Some(())
    }

    /// A leader that can hold no address itself keeps the assignment for the other members.
    async fn keep_assignment_for_others(self: &Arc<Self>) {
        if self.group.replica.leads() && self.keep_assignment().await.is_some() {
            let member = self.group.replica.status().id;
            self.with_assignment(|assignment, now| assignment.withhold(member, &[], now));
        }
    }

    async fn ask_for_addresses(self: &Arc<Self>, held: Vec<IpAddr>) -> Option<Vec<IpAddr>> {
        let status = self.group.replica.status();
        let member = status.id;
        if self.group.replica.leads() {
            self.keep_assignment().await?;
            return self.note_beat(member, &held);
        }
        *self.addressing.assignment.lock() = None;
        self.ask_leader_for_addresses(member, held).await
    }

    /// True if a call may be carried out that arrived at `arrived` and had to wait. False if its client may
    /// have moved to another metaserver meanwhile and sent the call there again: the call here would then be
    /// done after later calls there.
    #[must_use]
    pub fn may_answer(&self, connection: &Connection, arrived: Duration) -> bool {
        if self.group.clock.monotonic().saturating_sub(arrived) < MOVES_AFTER {
            return true;
        }
        let address = connection.local().ip();
        let holds = |here: &Arc<HeldAddresses>| {
            !here.knows(address) || here.held().is_ok_and(|held| held.contains(&address))
        };
        connection.is_open() && self.addressing.held.get().is_none_or(holds)
    }

    /// Answers the beat of another metaserver. None: this one does not lead, or there are no service
    /// addresses.
    pub(crate) async fn grant_addresses(
        self: &Arc<Self>,
        member: NodeId,
        held: &[IpAddr],
    ) -> Option<Vec<IpAddr>> {
        tokio::time::timeout(BEAT, self.group.read_barrier()).await.ok()?.ok()?;
        self.group.replica.leads().then_some(())?;
        self.note_beat(member, held)
    }

    /// Notes the beat of a member in the assignment; a draining member gets no address.
    fn note_beat(self: &Arc<Self>, member: NodeId, held: &[IpAddr]) -> Option<Vec<IpAddr>> {
        let drains = self.drains(member);
        let map = self.map();
        let granted = self.with_assignment(|assignment, now| {
            assignment.follow(&map.head.service_addresses, now);
            if drains {
                assignment.withhold(member, held, now);
                return vec![];
            }
            assignment.beat(member, held, now)
        });
        self.addressing.assignment_changed.notify_waiters();
        self.tell_of_free_addresses();
        granted
    }

    /// Holder of each service address, if this metaserver leads.
    pub(crate) fn address_owners(&self) -> BTreeMap<IpAddr, Option<NodeId>> {
        self.with_assignment(|assignment, _| assignment.owners()).unwrap_or_default()
    }

    /// The other members.
    fn others(&self) -> Vec<(NodeId, Member)> {
        let status = self.group.replica.status();
        let others = status.members.into_iter().filter(|(id, ..)| *id != status.id);
        others.map(|(id, member, _)| (id, member)).collect()
    }
}

impl Holder {
    async fn beat(&self) {
        let mut often = tokio::time::interval(BEAT);
        often.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut before = BTreeSet::new();
        loop {
            tokio::select! {
                _ = often.tick() => {}
                () = self.server.addressing.ask_now.notified() => {}
            }
            let addresses = self.server.map().head.service_addresses.clone();
            self.held.learn(addresses.iter().copied());
            let held = match self.held.held() {
                Ok(held) => held,
                Err(error) => {
                    self.held.note_refusal(format!("{error}"));
                    continue;
                }
            };
            // Also the addresses that the kernel removed while this process stood still.
            for address in before.difference(&held) {
                self.held.lost(*address);
            }
            before.clone_from(&held);
            if addresses.is_empty() && held.is_empty() {
                continue;
            }
            let listens = self.held.listens();
            if !listens.ip().is_unspecified() && !addresses.is_empty() {
                self.held.note_refusal(format!(
                    "this metaserver listens on {listens} alone; set listen = \"0.0.0.0:{}\" in its file and start it again",
                    listens.port()
                ));
                self.server.keep_assignment_for_others().await;
                continue;
            }
            self.tell_of_clients(&held);
            let clock = &self.server.group.clock;
            let asked = clock.monotonic();
            // No answer: the held addresses expire at the end of their lease.
            let all = held.iter().copied().collect();
            let Some(granted) = self.server.ask_for_addresses(all).await else {
                continue;
            };
            if clock.monotonic().saturating_sub(asked) > BEAT {
                continue; // most of its time is over
            }
            for address in held.iter().filter(|address| !granted.contains(address)) {
                self.held.release(*address);
                self.server.ask_for_addresses_now(); // which says that it is free
            }
            let (renewed, taken): (Vec<_>, Vec<_>) = granted.into_iter().partition(|a| held.contains(a));
            for address in renewed {
                self.held.renew(address, LEASE);
            }
            // At the same time: each address is probed first.
            futures_util::future::join_all(taken.into_iter().map(|address| async move {
                if self.held.take(address, LEASE, self.server.clients_of(address)).await {
                    self.server.ask_for_addresses_now(); // which says that it is held
                }
            }))
            .await;
        }
    }

    /// Tells the other members, and the file, the clients that are connected to the addresses of this
    /// machine.
    fn tell_of_clients(&self, held: &BTreeSet<IpAddr>) {
        let clients = self.held.clients(held);
        let mut told = self.told.lock();
        let now = self.server.group.clock.monotonic();
        self.server.addressing.clients.learn(clients.clone());
        for (id, member) in self.server.others() {
            if told.is_news(id, &clients, now) {
                let server = Arc::clone(&self.server);
                let clients = clients.clone();
                tokio::spawn(async move { server.tell_of_clients(&member, &clients).await });
            }
        }
        // The file is treated as one more member.
        if told.is_news(self.server.group.replica.status().id, &clients, now) {
            let (server, file) = (Arc::clone(&self.server), self.clients_file.clone());
            #[allow(clippy::disallowed_methods)] // no simulation has service addresses
            tokio::task::spawn_blocking(move || {
                if let Err(error) = server.addressing.clients.write(&file) {
                    tracing::warn!(file = %file.display(), %error, "who is connected is not remembered");
                }
            });
        }
    }
}
