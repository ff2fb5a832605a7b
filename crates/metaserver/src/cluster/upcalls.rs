//! What the replica tells this metaserver: commands that any metaserver of the group has had carried out, and
//! questions of the others.
//!
//! The state machine knows everything that lasts. What this server keeps in memory beside it (who waits for
//! what, which data servers there are, whose lease has run out) follows here.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use host::Locked;
use namespace::{
    ClientId, Command, DataServer, DeviceId, Inode, InodeId, NodeKey, Proposal, Reply, SessionId, TargetId,
    read,
};
use nfs::CallbackError;
use replica::{AnswerFuture, Member, NodeId, Observer};
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, mpsc, oneshot};
use wire::nfs4::Status;
use wire::nfs4::callback::CbArgOp;
use wire::xdr::{Decode, Decoder, Encode, Encoder};

use crate::Metaserver;
use crate::cluster::nodes::GroupReport;
use crate::cluster::service_addresses::clients::Clients;
use crate::data::deferred::Truncation;
use crate::errors::store_failed;

/// Questions that wait to be answered; the next one's asker waits with them.
const QUESTIONS_MAX: usize = 1024;
/// A small question is answered in this time, or its asker does without.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);

/// A metaserver that has not answered by then may be dead; data servers report their room themselves.
const SPACES_TIME_MAX: Duration = Duration::from_millis(300);
/// An operator waits for the answer; a leader that lives gives it at once.
const GROUP_TIME_MAX: Duration = Duration::from_secs(2);
/// At most 64 KiB to a data server, which may be busy.
const COPY_TIME_MAX: Duration = Duration::from_secs(10);
/// A truncation takes as long as a data server may, and one that is before it in turn.
const TRUNCATION_TIME_MAX: Duration = Duration::from_secs(45);
/// An address lease is granted for a second at most.
const ADDRESSES_TIME_MAX: Duration = Duration::from_millis(150);

/// Something was given back: layouts, delegations, opens.
const RETURNED: u8 = 1;
/// A lock was released, or its holder ended.
const UNLOCKED: u8 = 2;
/// There is work on objects.
const DEFERRED: u8 = 4;

/// An event that must be followed in its order.
enum Event {
    DataServer(DataServer),
    Device(Vec<TargetId>, DeviceId),
    Granted(InodeId, ClientId),
    Lapsed(ClientId),
    Renewed(ClientId),
    Gone(ClientId),
    Revoked(ClientId),
    /// A state was freed, perhaps the last of the revoked.
    Acknowledged(ClientId),
    SessionEnded(SessionId),
    /// Everything may be another.
    Replaced,
    Map,
}

/// A question of one metaserver to another.
#[derive(Serialize, Deserialize)]
enum Question {
    /// Clients heard of since the last report. For the leader, which decides on client leases.
    Heard(Vec<ClientId>),
    /// Calls a client back, if it has a back channel there. The operation is in XDR.
    CallBack(ClientId, Vec<u8>),
    /// This member lives, and holds these service addresses. For the leader, which answers with those it may
    /// hold.
    Addresses(NodeId, Vec<IpAddr>),
    /// Takes a small file's data to the data servers. For the leader.
    ToColumns(InodeId),
    /// Does the truncation of this record. For the leader.
    Truncate(u64),
    /// How is the group? For the leader.
    Group,
    /// These are connected to the service addresses that the asker holds.
    Clients(Clients),
    /// Which clients were connected to this service address?
    ClientsOf(IpAddr),
    /// This member holds no service addresses from now on. For the leader.
    HoldsNone(NodeId),
    /// Service addresses are free: the metaserver with the fewest may have them.
    AddressesAreFree,
    /// How much room have the targets that live? Answered in XDR.
    Spaces,
    /// The time of day there, in milliseconds since 1970.
    Clock,
}

/// The replica's end.
pub struct Upcalls {
    seen: Arc<Seen>,
    questions: mpsc::Sender<(Bytes, oneshot::Sender<Bytes>)>,
}

/// The metaserver's end: see [`Metaserver::follow`].
pub struct Follower {
    seen: Arc<Seen>,
    questions: mpsc::Receiver<(Bytes, oneshot::Sender<Bytes>)>,
}

/// Commands that were applied and not followed yet.
#[derive(Default)]
pub(crate) struct Seen {
    flags: AtomicU8,
    events: Mutex<Vec<Event>>,
    some: Notify,
    /// How often sessions may have ended, counted before anybody can see that they have.
    ends: AtomicU64,
}

/// Count of ended sessions, for callers that must not miss an end, as [`Metaserver::follow`] may for a
/// moment.
#[derive(Default)]
pub(crate) struct Ends(OnceLock<Arc<Seen>>);

impl Ends {
    /// Another number whenever sessions may have ended since. Without a follower nothing ends but by this
    /// metaserver.
    pub(crate) fn count(&self) -> u64 {
        self.0.get().map_or(0, |seen| seen.ends.load(Ordering::Acquire))
    }

    pub(crate) fn follow(&self, follower: &Follower) {
        let _ = self.0.set(Arc::clone(&follower.seen));
    }
}

/// Both ends.
#[must_use]
pub fn upcalls() -> (Arc<Upcalls>, Follower) {
    let (ask, questions) = mpsc::channel(QUESTIONS_MAX);
    let seen = Arc::new(Seen::default());
    (Arc::new(Upcalls { seen: Arc::clone(&seen), questions: ask }), Follower { seen, questions })
}

impl Seen {
    fn flag(&self, flag: u8) {
        // The next look sees all flags at once.
        if self.flags.fetch_or(flag, Ordering::AcqRel) & flag == 0 {
            self.some.notify_one();
        }
    }

    fn event(&self, event: Event) {
        if let Event::Lapsed(_) | Event::Gone(_) | Event::SessionEnded(_) | Event::Replaced = event {
            self.ends.fetch_add(1, Ordering::AcqRel);
        }
        self.events.locked().push(event);
        self.some.notify_one();
    }
}

impl Observer for Upcalls {
    fn applied(&self, _index: u64, proposal: &Proposal, reply: &Reply) {
        if let Reply::Refused(_) | Reply::Delegated { .. } = reply {
            return;
        }
        match &proposal.command {
            Command::LayoutGet { client, inode, .. } => self.seen.event(Event::Granted(*inode, *client)),
            Command::LayoutReturn { .. } | Command::DelegationReturn { .. } | Command::Close { .. } => {
                self.seen.flag(RETURNED | UNLOCKED | DEFERRED);
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
            // Not a truncation: its metaserver has the leader do it, and the leader does it later if that
            // metaserver died.
            Command::Remove { .. } | Command::Rename { .. } => self.seen.flag(DEFERRED),
            Command::PutDataServer(server) => {
                self.seen.event(Event::DataServer(server.clone()));
                self.seen.event(Event::Map);
            }
            Command::Map(_) => self.seen.event(Event::Map),
            Command::DefineDevice { targets } => {
                if let Reply::Device { id } = reply {
                    self.seen.event(Event::Device(targets.clone(), *id));
                }
            }
            Command::LapseLease { client } => self.seen.event(Event::Lapsed(*client)),
            Command::RenewLease { client } => self.seen.event(Event::Renewed(*client)),
            Command::ExpireClient { client } | Command::DestroyClient { client } => {
                self.seen.event(Event::Gone(*client));
            }
            Command::DestroySession { session } => self.seen.event(Event::SessionEnded(*session)),
            // A client that restarted: the incarnation before ended with all that it had.
            Command::CreateSession { .. } => {
                if let Reply::Session { ended: Some(before), .. } = reply {
                    self.seen.event(Event::Gone(*before));
                }
            }
            _ => {}
        }
    }

    fn replaced(&self) {
        self.seen.event(Event::Replaced);
        self.seen.flag(RETURNED | UNLOCKED | DEFERRED);
    }

    fn answer_peer(&self, question: Bytes) -> AnswerFuture {
        let questions = self.questions.clone();
        Box::pin(async move {
            let (tell, told) = oneshot::channel();
            if questions.send((question, tell)).await.is_err() {
                return Bytes::new();
            }
            told.await.unwrap_or_default()
        })
    }
}

impl Metaserver {
    /// Follows the replica's events, for ever.
    pub(crate) async fn follow(self: Arc<Self>, follower: Follower) {
        let Follower { seen, mut questions } = follower;
        loop {
            tokio::select! {
                () = seen.some.notified() => self.catch_up(&seen),
                Some((question, tell)) = questions.recv() => {
                    // Calling a client back takes as long as the client takes.
                    let server = Arc::clone(&self);
                    tokio::spawn(async move { tell.send(server.answer(&question).await) });
                }
            }
        }
    }

    fn catch_up(&self, seen: &Seen) {
        let flags = seen.flags.swap(0, Ordering::AcqRel);
        let events = std::mem::take(&mut *seen.events.locked());
        if flags & RETURNED != 0 {
            self.state_returned.notify_waiters();
        }
        if flags & DEFERRED != 0 {
            self.deferred_ready.notify_one();
        }
        for event in events {
            match event {
                Event::DataServer(server) => self.data.learn(&server),
                Event::Device(targets, id) => self.placement.learn(targets, id),
                Event::Granted(inode, client) => self.granted.note(inode, client, self.clock.monotonic()),
                Event::Lapsed(client) => self.follow_lapse(client),
                Event::Renewed(client) => self.leases.set_lapsed(client, false),
                Event::Gone(client) => self.client_ended(client),
                Event::Map => {
                    if let Err(status) = self.follow_map() {
                        tracing::warn!(?status, "reading the cluster map");
                    }
                }
                Event::Revoked(client) => self.delegations.note_revoked(client),
                Event::Acknowledged(client) => {
                    if let Err(status) = self.acknowledged(client) {
                        tracing::warn!(?status, "looking for revoked delegations");
                    }
                }
                Event::Replaced => {
                    if let Err(status) = self.read_again() {
                        tracing::warn!(?status, "reading again what a snapshot brought");
                    }
                }
                Event::SessionEnded(session) => self.sessions.remove(session),
            }
        }
        if flags & UNLOCKED != 0 {
            self.tell_all_lock_waiters();
        }
    }

    /// Reads all that is kept in memory from the state machine, as when this server starts.
    fn read_again(&self) -> Result<(), Status> {
        let view = self.view()?;
        for server in read::data_servers(&*view).map_err(store_failed)? {
            self.data.learn(&server);
        }
        for device in read::devices(&*view).map_err(store_failed)? {
            self.placement.learn(device.targets, device.id);
        }
        self.delegations.set_revoked(read::revoked(&*view).map_err(store_failed)?);
        for client in self.leases.clients() {
            match read::client(&*view, client).map_err(store_failed)? {
                Some(record) => self.leases.set_lapsed(client, record.lapsed.is_some()),
                None => self.forget_client(client),
            }
        }
        drop(view);
        self.follow_map()?;
        self.learn_lapsed()?;
        self.forget_ended_sessions()
    }

    /// A client without state is gone when its lease runs out; a client with state keeps it, as a courtesy.
    fn follow_lapse(&self, client: ClientId) {
        let kept = self.view().and_then(|view| read::client(&*view, client).map_err(store_failed));
        match kept {
            Ok(None) => self.forget_client(client),
            Ok(Some(_)) | Err(_) => self.leases.set_lapsed(client, true),
        }
    }

    async fn answer(self: &Arc<Self>, question: &[u8]) -> Bytes {
        match postcard::from_bytes(question) {
            Ok(Question::Heard(clients)) => {
                let now = self.clock.monotonic();
                for client in clients {
                    if self.leases.heard_elsewhere(client, now) {
                        let _ = self.renew(client).await; // it had lapsed here while its report was on its way
                    }
                }
                Bytes::new()
            }
            Ok(Question::CallBack(client, op)) => {
                let Ok(op) = CbArgOp::decode(&mut Decoder::new(op.into())) else { return Bytes::new() };
                let recalled = self.recalled(&op);
                let answer = self.call_back_here(client, op).await;
                let answer = answer.map(|status| self.or_later(client, recalled, status) as u32).ok();
                postcard::to_stdvec(&answer).unwrap_or_default().into()
            }
            Ok(Question::Addresses(member, held)) => {
                let granted = self.grant_addresses(member, &held).await;
                postcard::to_stdvec(&granted).unwrap_or_default().into()
            }
            Ok(Question::ToColumns(inode)) => {
                let done: Result<(), u32> = match self.replica.leads() {
                    true => crate::data::migration::migrate_to_objects(self, inode)
                        .await
                        .map(drop)
                        .map_err(|s| s as u32),
                    false => Err(Status::Delay as u32),
                };
                postcard::to_stdvec(&done).unwrap_or_default().into()
            }
            Ok(Question::Truncate(id)) => {
                postcard::to_stdvec(&self.truncate(id).await).unwrap_or_default().into()
            }
            Ok(Question::Group) => postcard::to_stdvec(&self.group_report()).unwrap_or_default().into(),
            Ok(Question::Clients(clients)) => {
                self.addressing.clients.learn(clients);
                Bytes::new()
            }
            Ok(Question::ClientsOf(address)) => {
                postcard::to_stdvec(&self.addressing.clients.of(address)).unwrap_or_default().into()
            }
            Ok(Question::HoldsNone(member)) => {
                self.addresses_free(member);
                Bytes::new()
            }
            Ok(Question::Spaces) => {
                let mut encoder = Encoder::default();
                self.data.living().encode(&mut encoder);
                encoder.finish().segments.concat().into()
            }
            Ok(Question::Clock) => postcard::to_stdvec(&self.clock_ms()).unwrap_or_default().into(),
            Ok(Question::AddressesAreFree) => {
                self.ask_for_addresses_now();
                Bytes::new()
            }
            Err(error) => {
                tracing::warn!(%error, "another metaserver asks what this one does not understand");
                Bytes::new()
            }
        }
    }

    /// Tells the leader, if that is another one, which clients were heard of here.
    pub(crate) async fn report_heard(&self) {
        let Some(leader) = self.replica.leader() else { return };
        let clients = self.leases.heard_since_last_report();
        if clients.is_empty() {
            return;
        }
        let Ok(question) = postcard::to_stdvec(&Question::Heard(clients.clone())) else { return };
        if let Err(error) = self.replica.ask_peer(&leader, question.into(), ANSWER_TIME_MAX).await {
            self.leases.report_again(&clients);
            tracing::debug!(%error, leader = %leader.name, "telling the leader of clients that live");
        }
    }

    /// Has the leader take a small file's data to the data servers; the file as it is then.
    ///
    /// # Errors
    /// The leader's error; `Delay` when the leader was not asked.
    pub(crate) async fn to_columns_elsewhere(&self, inode: InodeId) -> Result<Inode, Status> {
        let leader = self.replica.leader().ok_or(Status::Delay)?;
        let question = postcard::to_stdvec(&Question::ToColumns(inode)).map_err(|_| Status::ServerFault)?;
        let answer = self.replica.ask_peer(&leader, question.into(), COPY_TIME_MAX).await;
        let done = answer.ok().and_then(|bytes| postcard::from_bytes::<Result<(), u32>>(&bytes).ok());
        let failed = |status: u32| Status::from_u32(status).unwrap_or(Status::Delay);
        done.ok_or(Status::Delay)?.map_err(failed)?;
        self.read_barrier().await?;
        let file = self.inode(&*self.view()?, inode)?;
        if file.columns().is_some() { Ok(file) } else { Err(Status::Delay) }
    }

    /// Has the leader do the truncation of a record.
    pub(crate) async fn truncate_elsewhere(&self, leader: &Member, id: u64) -> Truncation {
        let Ok(question) = postcard::to_stdvec(&Question::Truncate(id)) else {
            return Truncation::Failed { io: false };
        };
        match self.replica.ask_peer(leader, question.into(), TRUNCATION_TIME_MAX).await {
            Ok(answer) => postcard::from_bytes(&answer).unwrap_or(Truncation::Elsewhere),
            // The leader at that time looks at the record.
            Err(error) => {
                tracing::debug!(%error, leader = %leader.name, "having the leader truncate a file");
                Truncation::Elsewhere
            }
        }
    }

    /// The service addresses that the leader lets this metaserver hold.
    pub(crate) async fn ask_leader_for_addresses(
        &self,
        member: NodeId,
        held: Vec<IpAddr>,
    ) -> Option<Vec<IpAddr>> {
        let leader = self.replica.leader()?;
        let question = postcard::to_stdvec(&Question::Addresses(member, held)).ok()?;
        let answer = self.replica.ask_peer(&leader, question.into(), ADDRESSES_TIME_MAX).await.ok()?;
        postcard::from_bytes(&answer).ok()?
    }

    /// The leader's report of the group.
    pub(crate) async fn ask_leader_for_group(&self) -> Option<GroupReport> {
        let leader = self.replica.leader()?;
        let question = postcard::to_stdvec(&Question::Group).ok()?;
        let answer = self.replica.ask_peer(&leader, question.into(), GROUP_TIME_MAX).await.ok()?;
        postcard::from_bytes(&answer).ok()?
    }

    /// Tells another metaserver which clients are connected to the service addresses that this one holds.
    pub(crate) async fn tell_of_clients(&self, member: &Member, clients: &Clients) {
        let Ok(question) = postcard::to_stdvec(&Question::Clients(clients.clone())) else { return };
        if let Err(error) = self.replica.ask_peer(member, question.into(), ANSWER_TIME_MAX).await {
            tracing::debug!(%error, member = %member.name, "telling another metaserver of clients");
        }
    }

    /// Clients that were connected to a service address before it came here, as far as any metaserver knows.
    pub(crate) async fn clients_of(&self, address: IpAddr) -> BTreeSet<SocketAddr> {
        let mut clients = self.addressing.clients.of(address);
        let Ok(question) = postcard::to_stdvec(&Question::ClientsOf(address)) else { return clients };
        let question = Bytes::from(question);
        let others = self.replica.other_members();
        let ask = |member| self.replica.ask_peer(member, question.clone(), ADDRESSES_TIME_MAX);
        for answer in futures_util::future::join_all(others.iter().map(ask)).await {
            let known: Option<BTreeSet<SocketAddr>> =
                answer.ok().and_then(|bytes| postcard::from_bytes(&bytes).ok());
            clients.extend(known.unwrap_or_default());
        }
        clients
    }

    /// Tells the leader that this metaserver holds no service addresses from now on.
    pub(crate) async fn holds_none(self: &Arc<Self>) {
        let id = self.replica.status().id;
        let Some(leader) = self.replica.leader() else { return self.addresses_free(id) };
        let Ok(question) = postcard::to_stdvec(&Question::HoldsNone(id)) else { return };
        let _ = self.replica.ask_peer(&leader, question.into(), ADDRESSES_TIME_MAX).await;
    }

    /// Has all others ask which service addresses they may hold.
    pub(crate) async fn have_others_ask_for_addresses(&self) {
        let Ok(question) = postcard::to_stdvec(&Question::AddressesAreFree) else { return };
        let question = Bytes::from(question);
        let others = self.replica.other_members();
        let tell = |member| self.replica.ask_peer(member, question.clone(), ADDRESSES_TIME_MAX);
        futures_util::future::join_all(others.iter().map(tell)).await;
    }

    /// Asks the others which data servers live: these say so only once in a second, and new files would wait
    /// for it.
    pub(crate) async fn learn_living_targets(&self) {
        let Ok(question) = postcard::to_stdvec(&Question::Spaces) else { return };
        let question = Bytes::from(question);
        let others = self.replica.other_members();
        let ask = |member| self.replica.ask_peer(member, question.clone(), SPACES_TIME_MAX);
        for answer in futures_util::future::join_all(others.iter().map(ask)).await.into_iter().flatten() {
            if let Ok(spaces) = Vec::decode(&mut Decoder::new(answer)) {
                self.data.learn_living(spaces);
            }
        }
    }

    /// Asks all other metaservers for their clocks.
    pub(crate) async fn ask_for_clocks(&self) {
        let Ok(question) = postcard::to_stdvec(&Question::Clock) else { return };
        let question = Bytes::from(question);
        let asked = self.replica.status().members.into_iter().map(|(id, member, _)| {
            let question = question.clone();
            async move { (id, self.replica.ask_peer(&member, question, GROUP_TIME_MAX).await) }
        });
        for (id, answer) in futures_util::future::join_all(asked).await {
            let theirs: Option<u64> = answer.ok().and_then(|bytes| postcard::from_bytes(&bytes).ok());
            if let Some(theirs) = theirs {
                self.clocks.note(NodeKey::Metaserver(id), theirs, self.clock_ms(), self.clock.monotonic());
            }
        }
    }

    /// Calls `client` back over a back channel that another metaserver has.
    pub(crate) fn call_back_elsewhere(
        &self,
        client: ClientId,
        op: &CbArgOp,
    ) -> impl Future<Output = Result<Status, CallbackError>> + Send + 'static + use<> {
        let mut encoder = Encoder::default();
        op.encode(&mut encoder);
        let op = encoder.finish().segments.concat();
        let replica = self.replica.clone();
        async move {
            let Ok(question) = postcard::to_stdvec(&Question::CallBack(client, op)) else {
                return Err(CallbackError::NoConnection);
            };
            let question = Bytes::from(question);
            for member in replica.other_members() {
                let answer = replica.ask_peer(&member, question.clone(), ANSWER_TIME_MAX).await;
                let answer: Option<u32> =
                    answer.ok().and_then(|bytes| postcard::from_bytes(&bytes).ok()).flatten();
                if let Some(status) = answer.and_then(Status::from_u32) {
                    return Ok(status);
                }
            }
            Err(CallbackError::NoConnection)
        }
    }
}
