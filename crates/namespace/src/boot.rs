//! Machines that boot from images: the nodes, the groups that they are in, and what each boots.
//!
//! ```text
//! node ──▶ group ──▶ kind of root
//!   │        └─────▶ image (a snapshot), and the one before it
//!   └──────────────▶ an image of its own, in place of the group's
//! ```
//!
//! Each change names the record that it changes: of two administrators at the same time, one is refused.

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};
use store::{StoreError, View};

use crate::plan::{Plan, Stop};
use crate::record::get;
use crate::{Error, Reply, VolumeId, keys, read};

/// Maximum of nodes: one that is added is counted among them all.
pub const BOOT_NODES_MAX: usize = 4096;

/// Maximum of groups.
pub const BOOT_GROUPS_MAX: usize = 1024;

/// Maximum of a node's or group's name in bytes: a label of a host name (RFC 1123).
pub const BOOT_NAME_BYTES_MAX: usize = 63;

/// Maximum of directories that a node has of its own.
pub const OWN_DIRECTORIES_MAX: usize = 16;

/// Maximum of a group's words of the kernel's command line, in bytes.
pub const BOOT_WORDS_BYTES_MAX: usize = 512;

/// Maximum of the path of such a directory, in bytes.
pub const OWN_DIRECTORY_BYTES_MAX: usize = 128;

/// Kind of the root of a group's nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum BootRoot {
    /// One for all, read-only; what a node writes is in its memory, up to `memory_mib` MiB, until it goes down.
    Shared {
        /// MiB.
        memory_mib: u32,
    },
    /// A clone for the group, which its nodes write to.
    Group,
    /// One for all, and directories of the node's own, which last.
    Own {
        /// Absolute paths.
        directories: Vec<String>,
    },
}

/// What a node or a group boots.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assigned {
    /// Id of the snapshot; none: of a node that of its group, of a group nothing.
    pub image: Option<VolumeId>,
    /// What it was before, for the way back.
    pub previous: Option<VolumeId>,
}

/// Record of a group of nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootGroup {
    /// Its name; no node has it.
    pub name: String,
    /// Kind of root.
    pub root: BootRoot,
    /// More words of the kernel's command line.
    pub words: String,
    /// Image of its nodes.
    pub assigned: Assigned,
}

/// Record of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootNode {
    /// Its name; no group has it.
    pub name: String,
    /// Address of the interface that it boots from; of no other node.
    pub mac: [u8; 6],
    /// Name of its group.
    pub group: String,
    /// Image of its own.
    pub assigned: Assigned,
}

/// A change of one record; `None` is no record.
#[expect(missing_docs, reason = "the fields are the record before and after the change")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum BootChange {
    /// Of a group. `NotEmpty`: nodes are in it.
    Group { was: Option<BootGroup>, becomes: Option<BootGroup> },
    /// Of a node. `NoDevice`: its group is not there; `ClientInUse`: another node has its MAC address.
    Node { was: Option<BootNode>, becomes: Option<BootNode> },
}

/// Changes a record. `NotSame`: it is not as the change says; `NoEntry`: the image is not there; `Exists`: the name is
/// that of the other kind; `TooLarge`: there are too many; `Invalid`: a name or a directory is none.
pub(crate) fn change(plan: &mut Plan<'_>, change: &BootChange) -> Result<Reply, Stop> {
    match change {
        BootChange::Group { was, becomes } => change_group(plan, was.as_ref(), becomes.as_ref())?,
        BootChange::Node { was, becomes } => change_node(plan, was.as_ref(), becomes.as_ref())?,
    }
    Ok(Reply::Done)
}

fn change_group(
    plan: &mut Plan<'_>,
    was: Option<&BootGroup>,
    becomes: Option<&BootGroup>,
) -> Result<(), Stop> {
    let name = name_of(was.map(|group| &group.name), becomes.map(|group| &group.name))?;
    let view = plan.view();
    if group(view, name)?.as_ref() != was {
        return Err(Error::NotSame.into());
    }
    let Some(becomes) = becomes else {
        if read::boot_nodes(view)?.iter().any(|node| node.group == name) {
            return Err(Error::NotEmpty.into());
        }
        plan.delete(&keys::boot_group(name));
        return Ok(());
    };
    if was.is_none() {
        is_new(view, &keys::boot_node(name), keys::BOOT_GROUPS, BOOT_GROUPS_MAX)?;
    }
    if !are_words(&becomes.words) {
        return Err(Error::Invalid.into());
    }
    let is_sound = match &becomes.root {
        BootRoot::Shared { memory_mib } => *memory_mib > 0,
        BootRoot::Group => true,
        BootRoot::Own { directories } => {
            (1..=OWN_DIRECTORIES_MAX).contains(&directories.len())
                && directories.iter().all(|path| is_own_directory(path))
        }
    };
    if !is_sound {
        return Err(Error::Invalid.into());
    }
    image_is_there(view, was.map(|group| group.assigned), becomes.assigned)?;
    plan.put(&keys::boot_group(name), becomes)?;
    Ok(())
}

fn change_node(plan: &mut Plan<'_>, was: Option<&BootNode>, becomes: Option<&BootNode>) -> Result<(), Stop> {
    let name = name_of(was.map(|node| &node.name), becomes.map(|node| &node.name))?;
    let view = plan.view();
    if node(view, name)?.as_ref() != was {
        return Err(Error::NotSame.into());
    }
    if let Some(becomes) = becomes {
        if was.is_none() {
            is_new(view, &keys::boot_group(name), keys::BOOT_NODES, BOOT_NODES_MAX)?;
        }
        group(view, &becomes.group)?.ok_or(Error::NoDevice)?;
        let of_mac: Option<String> = get(view, &keys::boot_mac(becomes.mac))?;
        if of_mac.is_some_and(|other| other != name) {
            return Err(Error::ClientInUse.into());
        }
        image_is_there(view, was.map(|node| node.assigned), becomes.assigned)?;
    }
    if let Some(was) = was {
        plan.delete(&keys::boot_mac(was.mac));
        plan.delete(&keys::boot_node(name));
    }
    if let Some(becomes) = becomes {
        plan.put(&keys::boot_mac(becomes.mac), &becomes.name)?;
        plan.put(&keys::boot_node(name), becomes)?;
    }
    Ok(())
}

/// The name that both records have.
fn name_of<'a>(was: Option<&'a String>, becomes: Option<&'a String>) -> Result<&'a str, Error> {
    let name = was.or(becomes).ok_or(Error::Invalid)?;
    let is_same = was.zip(becomes).is_none_or(|(was, becomes)| was == becomes);
    if is_same && is_boot_name(name) { Ok(name) } else { Err(Error::Invalid) }
}

/// Whether nodes and groups may have this name: a label of a host name.
#[must_use]
pub fn is_boot_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=BOOT_NAME_BYTES_MAX).contains(&name.len())
        && name.bytes().all(fits)
        && !name.starts_with('-')
        && !name.ends_with('-')
}

/// Whether a node may have this directory of its own: an absolute path without `.` and `..`, of characters that need no
/// quotes in the words of a kernel.
#[must_use]
pub fn is_own_directory(path: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.+".contains(&byte);
    let is_name = |name: &str| !["", ".", ".."].contains(&name) && name.bytes().all(fits);
    path.len() <= OWN_DIRECTORY_BYTES_MAX
        && path.strip_prefix('/').is_some_and(|names| names.split('/').all(is_name))
}

/// Whether a group may have these words of the kernel's command line: printable ASCII, without what a script of iPXE would
/// replace or run.
#[must_use]
pub fn are_words(words: &str) -> bool {
    let fits = |byte: u8| (byte.is_ascii_graphic() || byte == b' ') && !b"$|&;#\"".contains(&byte);
    words.len() <= BOOT_WORDS_BYTES_MAX && words.bytes().all(fits)
}

/// Refuses a name that the other kind has, and one record too many.
fn is_new(view: &dyn View, other: &[u8], table: u8, max: usize) -> Result<(), Stop> {
    if view.get(other)?.is_some() {
        return Err(Error::Exists.into());
    }
    let mut there = 0;
    read::scan_keys(view, &[table], |_| {
        there += 1;
        ControlFlow::Continue(())
    })?;
    if there < max { Ok(()) } else { Err(Error::TooLarge.into()) }
}

/// Refuses an image that is assigned now, and is not there.
fn image_is_there(view: &dyn View, was: Option<Assigned>, becomes: Assigned) -> Result<(), Stop> {
    match becomes.image {
        Some(image) if was.unwrap_or_default().image != Some(image) => {
            read::snapshot(view, image)?.ok_or(Error::NoEntry)?;
            Ok(())
        }
        _ => Ok(()),
    }
}

fn group(view: &dyn View, name: &str) -> Result<Option<BootGroup>, StoreError> {
    get(view, &keys::boot_group(name))
}

fn node(view: &dyn View, name: &str) -> Result<Option<BootNode>, StoreError> {
    get(view, &keys::boot_node(name))
}
