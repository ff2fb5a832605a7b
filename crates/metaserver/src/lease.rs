//! Leases (RFC 8881, section 8.3): a client that is not heard of for a lease loses its state.
//!
//! Renewals are noted in memory only. So a server that has just started waits one full lease before it expires anyone.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use namespace::{ClientId, Command, read};

use crate::Metaserver;

/// When each client was last heard of, on the monotonic clock.
#[derive(Default)]
pub(crate) struct Leases {
    heard: Mutex<HashMap<ClientId, Duration>>,
}

impl Leases {
    pub(crate) fn renew(&self, client: ClientId, now: Duration) {
        if let Ok(mut heard) = self.heard.lock() {
            heard.insert(client, now);
        }
    }

    /// Those of `clients` whose lease has run out. One never heard of begins its lease now.
    fn expired(&self, clients: &[ClientId], now: Duration, lease: Duration) -> Vec<ClientId> {
        let Ok(mut heard) = self.heard.lock() else { return vec![] };
        // In the order of their ids, as the store lists them.
        heard.retain(|client, _| clients.binary_search(client).is_ok());
        let late = |client: &&ClientId| now.saturating_sub(*heard.entry(**client).or_insert(now)) > lease;
        clients.iter().filter(late).copied().collect()
    }
}

impl Metaserver {
    /// Expires clients, for ever.
    pub(crate) async fn watch_leases(self: Arc<Self>) {
        let lease = self.config.lease;
        loop {
            tokio::time::sleep(lease / 8).await;
            let clients = match self.view().map(|view| read::clients(&*view)) {
                Ok(Ok(clients)) => clients,
                _ => continue,
            };
            for client in self.leases.expired(&clients, self.clock.monotonic(), lease) {
                tracing::info!(client = client.0, "lease ran out");
                if self.propose(None, Command::ExpireClient { client }).await.is_ok() {
                    self.forget_client(client);
                    self.work_ready.notify_one();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_never_heard_of_gets_one_full_lease() {
        let (leases, s) = (Leases::default(), Duration::from_secs);
        let clients = [ClientId(1), ClientId(2)];
        assert_eq!(leases.expired(&clients, s(100), s(30)), []);
        leases.renew(ClientId(1), s(120));
        assert_eq!(leases.expired(&clients, s(130), s(30)), []);
        assert_eq!(leases.expired(&clients, s(131), s(30)), [ClientId(2)]);
        assert_eq!(leases.expired(&clients[..1], s(151), s(30)), [ClientId(1)]);
    }
}
