//! Observer of the replica: commands applied for any metaserver of the group.
//!
//! All lasting state is in the state machine. This module updates the in-memory state of this metaserver
//! (waiters, data servers, expired leases) after each command.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use bytes::Bytes;
use namespace::{ChainId, ClientId, Command, DataServer, DeviceId, InodeId, Reply, SessionId, read};
use parking_lot::Mutex;
use replica::{AnswerFuture, Applied, BeforeOrder, Observer};
use tokio::sync::{Notify, mpsc, oneshot};
use wire::peer::Call;

use crate::Metaserver;
use crate::errors::FileError;
use crate::state::ClientState;

/// Maximum of calls of other metaservers that wait for an answer; the next caller waits as well.
const CALLS_MAX: usize = 1024;

/// Flag: layouts, delegations or opens were returned.
const RETURNED: u8 = 1;
/// Flag: a lock was released, or its holder ended.
const UNLOCKED: u8 = 2;
/// Flag: there are deferred object operations.
const DEFERRED: u8 = 4;

/// An event, processed in the order of commands.
enum Event {
    DataServer(DataServer),
    Device(Vec<ChainId>, DeviceId),
    Granted(InodeId, ClientId),
    Lapsed(ClientId),
    Renewed(ClientId),
    /// A client has a new session, or asked again for one that it has.
    HasSession(ClientId),
    Gone(ClientId),
    Revoked(ClientId),
    /// A state was freed, perhaps the client's last revoked one.
    Acknowledged(ClientId),
    SessionEnded(SessionId),
    /// A metaserver started, so long ago: renewals that its process before had not reported are lost, and older.
    ServerStarted {
        ago: Duration,
    },
    /// The whole store may be different, after a snapshot install.
    Replaced,
    Map,
}

/// Call of another metaserver, and the channel for its answer.
type PeerCall = (Call, oneshot::Sender<Bytes>);

/// Observer on the replica's side.
pub struct Upcalls {
    seen: Arc<Seen>,
    calls: mpsc::Sender<PeerCall>,
}

/// Observer on the metaserver's side: see [`Metaserver::follow`].
pub struct Follower {
    seen: Arc<Seen>,
    calls: mpsc::Receiver<PeerCall>,
}

impl Follower {
    /// Returns the count of ended sessions. It changes whenever sessions may have ended, before a view shows
    /// the end.
    pub(crate) fn session_ends(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.seen.ends)
    }

    /// Has `state` look at commands before they are ordered here.
    pub(crate) fn look_before(&self, state: &Arc<ClientState>) {
        if self.seen.state.set(Arc::downgrade(state)).is_ok() {
            state.brief_opens.begin();
        }
    }
}

/// Events of applied commands, not processed yet.
#[derive(Default)]
pub(crate) struct Seen {
    flags: AtomicU8,
    events: Mutex<Vec<Event>>,
    some: Notify,
    ends: Arc<AtomicU64>,
    /// The metaserver's part that looks at commands before they are ordered.
    state: OnceLock<Weak<ClientState>>,
}

/// Returns both sides of the observer.
#[must_use]
pub fn upcalls() -> (Arc<Upcalls>, Follower) {
    let (send, calls) = mpsc::channel(CALLS_MAX);
    let seen = Arc::new(Seen::default());
    (Arc::new(Upcalls { seen: Arc::clone(&seen), calls: send }), Follower { seen, calls })
}

impl Seen {
    fn flag(&self, flag: u8) {
        // The next round takes all flags at once.
        if self.flags.fetch_or(flag, Ordering::AcqRel) & flag == 0 {
            self.some.notify_one();
        }
    }

    fn event(&self, event: Event) {
        if let Event::Lapsed(_) | Event::Gone(_) | Event::SessionEnded(_) | Event::Replaced = event {
            self.ends.fetch_add(1, Ordering::AcqRel);
        }
        self.events.lock().push(event);
        self.some.notify_one();
    }
}

impl Observer for Upcalls {
    fn applied(&self, applied: &Applied<'_>) {
        let Applied { proposal, reply, leaves_work, .. } = *applied;
        // A refusal, too, can end clients whose leases ran out.
        if leaves_work {
            self.seen.flag(DEFERRED);
        }
        if let Reply::Refused(_) | Reply::Delegated { .. } = reply {
            return;
        }
        match &proposal.command {
            Command::LayoutGet { client, inode, .. } => self.seen.event(Event::Granted(*inode, *client)),
            Command::LayoutReturn { .. }
            | Command::DelegationReturn { .. }
            | Command::DelegationsReturn { .. }
            | Command::Close { .. }
            | Command::RemoveLeftovers => {
                self.seen.flag(RETURNED | UNLOCKED);
            }
            Command::DelegationRevoke { client, .. } => {
                self.seen.event(Event::Revoked(*client));
                self.seen.flag(RETURNED);
            }
            Command::Unlock { .. } => self.seen.flag(UNLOCKED),
            Command::FreeState { client, .. } => {
                self.seen.event(Event::Acknowledged(*client));
                self.seen.flag(UNLOCKED);
            }
            Command::PutDataServer { server, .. } => {
                self.seen.event(Event::DataServer(server.clone()));
                self.seen.event(Event::Map);
            }
            Command::Map(_) => self.seen.event(Event::Map),
            Command::MakeChains { .. } | Command::OpenChains { .. } | Command::ChangeChains { .. } => {
                self.seen.event(Event::Map)
            }
            Command::DefineDevice { chains } => {
                if let Reply::Device { id } = reply {
                    self.seen.event(Event::Device(chains.clone(), *id));
                }
            }
            Command::LapseLease { client, .. } => self.seen.event(Event::Lapsed(*client)),
            Command::RenewLease { client } => self.seen.event(Event::Renewed(*client)),
            Command::ExpireClient { client } | Command::DestroyClient { client } => {
                self.seen.event(Event::Gone(*client));
            }
            Command::ServerStarts { age_ms, .. } => {
                self.seen.event(Event::ServerStarted { ago: Duration::from_millis(*age_ms) });
            }
            Command::DestroySession { session } => self.seen.event(Event::SessionEnded(*session)),
            Command::CreateSession { .. } => {
                if let Reply::Session { client, ended, .. } = reply {
                    self.seen.event(Event::HasSession(*client));
                    // After a restart of the client, its earlier incarnation ended with all its state.
                    ended.iter().for_each(|before| self.seen.event(Event::Gone(*before)));
                }
            }
            _ => {}
        }
    }

    fn replaced(&self) {
        self.seen.event(Event::Replaced);
        self.seen.flag(RETURNED | UNLOCKED | DEFERRED);
    }

    fn before_order(&self, command: &Command) -> Option<BeforeOrder> {
        self.seen.state.get()?.upgrade()?.before_order(command)
    }

    fn answer_peer(&self, message: Bytes) -> AnswerFuture {
        let calls = self.calls.clone();
        Box::pin(async move {
            let call = match Call::of_message(message) {
                Ok(call) => call,
                Err(error) => {
                    tracing::warn!(%error, "another metaserver makes a call that this one does not understand");
                    return Bytes::new();
                }
            };
            let (tell, told) = oneshot::channel();
            if calls.send((call, tell)).await.is_err() {
                return Bytes::new();
            }
            told.await.unwrap_or_default()
        })
    }
}

impl Metaserver {
    /// Processes the replica's events. Never returns.
    pub(crate) async fn follow(self: Arc<Self>, follower: Follower) {
        let Follower { seen, mut calls } = follower;
        loop {
            tokio::select! {
                biased;
                () = seen.some.notified() => self.catch_up(&seen),
                Some((call, tell)) = calls.recv() => {
                    // In a task of its own: a callback takes as long as the client takes.
                    let server = Arc::clone(&self);
                    tokio::spawn(async move { tell.send(server.answer(call).await.message().into()) });
                }
            }
        }
    }

    fn catch_up(&self, seen: &Seen) {
        let flags = seen.flags.swap(0, Ordering::AcqRel);
        let events = std::mem::take(&mut *seen.events.lock());
        if flags & RETURNED != 0 {
            self.state.state_returned.notify_waiters();
        }
        if flags & DEFERRED != 0 {
            self.state.deferred_ready.notify_one();
        }
        for event in events {
            match event {
                Event::DataServer(server) => self.cluster.data_servers.learn(&server),
                Event::Device(chains, id) => self.data.placement.learn(chains, id),
                Event::Granted(inode, client) => {
                    self.state.granted.note(inode, client, self.machine.clock.monotonic())
                }
                Event::Lapsed(client) => self.follow_lapse(client),
                Event::Renewed(client) => {
                    self.state.leases.is_renewed(client, self.machine.clock.monotonic())
                }
                Event::HasSession(client) => {
                    self.state.leases.heard_elsewhere(client, self.machine.clock.monotonic());
                }
                Event::Gone(client) => self.state.client_ended(client),
                Event::Map => {
                    if let Err(error) = self.cluster.follow_map() {
                        tracing::warn!(%error, "reading the cluster map");
                    }
                }
                Event::Revoked(client) => self.state.delegations.note_revoked(client),
                Event::Acknowledged(client) => {
                    if let Err(status) = self.state.acknowledged(client) {
                        tracing::warn!(?status, "looking for revoked delegations");
                    }
                }
                Event::Replaced => {
                    if let Err(status) = self.read_again() {
                        tracing::warn!(?status, "reading again what a snapshot brought");
                    }
                }
                Event::ServerStarted { ago } => self.state.renewals_were_lost(ago),
                Event::SessionEnded(session) => self.state.sessions.remove(session),
            }
        }
        if flags & UNLOCKED != 0 {
            self.state.tell_all_lock_waiters();
        }
    }

    /// Reads all in-memory state from the state machine, as at the start of this server.
    fn read_again(&self) -> Result<(), FileError> {
        let view = self.machine.view()?;
        for server in read::data_servers(&*view)? {
            self.cluster.data_servers.learn(&server);
        }
        for device in read::devices(&*view)? {
            self.data.placement.learn(device.chains, device.id);
        }
        self.state.delegations.set_revoked(read::revoked(&*view)?);
        for client in self.state.leases.clients() {
            match read::client(&*view, client)? {
                Some(record) => self.state.leases.set_lapsed(client, record.lapsed.is_some()),
                None => self.state.forget_client(client),
            }
        }
        drop(view);
        self.cluster.follow_map()?;
        self.state.learn_lapsed()?;
        self.state.forget_ended_sessions()
    }

    /// Ends a lapsed client without state. A client with state keeps it by courtesy.
    fn follow_lapse(&self, client: ClientId) {
        let kept = self.machine.view().and_then(|view| Ok(read::client(&*view, client)?));
        match kept {
            Ok(None) => self.state.forget_client(client),
            Ok(Some(_)) | Err(_) => self.state.leases.set_lapsed(client, true),
        }
    }
}
