//! Initial values of a cluster: exports, settings and service addresses. The first metaserver puts them into
//! the cluster map once. Later they are changed there.

use std::collections::BTreeMap;
use std::net::IpAddr;

use namespace::{ClusterMap, MapChange};

use crate::cluster::Cluster;
use crate::error::ClusterError;
use crate::exports::{Export, Exports, Rules};
use crate::settings::setting;

/// Initial exports, settings and service addresses of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Begin {
    settings: BTreeMap<String, String>,
    /// Addresses that move between metaservers.
    pub service_addresses: Vec<IpAddr>,
}

impl Begin {
    /// Initial values with these exports.
    #[must_use]
    pub fn exporting(exports: &[Export]) -> Self {
        let settings = exports.iter().map(Export::row).collect();
        Self { settings, service_addresses: vec![] }
    }

    /// Initial values with one export: the whole volume, for every address.
    #[must_use]
    pub fn for_everybody(rules: Rules) -> Self {
        Self::exporting(&Exports::everybody(rules))
    }

    /// Adds a setting.
    ///
    /// # Errors
    /// A line that names the fault of the key or the value.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        setting(key)?.check(value)?;
        self.settings.insert(key.into(), value.into());
        Ok(())
    }

    fn change(&self) -> MapChange {
        let settings = self.settings.clone().into_iter().collect();
        MapChange::Begin { settings, service_addresses: self.service_addresses.clone() }
    }
}

impl Cluster {
    /// The settings of a map, or the initial settings if the map does not have them yet.
    #[must_use]
    pub fn settings_of<'a>(&'a self, map: &'a ClusterMap) -> &'a BTreeMap<String, String> {
        match &self.begin {
            Some(begin) if !map.head.begun => &begin.settings,
            _ => &map.settings,
        }
    }

    /// Puts the initial values into the map, if this metaserver leads and the map does not have them.
    ///
    /// # Errors
    /// The errors of a map change.
    pub async fn begin(&self) -> Result<(), ClusterError> {
        match &self.begin {
            Some(begin) if !self.map().head.begun && self.group.replica.leads() => {
                self.change_map(begin.change()).await
            }
            _ => Ok(()),
        }
    }
}
