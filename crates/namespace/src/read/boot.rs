//! Reads of the nodes that boot from images.

use store::{StoreError, View};

use super::collect;
use crate::record::get;
use crate::{BootGroup, BootNode, keys};

/// All groups of nodes, by name.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn boot_groups(view: &dyn View) -> Result<Vec<BootGroup>, StoreError> {
    collect(view, &[keys::BOOT_GROUPS])
}

/// The group with this name.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn boot_group(view: &dyn View, name: &str) -> Result<Option<BootGroup>, StoreError> {
    get(view, &keys::boot_group(name))
}

/// All nodes, by name.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn boot_nodes(view: &dyn View) -> Result<Vec<BootNode>, StoreError> {
    collect(view, &[keys::BOOT_NODES])
}

/// The node with this name.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn boot_node(view: &dyn View, name: &str) -> Result<Option<BootNode>, StoreError> {
    get(view, &keys::boot_node(name))
}

/// The node whose interface has this MAC address.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn boot_node_of_mac(view: &dyn View, mac: [u8; 6]) -> Result<Option<BootNode>, StoreError> {
    match get::<String>(view, &keys::boot_mac(mac))? {
        Some(name) => boot_node(view, &name),
        None => Ok(None),
    }
}
