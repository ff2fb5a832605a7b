//! Data servers whose processes are dead, by the word of their machines' kernels. Others take their addresses and go
//! on without them at once: a second before the leases end that the dead were given.
//!
//! ```text
//! data server killed ├ beat overdue ┤ connection refused ┤ its service address is free, its chain lease is over
//! data server hangs  ├ beat overdue ┤ accepted, or silence ──────────── the leases end by themselves
//! ```
//!
//! A kernel refuses a connection if no process listens at the machine's own address of the data server, and it ends the
//! connections of a process that dies: both must be so. A data server gives up its lease before it stops to listen. A
//! supervisor that holds its socket goes on to listen: then nothing is refused, and the next process is there soon.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use namespace::{DataServer, DataServerId};

use crate::cluster::Cluster;

/// Interval between two looks at silent data servers.
const LOOK_EVERY: Duration = Duration::from_millis(150);
/// Time limit of a connection. A machine that is alive answers within a round trip.
const CONNECT_TIME_MAX: Duration = Duration::from_millis(200);
/// Connections at a time: after a time without a quorum all data servers are silent.
const CONNECTIONS_MAX: usize = 32;

/// A data server whose beat is late, and the last lease that it may have.
struct Late {
    server: DataServer,
    lease: Option<Duration>,
}

impl Cluster {
    /// Checks, while this metaserver leads, if silent data servers are dead. Never returns.
    pub async fn watch_data_servers(self: Arc<Self>) {
        let mut often = tokio::time::interval(LOOK_EVERY);
        often.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            often.tick().await;
            if self.group.replica.leads() {
                let late = futures_util::stream::iter(self.late_data_servers());
                late.for_each_concurrent(CONNECTIONS_MAX, |late| self.end_if_dead(late)).await;
            }
        }
    }

    /// Data servers that may hold an address or serve members of chains, and whose beat is late.
    fn late_data_servers(&self) -> Vec<Late> {
        // Before the map: a process that has another address by now has a later lease.
        let leases: BTreeMap<DataServerId, Duration> = self.chains.leases.all();
        let (map, now) = (self.map(), self.group.clock.monotonic());
        let holders = self.late_holders(now);
        let has_chains = !map.chains.is_empty();
        let is_late = |server: &&DataServer| {
            holders.contains(&server.id) || (has_chains && self.chains.leases.is_overdue(server.id, now))
        };
        let late = map.present_data_servers().filter(is_late);
        let with_lease = |server: &DataServer| Late {
            server: server.clone(),
            lease: leases.get(&server.id).copied().or_else(|| self.chains.leases.first()),
        };
        late.map(with_lease).collect()
    }

    async fn end_if_dead(&self, Late { server, lease }: Late) {
        let own = server.addresses.first().and_then(|address| address.parse().ok());
        let Some(own) = own else { return };
        if !self.refuses_connections(own).await || self.is_connected_to(&server).await {
            return;
        }
        let had_lease = self.chains.leases.end(server.id, lease, self.group.clock.monotonic());
        let had_addresses = self.free_addresses_of(server.id);
        if had_lease || had_addresses {
            tracing::info!(name = %server.name, address = %own, "the process of a data server is dead: others take over");
            self.chains.changed.notify_one();
        }
    }

    async fn refuses_connections(&self, address: SocketAddr) -> bool {
        let connected = tokio::time::timeout(CONNECT_TIME_MAX, self.network.connect(address)).await;
        matches!(connected, Ok(Err(error)) if error.kind() == std::io::ErrorKind::ConnectionRefused)
    }

    async fn is_connected_to(&self, server: &DataServer) -> bool {
        match server.targets.first().and_then(|target| self.data_servers.peer(*target)) {
            Some(peer) => peer.is_connected().await,
            None => false,
        }
    }
}
