//! Nodes and groups: requests of administrators.

use cluster::AdminError;
use namespace::{
    Assigned, BOOT_GROUPS_MAX, BOOT_NAME_BYTES_MAX, BOOT_NODES_MAX, BOOT_WORDS_BYTES_MAX, BootChange,
    BootGroup, BootNode, BootRoot, Command, Error, OWN_DIRECTORIES_MAX, Snapshot, VolumeId, are_words,
    is_boot_name, is_own_directory, read,
};

use super::paths::{GROUPS, ImageName, clone_of_group};
use super::script::mac_text;
use crate::Metaserver;
use crate::admin::{server_failed, walk};
use crate::errors::FileError;

/// Group of a node for which none is named.
const GROUP_DEFAULT: &str = "nodes";
/// Memory of a new group's nodes for what they write, in MiB.
const MEMORY_MIB_DEFAULT: u32 = 512;

/// A node that is added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewBootNode {
    /// Its name: a host name.
    pub name: String,
    /// MAC address of the interface that it boots from.
    pub mac: [u8; 6],
    /// Name of its group; none: `nodes`, which is made if it is not there.
    pub group: Option<String>,
    /// Image of its own, `IMAGE@VERSION`.
    pub image: Option<String>,
}

/// A change of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeChange {
    /// Its new MAC address.
    pub mac: Option<[u8; 6]>,
    /// Its new group.
    pub group: Option<String>,
}

/// A record that has an image.
enum Named {
    Group(BootGroup),
    Node(BootNode),
}

impl Metaserver {
    /// Adds a node, and returns a message.
    ///
    /// # Errors
    /// [`AdminError`].
    pub async fn boot_node_add(&self, new: NewBootNode) -> Result<String, AdminError> {
        self.cluster.agree().await?;
        let NewBootNode { name, mac, group, image } = new;
        checked_name(&name)?;
        checked_mac(mac)?;
        let image = image.as_deref().map(|image| self.image(image)).transpose()?;
        let group = match group {
            Some(group) => self.group(&group)?,
            None => self.default_group().await?,
        };
        if let Some(image) = &image {
            self.make_root(&group, image).await?;
        }
        let assigned = Assigned { image: image.map(|(snapshot, _)| snapshot), previous: None };
        let node = BootNode { name: name.clone(), mac, group: group.name.clone(), assigned };
        self.change_boot(&name, BootChange::Node { was: None, becomes: Some(node) }).await?;
        tracing::info!(node = name, mac = mac_text(mac), group = group.name, "a node is added");
        let boots = assigned.image.or(group.assigned.image);
        Ok(match boots {
            Some(_) => format!("{name} is in the group {}", group.name),
            None => format!(
                "{name} is in the group {0}, which has no image yet: heorot boot assign {0} IMAGE@VERSION",
                group.name
            ),
        })
    }

    /// Changes a node, and returns a message.
    ///
    /// # Errors
    /// [`AdminError`].
    pub async fn boot_node_set(&self, name: &str, change: NodeChange) -> Result<String, AdminError> {
        self.cluster.agree().await?;
        let was = self.node(name)?;
        let NodeChange { mac, group } = change;
        let group = group.map(|group| self.group(&group)).transpose()?;
        let mac = mac.unwrap_or(was.mac);
        checked_mac(mac)?;
        let group = group.map_or_else(|| was.group.clone(), |group| group.name);
        let becomes = BootNode { mac, group, ..was.clone() };
        if let Some(image) = becomes.assigned.image {
            self.make_root_of(&self.group(&becomes.group)?, image).await?;
        }
        let said = format!("{name} has {} and is in the group {}", mac_text(mac), becomes.group);
        self.change_boot(name, BootChange::Node { was: Some(was), becomes: Some(becomes) }).await?;
        Ok(said)
    }

    /// Removes a node, and returns a message.
    ///
    /// # Errors
    /// [`AdminError`].
    pub async fn boot_node_remove(&self, name: &str) -> Result<String, AdminError> {
        self.cluster.agree().await?;
        let was = self.node(name)?;
        self.change_boot(name, BootChange::Node { was: Some(was), becomes: None }).await?;
        tracing::info!(node = name, "a node is removed");
        let own = super::paths::own_volume(name);
        let has_own = walk(&*self.machine.view().map_err(server_failed)?, &own).is_ok();
        Ok(match has_own {
            true => format!(
                "{name} is removed; what it has of its own stays (heorot volume remove {own} --force)"
            ),
            false => format!("{name} is removed"),
        })
    }

    /// Makes a group, or changes it, and returns a message. What is `None` stays.
    ///
    /// # Errors
    /// [`AdminError`].
    pub async fn boot_group_set(
        &self,
        name: &str,
        root: Option<BootRoot>,
        words: Option<String>,
    ) -> Result<String, AdminError> {
        self.cluster.agree().await?;
        checked_name(name)?;
        if let Some(BootRoot::Own { directories }) = &root {
            checked_directories(directories)?;
        }
        if let Some(words) = words.as_ref().filter(|words| !are_words(words)) {
            return Err(AdminError::Invalid(format!(
                "{words:?} are no words of a kernel's command line: up to {BOOT_WORDS_BYTES_MAX} bytes of ASCII, without $, \
                 |, &, ;, # and quotes"
            )));
        }
        let was = read::boot_group(&*self.machine.view().map_err(server_failed)?, name)?;
        let new = was.clone().unwrap_or_else(|| new_group(name));
        let becomes = BootGroup {
            root: root.unwrap_or(new.root.clone()),
            words: words.unwrap_or(new.words.clone()),
            ..new
        };
        for image in self.images_of_group(&becomes)? {
            self.make_root_of(&becomes, image).await?;
        }
        let said = match &becomes.root {
            BootRoot::Shared { memory_mib } => {
                format!("nodes of {name} share a root, and write to {memory_mib} MiB of their memory")
            }
            BootRoot::Group => {
                format!("nodes of {name} have one root, which they write to: a clone of the image")
            }
            BootRoot::Own { directories } => {
                format!("nodes of {name} share a root, and each has {} of its own", directories.join(", "))
            }
        };
        self.change_boot(name, BootChange::Group { was, becomes: Some(becomes) }).await?;
        Ok(said)
    }

    /// Removes a group without nodes, and returns a message.
    ///
    /// # Errors
    /// [`AdminError`].
    pub async fn boot_group_remove(&self, name: &str) -> Result<String, AdminError> {
        self.cluster.agree().await?;
        let was = self.group(name)?;
        self.change_boot(name, BootChange::Group { was: Some(was), becomes: None }).await?;
        tracing::info!(group = name, "a group of nodes is removed");
        Ok(format!("{name} is removed; its clones of images stay (heorot volume list)"))
    }

    /// Has a group, or a node alone, boot another image, and returns a message.
    ///
    /// # Errors
    /// [`AdminError`].
    pub async fn boot_assign(&self, name: &str, image: &str) -> Result<String, AdminError> {
        self.cluster.agree().await?;
        let image = self.image(image)?;
        let named = self.group_or_node(name)?;
        let was = named.assigned();
        self.make_root(&self.group_of(&named)?, &image).await?;
        if was.image == Some(image.0) {
            return Ok(format!("{name} boots {} already", image.1.shown()));
        }
        let becomes = Assigned { image: Some(image.0), previous: was.image };
        self.change_boot(name, named.with(becomes)).await?;
        tracing::info!(name, image = image.1.shown(), "another image is assigned");
        Ok(format!("{name} boots {} from its next boot on", image.1.shown()))
    }

    /// Takes the image of a node's own away: it boots what its group boots. Returns a message.
    ///
    /// # Errors
    /// [`AdminError`].
    pub async fn boot_assign_as_group(&self, name: &str) -> Result<String, AdminError> {
        self.cluster.agree().await?;
        let was = self.node(name)?;
        let (group, previous) = (was.group.clone(), was.assigned.image);
        if previous.is_some() {
            let becomes = BootNode { assigned: Assigned { image: None, previous }, ..was.clone() };
            self.change_boot(name, BootChange::Node { was: Some(was), becomes: Some(becomes) }).await?;
        }
        Ok(format!("{name} boots what the group {group} boots from its next boot on"))
    }

    /// Has a group, or a node alone, boot what it booted before the last change, and returns a message.
    ///
    /// # Errors
    /// [`AdminError`].
    pub async fn boot_rollback(&self, name: &str) -> Result<String, AdminError> {
        self.cluster.agree().await?;
        let named = self.group_or_node(name)?;
        let Assigned { image, previous } = named.assigned();
        let is_group = matches!(named, Named::Group(_));
        if previous.is_none() && (is_group || image.is_none()) {
            return Err(AdminError::Invalid(format!("{name} has booted nothing else before")));
        }
        if let Some(previous) = previous {
            self.make_root_of(&self.group_of(&named)?, previous).await?;
        }
        self.change_boot(name, named.with(Assigned { image: previous, previous: image })).await?;
        let shown = match previous {
            Some(previous) => {
                let view = self.machine.view().map_err(server_failed)?;
                self.image_name(&*view, previous).map_err(server_failed)?.map(|image| image.shown())
            }
            None => Some("what its group boots".into()),
        };
        let shown = shown.unwrap_or_else(|| "an image that was removed".into());
        tracing::info!(name, image = shown, "the image of before is assigned");
        Ok(format!("{name} boots {shown} from its next boot on"))
    }

    /// Groups and nodes that boot this snapshot, or any of this volume.
    ///
    /// # Errors
    /// The errors of the store.
    pub(crate) fn booted_by(&self, is_meant: impl Fn(&Snapshot) -> bool) -> Result<Vec<String>, FileError> {
        let view = self.machine.view()?;
        let groups = read::boot_groups(&*view)?.into_iter().map(|group| (group.name, group.assigned));
        let nodes = read::boot_nodes(&*view)?.into_iter().map(|node| (node.name, node.assigned));
        let mut names = Vec::new();
        for (name, assigned) in groups.chain(nodes) {
            if let Some(image) = assigned.image
                && read::snapshot(&*view, image)?.is_some_and(|snapshot| is_meant(&snapshot))
            {
                names.push(name);
            }
        }
        Ok(names)
    }

    async fn default_group(&self) -> Result<BootGroup, AdminError> {
        if let Ok(group) = self.group(GROUP_DEFAULT) {
            return Ok(group);
        }
        let group = new_group(GROUP_DEFAULT);
        self.change_boot(GROUP_DEFAULT, BootChange::Group { was: None, becomes: Some(group.clone()) })
            .await?;
        Ok(group)
    }

    fn image(&self, text: &str) -> Result<(VolumeId, ImageName), AdminError> {
        let image = ImageName::parse(text)?;
        let snapshot = image.find(&*self.machine.view().map_err(server_failed)?)?;
        Ok((snapshot.id, image))
    }

    fn group(&self, name: &str) -> Result<BootGroup, AdminError> {
        let found = read::boot_group(&*self.machine.view().map_err(server_failed)?, name)?;
        found.ok_or_else(|| {
            AdminError::Invalid(format!(
                "there is no group {name}: heorot boot group set {name} makes one, and heorot boot list shows those there are"
            ))
        })
    }

    fn node(&self, name: &str) -> Result<BootNode, AdminError> {
        let found = read::boot_node(&*self.machine.view().map_err(server_failed)?, name)?;
        found.ok_or_else(|| {
            AdminError::Invalid(format!("there is no node {name}; heorot boot list shows those there are"))
        })
    }

    fn group_or_node(&self, name: &str) -> Result<Named, AdminError> {
        let view = self.machine.view().map_err(server_failed)?;
        if let Some(group) = read::boot_group(&*view, name)? {
            return Ok(Named::Group(group));
        }
        let node = read::boot_node(&*view, name)?;
        node.map(Named::Node).ok_or_else(|| {
            AdminError::Invalid(format!(
                "there is neither a group nor a node {name}; heorot boot list shows those there are"
            ))
        })
    }

    fn group_of(&self, named: &Named) -> Result<BootGroup, AdminError> {
        match named {
            Named::Group(group) => Ok(group.clone()),
            Named::Node(node) => self.group(&node.group),
        }
    }

    /// Images that nodes of a group boot: the group's, and those of single nodes.
    fn images_of_group(&self, group: &BootGroup) -> Result<Vec<VolumeId>, AdminError> {
        let nodes = read::boot_nodes(&*self.machine.view().map_err(server_failed)?)?.into_iter();
        let of_nodes = nodes.filter(|node| node.group == group.name).filter_map(|node| node.assigned.image);
        let mut images: Vec<VolumeId> = of_nodes.chain(group.assigned.image).collect();
        images.sort_unstable();
        images.dedup();
        Ok(images)
    }

    async fn make_root_of(&self, group: &BootGroup, image: VolumeId) -> Result<(), AdminError> {
        if group.root != BootRoot::Group {
            return Ok(());
        }
        let name = {
            let view = self.machine.view().map_err(server_failed)?;
            self.image_name(&*view, image).map_err(server_failed)?
        };
        match name {
            Some(name) => self.make_root(group, &(image, name)).await,
            None => Err(AdminError::Invalid(format!("the image that {} booted was removed", group.name))),
        }
    }

    /// Makes the clone that a group's nodes boot, if they have one and it is not there.
    async fn make_root(
        &self,
        group: &BootGroup,
        (snapshot, image): &(VolumeId, ImageName),
    ) -> Result<(), AdminError> {
        if group.root != BootRoot::Group {
            return Ok(());
        }
        self.make_boot_directory(&format!("{GROUPS}/{}", group.name)).await?;
        let path = clone_of_group(&group.name, image);
        {
            let view = self.machine.view().map_err(server_failed)?;
            if let Ok(way) = walk(&*view, &path) {
                let root = way.last().map(|(inode, ..)| *inode).filter(|root| root.is_root());
                let origin = root.map(|root| read::origin(&*view, root.volume())).transpose()?;
                return match origin {
                    // None: it was promoted.
                    Some(origin) if origin.as_ref().is_none_or(|origin| origin.snapshot == *snapshot) => {
                        Ok(())
                    }
                    _ => Err(AdminError::Invalid(format!(
                        "{path} is there already, and is no clone of this image: rename it (heorot volume rename)"
                    ))),
                };
            }
        }
        self.volume_clone(&image.volume, &image.version, &path).await.map(drop)
    }

    async fn change_boot(&self, name: &str, change: BootChange) -> Result<(), AdminError> {
        self.state.propose(None, Command::Boot(change)).await.map(drop).map_err(|error| refusal(name, error))
    }
}

impl Named {
    fn assigned(&self) -> Assigned {
        match self {
            Self::Group(group) => group.assigned,
            Self::Node(node) => node.assigned,
        }
    }

    fn with(self, assigned: Assigned) -> BootChange {
        match self {
            Self::Group(was) => {
                let becomes = BootGroup { assigned, ..was.clone() };
                BootChange::Group { was: Some(was), becomes: Some(becomes) }
            }
            Self::Node(was) => {
                let becomes = BootNode { assigned, ..was.clone() };
                BootChange::Node { was: Some(was), becomes: Some(becomes) }
            }
        }
    }
}

fn new_group(name: &str) -> BootGroup {
    let root = BootRoot::Shared { memory_mib: MEMORY_MIB_DEFAULT };
    BootGroup { name: name.into(), root, words: String::new(), assigned: Assigned::default() }
}

fn checked_name(name: &str) -> Result<(), AdminError> {
    if is_boot_name(name) {
        return Ok(());
    }
    Err(AdminError::Invalid(format!(
        "{name:?} is no host name: up to {BOOT_NAME_BYTES_MAX} of a-z, 0-9 and -, and no - at its begin or end"
    )))
}

/// Refuses what no interface has: the group bit is set in addresses of many.
fn checked_mac(mac: [u8; 6]) -> Result<(), AdminError> {
    match mac[0] & 1 == 1 || mac == [0; 6] {
        true => Err(AdminError::Invalid(format!("{} is the MAC address of no interface", mac_text(mac)))),
        false => Ok(()),
    }
}

fn checked_directories(directories: &[String]) -> Result<(), AdminError> {
    if let Some(wrong) = directories.iter().find(|path| !is_own_directory(path)) {
        return Err(AdminError::Invalid(format!(
            "{wrong:?} is no directory for a node: give a path such as /var, without .., of letters, digits and -_.+"
        )));
    }
    match directories.len() {
        1..=OWN_DIRECTORIES_MAX => Ok(()),
        _ => {
            Err(AdminError::Invalid(format!("a node has 1 to {OWN_DIRECTORIES_MAX} directories of its own")))
        }
    }
}

/// Message for a command that was refused.
fn refusal(name: &str, error: FileError) -> AdminError {
    AdminError::Invalid(match error {
        FileError::State(Error::NotSame) => {
            format!("{name} is there already, or was changed meanwhile; heorot boot list shows how it is")
        }
        FileError::State(Error::ClientInUse) => {
            "another node has this MAC address; heorot boot list shows which".into()
        }
        FileError::Exists => {
            format!("{name} is the name of a group and not of a node, or the other way round")
        }
        FileError::NotEmpty => {
            format!("nodes are in the group {name}: remove them, or set another group, first")
        }
        FileError::NoEntry => "the image, or the group, was removed meanwhile".into(),
        FileError::TooLarge => {
            format!("there are {BOOT_NODES_MAX} nodes or {BOOT_GROUPS_MAX} groups, the maximum")
        }
        other => return server_failed(other),
    })
}
