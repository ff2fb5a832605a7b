//! Registration of data servers, and their reports of free space.

use namespace::{Command, DataServer, MapChange, Node, NodeKey, NodeState};

use crate::cluster::Cluster;
use crate::error::ClusterError;

impl Cluster {
    /// Takes a data server of that version, and its free space, into the map. `true`: it was silent before.
    ///
    /// # Errors
    /// As any change of the map.
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
