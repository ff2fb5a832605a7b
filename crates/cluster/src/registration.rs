//! Registration of data servers, and their reports of free space.

use std::collections::BTreeMap;

use namespace::{ClusterMap, Command, DataServer, DataServerId, MapChange, Node, NodeKey, NodeState};
use parking_lot::Mutex;

use crate::cluster::Cluster;
use crate::error::ClusterError;

/// Processes of a data server that others have followed, at most: a registration may be late by seconds.
const ENDED_MAX: usize = 8;

/// Processes of data servers that have ended, since others of the same servers have registered: a registration of theirs
/// that comes late would take the members of the present process out of their chains.
#[derive(Default)]
pub(crate) struct EndedProcesses(Mutex<BTreeMap<DataServerId, Vec<u64>>>);

impl EndedProcesses {
    /// Compares two versions of the map.
    pub(crate) fn follow(&self, before: &ClusterMap, after: &ClusterMap) {
        let mut ended = self.0.lock();
        for server in &before.data_servers {
            let now = after.data_servers.iter().find(|other| other.id == server.id);
            if now.is_some_and(|now| now.process != server.process) {
                let of_server = ended.entry(server.id).or_default();
                of_server.truncate(ENDED_MAX - 1);
                of_server.insert(0, server.process);
            }
        }
        ended.retain(|id, _| after.data_servers.iter().any(|server| server.id == *id));
    }

    /// True if this process of the data server has ended.
    #[must_use]
    pub(crate) fn contains(&self, server: DataServerId, process: u64) -> bool {
        self.0.lock().get(&server).is_some_and(|ended| ended.contains(&process))
    }
}

impl Cluster {
    /// True if another process of this data server has registered since this one.
    #[must_use]
    pub fn has_ended(&self, server: &DataServer) -> bool {
        self.ended_processes.contains(server.id, server.process)
    }

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
            let known =
                map.data_servers.iter().find(|known| known.id == server.id).map(|known| known.process);
            let put = Command::PutDataServer { server: server.clone(), known };
            self.group.propose(None, put).await?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_ended_when_another_one_of_its_server_is_in_the_map() {
        let map = |process| {
            let server = |id, process| DataServer {
                id: DataServerId(id),
                name: String::new(),
                addresses: vec![],
                service_address: None,
                zone: String::new(),
                targets: vec![],
                process,
            };
            ClusterMap { data_servers: vec![server(1, process), server(2, 7)], ..ClusterMap::default() }
        };
        let ended = EndedProcesses::default();
        ended.follow(&ClusterMap::default(), &map(10));
        ended.follow(&map(10), &map(10));
        let has = |process| ended.contains(DataServerId(1), process);
        assert!(!has(10));
        for process in 11..30 {
            ended.follow(&map(process - 1), &map(process));
            assert!(has(process - 1) && !has(process));
        }
        assert!(!has(10) && has(22), "as many as may be late");
        assert!(!ended.contains(DataServerId(2), 7));
        ended.follow(&map(29), &ClusterMap::default());
        assert!(!has(28), "a server that is gone");
    }
}
