//! What people have servers do: drain, serve again, vote or not, lead, go.

use std::sync::Arc;
use std::time::Duration;

use namespace::{MapChange, NodeKey, NodeState};
use replica::{MemberChange, NodeId};

use super::report::{NodeReport, held_by};
use crate::{AdminError, Metaserver};

/// For a majority to agree: an election takes a second, or a few.
pub(super) const AGREE_TIME_MAX: Duration = Duration::from_secs(10);
/// For service addresses to move away.
const MOVE_TIME_MAX: Duration = Duration::from_secs(10);
/// How often it is looked whether they have.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Which servers of a machine are meant: it may have one of each under one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeRoles {
    /// All that there are.
    Any,
    /// The metaserver.
    Metaserver,
    /// The data server.
    DataServer,
}

/// What a server is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeChange {
    /// It gets nothing new.
    Drain,
    /// It serves again.
    Undrain,
    /// It belongs no longer.
    Remove,
    /// A metaserver gets a vote.
    Promote,
    /// A metaserver has no vote any more.
    Demote,
    /// A metaserver leads.
    Lead,
}

impl Metaserver {
    /// Has the servers of that name, or the one with that id, do something; says what was done and what was
    /// not.
    ///
    /// # Errors
    /// [`AdminError::Invalid`] when it cannot be, with the reason.
    pub async fn change_node(
        self: &Arc<Self>,
        name: &str,
        roles: NodeRoles,
        change: NodeChange,
        force: bool,
    ) -> Result<String, AdminError> {
        // Else it would hang somewhere on its way, half done.
        let agreed = tokio::time::timeout(AGREE_TIME_MAX, self.replica.barrier()).await;
        agreed
            .map_err(|_| {
                AdminError::Invalid(
                    "nothing can be changed now: too few metaservers with a vote can be reached".into(),
                )
            })?
            .map_err(|e| AdminError::Failed(e.to_string()))?;
        let nodes = self.nodes().await?;
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
        // What was replaced under its name is meant only by its id.
        if chosen.iter().any(|node| node.state != NodeState::Removed) {
            chosen.retain(|node| node.state != NodeState::Removed || id_text(node.key) == name);
        }
        // A machine's two servers may have one name. A data server with objects is not removed: then neither
        // is the other.
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
                NodeKey::Metaserver(id) => self.change_metaserver(node, id, change, force).await?,
                NodeKey::DataServer(_) => self.change_data_server(node, &nodes, change, force).await?,
            });
        }
        Ok(said.join("; "))
    }

    async fn change_metaserver(
        &self,
        node: &NodeReport,
        id: NodeId,
        change: NodeChange,
        force: bool,
    ) -> Result<String, AdminError> {
        let name = &node.name;
        let members = |change| async move {
            self.replica.change_members(change, force).await.map_err(AdminError::Invalid)
        };
        match change {
            NodeChange::Drain => {
                let left = self.drain_metaserver(node, id).await?;
                Ok(format!(
                    "{name} drains: {left}; it still has a vote and serves who mounted its own address"
                ))
            }
            NodeChange::Undrain if node.state == NodeState::Removed => Err(AdminError::Invalid(format!(
                "{name} was removed for good; start it with an empty directory, and `join`, to have it join again"
            ))),
            NodeChange::Undrain => {
                self.set_state(node.key, NodeState::Serving).await?;
                Ok(format!("{name} serves"))
            }
            NodeChange::Promote => {
                members(MemberChange::Promote(id)).await.map(|()| format!("{name} has a vote"))
            }
            NodeChange::Demote => {
                members(MemberChange::Demote(id)).await.map(|()| format!("{name} has no vote, and serves"))
            }
            NodeChange::Lead => members(MemberChange::Lead(id)).await.map(|()| format!("{name} leads")),
            NodeChange::Remove => {
                let removed = async {
                    // Its clients are elsewhere before it stops.
                    self.drain_metaserver(node, id).await?;
                    members(MemberChange::Remove(id)).await
                };
                if let Err(why) = removed.await {
                    return Err(self.set_back(node, why).await);
                }
                // If it was this one, it has no say any more: who leads now notes it.
                if !self.replica.is_removed() {
                    let _ = self.set_state(node.key, NodeState::Removed).await;
                }
                Ok(format!("{name} is removed, and stops"))
            }
        }
    }

    /// Says what has gone elsewhere.
    async fn drain_metaserver(&self, node: &NodeReport, id: NodeId) -> Result<String, AdminError> {
        self.set_state(node.key, NodeState::Draining).await?;
        let status = self.replica.status();
        let mut leadership = "";
        if status.leader == Some(id) {
            // Of another one, it sees to that itself within a second.
            if status.id == id
                && let Some(heir) = self.heir(&status)
            {
                let led = self.replica.change_members(MemberChange::Lead(heir), false).await;
                led.map_err(AdminError::Invalid)?;
            }
        }
        let waited = tokio::time::Instant::now();
        loop {
            let group = self.ask_group_report().await.unwrap_or_default();
            let held = held_by(&group, id);
            let leads = self.replica.status().leader == Some(id);
            if (held.is_empty() && !leads) || waited.elapsed() > MOVE_TIME_MAX {
                if leads {
                    leadership = ", and it leads: no other voter can";
                }
                return Ok(match held.len() {
                    0 => format!("it holds no service address{leadership}"),
                    n => format!("it holds {n} service addresses, which nobody else takes{leadership}"),
                });
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    async fn change_data_server(
        self: &Arc<Self>,
        node: &NodeReport,
        nodes: &[NodeReport],
        change: NodeChange,
        force: bool,
    ) -> Result<String, AdminError> {
        let (name, objects) = (&node.name, node.objects.unwrap_or(0));
        match change {
            NodeChange::Drain => {
                self.set_state(node.key, NodeState::Draining).await?;
                Ok(format!(
                    "{name} takes no new files; its {objects} objects stay where they are, and are served"
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
                self.set_state(node.key, NodeState::Serving).await?;
                self.deferred_ready.notify_one();
                Ok(format!("{name} takes new files"))
            }
            NodeChange::Remove if !force && self.has_files(node.key).await? => {
                Err(AdminError::Invalid(format!(
                    "{name} has data of files, which nothing moves elsewhere yet: these files could not be read any more. \
                 Drain it and remove them first (heorot files --on {name} lists them), or force it"
                )))
            }
            NodeChange::Remove if node.seen.is_none() && !force => Err(AdminError::Invalid(format!(
                "{name} says nothing, and may have objects; their files could not be read any more. Start it, or force it"
            ))),
            NodeChange::Remove if !force => {
                // Nothing new comes to what is looked through.
                self.set_state(node.key, NodeState::Draining).await?;
                match self.leave_data_server(node.key).await {
                    Ok(()) => self.remove_data_server(node, false).await,
                    Err(why) => Err(self.set_back(node, AdminError::Invalid(format!("{name} {why}"))).await),
                }
            }
            _ => {
                let loses = objects > 0 || node.seen.is_none() || self.has_files(node.key).await?;
                self.remove_data_server(node, loses).await
            }
        }
    }

    /// `loses`: whether it may have data of files.
    async fn remove_data_server(
        self: &Arc<Self>,
        node: &NodeReport,
        loses: bool,
    ) -> Result<String, AdminError> {
        self.set_state(node.key, NodeState::Removed).await?;
        self.deferred_ready.notify_one();
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

    /// Whether a file has data on this data server, as the metadata say: what it told with its last heartbeat
    /// may be older than they are.
    async fn has_files(self: &Arc<Self>, key: NodeKey) -> Result<bool, AdminError> {
        let (server, id) = (Arc::clone(self), id_text(key));
        let looked = tokio::task::spawn_blocking(move || {
            let mut after = None;
            loop {
                let page = server.files_on(&id, after.as_deref())?;
                match (page.paths.is_empty(), page.next) {
                    (false, _) => return Ok(true),
                    (true, None) => return Ok(false),
                    (true, next) => after = next,
                }
            }
        });
        looked.await.map_err(|e| AdminError::Failed(e.to_string()))?
    }

    /// A server that is not removed is to do what it did before. Returns why it is not, and if it is left
    /// draining, too.
    async fn set_back(&self, node: &NodeReport, why: AdminError) -> AdminError {
        if node.state == NodeState::Draining || self.set_state(node.key, node.state).await.is_ok() {
            return why;
        }
        AdminError::Invalid(format!(
            "{why}; it may be left draining: `heorot node undrain {}` has it serve again",
            node.name
        ))
    }

    async fn set_state(&self, key: NodeKey, state: NodeState) -> Result<(), AdminError> {
        let changed = tokio::time::timeout(AGREE_TIME_MAX, self.change_map(MapChange::State(key, state)));
        match changed.await {
            Ok(changed) => changed
                .map_err(|status| AdminError::Failed(format!("the cluster map is not changed: {status:?}"))),
            Err(_) => Err(AdminError::Invalid(
                "the cluster map is not changed yet, and may be when enough metaservers with a vote can be reached"
                    .into(),
            )),
        }
    }
}

/// As `heorot node list --json` shows it.
#[must_use]
pub(super) fn id_text(key: NodeKey) -> String {
    let (NodeKey::Metaserver(id) | NodeKey::DataServer(namespace::DataServerId(id))) = key;
    format!("{id:016x}")
}
