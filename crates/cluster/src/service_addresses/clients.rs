//! Clients connected to each service address, known to all metaservers, so that the next holder can tell
//! these clients.
//!
//! ```text
//! holder ──"these are connected to 10.0.0.100"──▶ all others          whenever that has changed
//! next holder ──"clients of 10.0.0.100?"────────────▶ all others      it may have been away
//! next holder ──ACK──▶ each client                                    see nfs::HeldAddresses
//! ```
//!
//! A client that waits for an answer sends nothing, for a minute, and would not notice that its server is
//! gone. The list is also in a file: all metaservers may have been killed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use host::SystemFiles;
use nfs::ConnectedClients as Clients;
use parking_lot::Mutex;
use replica::NodeId;
use wire::peer::clients::connected::Connections;

use crate::peers::{addresses, text};

/// Interval after which the same list is sent again: the receiver may have been restarted.
const TELL_AGAIN: Duration = Duration::from_secs(10);

/// The clients in their form on the wire.
pub(crate) fn to_wire(clients: &Clients) -> Vec<Connections> {
    let held = clients.iter();
    held.map(|(address, clients)| Connections {
        address: text(address),
        clients: clients.iter().map(text).collect(),
    })
    .collect()
}

/// The clients from their form on the wire; malformed addresses are left out.
pub(crate) fn of_wire(held: &[Connections]) -> Clients {
    let known = held.iter().filter_map(|connections| {
        let address = addresses(std::slice::from_ref(&connections.address)).pop()?;
        Some((address, addresses(&connections.clients).into_iter().collect()))
    });
    known.collect()
}

/// The known clients of each address.
#[derive(Default)]
pub(crate) struct Known(Mutex<Clients>);

impl Known {
    /// Notes the clients of the addresses that a metaserver holds, this one or another.
    pub(crate) fn learn(&self, clients: Clients) {
        self.0.lock().extend(clients);
    }

    /// Clients of `address`, by the last report.
    pub(crate) fn of(&self, address: IpAddr) -> BTreeSet<SocketAddr> {
        self.0.lock().get(&address).cloned().unwrap_or_default()
    }

    fn all(&self) -> Clients {
        self.0.lock().clone()
    }

    /// Reads the list of an earlier process of this metaserver. A damaged line is left out: the cost is one
    /// minute for one client.
    pub(crate) fn read(&self, file: &Path) {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let mut clients = Clients::new();
        for line in text.lines() {
            if let Some((address, client)) = line.split_once(' ')
                && let (Ok(address), Ok(client)) = (address.parse(), client.parse())
            {
                clients.entry(address).or_default().insert(client);
            }
        }
        self.learn(clients);
    }

    /// Writes the list for the next process: a line for each client, `10.0.0.100 10.0.0.7:834`.
    pub(crate) fn write(&self, file: &Path) -> std::io::Result<()> {
        let all = self.all();
        let lines = all.iter().flat_map(|(a, clients)| clients.iter().map(move |c| format!("{a} {c}\n")));
        host::replace(&SystemFiles, file, lines.collect::<String>().as_bytes())
    }
}

/// The last list sent to each member, and its time.
#[derive(Default)]
pub(crate) struct Told(BTreeMap<NodeId, (Clients, Duration)>);

impl Told {
    /// True if the list must be sent to `member`; it is then noted as sent.
    pub(crate) fn is_news(&mut self, member: NodeId, clients: &Clients, now: Duration) -> bool {
        let is_news = self
            .0
            .get(&member)
            .is_none_or(|(told, at)| told != clients || now.saturating_sub(*at) >= TELL_AGAIN);
        if is_news {
            self.0.insert(member, (clients.clone(), now));
        }
        is_news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_connected_is_known_to_the_next_life() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("clients");
        let (address, client) = ("10.77.0.1".parse().unwrap(), "10.77.0.9:834".parse().unwrap());
        let known = Known::default();
        known.learn(Clients::from([(address, [client].into())]));
        known.write(&file).expect("write");
        std::fs::write(&file, std::fs::read_to_string(&file).unwrap() + "10.77.0.1 half a l").unwrap();
        let next = Known::default();
        next.read(&file);
        assert_eq!(next.of(address), [client].into());
        next.learn(Clients::from([(address, BTreeSet::new())]));
        assert!(next.of(address).is_empty(), "its holder says that there is nobody");
    }

    #[test]
    fn a_member_is_told_once_and_again_after_a_while() {
        let (mut told, none) = (Told::default(), Clients::new());
        assert!(told.is_news(2, &none, Duration::ZERO));
        assert!(!told.is_news(2, &none, Duration::from_secs(1)));
        assert!(told.is_news(3, &none, Duration::from_secs(1)));
        assert!(told.is_news(
            2,
            &Clients::from([("::1".parse().unwrap(), BTreeSet::new())]),
            Duration::from_secs(2)
        ));
        assert!(told.is_news(3, &none, Duration::from_secs(1) + TELL_AGAIN));
    }
}
