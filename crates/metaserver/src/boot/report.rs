//! Lists of images, groups and nodes, for administrators.

use cluster::AdminError;
use namespace::{Assigned, BootNode, BootRoot, read};
use store::View;

use super::paths::{IMAGES, ImageName};
use super::script::mac_text;
use crate::Metaserver;
use crate::admin::{server_failed, walk};

/// All that nodes boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BootReport {
    /// Images, by name and the time of their import.
    pub images: Vec<ImageReport>,
    /// Groups, by name.
    pub groups: Vec<GroupReport>,
    /// Nodes, by name.
    pub nodes: Vec<NodeReport>,
}

/// An image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageReport {
    /// `IMAGE@VERSION`.
    pub name: String,
    /// Time of its snapshot, in seconds since 1970.
    pub created: i64,
    /// Groups and nodes that boot it.
    pub booted_by: Vec<String>,
}

/// A group of nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupReport {
    /// Its name.
    pub name: String,
    /// Kind of root.
    pub root: BootRoot,
    /// More words of the kernel's command line.
    pub words: String,
    /// `IMAGE@VERSION`; `(removed)`: it was removed.
    pub image: Option<String>,
    /// What it was before.
    pub previous: Option<String>,
}

/// A node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeReport {
    /// Its name.
    pub name: String,
    /// MAC address.
    pub mac: String,
    /// Name of its group.
    pub group: String,
    /// Image of its own.
    pub image: Option<String>,
    /// What that was before.
    pub previous: Option<String>,
}

impl Metaserver {
    /// Returns all images, groups and nodes.
    ///
    /// # Errors
    /// [`AdminError`].
    pub async fn boot_report(&self) -> Result<BootReport, AdminError> {
        self.cluster.agree().await?;
        let view = self.machine.view().map_err(server_failed)?;
        let groups = read::boot_groups(&*view)?;
        let nodes = read::boot_nodes(&*view)?;
        let images = self.images(&*view)?;
        let shown = |Assigned { image, previous }: Assigned| {
            let name = |image| self.image_name(&*view, image).map_err(server_failed);
            let name = |image: Option<_>| -> Result<Option<String>, AdminError> {
                let name = image.map(name).transpose()?;
                Ok(name.map(|name| name.map_or_else(|| "(removed)".into(), |name| name.shown())))
            };
            Ok::<_, AdminError>((name(image)?, name(previous)?))
        };
        let mut report = BootReport { images, groups: vec![], nodes: vec![] };
        for group in groups {
            let (image, previous) = shown(group.assigned)?;
            report.groups.push(GroupReport {
                name: group.name,
                root: group.root,
                words: group.words,
                image,
                previous,
            });
        }
        for BootNode { name, mac, group, assigned } in nodes {
            let (image, previous) = shown(assigned)?;
            report.nodes.push(NodeReport { name, mac: mac_text(mac), group, image, previous });
        }
        for image in &mut report.images {
            let groups = report.groups.iter().map(|group| (&group.name, &group.image));
            let all = groups.chain(report.nodes.iter().map(|node| (&node.name, &node.image)));
            image.booted_by = all
                .filter(|(_, boots)| boots.as_ref() == Some(&image.name))
                .map(|(name, _)| name.clone())
                .collect();
        }
        Ok(report)
    }

    /// Snapshots of the volumes below [`IMAGES`].
    fn images(&self, view: &dyn View) -> Result<Vec<ImageReport>, AdminError> {
        let Some(images) = walk(view, IMAGES).ok().and_then(|way| way.last().map(|(inode, ..)| *inode))
        else {
            return Ok(vec![]);
        };
        let mut reports = Vec::new();
        for volume in read::volumes(view)? {
            let path = self.admission.path_of_directory(view, volume.id.root()).map_err(server_failed)?;
            let is_image = path.strip_prefix(IMAGES).is_some_and(|rest| rest.starts_with('/'));
            if !is_image || volume.id.root() == images {
                continue;
            }
            for snapshot in read::snapshots(view, volume.id)? {
                let version = String::from_utf8_lossy(&snapshot.name).into_owned();
                let name = ImageName { volume: path.clone(), version }.shown();
                reports.push(ImageReport { name, created: snapshot.created.seconds, booted_by: vec![] });
            }
        }
        reports.sort_by(|a, b| (&a.name, a.created).cmp(&(&b.name, b.created)));
        Ok(reports)
    }
}
