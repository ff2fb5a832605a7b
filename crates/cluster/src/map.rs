//! The cluster map as this metaserver follows it, and the row of this metaserver in the map.

use std::sync::Arc;
use std::time::Duration;

use namespace::{ClusterMap, Command, MapChange, Node, NodeKey, NodeState, read};
use parking_lot::{Mutex, RwLock};
use replica::{MemberChange, NodeId};

use crate::cluster::Cluster;
use crate::error::{ClusterError, store_failed};
use crate::exports::Exports;
use crate::settings::Settings;

/// Interval between two comparisons of the map with the members.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The map after the last applied change.
#[derive(Default)]
pub(crate) struct CurrentMap {
    map: RwLock<Arc<ClusterMap>>,
    /// Held while it is read from the store and taken over: no part of an earlier map follows a later one.
    following: Mutex<()>,
}

/// Description of this metaserver in the map.
#[derive(Debug, Clone)]
pub struct ThisServer {
    /// Name, for people.
    pub name: String,
    /// Address for clients and data servers.
    pub address: String,
    /// Program version.
    pub version: &'static str,
}

impl Cluster {
    /// The map.
    #[must_use]
    pub fn map(&self) -> Arc<ClusterMap> {
        Arc::clone(&self.current_map.map.read())
    }

    /// True if this group member drains: it gets nothing new.
    pub(crate) fn drains(&self, member: NodeId) -> bool {
        self.map().state(NodeKey::Metaserver(member)) >= NodeState::Draining
    }

    /// Reads the map from the store, and follows it.
    ///
    /// # Errors
    /// [`ClusterError::Store`].
    pub fn follow_map(&self) -> Result<(), ClusterError> {
        let _following = self.current_map.following.lock();
        let map = read::cluster_map(&*self.group.view()?).map_err(store_failed)?;
        self.data_servers.follow(&map);
        let settings = self.settings_of(&map);
        self.put_settings(Settings::of(settings));
        self.chains.follow(&map);
        let exports = Exports::of(settings);
        *self.current_map.map.write() = Arc::new(map);
        if self.exports.replace(exports) {
            self.exports_changed.notify_one();
        }
        Ok(())
    }

    /// Puts this server into the map and keeps the map correct, for ever: this server's own row on every
    /// member, the rest on the leader.
    pub async fn keep_map(self: Arc<Self>, this: ThisServer) {
        let mut often = tokio::time::interval(LOOK_EVERY);
        often.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            often.tick().await;
            if let Err(error) = self.compare_map(&this).await {
                tracing::debug!(%error, "the cluster map is not as it should be yet");
            }
        }
    }

    async fn compare_map(&self, this: &ThisServer) -> Result<(), ClusterError> {
        let status = self.group.replica.status();
        let map = self.map();
        let key = NodeKey::Metaserver(status.id);
        let known = map.node(key);
        let state = known.map(|node| node.state).filter(|state| *state != NodeState::Joining);
        let node = Node {
            key,
            name: this.name.clone(),
            address: this.address.clone(),
            version: this.version.into(),
            state: state.unwrap_or(NodeState::Serving),
        };
        if known != Some(&node) {
            self.change_map(MapChange::Put(node)).await?;
        }
        if status.leader != Some(status.id) {
            return Ok(());
        }
        // Only the leader does the rest.
        self.begin().await?;
        for node in &map.nodes {
            if let NodeKey::Metaserver(id) = node.key
                && node.state != NodeState::Removed
                && !status.members.iter().any(|(member, ..)| *member == id)
            {
                self.change_map(MapChange::State(node.key, NodeState::Removed)).await?;
            }
        }
        if self.drains(status.id)
            && let Some(heir) = self.heir(&status)
        {
            let led = self.group.replica.change_members(MemberChange::Lead(heir), false).await;
            led.unwrap_or_else(|why| tracing::warn!(%why, "leadership is not handed over"));
        }
        Ok(())
    }

    /// A voter that lives and does not drain: the new leader after a leadership transfer from this
    /// metaserver.
    pub(crate) fn heir(&self, status: &replica::ReplicaStatus) -> Option<NodeId> {
        let mut others = status.members.iter().filter(|(id, _, voter)| *voter && *id != status.id);
        others.find(|(id, ..)| status.reachable.contains(id) && !self.drains(*id)).map(|(id, ..)| *id)
    }

    /// Changes the map by a command, and follows the changed map.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn change_map(&self, change: MapChange) -> Result<(), ClusterError> {
        self.group.propose(None, Command::Map(change)).await?;
        self.follow_map()
    }
}
