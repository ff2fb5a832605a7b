//! Changes of exports by an administrator; exports are in the cluster map.

use cluster::{AdminError, Export, Exports, Rules, changed_row};
use host::Network;
use namespace::InodeId;

use crate::admin::stripe::{server_failed, walk, written_out};
use crate::exports::Admission;
use crate::exports::pseudo::path_of;

/// Maximum length of an exported directory's path, in bytes: the limit of clients.
const PATH_BYTES_MAX: usize = 4096;

/// An export, for the status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportReport {
    /// The directory's path.
    pub path: String,
    /// Network of the clients.
    pub network: Network,
    /// Rules, as text.
    pub rules: String,
    /// Path at the time of the export, if it has changed.
    pub exported_as: Option<String>,
    /// True if the directory was removed: the export admits no client.
    pub gone: bool,
}

/// Kind of change of the exports of one directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportChange {
    /// Adds exports for these networks.
    Add,
    /// Sets the rules for these networks; without networks: for all exports of the directory.
    Set,
    /// Removes the exports for these networks; without networks: all exports of the directory.
    Remove,
}

impl Admission {
    /// Returns all exports, by path and network.
    ///
    /// # Errors
    /// [`AdminError::Failed`].
    pub async fn exports_report(&self) -> Result<Vec<ExportReport>, AdminError> {
        self.cluster.agree().await?;
        let (exports, view) = (self.cluster.exports.get(), self.machine.view().map_err(server_failed)?);
        let mut all = Vec::new();
        for export in exports.iter() {
            let way = self.way_to(&*view, export).map_err(server_failed)?;
            let gone = way.is_none();
            let path = way.map_or_else(|| export.path.clone(), |way| path_of(&way));
            all.push(ExportReport {
                exported_as: (path != export.path).then(|| export.path.clone()),
                path,
                network: export.network,
                rules: export.rules.to_string(),
                gone,
            });
        }
        all.sort_by(|a, b| (&a.path, a.network).cmp(&(&b.path, b.network)));
        Ok(all)
    }

    /// Changes the exports of a directory, and returns a message.
    ///
    /// # Errors
    /// [`AdminError`].
    pub async fn change_exports(
        &self,
        change: ExportChange,
        path: &str,
        networks: &[Network],
        rules: &str,
    ) -> Result<String, AdminError> {
        // The rules are parsed before any look-up.
        Rules::SAFE.with(rules).map_err(AdminError::Invalid)?;
        self.cluster.agree().await?;
        let map = self.cluster.map();
        let exports = Exports::of(self.cluster.settings_of(&map));
        let changes = match change {
            ExportChange::Add => self.exports_added(&exports, path, networks, rules)?,
            ExportChange::Set => {
                let mut changed = Vec::new();
                for export in self.exports_named(&exports, path, networks)? {
                    let rules = export.rules.with(rules).map_err(AdminError::Invalid)?;
                    changed.push(Export { rules, ..export });
                }
                changed.iter().map(Export::row).map(|(key, value)| (key, Some(value))).collect()
            }
            ExportChange::Remove => {
                let named = self.exports_named(&exports, path, networks)?;
                named.iter().map(|export| (export.key(), None)).collect::<Vec<_>>()
            }
        };
        let count = changes.len();
        let (key, value) = changed_row(self.machine.entropy.u64());
        let changed = std::iter::once((key, Some(value)));
        self.cluster.change_settings(changes.into_iter().chain(changed).collect()).await?;
        let did = match change {
            ExportChange::Add => "exported",
            ExportChange::Set => "changed",
            ExportChange::Remove => "no longer exported",
        };
        tracing::info!(path, count, did, "exports changed");
        Ok(format!("{path} {did} to {count} network{}", if count == 1 { "" } else { "s" }))
    }

    fn exports_added(
        &self,
        exports: &Exports,
        path: &str,
        networks: &[Network],
        rules: &str,
    ) -> Result<Vec<(String, Option<String>)>, AdminError> {
        if networks.is_empty() {
            return Err(AdminError::Invalid("an export is for a network: name one with --network".into()));
        }
        let (root, path) = self.exported_directory(path)?;
        let rules = Rules::SAFE.with(rules).map_err(AdminError::Invalid)?;
        let mut added = Vec::new();
        for network in networks {
            if exports.iter().any(|export| (export.root, export.network) == (root, *network)) {
                return Err(AdminError::Invalid(format!(
                    "{path} is exported to {network} already; heorot export set changes the rules"
                )));
            }
            let (key, value) = Export { root, path: path.clone(), network: *network, rules }.row();
            added.push((key, Some(value)));
        }
        Ok(added)
    }

    /// Exports of a directory, by its current path or its path at the time of the export.
    fn exports_named(
        &self,
        exports: &Exports,
        path: &str,
        networks: &[Network],
    ) -> Result<Vec<Export>, AdminError> {
        let root = self.exported_directory(path).ok().map(|(root, _)| root);
        let of_path = |export: &&Export| Some(export.root) == root || root.is_none() && export.path == path;
        let wanted = |export: &&Export| networks.is_empty() || networks.contains(&export.network);
        let of_path: Vec<&Export> = exports.iter().filter(of_path).collect();
        let found: Vec<Export> = of_path.iter().copied().filter(wanted).cloned().collect();
        let missing = networks.iter().find(|network| !found.iter().any(|export| export.network == **network));
        match missing {
            _ if of_path.is_empty() => {
                Err(AdminError::Invalid(format!("{path} is not exported; heorot export list shows what is")))
            }
            Some(network) => Err(AdminError::Invalid(format!(
                "{path} is not exported to {network} by itself; heorot export list shows the networks"
            ))),
            None => Ok(found),
        }
    }

    fn exported_directory(&self, path: &str) -> Result<(InodeId, String), AdminError> {
        let view = self.machine.view().map_err(server_failed)?;
        let way = walk(&*view, path)?;
        let path = written_out(&way);
        if path.len() > PATH_BYTES_MAX || path.contains('\n') {
            return Err(AdminError::Invalid(format!(
                "an exported path has at most {PATH_BYTES_MAX} bytes, and no line break"
            )));
        }
        Ok((way.last().map_or(InodeId::ROOT, |(inode, ..)| *inode), path))
    }
}
