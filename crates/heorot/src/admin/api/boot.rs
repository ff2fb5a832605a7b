//! Requests and answers about machines that boot from images.

use serde::{Deserialize, Serialize};

/// Body of `PUT /boot`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BootRequest {
    /// `add-node`, `set-node`, `remove-node`, `set-group`, `remove-group`, `assign`,
    /// `assign-as-group` or `rollback`.
    pub action: String,
    /// Name of the group or node.
    pub name: String,
    /// Of a node.
    #[serde(default)]
    pub mac: Option<String>,
    /// Of a node.
    #[serde(default)]
    pub group: Option<String>,
    /// `IMAGE@VERSION`.
    #[serde(default)]
    pub image: Option<String>,
    /// Of a group.
    #[serde(default)]
    pub root: Option<BootRoot>,
    /// Of a group.
    #[serde(default)]
    pub words: Option<String>,
}

/// Kind of a group's root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "kind", deny_unknown_fields)]
pub(crate) enum BootRoot {
    /// One for all, with what a node writes in its memory.
    Shared { memory_mib: u32 },
    /// A clone for the group.
    Clone,
    /// One for all, and directories of each node's own.
    Own { directories: Vec<String> },
}

/// Answer to `GET /boot`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Boot {
    pub images: Vec<Image>,
    pub groups: Vec<BootGroup>,
    pub nodes: Vec<BootNode>,
    /// Addresses that nodes boot from.
    pub addresses: Vec<std::net::IpAddr>,
    /// 0: it is not answered.
    pub http_port: u16,
    pub tftp_port: u16,
}

/// An image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Image {
    /// `IMAGE@VERSION`.
    pub name: String,
    /// Time of its import, in seconds since 1970.
    pub created: i64,
    /// Groups and nodes that boot it.
    pub booted_by: Vec<String>,
}

/// A group of nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BootGroup {
    pub name: String,
    pub root: BootRoot,
    pub words: String,
    pub image: Option<String>,
    pub previous: Option<String>,
}

/// A node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BootNode {
    pub name: String,
    pub mac: String,
    pub group: String,
    /// Image of its own.
    pub image: Option<String>,
    pub previous: Option<String>,
}
