//! What an administrator changes for the whole cluster: settings, exports and service addresses, all in the
//! cluster map.

use std::net::IpAddr;
use std::time::Duration;

use host::Network;
use namespace::{InodeId, MapChange, SERVICE_ADDRESSES_MAX};

use crate::admin::stripe::{AdminError, server_failed, walk, written_out};
use crate::cluster::Cluster;
use crate::errors::FileError;
use crate::exports::Admission;
use crate::exports::pseudo::path_of;
use crate::exports::{Export, Exports, changed_row};
use crate::{Rules, SETTINGS, Settings, setting};

/// For a majority to agree: an election takes a second, or a few.
const AGREE_TIME_MAX: Duration = Duration::from_secs(10);
/// Bytes of an exported directory's path: what clients can express.
const PATH_BYTES_MAX: usize = 4096;

/// A setting, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingReport {
    /// Its key.
    pub key: &'static str,
    /// Its value in force.
    pub value: String,
    /// Its value where none is set.
    pub default: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
}

/// An export, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportReport {
    /// The directory's path.
    pub path: String,
    /// Where the clients are.
    pub network: Network,
    /// What holds for them, in words.
    pub rules: String,
    /// The path that it was exported by, if it has another one now.
    pub exported_as: Option<String>,
    /// The directory was removed: the export serves nobody.
    pub gone: bool,
}

/// A change of exports of one directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportChange {
    /// New ones, for these networks.
    Add,
    /// Other rules for those of these networks; of none: for all of the directory.
    Set,
    /// Those of these networks end; of none: all of the directory.
    Remove,
}

impl Cluster {
    /// Every setting with its value.
    ///
    /// # Errors
    /// [`AdminError::Failed`].
    pub async fn settings_report(&self) -> Result<Vec<SettingReport>, AdminError> {
        self.agree().await?;
        let map = self.map();
        let values = self.settings_of(&map);
        let row = |setting: &crate::Setting| SettingReport {
            key: setting.key,
            value: values.get(setting.key).cloned().unwrap_or_else(|| setting.default.into()),
            default: setting.default,
            about: setting.about.trim(),
        };
        Ok(SETTINGS.iter().map(row).collect())
    }

    /// Sets a setting; none: its default holds again.
    ///
    /// # Errors
    /// [`AdminError::Invalid`], with what would be right.
    pub async fn set_setting(&self, key: &str, value: Option<&str>) -> Result<(), AdminError> {
        let row = setting(key).map_err(AdminError::Invalid)?;
        if let Some(value) = value {
            row.check(value).map_err(AdminError::Invalid)?;
        }
        self.agree().await?;
        let mut values = self.map().settings.clone();
        match value {
            Some(value) => values.insert(key.into(), value.into()),
            None => values.remove(key),
        };
        Settings::of(&values).check().map_err(AdminError::Invalid)?;
        self.change_settings(vec![(key.into(), value.map(str::to_owned))]).await?;
        tracing::info!(key, value = value.unwrap_or(row.default), "setting changed");
        Ok(())
    }

    /// The addresses that move between metaservers, with the name of each one's holder as far as the leader
    /// knows it.
    ///
    /// # Errors
    /// [`AdminError::Failed`].
    pub async fn service_addresses_report(&self) -> Result<Vec<(IpAddr, Option<String>)>, AdminError> {
        self.agree().await?;
        let (map, group) = (self.map(), self.ask_group_report().await.unwrap_or_default());
        let members = self.machine.replica.status().members;
        let name =
            |id: u64| members.iter().find(|(of, ..)| *of == id).map(|(_, member, _)| member.name.clone());
        let holder = |address: &IpAddr| group.addresses.get(address).copied().flatten().and_then(name);
        Ok(map.head.service_addresses.iter().map(|address| (*address, holder(address))).collect())
    }

    /// One more address that moves between metaservers, or one less.
    ///
    /// # Errors
    /// [`AdminError::Invalid`].
    pub async fn change_service_address(&self, address: IpAddr, is_added: bool) -> Result<(), AdminError> {
        self.agree().await?;
        let map = self.map();
        let change = if is_added {
            if let Some(node) = map.nodes.iter().find(|node| is_own_address(&node.address, address)) {
                return Err(AdminError::Invalid(format!(
                    "{address} is the own address of {}; a service address belongs to no machine, so that it can move",
                    node.name
                )));
            }
            if map.head.service_addresses.len() >= SERVICE_ADDRESSES_MAX {
                return Err(AdminError::Invalid(format!(
                    "there are {SERVICE_ADDRESSES_MAX}, and that is the bound"
                )));
            }
            MapChange::AddServiceAddress(address)
        } else {
            MapChange::RemoveServiceAddress(address)
        };
        self.change_map(change).await.map_err(|status| match status {
            FileError::Exists => AdminError::Invalid(format!("{address} is a service address already")),
            FileError::NoEntry => AdminError::Invalid(format!("{address} is no service address")),
            other => server_failed(other),
        })?;
        tracing::info!(%address, is_added, "service addresses changed");
        self.ask_for_addresses_now();
        Ok(())
    }

    /// Whether anything can be changed, and what was changed before is seen.
    async fn agree(&self) -> Result<(), AdminError> {
        let agreed = tokio::time::timeout(AGREE_TIME_MAX, self.machine.read_barrier()).await;
        let refused = "nothing can be asked or changed now: too few metaservers with a vote can be reached";
        agreed.map_err(|_| AdminError::Invalid(refused.into()))?.map_err(server_failed)?;
        self.follow_map().map_err(server_failed)
    }

    async fn change_settings(&self, changes: Vec<(String, Option<String>)>) -> Result<(), AdminError> {
        self.begin().await.map_err(server_failed)?;
        self.change_map(MapChange::Set(changes)).await.map_err(|status| match status {
            FileError::Invalid => AdminError::Invalid(format!(
                "that does not fit: a cluster has at most {} settings and exports together",
                namespace::SETTINGS_MAX
            )),
            other => server_failed(other),
        })
    }
}

impl Admission {
    /// All exports, by path and network.
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

    /// Changes the exports of a directory, and says what was done.
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
        // Wrong words are refused before anything is looked up.
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

    /// The exports of a directory: by its path of now, or by the path that it had.
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

fn is_own_address(node: &str, address: IpAddr) -> bool {
    node.parse::<std::net::SocketAddr>().is_ok_and(|node| node.ip() == address)
}
