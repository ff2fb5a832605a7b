//! What a cluster begins with: exports, settings and service addresses, which its first metaserver puts into
//! the cluster map once. Later they are changed there.

use std::collections::BTreeMap;
use std::net::IpAddr;

use namespace::{ClusterMap, MapChange};

use crate::cluster::Cluster;
use crate::error::ClusterError;
use crate::exports::{Export, Exports, Rules};
use crate::settings::setting;

/// What a cluster begins with.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Begin {
    settings: BTreeMap<String, String>,
    /// Addresses that move between metaservers.
    pub service_addresses: Vec<IpAddr>,
}

impl Begin {
    /// With these exports.
    #[must_use]
    pub fn exporting(exports: &[Export]) -> Self {
        let settings = exports.iter().map(Export::row).collect();
        Self { settings, service_addresses: vec![] }
    }

    /// With the whole volume for every address.
    #[must_use]
    pub fn for_everybody(rules: Rules) -> Self {
        Self::exporting(&Exports::everybody(rules))
    }

    /// With this setting, too.
    ///
    /// # Errors
    /// A line that says what is wrong with the key or the value.
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
    /// The settings of a map, or those that the cluster begins with where they are not there yet.
    #[must_use]
    pub fn settings_of<'a>(&'a self, map: &'a ClusterMap) -> &'a BTreeMap<String, String> {
        match &self.begin {
            Some(begin) if !map.head.begun => &begin.settings,
            _ => &map.settings,
        }
    }

    /// Puts what the cluster begins with into the map, if this metaserver leads and the map does not have it.
    ///
    /// # Errors
    /// As any change of the map.
    pub async fn begin(&self) -> Result<(), ClusterError> {
        match &self.begin {
            Some(begin) if !self.map().head.begun && self.group.replica.leads() => {
                self.change_map(begin.change()).await
            }
            _ => Ok(()),
        }
    }
}
