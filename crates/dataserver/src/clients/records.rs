//! The records of clients, found by id, by owner and by idleness: no call looks through all of them.
//!
//! A client is heard of with each request, which takes no lock of the records. So the time by which it stands
//! in order is that of the last look: the client that seems the idlest is looked at again, and put where it
//! belongs, before its place is taken.

#[cfg(test)]
use std::collections::BTreeMap;
use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::atomic::Ordering;

use bytes::Bytes;

use wire::nfs4::{ClientId, Status};

use super::{Client, network_of};

/// Clients that were heard of since the last look, and are put where they belong, in one call. Each was heard
/// of since it was last looked at, so that there are fewer such looks than requests; if there are more at
/// once, the idlest of those is not known exactly.
const LOOKS_MAX: usize = 64;

impl Client {
    pub(super) fn is_from(&self, network: IpAddr) -> bool {
        self.network == network || self.more_networks.contains(&network)
    }
}

/// The client, if it has shown its verifier from this address's network: ids of clients are easy to guess,
/// and another machine could end its sessions.
pub(super) fn of_network(records: &Records, id: ClientId, address: IpAddr) -> Result<&Client, Status> {
    let client = records.get(id.0).filter(|client| client.is_from(network_of(address)));
    client.ok_or(Status::StaleClientid)
}

/// Use of a client: the state that it would lose, the least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Use {
    /// The client never confirmed.
    Unconfirmed = 0,
    /// The client has no session.
    NoSession = 1,
    /// The client has a session.
    Session = 2,
}

/// Clients by their use, then by the time in milliseconds at which they were known to be heard of, the
/// longest ago first.
#[derive(Default)]
struct Order([BTreeSet<(u64, u64)>; 3]);

impl Order {
    fn of(&mut self, place: Place) -> &mut BTreeSet<(u64, u64)> {
        &mut self.0[place.used as usize]
    }

    fn len(&self) -> usize {
        self.0.iter().map(BTreeSet::len).sum()
    }
}

/// Place of a client in an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    used: Use,
    heard_ms: u64,
}

impl Place {
    fn of(client: &Client) -> Self {
        let used = match (client.confirmed, client.sessions.is_empty()) {
            (false, _) => Use::Unconfirmed,
            (true, true) => Use::NoSession,
            (true, false) => Use::Session,
        };
        Self { used, heard_ms: client.heard_ms.load(Ordering::Relaxed) }
    }
}

/// All records.
#[derive(Default)]
pub(super) struct Records {
    by_id: HashMap<u64, (Client, Place)>,
    by_owner: HashMap<Bytes, BTreeSet<u64>>,
    order: Order,
    of_network: HashMap<IpAddr, Order>,
    /// Networks by the number of their clients.
    sizes: BTreeSet<(usize, IpAddr)>,
    pub(super) next: u32,
}

impl Records {
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Clients of a network.
    pub(super) fn len_of(&self, network: IpAddr) -> usize {
        self.of_network.get(&network).map_or(0, Order::len)
    }

    /// The network that has most clients.
    pub(super) fn largest_network(&self) -> Option<IpAddr> {
        self.sizes.last().map(|(_, network)| *network)
    }

    pub(super) fn get(&self, id: u64) -> Option<&Client> {
        self.by_id.get(&id).map(|(client, _)| client)
    }

    /// All records. Only for work that is done once a minute.
    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = (u64, &mut Client)> {
        self.by_id.iter_mut().map(|(id, (client, _))| (*id, client))
    }

    /// The records of one owner: few, since it has one that is confirmed, and others only from other
    /// networks.
    pub(super) fn of_owner(&self, owner: &[u8]) -> Vec<u64> {
        self.by_owner.get(owner).map_or_else(Vec::new, |ids| ids.iter().copied().collect())
    }

    pub(super) fn insert(&mut self, id: u64, client: Client) {
        let place = Place::of(&client);
        self.by_owner.entry(client.owner.0.clone()).or_default().insert(id);
        self.put(id, client.network, place);
        self.by_id.insert(id, (client, place));
    }

    pub(super) fn remove(&mut self, id: u64) -> Option<Client> {
        let (client, place) = self.by_id.remove(&id)?;
        if let Some(ids) = self.by_owner.get_mut(&client.owner.0) {
            ids.remove(&id);
            if ids.is_empty() {
                self.by_owner.remove(&client.owner.0);
            }
        }
        self.take(id, client.network, place);
        Some(client)
    }

    /// Changes a client, and puts it where it then belongs.
    pub(super) fn change<T>(&mut self, id: u64, change: impl FnOnce(&mut Client) -> T) -> Option<T> {
        let (client, place) = self.by_id.get_mut(&id)?;
        let done = change(client);
        let (network, before, now) = (client.network, *place, Place::of(client));
        *place = now;
        if before != now {
            self.take(id, network, before);
            self.put(id, network, now);
        }
        Some(done)
    }

    /// The idlest client of this use, of a network or of all.
    pub(super) fn idlest(&mut self, used: Use, network: Option<IpAddr>) -> Option<u64> {
        for _ in 0..LOOKS_MAX {
            let (heard_ms, id) = self.first(used, network)?;
            self.change(id, |_| {});
            if self.first(used, network) == Some((heard_ms, id)) {
                return Some(id);
            }
        }
        self.first(used, network).map(|(_, id)| id)
    }

    fn first(&self, used: Use, network: Option<IpAddr>) -> Option<(u64, u64)> {
        let order = match network {
            Some(network) => self.of_network.get(&network)?,
            None => &self.order,
        };
        order.0[used as usize].first().copied()
    }

    fn put(&mut self, id: u64, network: IpAddr, place: Place) {
        let entry = (place.heard_ms, id);
        self.order.of(place).insert(entry);
        let order = self.of_network.entry(network).or_default();
        self.sizes.remove(&(order.len(), network));
        order.of(place).insert(entry);
        self.sizes.insert((order.len(), network));
    }

    fn take(&mut self, id: u64, network: IpAddr, place: Place) {
        let entry = (place.heard_ms, id);
        self.order.of(place).remove(&entry);
        let Some(order) = self.of_network.get_mut(&network) else { return };
        self.sizes.remove(&(order.len(), network));
        order.of(place).remove(&entry);
        match order.len() {
            0 => drop(self.of_network.remove(&network)),
            len => drop(self.sizes.insert((len, network))),
        }
    }

    /// Checks that the two indexes agree.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let mut of_network = BTreeMap::<IpAddr, usize>::new();
        for (id, (client, place)) in &self.by_id {
            *of_network.entry(client.network).or_default() += 1;
            let entry = (place.heard_ms, *id);
            assert!(self.order.0[place.used as usize].contains(&entry));
            assert!(self.of_network[&client.network].0[place.used as usize].contains(&entry));
            assert!(self.by_owner[&client.owner.0].contains(id));
        }
        assert_eq!(self.order.len(), self.by_id.len());
        assert_eq!(self.by_owner.values().map(BTreeSet::len).sum::<usize>(), self.by_id.len());
        let sizes: BTreeSet<_> = of_network.into_iter().map(|(network, len)| (len, network)).collect();
        assert_eq!(self.sizes, sizes);
        assert_eq!(self.of_network.len(), sizes.len());
    }
}
