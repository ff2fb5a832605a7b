//! The cluster map as this metaserver follows it, and its own part of it.

use std::sync::Arc;
use std::time::Duration;

use namespace::{ClusterMap, Command, MapChange, Node, NodeKey, NodeState, read};
use parking_lot::RwLock;
use replica::{MemberChange, NodeId};

use crate::cluster::Cluster;
use crate::error::{ClusterError, store_failed};
use crate::exports::Exports;
use crate::settings::Settings;

/// How often the map is compared with what is.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The map as it was applied last.
#[derive(Default)]
pub(crate) struct CurrentMap(RwLock<Arc<ClusterMap>>);

/// What a metaserver says of itself.
#[derive(Debug, Clone)]
pub struct ThisServer {
    /// For people.
    pub name: String,
    /// Where clients and data servers reach it.
    pub address: String,
    /// Of its program.
    pub version: &'static str,
}

impl Cluster {
    /// The map.
    #[must_use]
    pub fn map(&self) -> Arc<ClusterMap> {
        Arc::clone(&self.current_map.0.read())
    }

    /// Whether this member of the group is to get nothing new.
    pub(crate) fn drains(&self, member: NodeId) -> bool {
        self.map().state(NodeKey::Metaserver(member)) >= NodeState::Draining
    }

    /// Takes the map over as it is in the store now.
    ///
    /// # Errors
    /// [`ClusterError::Store`].
    pub fn follow_map(&self) -> Result<(), ClusterError> {
        let map = read::cluster_map(&*self.group.view()?).map_err(store_failed)?;
        let closed = map.nodes.iter().filter(|node| node.state >= NodeState::Draining);
        let closed = closed.filter_map(|node| match node.key {
            NodeKey::DataServer(id) => Some(id),
            NodeKey::Metaserver(_) => None,
        });
        self.data_servers.follow(&map, closed.collect());
        let settings = self.settings_of(&map);
        self.put_settings(Settings::of(settings));
        let exports = Exports::of(settings);
        *self.current_map.0.write() = Arc::new(map);
        if self.exports.replace(exports) {
            self.exports_changed.notify_one();
        }
        Ok(())
    }

    /// Puts this server into the map, and keeps what it answers for there as it is, for ever.
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
        // Who leads sees to the rest.
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

    /// A voter that lives and does not drain, for this metaserver to hand over to.
    pub(crate) fn heir(&self, status: &replica::ReplicaStatus) -> Option<NodeId> {
        let mut others = status.members.iter().filter(|(id, _, voter)| *voter && *id != status.id);
        others.find(|(id, ..)| status.reachable.contains(id) && !self.drains(*id)).map(|(id, ..)| *id)
    }

    /// Has the map changed, and follows it.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn change_map(&self, change: MapChange) -> Result<(), ClusterError> {
        self.group.propose(None, Command::Map(change)).await?;
        self.follow_map()
    }
}
