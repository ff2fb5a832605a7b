//! Registration of data servers, and their reports of free space.

use namespace::{Command, DataServer, MapChange, Node, NodeKey, NodeState};

use crate::cluster::Cluster;
use crate::error::ClusterError;

impl Cluster {
    /// Puts a data server, its version and its free space into the map. Returns `true` if the data server was
    /// silent before.
    ///
    /// # Errors
    /// The errors of a map change.
    pub async fn register(
        &self,
        server: &DataServer,
        version: String,
        spaces: &[wire::data::TargetSpace],
    ) -> Result<bool, ClusterError> {
        let map = self.map();
        if !map.data_servers.contains(server) {
            tracing::info!(name = %server.name, addresses = ?server.addresses, "data server registers");
            self.group.propose(None, Command::PutDataServer(server.clone())).await?;
            // A process that has started again must not be told that its members are in.
            self.follow_map()?;
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
        Ok(self.data_servers.put(server, Some(spaces)))
    }
}
