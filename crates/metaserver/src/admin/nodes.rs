//! Changes of servers by name: finds the servers, and calls the part that carries out the change.

use std::sync::Arc;

use cluster::{AGREE_TIME_MAX, AdminError, NodeChange, NodeReport, NodeRoles, id_text};
use namespace::{NodeKey, NodeState};

use crate::Metaserver;

impl Metaserver {
    /// Changes the servers with that name, or the server with that id. Returns a message about done and
    /// refused changes.
    ///
    /// # Errors
    /// [`AdminError::Invalid`] if the change is not possible, with the reason.
    pub async fn change_node(
        self: &Arc<Self>,
        name: &str,
        roles: NodeRoles,
        change: NodeChange,
        force: bool,
    ) -> Result<String, AdminError> {
        // Without a quorum the change would stop half done.
        let agreed = tokio::time::timeout(AGREE_TIME_MAX, self.machine.replica.barrier()).await;
        agreed
            .map_err(|_| {
                AdminError::Invalid(
                    "nothing can be changed now: too few metaservers with a vote can be reached".into(),
                )
            })?
            .map_err(|e| AdminError::Failed(e.to_string()))?;
        let nodes = self.cluster.nodes().await?;
        let wanted = |node: &&NodeReport| {
            let is_metaserver = matches!(node.key, NodeKey::Metaserver(_));
            let is_meant = match roles {
                NodeRoles::Any => is_metaserver || change <= NodeChange::Remove,
                NodeRoles::Metaserver => is_metaserver,
                NodeRoles::DataServer => !is_metaserver && change <= NodeChange::Remove,
            };
            let gone = node.state == NodeState::Removed && change != NodeChange::Undrain;
            is_meant && !gone && (node.name == name || id_text(node.key) == name)
        };
        let mut chosen: Vec<&NodeReport> = nodes.iter().filter(wanted).collect();
        // A removed server whose name was reused is chosen only by its id.
        if chosen.iter().any(|node| node.state != NodeState::Removed) {
            chosen.retain(|node| node.state != NodeState::Removed || id_text(node.key) == name);
        }
        // A machine's two servers may have one name. If a data server with objects is not removed, the
        // metaserver is not removed either.
        chosen.sort_by_key(|node| matches!(node.key, NodeKey::Metaserver(_)));
        if chosen.is_empty() {
            return Err(AdminError::Invalid(format!(
                "no server is called {name:?}; heorot node list shows them"
            )));
        }
        let metaservers = chosen.iter().filter(|node| matches!(node.key, NodeKey::Metaserver(_))).count();
        if metaservers > 1 || chosen.len() - metaservers > 1 {
            return Err(AdminError::Invalid(format!(
                "several servers are called {name:?}; name one by its id, as heorot node list --json shows it"
            )));
        }
        if change == NodeChange::Remove
            && roles == NodeRoles::Any
            && let [data_server, metaserver] = chosen[..]
        {
            let objects = data_server.objects.unwrap_or(0);
            return Err(AdminError::Invalid(format!(
                "{name} is a data server with {objects} objects and a metaserver ({}); say which one to remove: --role ds or \
                 --role mds",
                metaserver.role
            )));
        }
        let mut said = Vec::new();
        for node in chosen {
            said.push(match node.key {
                NodeKey::Metaserver(id) => self.cluster.change_metaserver(node, id, change, force).await?,
                NodeKey::DataServer(_) => self.data.change_data_server(node, &nodes, change, force).await?,
            });
        }
        Ok(said.join("; "))
    }
}
