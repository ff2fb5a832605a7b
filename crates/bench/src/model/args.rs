//! Hardware and load on a command line.

use std::collections::BTreeMap;

use clap::Args;

use super::quantity::{CpuCost, Rate};
use super::setup::{Disks, Files, Hardware, Load};
use crate::task::Direction;

/// Machines.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Hardware, for what it allows (docs/model.md)")]
pub struct HardwareArgs {
    /// Data servers
    #[arg(long, value_name = "M")]
    pub data_servers: Option<u64>,
    /// Disks in all; fewer than data servers: they share them
    #[arg(long, value_name = "P", conflicts_with = "disks_per_server")]
    pub disks: Option<u64>,
    /// Disks of each data server [default: 1]
    #[arg(long, value_name = "N")]
    pub disks_per_server: Option<u64>,
    /// Speed of each link, of clients and data servers: what a plain TCP stream reaches, such as 94.1Mbit/s
    #[arg(long, value_name = "RATE")]
    pub link: Option<Rate>,
    /// Speed of each client's link, where they differ
    #[arg(long, value_name = "RATE")]
    pub client_link: Option<Rate>,
    /// Speed of each data server's link, where they differ
    #[arg(long, value_name = "RATE")]
    pub server_link: Option<Rate>,
    /// Speed of each disk, such as 200MB/s; without, disks are no limit
    #[arg(long, value_name = "RATE")]
    pub disk: Option<Rate>,
    /// CPU-seconds that a client needs for data, such as 0.75s/GiB
    #[arg(long, value_name = "COST")]
    pub client_cpu: Option<CpuCost>,
    /// Speed of what is between all clients and all data servers
    #[arg(long, value_name = "RATE")]
    pub uplink: Option<Rate>,
    /// Speed of a switch that everything crosses, also copies between data servers
    #[arg(long, value_name = "RATE")]
    pub switch: Option<Rate>,
    /// On how many data servers each byte is kept [default: 1]
    #[arg(long, value_name = "K")]
    pub replication: Option<u64>,
    /// Over how many data servers a file is striped [default: all]
    #[arg(long, value_name = "W")]
    pub stripe_width: Option<u64>,
}

impl HardwareArgs {
    /// Given options by name, as text.
    #[must_use]
    pub fn settings(&self) -> BTreeMap<String, String> {
        let count = |count: Option<u64>| count.map(|n| n.to_string());
        let rate = |rate: Option<Rate>| rate.map(|rate| rate.to_string());
        let all = [
            ("data_servers", count(self.data_servers)),
            ("disks", count(self.disks)),
            ("disks_per_server", count(self.disks_per_server)),
            ("link", rate(self.link)),
            ("client_link", rate(self.client_link)),
            ("server_link", rate(self.server_link)),
            ("disk", rate(self.disk)),
            ("client_cpu", self.client_cpu.map(|cost| cost.to_string())),
            ("uplink", rate(self.uplink)),
            ("switch", rate(self.switch)),
            ("replication", count(self.replication)),
            ("stripe_width", count(self.stripe_width)),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name.to_string(), value?))).collect()
    }

    /// Hardware of the options.
    #[must_use]
    pub fn hardware(&self) -> Hardware {
        Hardware {
            data_servers: self.data_servers.unwrap_or(1),
            disks: self.disks.map_or(Disks::PerServer(self.disks_per_server.unwrap_or(1)), Disks::InAll),
            client_link: self.client_link.or(self.link),
            server_link: self.server_link.or(self.link),
            disk: self.disk,
            client_cpu: self.client_cpu,
            uplink: self.uplink,
            switch: self.switch,
            replication: self.replication.unwrap_or(1),
            stripe_width: self.stripe_width,
        }
    }
}

/// The load.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Load")]
pub struct LoadArgs {
    /// Clients
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub clients: u64,
    /// They write, and all copies are made [default: they read]
    #[arg(long)]
    pub write: bool,
    /// Files that each client has to itself, at the same time [default: 1]
    #[arg(long, value_name = "N", conflicts_with = "shared_files")]
    pub files_per_client: Option<u64>,
    /// Files that all clients share; 1: all work on one file
    #[arg(long, value_name = "N")]
    pub shared_files: Option<u64>,
}

impl LoadArgs {
    /// Load of the options.
    #[must_use]
    pub fn load(&self) -> Load {
        Load {
            clients: self.clients,
            direction: if self.write { Direction::Write } else { Direction::Read },
            files: self
                .shared_files
                .map_or(Files::PerClient(self.files_per_client.unwrap_or(1)), Files::Shared),
        }
    }
}
