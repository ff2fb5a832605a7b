//! Changes of data servers by an operator: drain, serve again, remove.

use std::collections::BTreeSet;
use std::sync::Arc;

use cluster::{AdminError, NodeChange, NodeReport, id_text};
use namespace::{NodeKey, NodeState, TargetId};

use crate::data::Data;

impl Data {
    pub(crate) async fn change_data_server(
        self: &Arc<Self>,
        node: &NodeReport,
        nodes: &[NodeReport],
        change: NodeChange,
        force: bool,
    ) -> Result<String, AdminError> {
        let (name, objects) = (&node.name, node.objects.unwrap_or(0));
        match change {
            NodeChange::Drain => {
                self.cluster.check_pools_without(&self.targets_of(node.key), name)?;
                self.cluster.set_state(node.key, NodeState::Draining).await?;
                Ok(format!(
                    "{name} takes no new files; its {objects} objects are served, and move to other data servers that have room"
                ))
            }
            NodeChange::Undrain => {
                let is_data = |other: &&NodeReport| matches!(other.key, NodeKey::DataServer(_));
                let takes_place = |other: &&NodeReport| {
                    let same = other.name == node.name || other.address == node.address;
                    other.key != node.key && other.state != NodeState::Removed && same
                };
                if node.state == NodeState::Removed
                    && let Some(other) = nodes.iter().filter(is_data).find(takes_place)
                {
                    return Err(AdminError::Invalid(format!(
                        "{name} was removed, and data server {} ({}) has its name or address now; remove that one first",
                        other.name,
                        id_text(other.key)
                    )));
                }
                self.cluster.set_state(node.key, NodeState::Serving).await?;
                self.state.deferred_ready.notify_one();
                Ok(format!("{name} takes new files"))
            }
            NodeChange::Remove if !force && self.has_files(id_text(node.key)).await? => {
                Err(AdminError::Invalid(format!(
                    "{name} has data of files: these files could not be read any more. Drain it, and wait until they have moved to other \
                 data servers (heorot files --on {name} lists them), or force it"
                )))
            }
            NodeChange::Remove if node.seen.is_none() && !force => Err(AdminError::Invalid(format!(
                "{name} says nothing, and may have objects; their files could not be read any more. Start it, or force it"
            ))),
            NodeChange::Remove if !force => {
                self.cluster.check_pools_without(&self.targets_of(node.key), name)?;
                // Drained first, so that no new data come to the targets during the check.
                self.cluster.set_state(node.key, NodeState::Draining).await?;
                match self.leave_targets(&self.targets_of(node.key)).await {
                    Ok(()) => self.remove_data_server(node, false).await,
                    Err(why) => {
                        Err(self.cluster.set_back(node, AdminError::Invalid(format!("{name} {why}"))).await)
                    }
                }
            }
            _ => {
                let loses = objects > 0 || node.seen.is_none() || self.has_files(id_text(node.key)).await?;
                self.remove_data_server(node, loses).await
            }
        }
    }

    fn targets_of(&self, key: NodeKey) -> BTreeSet<TargetId> {
        let map = self.cluster.map();
        let server = map.data_servers.iter().find(|server| NodeKey::DataServer(server.id) == key);
        server.into_iter().flat_map(|server| server.targets.iter().copied()).collect()
    }

    /// `loses`: true if the data server may have data of files.
    async fn remove_data_server(
        self: &Arc<Self>,
        node: &NodeReport,
        loses: bool,
    ) -> Result<String, AdminError> {
        self.cluster.set_state(node.key, NodeState::Removed).await?;
        self.state.deferred_ready.notify_one();
        tokio::spawn(Arc::clone(self).recall_layouts_of_lost());
        let (name, id) = (&node.name, id_text(node.key));
        Ok(match loses {
            false => format!("{name} is removed; stop it"),
            true => format!(
                "{name} is removed; stop it. What it had of files is lost, and reading it is an error from now on; heorot files \
                 --on {id} lists them"
            ),
        })
    }

    /// True if a file has data on this data server or target, by its id or name, according to the metadata: the report in
    /// its last heartbeat may be older than the metadata.
    pub(super) async fn has_files(self: &Arc<Self>, id: String) -> Result<bool, AdminError> {
        let server = Arc::clone(self);
        let looked = self.machine.replica.run_blocking(move || {
            let mut after = None;
            loop {
                let page = server.cluster.files_on(&id, after.as_deref())?;
                match (page.paths.is_empty(), page.next) {
                    (false, _) => return Ok(true),
                    (true, None) => return Ok(false),
                    (true, next) => after = next,
                }
            }
        });
        looked.await.map_err(|e| AdminError::Failed(e.to_string()))?
    }
}
