//! The server itself: what all operations share.

use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use host::{Clock, Entropy, Locked};
use namespace::{
    ClientId, Command, DataServer, FileLayout, Inode, InodeId, MapChange, NewNode, Node, NodeKey, NodeState,
    Proposal, Reply, RequestId, Stamp, StripePolicy, StripeUnit, Time, read,
};
use nfs::{Authenticated, Limits, Metrics, Nfs4Program, PeerAuth, PeerKey, Programs, ReplyCache, Server};
use replica::{Replica, ReplicaError};
use store::View;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use wire::handle::{ClientHandle, FileHandle, HandleKey};
use wire::nfs4::Status;

use crate::admin::settings::Settings;
use crate::attributes::idmap::Idmap;
use crate::cluster::begin::Begin;
use crate::cluster::clocks::Clocks;
use crate::cluster::map::CurrentMap;
use crate::cluster::service_addresses::Addressing;
use crate::cluster::upcalls::{Ends, Follower};
use crate::consistency::LastBarrier;
use crate::data::data_servers::DataServers;
use crate::data::deferred::backlog::Backlog;
use crate::data::migration::Turns;
use crate::data::placement::{Choice, DefaultStripe, Placement};
use crate::data::proxy::WriteVerifier;
use crate::data::reports::Reports;
use crate::data::unsettled::Rounds;
use crate::errors::{refused, replica_failed, store_failed};
use crate::exports::admission::{CurrentExports, Via};
use crate::exports::pseudo::DirectoryNames;
use crate::exports::refusals::Refusals;
use crate::state::delegations::{Delegations, may_conflict};
use crate::state::idle_layouts::IdleLayouts;
use crate::state::lease::Leases;
use crate::state::lock_waiters::LockWaiters;
use crate::state::recall::{Granted, Recalls};
use crate::state::sessions::Sessions;

/// Delegated files that one command may be about: a RENAME is about two.
const DELEGATED_FILES_MAX: usize = 2;

/// An election takes a second.
const LEADERLESS_MAX: Duration = Duration::from_secs(20);

/// How a metaserver is run.
#[derive(Debug, Clone)]
pub struct MetaserverConfig {
    /// The volume that it serves.
    pub volume: u32,
    /// Shown to clients as the server's owner and scope: the same on all metaservers of a cluster.
    pub cluster: [u8; 16],
    /// What the cluster begins with, of a metaserver that begins one: in force until the cluster map has it.
    pub begin: Option<Begin>,
}

/// A metaserver.
pub struct Metaserver {
    pub(crate) config: MetaserverConfig,
    pub(crate) replica: Replica,
    pub(crate) key: HandleKey,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) data: Arc<DataServers>,
    pub(crate) placement: Placement,
    /// The cluster's settings, as the map has them.
    settings: RwLock<Arc<Settings>>,
    idmap: RwLock<Arc<Idmap>>,
    pub(crate) exports: CurrentExports,
    pub(crate) directory_names: DirectoryNames,
    pub(crate) refusals: Refusals,
    /// Exports have changed: layouts to write are to be asked back.
    pub(crate) exports_changed: Notify,
    pub(crate) last_barrier: LastBarrier,
    pub(crate) sessions: Sessions,
    pub(crate) leases: Leases,
    pub(crate) ends: Ends,
    pub(crate) recalls: Recalls,
    pub(crate) lock_waiters: LockWaiters,
    pub(crate) turns: Turns,
    /// Of files whose columns get other targets: no layout is granted meanwhile.
    pub(crate) relocations: Turns,
    pub(crate) rounds: Rounds,
    pub(crate) idle_layouts: IdleLayouts,
    pub(crate) clocks: Clocks,
    /// For NFSv3; sessions have their own.
    pub(crate) drc: ReplyCache,
    pub(crate) granted: Granted,
    pub(crate) delegations: Delegations,
    pub(crate) write_verifier: WriteVerifier,
    pub(crate) backlog: Backlog,
    pub(crate) deferred_ready: Notify,
    pub(crate) state_returned: Notify,
    pub(crate) peer_auth: Arc<PeerAuth>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) addressing: Addressing,
    pub(crate) reports: Arc<Reports>,
    pub(crate) current_map: CurrentMap,
    pub(crate) background: Mutex<Vec<JoinHandle<()>>>,
}

impl Metaserver {
    /// A metaserver over `replica`. Call [`Metaserver::serve`] next.
    ///
    /// # Errors
    /// When the state machine cannot be read.
    pub fn new(
        config: MetaserverConfig,
        replica: Replica,
        key: HandleKey,
        peer_key: PeerKey,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Result<Arc<Self>, ReplicaError> {
        let failed = |e: store::StoreError| ReplicaError::Failed(e.to_string());
        let data = Arc::new(DataServers::new(peer_key.clone(), Arc::clone(&clock), Arc::clone(&entropy)));
        let placement = Placement::default();
        let view = replica.view().map_err(failed)?;
        for server in read::data_servers(&*view).map_err(failed)? {
            data.put(&server, None);
        }
        for device in read::devices(&*view).map_err(failed)? {
            placement.learn(device.targets, device.id);
        }
        let delegations = Delegations::default();
        read::revoked(&*view).map_err(failed)?.into_iter().for_each(|c| delegations.note_revoked(c));
        drop(view);
        let server = Arc::new(Self {
            settings: RwLock::default(),
            idmap: RwLock::default(),
            config,
            exports: CurrentExports::default(),
            directory_names: DirectoryNames::default(),
            refusals: Refusals::default(),
            exports_changed: Notify::new(),
            replica,
            key,
            data,
            placement,
            last_barrier: LastBarrier::default(),
            sessions: Sessions::default(),
            leases: Leases::default(),
            ends: Ends::default(),
            recalls: Recalls::default(),
            lock_waiters: LockWaiters::default(),
            turns: Turns::default(),
            relocations: Turns::default(),
            rounds: Rounds::default(),
            idle_layouts: IdleLayouts::default(),
            clocks: Clocks::default(),
            drc: ReplyCache::default(),
            granted: Granted::default(),
            delegations,
            write_verifier: WriteVerifier::new(entropy.u64()),
            backlog: Backlog::default(),
            deferred_ready: Notify::new(),
            state_returned: Notify::new(),
            peer_auth: Arc::new(PeerAuth::new(peer_key, Arc::clone(&entropy))),
            metrics: Arc::default(),
            addressing: Addressing::default(),
            reports: Arc::default(),
            current_map: CurrentMap::default(),
            background: Mutex::default(),
            clock,
            entropy,
        });
        server
            .follow_map()
            .map_err(|status| ReplicaError::Failed(format!("read the cluster map: {status:?}")))?;
        Ok(server)
    }

    /// Keeps what this server has in memory in step with what other metaservers do.
    pub fn follow_others(self: &Arc<Self>, follower: Follower) {
        self.ends.follow(&follower);
        self.background.locked().push(tokio::spawn(Arc::clone(self).follow(follower)));
    }

    /// Listens on `address` and starts what runs in the background.
    ///
    /// # Errors
    /// When the address cannot be had.
    pub async fn serve(self: &Arc<Self>, address: std::net::SocketAddr) -> std::io::Result<Server> {
        let failed = |status| std::io::Error::other(format!("read the clients: {status:?}"));
        self.learn_lapsed().map_err(failed)?;
        self.learn_living_targets().await;
        let programs = Programs::new(vec![
            Arc::new(Nfs4Program(Arc::clone(self))),
            Arc::new(crate::nfs3::Nfs3Program(Arc::clone(self))),
            Arc::new(crate::mount3::MountProgram(Arc::clone(self))),
            Arc::new(Authenticated(Arc::new(crate::cluster::program::ClusterProgram(Arc::clone(self))))),
        ]);
        let server = Server::start(address, programs, Limits::default(), Arc::clone(&self.metrics)).await?;
        let mut background = self.background.locked();
        background.push(tokio::spawn(Arc::clone(self).run_deferred()));
        background.push(tokio::spawn(Arc::clone(self).settle_files()));
        background.push(tokio::spawn(Arc::clone(self).recall_idle_layouts()));
        background.push(tokio::spawn(Arc::clone(self).watch_leases()));
        background.push(tokio::spawn(Arc::clone(self).clean_regularly()));
        background.push(tokio::spawn(Arc::clone(self).watch_servers()));
        background.push(tokio::spawn(Arc::clone(self).compare_clocks()));
        background.push(tokio::spawn(Arc::clone(self).recall_when_exports_change()));
        Ok(server)
    }

    /// Ends what runs in the background. The server that [`Metaserver::serve`] returned is stopped by itself.
    pub fn stop(&self) {
        self.background.locked().drain(..).for_each(|task| task.abort());
        self.holds_no_more();
    }

    /// Users and groups have these names from now on; only numbers, before that is called.
    pub fn set_idmap(&self, idmap: Idmap) {
        *self.idmap.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(idmap);
    }

    /// Names of users and groups.
    pub(crate) fn idmap(&self) -> Arc<Idmap> {
        Arc::clone(&self.idmap.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The layout of new files where no directory says otherwise.
    pub(crate) fn default_stripe(&self) -> DefaultStripe {
        self.settings().stripe()
    }

    /// The cluster's settings in force.
    #[must_use]
    pub fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.settings.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn put_settings(&self, settings: Settings) {
        self.replica.set_read_leases(settings.read_leases);
        *self.settings.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
    }

    /// How long a client may be silent before its state is taken away.
    pub(crate) fn lease(&self) -> Duration {
        self.settings().lease
    }

    /// What this server counts.
    #[must_use]
    pub fn metrics(&self) -> Arc<Metrics> {
        Arc::clone(&self.metrics)
    }

    /// What clients report of data servers.
    #[must_use]
    pub fn reports(&self) -> Arc<Reports> {
        Arc::clone(&self.reports)
    }

    /// Returns when views have everything that any metaserver had acknowledged before this call; `Delay` when
    /// nobody leads for so long that the client is better told to come again than kept.
    pub(crate) async fn read_barrier(&self) -> Result<(), Status> {
        let began = self.clock.monotonic();
        let seen = tokio::time::timeout(LEADERLESS_MAX, self.replica.barrier()).await;
        seen.map_err(|_| Status::Delay)?.map_err(replica_failed)?;
        self.last_barrier.note(began);
        Ok(())
    }

    /// A view that has everything that this metaserver has acknowledged, and all that was there when
    /// [`Metaserver::read_barrier`] was called.
    pub(crate) fn view(&self) -> Result<Box<dyn View + Send + Sync>, Status> {
        self.replica.view().map_err(store_failed)
    }

    /// The time, as state machine and protocol keep it.
    pub(crate) fn now(&self) -> Time {
        let wall = self.clock.wall();
        Time { seconds: wall.seconds, nanoseconds: wall.nanoseconds }
    }

    /// Has a command carried out, once other clients' delegations that are in its way have come back. A
    /// refusal becomes the protocol's error.
    pub(crate) async fn propose(
        &self,
        request: Option<RequestId>,
        command: Command,
    ) -> Result<Reply, Status> {
        if !may_conflict(&command) {
            return self.propose_once(request, command).await;
        }
        for _ in 0..DELEGATED_FILES_MAX {
            let inode = match self.propose_once(request, command.clone()).await? {
                Reply::Delegated { inode } => inode,
                reply => return Ok(reply),
            };
            let caller = match &command {
                Command::Open(open) => Some(open.client),
                _ => self.client_of(request)?,
            };
            self.recall_delegations(inode, caller).await?;
        }
        match self.propose_once(request, command).await? {
            Reply::Delegated { .. } => Err(Status::Delay),
            reply => Ok(reply),
        }
    }

    fn client_of(&self, request: Option<RequestId>) -> Result<Option<ClientId>, Status> {
        let Some(RequestId::Compound(request)) = request else { return Ok(None) };
        let session = read::session(&*self.view()?, request.session).map_err(store_failed)?;
        Ok(session.map(|session| session.client))
    }

    /// The same, and [`Reply::Delegated`] is left to the caller.
    pub(crate) async fn propose_once(
        &self,
        request: Option<RequestId>,
        command: Command,
    ) -> Result<Reply, Status> {
        let stamp = Stamp { time: self.now(), random: self.entropy.u64() };
        match self.replica.propose(Proposal::new(stamp, request, command)).await {
            Ok(Reply::Refused(error)) => Err(refused(error)),
            Ok(reply) => Ok(reply),
            Err(error) => Err(replica_failed(error)),
        }
    }

    /// What a handle names, looked up.
    pub(crate) fn inode_of(&self, view: &dyn View, handle: &[u8]) -> Result<Inode, Status> {
        self.inode_and_via(view, handle).map(|(inode, _)| inode)
    }

    /// What a handle names, looked up, and what its client came to it through.
    pub(crate) fn inode_and_via(&self, view: &dyn View, handle: &[u8]) -> Result<(Inode, Via), Status> {
        let ClientHandle { file, via } = ClientHandle::open(handle, &self.key).ok_or(Status::BadHandle)?;
        if file.volume != self.config.volume {
            return Err(Status::Stale);
        }
        let inode = self.inode(view, InodeId(file.inode))?;
        if inode.generation == file.generation { Ok((inode, via.into())) } else { Err(Status::Stale) }
    }

    /// The export that a handle names.
    pub(crate) fn export_of(&self, handle: &[u8]) -> Result<InodeId, Status> {
        let handle = ClientHandle::open(handle, &self.key).ok_or(Status::BadHandle)?;
        match handle.via.into() {
            Via::Export(export) => Ok(export),
            Via::Pseudo => Err(Status::Stale),
        }
    }

    /// An inode that was there a moment ago.
    pub(crate) fn inode(&self, view: &dyn View, id: InodeId) -> Result<Inode, Status> {
        read::inode(view, id).map_err(store_failed)?.ok_or(Status::Stale)
    }

    /// The sealed handle of an inode, for a client that came to it through `via`.
    pub(crate) fn handle(&self, via: Via, inode: InodeId, generation: u32) -> bytes::Bytes {
        let file = FileHandle { volume: self.config.volume, inode: inode.0, generation };
        ClientHandle { file, via: via.into() }.seal(&self.key)
    }

    /// A new regular file in `dir`: where its data go.
    pub(crate) async fn place(&self, dir: InodeId) -> Result<NewNode, Status> {
        let policy = {
            let view = self.view()?;
            read::stripe_policy(&*view, dir).map_err(store_failed)?
        };
        let StripePolicy { unit, columns } = policy.unwrap_or(self.default_stripe().into());
        let Some(choice) = self.placement.choose(&self.data.usable(), columns) else {
            tracing::warn!("no data server is there to keep a new file: start one with `heorot ds`");
            return Err(Status::Delay);
        };
        Ok(NewNode::File(self.layout_of(choice, unit).await?))
    }

    /// The layout of what placement chose; its device is made if there is none yet.
    pub(crate) async fn layout_of(&self, choice: Choice, unit: StripeUnit) -> Result<FileLayout, Status> {
        let Choice { targets, first } = choice;
        let columns = targets.len() as u32;
        let device = match self.placement.device(&targets) {
            Some(id) => id,
            None => {
                let command = Command::DefineDevice { targets: targets.clone() };
                let Reply::Device { id } = self.propose(None, command).await? else {
                    return Err(Status::ServerFault);
                };
                self.placement.learn(targets, id);
                id
            }
        };
        Ok(FileLayout { device, first, unit, columns })
    }

    /// A data server of that version registers, or reports its free space.
    pub(crate) async fn register(
        &self,
        server: DataServer,
        version: String,
        spaces: &[wire::data::TargetSpace],
    ) -> Result<(), Status> {
        let map = self.map();
        if !map.data_servers.contains(&server) {
            tracing::info!(name = %server.name, addresses = ?server.addresses, "data server registers");
            self.propose(None, Command::PutDataServer(server.clone())).await?;
        }
        let key = NodeKey::DataServer(server.id);
        let known = map.node(key);
        let node = Node {
            key,
            name: server.name.clone(),
            address: server.addresses.first().cloned().unwrap_or_default(),
            version,
            state: known.map_or(NodeState::Serving, |node| node.state),
        };
        if known != Some(&node) {
            self.change_map(MapChange::Put(node)).await?;
        }
        if self.data.put(&server, Some(spaces)) {
            self.backlog.retry_now(&server.targets);
            self.deferred_ready.notify_one();
        }
        Ok(())
    }
}
