//! The cluster: its members, nodes, map and service addresses, and what metaservers ask one another.

mod answers;
mod backup;
pub(crate) mod begin;
pub(crate) mod change;
pub(crate) mod clocks;
pub(crate) mod data_servers;
pub(crate) mod error;
pub(crate) mod exports;
pub(crate) mod group;
pub(crate) mod join_server;
pub(crate) mod map;
pub(crate) mod members;
pub(crate) mod nodes;
pub(crate) mod peers;
pub(crate) mod registration;
pub(crate) mod service_addresses;
pub(crate) mod settings;
pub(crate) mod tokens;

use std::sync::Arc;
use std::time::Duration;

use nfs::{PeerAuth, PeerKey, StreamNetwork};
use parking_lot::RwLock;
use tokio::sync::Notify;

use crate::cluster::begin::Begin;
use crate::cluster::clocks::Clocks;
use crate::cluster::data_servers::DataServers;
use crate::cluster::exports::CurrentExports;
use crate::cluster::group::Group;
use crate::cluster::map::CurrentMap;
use crate::cluster::service_addresses::Addressing;
use crate::cluster::settings::{DefaultStripe, Settings};

/// The cluster as this metaserver sees it: the map, what follows from it, and the other servers.
pub struct Cluster {
    /// Where the metaserver listens and reaches data servers.
    pub(crate) network: Arc<dyn StreamNetwork>,
    pub(crate) group: Arc<Group>,
    /// Shown to clients as the server's owner and scope: the same on all metaservers of a cluster.
    pub(crate) id: [u8; 16],
    /// What the cluster begins with, of a metaserver that begins one: in force until the cluster map has it.
    pub(crate) begin: Option<Begin>,
    pub(crate) current_map: CurrentMap,
    /// The cluster's settings, as the map has them.
    settings: RwLock<Arc<Settings>>,
    /// Exports, as the map has them.
    pub(crate) exports: CurrentExports,
    /// Exports have changed: layouts to write are to be recalled.
    pub(crate) exports_changed: Notify,
    pub(crate) data_servers: Arc<DataServers>,
    pub(crate) clocks: Clocks,
    pub(crate) addressing: Addressing,
    pub(crate) peer_auth: Arc<PeerAuth>,
}

impl Cluster {
    pub(crate) fn new(
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
            peer_auth: Arc::new(PeerAuth::new(peer_key, Arc::clone(entropy))),
            network,
            group,
        }
    }

    /// The layout of new files where no directory says otherwise.
    pub(crate) fn default_stripe(&self) -> DefaultStripe {
        self.settings().stripe()
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

    /// How long a client may be silent before its state is taken away.
    pub(crate) fn lease(&self) -> Duration {
        self.settings().lease
    }
}
