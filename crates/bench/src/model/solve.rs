//! S, T and the term that binds.

use std::fmt;

use serde::Serialize;

use super::quantity::Rate;
use super::setup::Setup;

/// A resource that can bind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resource {
    /// CPUs of the clients.
    ClientCpu,
    /// Network links of the clients.
    ClientLinks,
    /// Network links of the data servers.
    ServerLinks,
    /// Disks of the data servers.
    Disks,
    /// Between clients and data servers.
    Uplink,
    /// Under everything.
    Switch,
}

impl Resource {
    /// All, in the order in which they are shown; of several that bind equally the first is named.
    pub const ALL: [Self; 6] =
        [Self::ClientCpu, Self::ClientLinks, Self::ServerLinks, Self::Disks, Self::Uplink, Self::Switch];

    /// For programs: `client-links`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ClientCpu => "client-cpu",
            Self::ClientLinks => "client-links",
            Self::ServerLinks => "server-links",
            Self::Disks => "disks",
            Self::Uplink => "uplink",
            Self::Switch => "switch",
        }
    }
}

/// For people: `client links`.
impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::ClientCpu => "client CPU",
            Self::ClientLinks => "client links",
            Self::ServerLinks => "server links",
            other => other.name(),
        })
    }
}

/// Bound by one resource alone.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Term {
    /// Which.
    pub resource: Resource,
    /// How many of it can work at the same time.
    pub at_work: u64,
    /// How many there are.
    pub of: u64,
    /// Bytes a second of each.
    pub each: f64,
    /// How often each of the D bytes passes it.
    pub passes: u64,
    /// Bytes a second of D: `at_work · each / passes`.
    pub rate: f64,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Solution {
    /// Of all resources whose speed is known; at least one.
    pub terms: Vec<Term>,
}

/// Rates closer than this are the same: they differ by how they were rounded.
pub(super) const SAME: f64 = 1e-9;

impl Solution {
    /// Solves the model.
    #[must_use]
    pub fn of(setup: &Setup) -> Self {
        let hardware = setup.hardware();
        let (clients, copies) = (setup.load().clients, setup.copies());
        let (servers, disks) = (setup.servers_at_work(), setup.disks_at_work());
        let each = |rate: Option<Rate>| rate.map(Rate::bytes_per_second);
        let cpu = hardware.client_cpu.map(|cost| 1.0 / cost.seconds_per_byte());
        let rows = [
            (Resource::ClientCpu, clients, clients, cpu, 1),
            (Resource::ClientLinks, clients, clients, each(hardware.client_link), 1),
            (Resource::ServerLinks, servers, hardware.data_servers, each(hardware.server_link), copies),
            (Resource::Disks, disks, setup.disks(), each(hardware.disk), copies),
            (Resource::Uplink, 1, 1, each(hardware.uplink), 1),
            (Resource::Switch, 1, 1, each(hardware.switch), copies),
        ];
        let term = |(resource, at_work, of, each, passes)| {
            let each: f64 = each?;
            let rate = as_f64(at_work) * each / as_f64(passes);
            Some(Term { resource, at_work, of, each, passes, rate })
        };
        Self { terms: rows.into_iter().filter_map(term).collect() }
    }

    /// S: bytes a second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.terms.iter().map(|term| term.rate).fold(f64::INFINITY, f64::min)
    }

    /// T: seconds for so many bytes.
    #[must_use]
    pub fn seconds(&self, bytes: u64) -> f64 {
        as_f64(bytes) / self.rate()
    }

    /// The term that binds; of several, the first in the order of [`Resource::ALL`].
    #[must_use]
    pub fn binds(&self) -> Resource {
        let least = self.rate() * (1.0 + SAME);
        let term = self.terms.iter().find(|term| term.rate <= least);
        term.expect("a setup has at least one limit").resource
    }

    /// Whether a resource is one of those that hold S where it is.
    #[must_use]
    pub fn is_bound_by(&self, resource: Resource) -> bool {
        let least = self.rate() * (1.0 + SAME);
        self.terms.iter().any(|term| term.resource == resource && term.rate <= least)
    }
}

/// Counts of things and bytes, where an error of 2^-53 is none.
pub(super) fn as_f64(count: u64) -> f64 {
    count as f64
}
