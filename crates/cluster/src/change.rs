//! Changes by an administrator for the whole cluster: settings and service addresses, in the cluster map.

use std::net::IpAddr;
use std::time::Duration;

use namespace::{Error, MapChange, SERVICE_ADDRESSES_MAX};

use crate::cluster::Cluster;
use crate::error::{AdminError, ClusterError};
use crate::settings::{SETTINGS, Setting, Settings, setting};

/// Time for a majority to agree: an election takes a second, or a few.
const AGREE_TIME_MAX: Duration = Duration::from_secs(10);

/// A setting, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingReport {
    /// Its key.
    pub key: &'static str,
    /// Its value in force.
    pub value: String,
    /// Its value where none is set.
    pub default: &'static str,
    /// Its effect, in one line.
    pub about: &'static str,
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
        let row = |setting: &Setting| SettingReport {
            key: setting.key,
            value: values.get(setting.key).cloned().unwrap_or_else(|| setting.default.into()),
            default: setting.default,
            about: setting.about.trim(),
        };
        Ok(SETTINGS.iter().map(row).collect())
    }

    /// Sets a setting; none: the default holds again.
    ///
    /// # Errors
    /// [`AdminError::Invalid`], with a valid value.
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

    /// The addresses that move between metaservers, each with the name of its holder, if the leader knows the
    /// holder.
    ///
    /// # Errors
    /// [`AdminError::Failed`].
    pub async fn service_addresses_report(&self) -> Result<Vec<(IpAddr, Option<String>)>, AdminError> {
        self.agree().await?;
        let (map, group) = (self.map(), self.ask_group_report().await.unwrap_or_default());
        let members = self.group.replica.status().members;
        let name =
            |id: u64| members.iter().find(|(of, ..)| *of == id).map(|(_, member, _)| member.name.clone());
        let holder = |address: &IpAddr| group.addresses.get(address).copied().flatten().and_then(name);
        Ok(map.head.service_addresses.iter().map(|address| (*address, holder(address))).collect())
    }

    /// Adds a service address, or removes one. A service address moves between metaservers.
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
            if let Some(server) = self.data_server_at(address) {
                return Err(AdminError::Invalid(format!(
                    "{address} is the service address of the data server {}; metaservers need one of their own",
                    server.name
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
        self.change_map(change).await.map_err(|error| match error {
            ClusterError::Refused(Error::Exists) => {
                AdminError::Invalid(format!("{address} is a service address already"))
            }
            ClusterError::Refused(Error::NoEntry) => {
                AdminError::Invalid(format!("{address} is no service address"))
            }
            error => error.into(),
        })?;
        tracing::info!(%address, is_added, "service addresses changed");
        self.ask_for_addresses_now();
        Ok(())
    }

    /// Read barrier for an administrator: checks that a quorum answers, and follows the map with all earlier
    /// changes.
    ///
    /// # Errors
    /// [`AdminError`].
    pub async fn agree(&self) -> Result<(), AdminError> {
        let agreed = tokio::time::timeout(AGREE_TIME_MAX, self.group.read_barrier()).await;
        let refused = "nothing can be asked or changed now: too few metaservers with a vote can be reached";
        agreed.map_err(|_| AdminError::Invalid(refused.into()))??;
        Ok(self.follow_map()?)
    }

    /// Changes rows of the settings, exports among them; none: removes the row.
    ///
    /// # Errors
    /// [`AdminError::Invalid`] if there would be too many rows.
    pub async fn change_settings(&self, changes: Vec<(String, Option<String>)>) -> Result<(), AdminError> {
        self.begin().await?;
        self.change_map(MapChange::Set(changes)).await.map_err(|error| match error {
            ClusterError::Refused(Error::Invalid) => AdminError::Invalid(format!(
                "that does not fit: a cluster has at most {} settings and exports together",
                namespace::SETTINGS_MAX
            )),
            error => error.into(),
        })
    }
}

fn is_own_address(node: &str, address: IpAddr) -> bool {
    node.parse::<std::net::SocketAddr>().is_ok_and(|node| node.ip() == address)
}
