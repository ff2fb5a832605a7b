//! Hardware, and the load on it.

use serde::Serialize;

use super::quantity::{CpuCost, Rate};
use crate::task::Direction;

/// Maximal count: larger than any cluster; the product of two counts fits 64 bits.
pub const COUNT_MAX: u64 = 1_000_000_000;

/// Hardware. `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Hardware {
    /// M.
    pub data_servers: u64,
    /// P.
    pub disks: Disks,
    /// I at each client, in each direction.
    pub client_link: Option<Rate>,
    /// I at each data server, in each direction.
    pub server_link: Option<Rate>,
    /// R: speed of each disk.
    pub disk: Option<Rate>,
    /// c: CPU-seconds for each byte, of all CPUs of one client together.
    pub client_cpu: Option<CpuCost>,
    /// U: uplink between all clients and all data servers.
    pub uplink: Option<Rate>,
    /// X: switch that all traffic crosses, also copies between servers.
    pub switch: Option<Rate>,
    /// k: number of servers with a copy of each byte.
    pub replication: u64,
    /// W: number of servers over which a file is striped; `None`: all.
    pub stripe_width: Option<u64>,
}

/// Number of disks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Disks {
    /// P in all. Fewer than servers: servers share disks.
    InAll(u64),
    /// Disks of each server.
    PerServer(u64),
}

/// Load: direction, clients and files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Load {
    /// N: number of client machines; processes on one machine share its link and its CPU.
    pub clients: u64,
    /// Direction of the data.
    pub direction: Direction,
    /// Files in use.
    pub files: Files,
}

/// Number of files in use at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Files {
    /// Files of each client.
    PerClient(u64),
    /// Files that all clients share; 1: one shared file.
    Shared(u64),
}

/// Hardware and load that are consistent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Setup {
    #[serde(flatten)]
    hardware: Hardware,
    #[serde(flatten)]
    load: Load,
}

/// Error of an inconsistent setup.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A count is 0.
    #[error("{0} must be at least 1")]
    Zero(&'static str),
    /// A count is beyond [`COUNT_MAX`].
    #[error("{what} can be {COUNT_MAX} at most, not {count}")]
    TooMany {
        /// Name of the count.
        what: &'static str,
        /// Given value.
        count: u64,
    },
    /// k > M.
    #[error("replication {replication} needs {replication} data servers, not {data_servers}")]
    Replication {
        /// k.
        replication: u64,
        /// M.
        data_servers: u64,
    },
    /// W > M.
    #[error("stripe width {stripe_width} needs {stripe_width} data servers, not {data_servers}")]
    StripeWidth {
        /// W.
        stripe_width: u64,
        /// M.
        data_servers: u64,
    },
    /// No resource has a speed.
    #[error("nothing limits the throughput: give at least one speed, such as that of the links")]
    NoLimit,
}

impl Setup {
    /// Checks hardware and load.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn new(hardware: Hardware, load: Load) -> Result<Self, Refused> {
        let Hardware { data_servers, replication, stripe_width, .. } = hardware;
        let disks = match hardware.disks {
            Disks::InAll(n) | Disks::PerServer(n) => n,
        };
        let files = match load.files {
            Files::PerClient(n) | Files::Shared(n) => n,
        };
        let counts = [
            ("the number of clients", load.clients),
            ("the number of data servers", data_servers),
            ("the number of disks", disks),
            ("the number of files", files),
            ("replication", replication),
            ("the stripe width", stripe_width.unwrap_or(1)),
        ];
        for (what, count) in counts {
            match count {
                0 => return Err(Refused::Zero(what)),
                1..=COUNT_MAX => {}
                _ => return Err(Refused::TooMany { what, count }),
            }
        }
        if replication > data_servers {
            return Err(Refused::Replication { replication, data_servers });
        }
        if let Some(stripe_width) = stripe_width.filter(|w| *w > data_servers) {
            return Err(Refused::StripeWidth { stripe_width, data_servers });
        }
        let Hardware { client_link, server_link, disk, uplink, switch, .. } = hardware;
        let speeds = [client_link, server_link, disk, uplink, switch];
        if speeds.iter().all(Option::is_none) && hardware.client_cpu.is_none() {
            return Err(Refused::NoLimit);
        }
        Ok(Self { hardware, load })
    }

    /// Hardware.
    #[must_use]
    pub fn hardware(&self) -> &Hardware {
        &self.hardware
    }

    /// Load.
    #[must_use]
    pub fn load(&self) -> &Load {
        &self.load
    }

    /// W.
    #[must_use]
    pub fn stripe_width(&self) -> u64 {
        self.hardware.stripe_width.unwrap_or(self.hardware.data_servers)
    }

    /// P.
    #[must_use]
    pub fn disks(&self) -> u64 {
        match self.hardware.disks {
            Disks::InAll(disks) => disks,
            Disks::PerServer(disks) => disks * self.hardware.data_servers,
        }
    }

    /// r: number of copies of each byte that go to servers and disks.
    #[must_use]
    pub fn copies(&self) -> u64 {
        match self.load.direction {
            Direction::Read => 1,
            Direction::Write => self.hardware.replication,
        }
    }

    /// Number of stripes of W servers that are busy: by readers of different copies, or by all copies of
    /// written files.
    #[must_use]
    pub fn stripes_at_work(&self) -> u64 {
        let Load { clients, direction, files } = self.load;
        let files = match files {
            Files::PerClient(files) => files * clients,
            Files::Shared(files) => files,
        };
        let copies = files.saturating_mul(self.hardware.replication);
        match direction {
            Direction::Read => copies.min(files.max(clients)),
            Direction::Write => copies,
        }
    }

    /// m: number of data servers that can be busy at the same time.
    #[must_use]
    pub fn servers_at_work(&self) -> u64 {
        self.stripe_width().saturating_mul(self.stripes_at_work()).min(self.hardware.data_servers)
    }

    /// d: number of disks that can be busy at the same time, those of the busy servers.
    #[must_use]
    pub fn disks_at_work(&self) -> u64 {
        let servers = self.servers_at_work();
        match self.hardware.disks {
            Disks::PerServer(disks) => disks * servers,
            // If servers have different numbers of disks, the files are on those with more.
            Disks::InAll(disks) => disks.min(servers * disks.div_ceil(self.hardware.data_servers)),
        }
    }
}
