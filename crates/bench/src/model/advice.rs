//! Changes that double S. To double the binding term is not enough if the next term is less than twice as
//! high, so there is a [`Need`] for each term below 2·S, and all of them are necessary; each has several
//! alternatives.

use serde::Serialize;

use super::quantity::{CpuCost, Rate};
use super::setup::{Disks, Files, Hardware, Load, Setup};
use super::solve::{Resource, SAME, Solution, Term, as_f64};
use crate::task::Direction;

/// Term below twice S.
#[derive(Debug, Clone, PartialEq)]
pub struct Need {
    /// Resource of the term.
    pub resource: Resource,
    /// Necessary growth: above 1, at most 2.
    pub factor: f64,
    /// Alternatives; one of them is sufficient.
    pub ways: Vec<Vec<Change>>,
}

/// Change of hardware or load; never a reduction.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// Number of clients.
    Clients(u64),
    /// Speed of each client's link.
    ClientLink(Rate),
    /// CPU-seconds for each byte at a client.
    ClientCpu(CpuCost),
    /// Number of data servers; new ones have the same disks as the others.
    DataServers(u64),
    /// Speed of each data server's link.
    ServerLink(Rate),
    /// Number of disks.
    Disks(Disks),
    /// Speed of a disk.
    Disk(Rate),
    /// Stripe width: number of servers of a file.
    StripeWidth(u64),
    /// Speed of the uplink.
    Uplink(Rate),
    /// Speed of the switch.
    Switch(Rate),
}

/// Necessary changes for 2·S.
#[must_use]
pub fn to_double(setup: &Setup) -> Vec<Need> {
    let solution = Solution::of(setup);
    let target = 2.0 * solution.rate();
    let short = solution.terms.iter().filter(|term| term.rate < target * (1.0 - SAME));
    short
        .map(|term| Need {
            resource: term.resource,
            factor: target / term.rate,
            ways: ways(setup, term, target),
        })
        .collect()
}

/// Hardware and load with `changes` applied, none of which reduces a value.
#[must_use]
pub fn apply(setup: &Setup, changes: &[Change]) -> (Hardware, Load) {
    let (mut hardware, mut load) = (*setup.hardware(), *setup.load());
    for change in changes {
        match *change {
            Change::Clients(clients) => load.clients = load.clients.max(clients),
            Change::ClientLink(rate) => hardware.client_link = Some(rate),
            Change::ClientCpu(cost) => hardware.client_cpu = Some(cost),
            Change::DataServers(servers) => {
                let before = setup.hardware().data_servers;
                if let (Disks::InAll(old), Disks::InAll(now)) = (setup.hardware().disks, hardware.disks) {
                    let with_theirs = (u128::from(old) * u128::from(servers)).div_ceil(u128::from(before));
                    hardware.disks = Disks::InAll(now.max(u64::try_from(with_theirs).unwrap_or(u64::MAX)));
                }
                hardware.data_servers = hardware.data_servers.max(servers);
            }
            Change::ServerLink(rate) => hardware.server_link = Some(rate),
            Change::Disks(disks) => {
                hardware.disks = match (hardware.disks, disks) {
                    (Disks::InAll(now), Disks::InAll(then)) => Disks::InAll(now.max(then)),
                    (Disks::PerServer(now), Disks::PerServer(then)) => Disks::PerServer(now.max(then)),
                    (_, other) => other,
                }
            }
            Change::Disk(rate) => hardware.disk = Some(rate),
            Change::StripeWidth(width) => {
                hardware.stripe_width = hardware.stripe_width.map(|now| now.max(width));
            }
            Change::Uplink(rate) => hardware.uplink = Some(rate),
            Change::Switch(rate) => hardware.switch = Some(rate),
        }
    }
    (hardware, load)
}

fn ways(setup: &Setup, term: &Term, target: f64) -> Vec<Vec<Change>> {
    // Necessary number of busy units, and the speed of each for the present number.
    let count = ceil(target * as_f64(term.passes) / term.each);
    let each = Rate::derived(target * as_f64(term.passes) / as_f64(term.at_work));
    match term.resource {
        Resource::ClientCpu => {
            let cost = CpuCost::derived(1.0 / each.bytes_per_second());
            vec![vec![Change::Clients(count)], vec![Change::ClientCpu(cost)]]
        }
        Resource::ClientLinks => vec![vec![Change::Clients(count)], vec![Change::ClientLink(each)]],
        Resource::ServerLinks => {
            let more_at_work = [Some(servers(setup, count)), more_clients(setup, count)];
            more_at_work.into_iter().flatten().chain([vec![Change::ServerLink(each)]]).collect()
        }
        Resource::Disks => {
            let servers = count.div_ceil(disks_of_a_server(setup));
            let more = more_clients(setup, servers).filter(|_| count <= setup.disks());
            let more_at_work = [Some(disks(setup, count)), more];
            more_at_work.into_iter().flatten().chain([vec![Change::Disk(each)]]).collect()
        }
        Resource::Uplink => vec![vec![Change::Uplink(each)]],
        Resource::Switch => vec![vec![Change::Switch(each)]],
    }
}

/// Changes for `count` busy servers: wider stripes if there are enough servers, otherwise more servers too.
fn servers(setup: &Setup, count: u64) -> Vec<Change> {
    let have = setup.hardware().data_servers;
    let more = (count > have).then_some(Change::DataServers(count));
    let wider = wider(setup, count).map(Change::StripeWidth);
    more.into_iter().chain(wider).collect()
}

/// Changes for `count` busy disks.
fn disks(setup: &Setup, count: u64) -> Vec<Change> {
    let servers = setup.hardware().data_servers;
    let reach = count.div_ceil(disks_of_a_server(setup)); // servers that have so many
    if count <= setup.disks() && reach <= servers {
        return wider(setup, reach).map(Change::StripeWidth).into_iter().collect();
    }
    // More disks in the busy servers, and so in all: other files make other servers busy.
    let per_server = count.div_ceil(setup.servers_at_work());
    vec![Change::Disks(match setup.hardware().disks {
        Disks::PerServer(_) => Disks::PerServer(per_server),
        Disks::InAll(_) if setup.servers_at_work() == servers => Disks::InAll(count),
        Disks::InAll(_) => Disks::InAll(per_server.saturating_mul(servers)),
    })]
}

/// Stripe width for `count` busy servers; `None`: the present one is sufficient.
fn wider(setup: &Setup, count: u64) -> Option<u64> {
    let now = setup.hardware().stripe_width?;
    Some(count.div_ceil(setup.stripes_at_work())).filter(|width| *width > now)
}

/// Changes for `count` busy servers by more files, or by more copies in use, on existing servers only.
fn more_clients(setup: &Setup, count: u64) -> Option<Vec<Change>> {
    let Load { direction, files, .. } = *setup.load();
    let replication = setup.hardware().replication;
    let stripes = count.div_ceil(setup.stripe_width());
    let clients = match (files, direction) {
        (Files::PerClient(files), Direction::Read) => stripes.div_ceil(files),
        (Files::PerClient(files), Direction::Write) => stripes.div_ceil(files * replication),
        (Files::Shared(files), Direction::Read) if stripes <= files * replication => stripes,
        (Files::Shared(_), _) => return None,
    };
    (count <= setup.hardware().data_servers).then(|| vec![Change::Clients(clients)])
}

/// Disks of the server with the most.
fn disks_of_a_server(setup: &Setup) -> u64 {
    setup.disks().div_ceil(setup.hardware().data_servers)
}

/// Rounds up, but ignores an excess from rounding errors.
fn ceil(count: f64) -> u64 {
    (count * (1.0 - SAME)).ceil() as u64
}
