//! An operator's changes of servers: drain, undrain, promote, demote, lead, remove.

use std::time::Duration;

use namespace::{MapChange, NodeKey, NodeState};
use replica::{MemberChange, NodeId};

use super::report::{NodeReport, held_by};
use crate::cluster::Cluster;
use crate::error::AdminError;

/// Time for a majority to agree: an election takes a second, or a few.
pub const AGREE_TIME_MAX: Duration = Duration::from_secs(10);
/// Time for service addresses to move away.
const MOVE_TIME_MAX: Duration = Duration::from_secs(10);
/// Poll interval while service addresses move away.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Servers of a machine that a change concerns: a machine may have one of each kind under one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeRoles {
    /// All of the machine.
    Any,
    /// The metaserver.
    Metaserver,
    /// The data server.
    DataServer,
}

/// A change of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeChange {
    /// It gets nothing new.
    Drain,
    /// It serves again.
    Undrain,
    /// It leaves the cluster.
    Remove,
    /// A metaserver gets a vote.
    Promote,
    /// A metaserver has no vote any more.
    Demote,
    /// A metaserver becomes the leader.
    Lead,
}

impl Cluster {
    /// Changes a metaserver. Returns a line for people.
    ///
    /// # Errors
    /// [`AdminError::Invalid`] with the reason, if the change is impossible.
    pub async fn change_metaserver(
        &self,
        node: &NodeReport,
        id: NodeId,
        change: NodeChange,
        force: bool,
    ) -> Result<String, AdminError> {
        let name = &node.name;
        let members = |change| async move {
            self.group.replica.change_members(change, force).await.map_err(AdminError::Invalid)
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
                    // The clients must have moved before the metaserver stops.
                    self.drain_metaserver(node, id).await?;
                    members(MemberChange::Remove(id)).await
                };
                if let Err(why) = removed.await {
                    return Err(self.set_back(node, why).await);
                }
                // A removed metaserver cannot change the map: the new leader notes the removal.
                if !self.group.replica.is_removed() {
                    let _ = self.set_state(node.key, NodeState::Removed).await;
                }
                Ok(format!("{name} is removed, and stops"))
            }
        }
    }

    /// Drains a metaserver. Returns a line about its service addresses and its leadership.
    async fn drain_metaserver(&self, node: &NodeReport, id: NodeId) -> Result<String, AdminError> {
        self.set_state(node.key, NodeState::Draining).await?;
        let status = self.group.replica.status();
        let mut leadership = "";
        if status.leader == Some(id) {
            // Another metaserver that drains hands its leadership over itself, within a second.
            if status.id == id
                && let Some(heir) = self.heir(&status)
            {
                let led = self.group.replica.change_members(MemberChange::Lead(heir), false).await;
                led.map_err(AdminError::Invalid)?;
            }
        }
        let waited = tokio::time::Instant::now();
        loop {
            let group = self.ask_group_report().await.unwrap_or_default();
            let held = held_by(&group, id);
            let leads = self.group.replica.status().leader == Some(id);
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

    /// Puts a server that was not removed back into its earlier state. Returns `why`, with a hint if the
    /// server may be left draining.
    pub async fn set_back(&self, node: &NodeReport, why: AdminError) -> AdminError {
        if node.state == NodeState::Draining || self.set_state(node.key, node.state).await.is_ok() {
            return why;
        }
        AdminError::Invalid(format!(
            "{why}; it may be left draining: `heorot node undrain {}` has it serve again",
            node.name
        ))
    }

    /// Changes the administrative state of a server.
    ///
    /// # Errors
    /// [`AdminError`] if the group does not agree in time.
    pub async fn set_state(&self, key: NodeKey, state: NodeState) -> Result<(), AdminError> {
        let changed = tokio::time::timeout(AGREE_TIME_MAX, self.change_map(MapChange::State(key, state)));
        match changed.await {
            Ok(changed) => changed
                .map_err(|error| AdminError::Failed(format!("the cluster map is not changed: {error}"))),
            Err(_) => Err(AdminError::Invalid(
                "the cluster map is not changed yet, and may be when enough metaservers with a vote can be reached"
                    .into(),
            )),
        }
    }
}

/// The id in the form of `heorot node list --json`.
#[must_use]
pub fn id_text(key: NodeKey) -> String {
    let (NodeKey::Metaserver(id) | NodeKey::DataServer(namespace::DataServerId(id))) = key;
    format!("{id:016x}")
}
