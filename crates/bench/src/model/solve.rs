//! Solution of the model: S, T and the binding term.

use std::fmt;

use serde::Serialize;

use super::quantity::Rate;
use super::setup::Setup;

/// Resource that can bind.
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
    /// Uplink between clients and data servers.
    Uplink,
    /// Switch that all traffic crosses.
    Switch,
}

impl Resource {
    /// All resources, in display order; of several binding ones the first is reported.
    pub const ALL: [Self; 6] =
        [Self::ClientCpu, Self::ClientLinks, Self::ServerLinks, Self::Disks, Self::Uplink, Self::Switch];

    /// Name for programs: `client-links`.
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

/// Name for users: `client links`.
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

/// Bound of S by one resource alone.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Term {
    /// Resource.
    pub resource: Resource,
    /// Number of units that can be busy at the same time.
    pub at_work: u64,
    /// Number of units.
    pub of: u64,
    /// Speed of each unit in bytes a second.
    pub each: f64,
    /// Number of times that each of the D bytes passes the resource.
    pub passes: u64,
    /// Bound in bytes of D a second: `at_work · each / passes`.
    pub rate: f64,
}

/// Solution of the model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Solution {
    /// Terms of all resources with a speed; at least one.
    pub terms: Vec<Term>,
}

/// Relative difference of rates below which they are equal, for rounding errors.
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

    /// T: seconds for `bytes`.
    #[must_use]
    pub fn seconds(&self, bytes: u64) -> f64 {
        as_f64(bytes) / self.rate()
    }

    /// Binding term; of several, the first in the order of [`Resource::ALL`].
    #[must_use]
    pub fn binds(&self) -> Resource {
        let least = self.rate() * (1.0 + SAME);
        let term = self.terms.iter().find(|term| term.rate <= least);
        term.expect("a setup has at least one limit").resource
    }

    /// True if `resource` is one of the binding ones.
    #[must_use]
    pub fn is_bound_by(&self, resource: Resource) -> bool {
        let least = self.rate() * (1.0 + SAME);
        self.terms.iter().any(|term| term.resource == resource && term.rate <= least)
    }
}

/// Count as a double; a relative error of 2^-53 does not matter.
pub(super) fn as_f64(count: u64) -> f64 {
    count as f64
}
