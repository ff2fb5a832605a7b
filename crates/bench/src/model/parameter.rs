//! Parameters that a sweep can vary, by their names on the command line.

use std::fmt;
use std::str::FromStr;

use super::quantity::{CpuCost, Rate};
use super::setup::{Disks, Files, Hardware, Load};

/// Parameter that a sweep can vary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parameter {
    /// N.
    Clients,
    /// Files of each client.
    FilesPerClient,
    /// Files that all clients share.
    SharedFiles,
    /// M.
    DataServers,
    /// P.
    Disks,
    /// Disks of each server.
    DisksPerServer,
    /// k.
    Replication,
    /// W.
    StripeWidth,
    /// All links, clients' and servers'.
    Link,
    /// Clients' links.
    ClientLink,
    /// Servers' links.
    ServerLink,
    /// R.
    Disk,
    /// c.
    ClientCpu,
    /// Uplink between clients and servers.
    Uplink,
    /// Switch that all traffic crosses.
    Switch,
}

/// Value of a parameter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// Value of a count.
    Count(u64),
    /// Value of a speed.
    Rate(Rate),
    /// Value of `client-cpu`.
    Cost(CpuCost),
}

/// Unit of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Whole numbers.
    Count,
    /// Bytes a second.
    Rate,
    /// CPU-seconds for each byte.
    Cost,
}

const NAMES: [(&str, Parameter); 15] = [
    ("clients", Parameter::Clients),
    ("files-per-client", Parameter::FilesPerClient),
    ("shared-files", Parameter::SharedFiles),
    ("data-servers", Parameter::DataServers),
    ("disks", Parameter::Disks),
    ("disks-per-server", Parameter::DisksPerServer),
    ("replication", Parameter::Replication),
    ("stripe-width", Parameter::StripeWidth),
    ("link", Parameter::Link),
    ("client-link", Parameter::ClientLink),
    ("server-link", Parameter::ServerLink),
    ("disk", Parameter::Disk),
    ("client-cpu", Parameter::ClientCpu),
    ("uplink", Parameter::Uplink),
    ("switch", Parameter::Switch),
];

impl FromStr for Parameter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = NAMES.iter().find(|(name, _)| *name == text).map(|(_, parameter)| *parameter);
        let names = || NAMES.map(|(name, _)| name).join(", ");
        found.ok_or_else(|| format!("{text:?} is not one of {}", names()))
    }
}

impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(NAMES.iter().find(|(_, parameter)| parameter == self).map_or("", |(name, _)| name))
    }
}

impl Parameter {
    /// Unit of the parameter.
    #[must_use]
    pub fn kind(self) -> Kind {
        match self {
            Self::Clients
            | Self::FilesPerClient
            | Self::SharedFiles
            | Self::DataServers
            | Self::Disks
            | Self::DisksPerServer
            | Self::Replication
            | Self::StripeWidth => Kind::Count,
            Self::Link | Self::ClientLink | Self::ServerLink | Self::Disk | Self::Uplink | Self::Switch => {
                Kind::Rate
            }
            Self::ClientCpu => Kind::Cost,
        }
    }

    /// Sets the parameter. A value of another kind has no effect; [`Value::parse`] never returns one.
    pub fn set(self, value: Value, hardware: &mut Hardware, load: &mut Load) {
        match (self, value) {
            (Self::Clients, Value::Count(n)) => load.clients = n,
            (Self::FilesPerClient, Value::Count(n)) => load.files = Files::PerClient(n),
            (Self::SharedFiles, Value::Count(n)) => load.files = Files::Shared(n),
            (Self::DataServers, Value::Count(n)) => hardware.data_servers = n,
            (Self::Disks, Value::Count(n)) => hardware.disks = Disks::InAll(n),
            (Self::DisksPerServer, Value::Count(n)) => hardware.disks = Disks::PerServer(n),
            (Self::Replication, Value::Count(n)) => hardware.replication = n,
            (Self::StripeWidth, Value::Count(n)) => hardware.stripe_width = Some(n),
            (Self::Link, Value::Rate(rate)) => {
                (hardware.client_link, hardware.server_link) = (Some(rate), Some(rate));
            }
            (Self::ClientLink, Value::Rate(rate)) => hardware.client_link = Some(rate),
            (Self::ServerLink, Value::Rate(rate)) => hardware.server_link = Some(rate),
            (Self::Disk, Value::Rate(rate)) => hardware.disk = Some(rate),
            (Self::Uplink, Value::Rate(rate)) => hardware.uplink = Some(rate),
            (Self::Switch, Value::Rate(rate)) => hardware.switch = Some(rate),
            (Self::ClientCpu, Value::Cost(cost)) => hardware.client_cpu = Some(cost),
            _ => {}
        }
    }
}

impl Kind {
    /// Parses a value of this kind.
    ///
    /// # Errors
    /// One line with the right form.
    pub fn parse(self, text: &str) -> Result<Value, String> {
        match self {
            Self::Count => {
                let count = text.parse().ok().filter(|_| text.bytes().all(|b| b.is_ascii_digit()));
                count.map(Value::Count).ok_or_else(|| format!("{text:?} is not a whole number"))
            }
            Self::Rate => text.parse().map(Value::Rate),
            Self::Cost => text.parse().map(Value::Cost),
        }
    }
}

impl Value {
    /// Number in base units: a count, bytes a second, or CPU-seconds for each byte.
    #[must_use]
    pub fn number(self) -> f64 {
        match self {
            Self::Count(count) => super::solve::as_f64(count),
            Self::Rate(rate) => rate.bytes_per_second(),
            Self::Cost(cost) => cost.seconds_per_byte(),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => count.fmt(f),
            Self::Rate(rate) => f.pad(&rate.to_string()),
            Self::Cost(cost) => f.pad(&cost.to_string()),
        }
    }
}
