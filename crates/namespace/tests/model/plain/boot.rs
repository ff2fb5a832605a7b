//! The model's nodes that boot from images.

use namespace::*;

use super::{Outcome, Plain};

/// MAC addresses of the nodes.
pub const MACS: [[u8; 6]; 3] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 3]];

impl Plain {
    pub fn node_of_mac(&self, mac: [u8; 6]) -> Option<&BootNode> {
        self.boot_nodes.values().find(|node| node.mac == mac)
    }

    pub(super) fn change_boot(&mut self, change: BootChange) -> Outcome {
        match change {
            BootChange::Group { was, becomes } => self.change_group(was, becomes)?,
            BootChange::Node { was, becomes } => self.change_node(was, becomes)?,
        }
        Ok(Reply::Done)
    }

    fn change_group(&mut self, was: Option<BootGroup>, becomes: Option<BootGroup>) -> Result<(), Error> {
        let names: Vec<&String> = was.iter().chain(&becomes).map(|group| &group.name).collect();
        let name = one_name(&names)?;
        if self.boot_groups.get(&name) != was.as_ref() {
            return Err(Error::NotSame);
        }
        let Some(becomes) = becomes else {
            if self.boot_nodes.values().any(|node| node.group == name) {
                return Err(Error::NotEmpty);
            }
            self.boot_groups.remove(&name);
            return Ok(());
        };
        if self.boot_nodes.contains_key(&name) {
            return Err(Error::Exists);
        }
        if becomes.root == (BootRoot::Own { directories: vec!["/a/../b".into()] }) {
            return Err(Error::Invalid);
        }
        self.has_image(was.map(|group| group.assigned.image), becomes.assigned)?;
        self.boot_groups.insert(name, becomes);
        Ok(())
    }

    fn change_node(&mut self, was: Option<BootNode>, becomes: Option<BootNode>) -> Result<(), Error> {
        let names: Vec<&String> = was.iter().chain(&becomes).map(|node| &node.name).collect();
        let name = one_name(&names)?;
        if self.boot_nodes.get(&name) != was.as_ref() {
            return Err(Error::NotSame);
        }
        let Some(becomes) = becomes else {
            self.boot_nodes.remove(&name);
            return Ok(());
        };
        if self.boot_groups.contains_key(&name) {
            return Err(Error::Exists);
        }
        if !self.boot_groups.contains_key(&becomes.group) {
            return Err(Error::NoDevice);
        }
        if self.node_of_mac(becomes.mac).is_some_and(|other| other.name != name) {
            return Err(Error::ClientInUse);
        }
        self.has_image(was.map(|node| node.assigned.image), becomes.assigned)?;
        self.boot_nodes.insert(name, becomes);
        Ok(())
    }

    /// Refuses an image that is not there, unless it was assigned before.
    fn has_image(&self, was: Option<Option<VolumeId>>, becomes: Assigned) -> Result<(), Error> {
        match becomes.image {
            Some(image) if was != Some(Some(image)) && !self.snapshots.contains_key(&image) => {
                Err(Error::NoEntry)
            }
            _ => Ok(()),
        }
    }
}

fn one_name(names: &[&String]) -> Result<String, Error> {
    let name = names.first().ok_or(Error::Invalid)?;
    let is_sound = names.iter().all(|other| other == name) && !name.contains('.');
    if is_sound { Ok((*name).clone()) } else { Err(Error::Invalid) }
}
