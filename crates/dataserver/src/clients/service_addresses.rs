//! Addresses that move between data servers. Each is a server of its own to clients, wherever it is: Linux would
//! take two with one name for one server, also when they part again.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::RwLock;
use wire::nfs4::OwnerName;

use super::Clients;

/// Service addresses, with the ends of their leases by the monotonic clock.
#[derive(Default)]
pub(super) struct ServiceAddresses(RwLock<BTreeMap<IpAddr, Duration>>);

impl Clients {
    /// Name of the server that clients see at one of its addresses.
    pub(super) fn name_at(&self, local: IpAddr) -> OwnerName {
        match self.service_addresses.0.read().contains_key(&local) {
            true => OwnerName::from(Bytes::from(format!("heorot-ds-at-{local}"))),
            false => self.owner.clone(),
        }
    }

    /// Notes leases of service addresses: see [`crate::DataServer::lease_service_addresses`].
    pub(crate) fn lease_service_addresses(&self, addresses: impl IntoIterator<Item = IpAddr>, end: Duration) {
        let mut leases = self.service_addresses.0.write();
        for address in addresses {
            let lease = leases.entry(address).or_insert(end);
            *lease = end.max(*lease);
        }
    }

    /// True if calls that came to this address may be carried out: another data server may hold a service
    /// address whose lease is over, and the client may have sent the call again, and later ones after it.
    pub(crate) fn may_serve_at(&self, local: IpAddr) -> bool {
        let leases = self.service_addresses.0.read();
        leases.get(&local).is_none_or(|end| self.clock.monotonic() < *end)
    }
}
