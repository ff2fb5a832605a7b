//! The cluster in the view of one metaserver: its parts.

use std::sync::Arc;
use std::time::Duration;

use nfs::{PeerAuth, PeerKey, StreamNetwork};
use parking_lot::RwLock;
use tokio::sync::Notify;

use crate::begin::Begin;
use crate::chains::Chains;
use crate::clocks::Clocks;
use crate::data_servers::DataServers;
use crate::exports::CurrentExports;
use crate::group::Group;
use crate::map::CurrentMap;
use crate::service_addresses::Addressing;
use crate::settings::{DefaultStripe, Settings};

/// The cluster in the view of this metaserver: the map, the values derived from the map, and the other
/// servers.
pub struct Cluster {
    /// Network on which the metaserver listens and reaches data servers.
    pub network: Arc<dyn StreamNetwork>,
    pub(crate) group: Arc<Group>,
    /// Cluster id. Clients see this id as the server's owner and scope: it is the same on all metaservers of
    /// a cluster.
    pub id: [u8; 16],
    /// Initial exports and settings, on a metaserver that founds a cluster: in force until the cluster map
    /// has them.
    pub(crate) begin: Option<Begin>,
    pub(crate) current_map: CurrentMap,
    /// The cluster's settings, as the map has them.
    settings: RwLock<Arc<Settings>>,
    /// Exports, as the map has them.
    pub exports: CurrentExports,
    /// Notification that exports have changed: write layouts must be recalled.
    pub exports_changed: Notify,
    /// The data servers that this metaserver knows.
    pub data_servers: Arc<DataServers>,
    /// Clocks of the cluster's machines.
    pub clocks: Clocks,
    pub(crate) addressing: Addressing,
    pub(crate) chains: Chains,
    /// Proof of the other servers that call this one.
    pub peer_auth: Arc<PeerAuth>,
}

impl Cluster {
    /// Returns the cluster `id` with the state machine of `group`; [`Cluster::follow_map`] reads the map.
    #[must_use]
    pub fn new(
        network: Arc<dyn StreamNetwork>,
        group: Arc<Group>,
        id: [u8; 16],
        begin: Option<Begin>,
        peer_key: PeerKey,
    ) -> Self {
        let (clock, entropy) = (&group.clock, &group.entropy);
        Self {
            id,
            begin,
            current_map: CurrentMap::default(),
            settings: RwLock::default(),
            exports: CurrentExports::default(),
            exports_changed: Notify::new(),
            data_servers: Arc::new(DataServers::new(
                Arc::clone(&network),
                peer_key.clone(),
                Arc::clone(clock),
                Arc::clone(entropy),
            )),
            clocks: Clocks::default(),
            addressing: Addressing::default(),
            chains: Chains::default(),
            peer_auth: Arc::new(PeerAuth::new(peer_key, Arc::clone(entropy))),
            network,
            group,
        }
    }

    /// Layout of new files in directories without a stripe policy.
    #[must_use]
    pub fn default_stripe(&self) -> DefaultStripe {
        self.settings().stripe(self.copies_in(namespace::PoolId::DEFAULT))
    }

    /// The cluster's settings in force.
    #[must_use]
    pub fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.settings.read())
    }

    pub(crate) fn put_settings(&self, settings: Settings) {
        self.group.replica.set_read_leases(settings.read_leases);
        *self.settings.write() = Arc::new(settings);
    }

    /// Client lease: longest silence of a client before its state is taken away.
    #[must_use]
    pub fn lease(&self) -> Duration {
        self.settings().lease
    }
}
