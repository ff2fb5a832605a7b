//! The metaserver: its parts, and its background tasks.

use std::sync::Arc;

use cluster::{Begin, Cluster, Group, ThisServer};
use host::{Clock, Entropy};
use namespace::read;
use nfs::{
    Authenticated, Limits, Metrics, Nfs4Program, PeerKey, Programs, ReplyCache, Server, StreamNetwork,
    TcpNetwork,
};
use parking_lot::Mutex;
use replica::{Replica, ReplicaError};
use tokio::task::JoinHandle;
use wire::handle::HandleKey;

use crate::attributes::Attributes;
use crate::attributes::idmap::Idmap;
use crate::boot::BootCache;
use crate::data::Data;
use crate::data::reports::Reports;
use crate::exports::Admission;
use crate::exports::pseudo::DirectoryNames;
use crate::exports::refusals::Refusals;
use crate::follow::Follower;
use crate::machine::StateMachine;
use crate::state::ClientState;

/// Configuration of a metaserver.
#[derive(Debug, Clone)]
pub struct MetaserverConfig {
    /// Id of the served volume.
    pub volume: u32,
    /// Server owner and scope for clients: the same on all metaservers of a cluster.
    pub cluster: [u8; 16],
    /// Initial content of the cluster map, on a metaserver that begins a cluster: valid until it is in the
    /// map.
    pub begin: Option<Begin>,
}

/// A metaserver. Each part uses only the parts above it.
pub struct Metaserver {
    pub(crate) machine: Arc<StateMachine>,
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) state: Arc<ClientState>,
    pub(crate) data: Arc<Data>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) attributes: Attributes,
    /// Duplicate request cache for NFSv3; NFSv4 has sessions.
    pub(crate) drc: ReplyCache,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) background: Mutex<Vec<JoinHandle<()>>>,
    /// Pieces of boot files.
    pub(crate) boot_cache: Arc<BootCache>,
}

impl Metaserver {
    /// Makes a metaserver over `replica`. Call [`Metaserver::serve`] next.
    ///
    /// # Errors
    /// If the state machine cannot be read.
    pub fn new(
        config: MetaserverConfig,
        replica: Replica,
        key: HandleKey,
        peer_key: PeerKey,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Result<Arc<Self>, ReplicaError> {
        Self::new_on(Arc::new(TcpNetwork), config, replica, key, peer_key, clock, entropy)
    }

    /// Like [`Metaserver::new`], with another network than TCP for clients and data servers.
    ///
    /// # Errors
    /// If the state machine cannot be read.
    pub fn new_on(
        network: Arc<dyn StreamNetwork>,
        config: MetaserverConfig,
        replica: Replica,
        key: HandleKey,
        peer_key: PeerKey,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Result<Arc<Self>, ReplicaError> {
        let MetaserverConfig { volume, cluster: id, begin } = config;
        let group = Arc::new(Group::new(replica, clock, entropy));
        let machine = Arc::new(StateMachine::new(Arc::clone(&group), volume, key));
        let metrics: Arc<Metrics> = Arc::default();
        let cluster = Arc::new(Cluster::new(network, group, id, begin, peer_key));
        let state =
            Arc::new(ClientState::new(Arc::clone(&machine), Arc::clone(&cluster), Arc::clone(&metrics)));
        let data = Arc::new(Data::new(
            Arc::clone(&machine),
            Arc::clone(&cluster),
            Arc::clone(&state),
            Arc::clone(&metrics),
        ));
        let admission = Arc::new(Admission {
            machine: Arc::clone(&machine),
            cluster: Arc::clone(&cluster),
            state: Arc::clone(&state),
            directory_names: DirectoryNames::default(),
            refusals: Refusals::default(),
        });
        let attributes = Attributes::new(Arc::clone(&machine), Arc::clone(&cluster), Arc::clone(&data));
        let server = Self {
            machine,
            cluster,
            state,
            data,
            admission,
            attributes,
            drc: ReplyCache::default(),
            metrics,
            background: Mutex::default(),
            boot_cache: Arc::default(),
        };
        server.learn_records()?;
        Ok(Arc::new(server))
    }

    /// Reads the in-memory state of the parts from the state machine.
    fn learn_records(&self) -> Result<(), ReplicaError> {
        let failed = |e: store::StoreError| ReplicaError::Failed(e.to_string());
        let view = self.machine.replica.view().map_err(failed)?;
        for server in read::data_servers(&*view).map_err(failed)? {
            self.cluster.data_servers.put(&server, None);
        }
        for device in read::devices(&*view).map_err(failed)? {
            self.data.placement.learn(device.chains, device.id);
        }
        for client in read::revoked(&*view).map_err(failed)? {
            self.state.delegations.note_revoked(client);
        }
        drop(view);
        let followed = self.cluster.follow_map();
        followed.map_err(|error| ReplicaError::Failed(format!("read the cluster map: {error}")))
    }

    /// Starts to update this server's in-memory state after commands of other metaservers.
    pub fn follow_others(self: &Arc<Self>, follower: Follower) {
        self.state.ends.follow(follower.session_ends());
        follower.look_before(&self.state);
        self.background.lock().push(tokio::spawn(Arc::clone(self).follow(follower)));
    }

    /// Enters this server into the cluster map, and keeps its own entries there up to date.
    pub fn enter_map(&self, this: ThisServer) {
        self.background.lock().push(tokio::spawn(Arc::clone(&self.cluster).keep_map(this)));
    }

    /// Listens on `address` and starts the background tasks.
    ///
    /// # Errors
    /// If the address cannot be bound.
    pub async fn serve(self: &Arc<Self>, address: std::net::SocketAddr) -> std::io::Result<Server> {
        let failed = |status| std::io::Error::other(format!("read the clients: {status:?}"));
        self.state.learn_lapsed().map_err(failed)?;
        self.cluster.learn_living_targets().await;
        let server = Server::start_on(
            &*self.cluster.network,
            address,
            self.programs(),
            Limits::default(),
            Arc::clone(&self.metrics),
        )
        .await?;
        self.begin_background();
        Ok(server)
    }

    // Not async, as the next: so all that they start is compiled with this crate, once, and not with each that calls serve.
    fn programs(self: &Arc<Self>) -> Programs {
        Programs::new(vec![
            Arc::new(Nfs4Program(Arc::clone(self))),
            Arc::new(crate::nfs3::Nfs3Program(Arc::clone(self))),
            Arc::new(crate::mount3::MountProgram(Arc::clone(self))),
            Arc::new(Authenticated(Arc::new(crate::cluster_program::ClusterProgram(Arc::clone(self))))),
        ])
    }

    fn begin_background(self: &Arc<Self>) {
        let mut background = self.background.lock();
        background.push(tokio::spawn(Arc::clone(&self.data).run_deferred()));
        background.push(tokio::spawn(Arc::clone(&self.data).settle_files()));
        background.push(tokio::spawn(Arc::clone(&self.data).look_at_space()));
        background.push(tokio::spawn(Arc::clone(&self.data).watch_limits()));
        background.push(tokio::spawn(Arc::clone(&self.data).promote_clones()));
        background.push(tokio::spawn(Arc::clone(self).follow_schedules()));
        background.push(tokio::spawn(Arc::clone(&self.state).recall_idle_layouts()));
        background.push(tokio::spawn(Arc::clone(&self.state).tell_of_start()));
        background.push(tokio::spawn(Arc::clone(&self.state).watch_leases()));
        background.push(tokio::spawn(Arc::clone(&self.state).keep_brief_opens()));
        background.push(tokio::spawn(Arc::clone(&self.state).keep_returns()));
        background.push(tokio::spawn(Arc::clone(&self.data).clean_regularly()));
        background.push(tokio::spawn(Arc::clone(&self.data).clean_left_behind()));
        background.push(tokio::spawn(Arc::clone(&self.data).move_columns_of_draining()));
        background.push(tokio::spawn(Arc::clone(&self.data).close_forgotten_chains()));
        background.push(tokio::spawn(Arc::clone(&self.cluster).balance_targets()));
        background.push(tokio::spawn(Arc::clone(&self.cluster).watch_servers()));
        background.push(tokio::spawn(Arc::clone(&self.cluster).watch_data_servers()));
        background.push(tokio::spawn(Arc::clone(&self.cluster).watch_chains()));
        background.push(tokio::spawn(Arc::clone(&self.cluster).adopt_chains()));
        background.push(tokio::spawn(Arc::clone(&self.cluster).compare_clocks()));
        background.push(tokio::spawn(Arc::clone(&self.admission).recall_when_exports_change()));
    }

    /// Has the opens that are in memory only written to the state machine, and what clients have returned ended there, for a
    /// stop; gives up after `limit`: their clients open again.
    pub async fn end_brief_opens(&self, limit: std::time::Duration) {
        let both = async { tokio::join!(self.state.end_returns(), self.state.end_brief_opens()) };
        if tokio::time::timeout(limit, both).await.is_err() {
            tracing::info!("no leader takes the opens that were in memory: clients open these files again");
        }
    }

    /// Ends the background tasks. The server that [`Metaserver::serve`] returned must be stopped separately.
    pub fn stop(&self) {
        self.background.lock().drain(..).for_each(|task| task.abort());
        self.cluster.holds_no_more();
    }

    /// Counters of this server.
    #[must_use]
    pub fn metrics(&self) -> Arc<Metrics> {
        Arc::clone(&self.metrics)
    }

    /// The cluster as known to this metaserver.
    #[must_use]
    pub fn cluster(&self) -> &Arc<Cluster> {
        &self.cluster
    }

    /// File data, at the data servers.
    #[must_use]
    pub fn data(&self) -> &Arc<Data> {
        &self.data
    }

    /// Admission of calls.
    #[must_use]
    pub fn admission(&self) -> &Arc<Admission> {
        &self.admission
    }

    /// Client reports about data servers.
    #[must_use]
    pub fn reports(&self) -> Arc<Reports> {
        Arc::clone(&self.data.reports)
    }

    /// Pieces of boot files, and counters of them.
    #[must_use]
    pub fn boot_cache(&self) -> &Arc<BootCache> {
        &self.boot_cache
    }

    /// Sets the names of users and groups; before this call there are only numbers.
    pub fn set_idmap(&self, idmap: Idmap) {
        self.attributes.set_idmap(idmap);
    }
}
