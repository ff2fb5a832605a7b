//! The metaserver: its parts, and what runs in the background.

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
use crate::data::Data;
use crate::data::reports::Reports;
use crate::exports::Admission;
use crate::exports::pseudo::DirectoryNames;
use crate::exports::refusals::Refusals;
use crate::follow::Follower;
use crate::machine::StateMachine;
use crate::state::ClientState;

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

/// A metaserver. Each part knows only the parts above it.
pub struct Metaserver {
    pub(crate) machine: Arc<StateMachine>,
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) state: Arc<ClientState>,
    pub(crate) data: Arc<Data>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) attributes: Attributes,
    /// For NFSv3; sessions have their own.
    pub(crate) drc: ReplyCache,
    pub(crate) metrics: Arc<Metrics>,
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
        Self::new_on(Arc::new(TcpNetwork), config, replica, key, peer_key, clock, entropy)
    }

    /// The same on another network than TCP, where it listens and reaches data servers.
    ///
    /// # Errors
    /// When the state machine cannot be read.
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
        };
        server.learn_records()?;
        Ok(Arc::new(server))
    }

    /// Reads from the state machine what the parts keep in memory.
    fn learn_records(&self) -> Result<(), ReplicaError> {
        let failed = |e: store::StoreError| ReplicaError::Failed(e.to_string());
        let view = self.machine.replica.view().map_err(failed)?;
        for server in read::data_servers(&*view).map_err(failed)? {
            self.cluster.data_servers.put(&server, None);
        }
        for device in read::devices(&*view).map_err(failed)? {
            self.data.placement.learn(device.targets, device.id);
        }
        for client in read::revoked(&*view).map_err(failed)? {
            self.state.delegations.note_revoked(client);
        }
        drop(view);
        let followed = self.cluster.follow_map();
        followed.map_err(|error| ReplicaError::Failed(format!("read the cluster map: {error}")))
    }

    /// Keeps what this server has in memory in step with what other metaservers do.
    pub fn follow_others(self: &Arc<Self>, follower: Follower) {
        self.state.ends.follow(follower.session_ends());
        self.background.lock().push(tokio::spawn(Arc::clone(self).follow(follower)));
    }

    /// Puts this server into the cluster map, and keeps what it answers for there as it is.
    pub fn enter_map(&self, this: ThisServer) {
        self.background.lock().push(tokio::spawn(Arc::clone(&self.cluster).keep_map(this)));
    }

    /// Listens on `address` and starts what runs in the background.
    ///
    /// # Errors
    /// When the address cannot be had.
    pub async fn serve(self: &Arc<Self>, address: std::net::SocketAddr) -> std::io::Result<Server> {
        let failed = |status| std::io::Error::other(format!("read the clients: {status:?}"));
        self.state.learn_lapsed().map_err(failed)?;
        self.cluster.learn_living_targets().await;
        let programs = Programs::new(vec![
            Arc::new(Nfs4Program(Arc::clone(self))),
            Arc::new(crate::nfs3::Nfs3Program(Arc::clone(self))),
            Arc::new(crate::mount3::MountProgram(Arc::clone(self))),
            Arc::new(Authenticated(Arc::new(crate::cluster_program::ClusterProgram(Arc::clone(self))))),
        ]);
        let server = Server::start_on(
            &*self.cluster.network,
            address,
            programs,
            Limits::default(),
            Arc::clone(&self.metrics),
        )
        .await?;
        let mut background = self.background.lock();
        background.push(tokio::spawn(Arc::clone(&self.data).run_deferred()));
        background.push(tokio::spawn(Arc::clone(&self.data).settle_files()));
        background.push(tokio::spawn(Arc::clone(&self.state).recall_idle_layouts()));
        background.push(tokio::spawn(Arc::clone(&self.state).watch_leases()));
        background.push(tokio::spawn(Arc::clone(&self.data).clean_regularly()));
        background.push(tokio::spawn(Arc::clone(&self.cluster).watch_servers()));
        background.push(tokio::spawn(Arc::clone(&self.cluster).compare_clocks()));
        background.push(tokio::spawn(Arc::clone(&self.admission).recall_when_exports_change()));
        Ok(server)
    }

    /// Ends what runs in the background. The server that [`Metaserver::serve`] returned is stopped by itself.
    pub fn stop(&self) {
        self.background.lock().drain(..).for_each(|task| task.abort());
        self.cluster.holds_no_more();
    }

    /// What this server counts.
    #[must_use]
    pub fn metrics(&self) -> Arc<Metrics> {
        Arc::clone(&self.metrics)
    }

    /// The cluster as this metaserver sees it.
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

    /// What clients report of data servers.
    #[must_use]
    pub fn reports(&self) -> Arc<Reports> {
        Arc::clone(&self.data.reports)
    }

    /// Users and groups have these names from now on; only numbers, before that is called.
    pub fn set_idmap(&self, idmap: Idmap) {
        self.attributes.set_idmap(idmap);
    }
}
