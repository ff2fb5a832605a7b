//! The hardware, and the load on it.

use serde::Serialize;

use super::quantity::{CpuCost, Rate};
use crate::task::Direction;

/// No cluster has more of anything; two counts multiplied fit into 64 bits.
pub const COUNT_MAX: u64 = 1_000_000_000;

/// The machines. What is `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Hardware {
    /// M.
    pub data_servers: u64,
    /// P.
    pub disks: Disks,
    /// I at each client, each way.
    pub client_link: Option<Rate>,
    /// I at each data server, each way.
    pub server_link: Option<Rate>,
    /// R: each disk.
    pub disk: Option<Rate>,
    /// c: of all CPUs of one client together.
    pub client_cpu: Option<CpuCost>,
    /// Between all clients and all data servers.
    pub uplink: Option<Rate>,
    /// Of a switch that everything crosses, copies between servers too.
    pub switch: Option<Rate>,
    /// k: on how many servers each byte is kept.
    pub replication: u64,
    /// W: over how many servers one file is striped; `None`: all.
    pub stripe_width: Option<u64>,
}

/// How many disks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Disks {
    /// P. Fewer than servers: they share them.
    InAll(u64),
    /// Each server brings its own.
    PerServer(u64),
}

/// The operation: read or write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Load {
    /// N: machines; processes on one machine share its link and its CPU.
    pub clients: u64,
    /// Which way.
    pub direction: Direction,
    /// On how many files.
    pub files: Files,
}

/// How many files are worked on at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Files {
    /// Each client has its own.
    PerClient(u64),
    /// All clients share these; 1: one shared file.
    Shared(u64),
}

/// Machines and load, and together they make sense.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Setup {
    #[serde(flatten)]
    hardware: Hardware,
    #[serde(flatten)]
    load: Load,
}

/// Why a setup makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A count is 0.
    #[error("{0} must be at least 1")]
    Zero(&'static str),
    /// A count is beyond [`COUNT_MAX`].
    #[error("{what} can be {COUNT_MAX} at most, not {count}")]
    TooMany {
        /// Which.
        what: &'static str,
        /// The given value.
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
    /// Nothing has a speed.
    #[error("nothing limits the throughput: give at least one speed, such as that of the links")]
    NoLimit,
}

impl Setup {
    /// Machines and a load.
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

    /// The machines.
    #[must_use]
    pub fn hardware(&self) -> &Hardware {
        &self.hardware
    }

    /// The load.
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

    /// r: how often each byte goes to a server and to a disk.
    #[must_use]
    pub fn copies(&self) -> u64 {
        match self.load.direction {
            Direction::Read => 1,
            Direction::Write => self.hardware.replication,
        }
    }

    /// How many times W servers can be kept busy: by readers of different copies, or by all copies of what is
    /// written.
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

    /// m: data servers that can work at the same time.
    #[must_use]
    pub fn servers_at_work(&self) -> u64 {
        self.stripe_width().saturating_mul(self.stripes_at_work()).min(self.hardware.data_servers)
    }

    /// d: disks that can work at the same time, those of the servers that work.
    #[must_use]
    pub fn disks_at_work(&self) -> u64 {
        let servers = self.servers_at_work();
        match self.hardware.disks {
            Disks::PerServer(disks) => disks * servers,
            // Where they cannot be the same everywhere, the files are where there are more.
            Disks::InAll(disks) => disks.min(servers * disks.div_ceil(self.hardware.data_servers)),
        }
    }
}
