//! Registration of data servers, and their reports of free space.

use namespace::{ClusterMap, Command, DataServer, Error, MapChange, Node, NodeKey, NodeState};

use crate::cluster::Cluster;
use crate::error::ClusterError;

/// Outcome of a registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Registered {
    /// The data server is in the map.
    Yes {
        /// True if it was silent before.
        answers_again: bool,
    },
    /// This process of the data server is in the map, and not the one that the registration was to take the place of:
    /// nothing was changed.
    OtherProcess(u64),
}

impl Cluster {
    /// Puts a data server, its version and its free space into the map, if the map has no process of it or this one, or
    /// the one that it is `known` to follow.
    ///
    /// # Errors
    /// The errors of a map change.
    pub async fn register(
        &self,
        server: &DataServer,
        known: u64,
        version: String,
        spaces: &[wire::data::TargetSpace],
    ) -> Result<Registered, ClusterError> {
        let process = |map: &ClusterMap| {
            map.data_servers.iter().find(|known| known.id == server.id).map(|known| known.process)
        };
        let map = self.map();
        if !map.data_servers.contains(server) {
            let put = Command::PutDataServer { server: server.clone(), known: Some(known) };
            let put = self.group.propose(None, put).await;
            // A process that has started again must not be told that its members are in. And this server may know less
            // than the state machine.
            self.follow_map()?;
            match put {
                Err(ClusterError::Refused(Error::Delay)) => {
                    let other = process(&self.map()).filter(|other| *other != server.process);
                    let other = other.ok_or(ClusterError::NoLeader)?;
                    return Ok(Registered::OtherProcess(other));
                }
                put => put?,
            };
            tracing::info!(name = %server.name, addresses = ?server.addresses, "data server registers");
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
        Ok(Registered::Yes { answers_again: self.data_servers.put(server, Some(spaces)) })
    }
}
