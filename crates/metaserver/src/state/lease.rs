//! Client leases (RFC 8881, section 8.3): renewal, lease expiry, and courtesy after it.
//!
//! ```text
//! renewed ──a lease of silence──▶ has state? ────── no ──▶ forgotten
//!    ▲                                  │ yes
//!    │                                  ▼
//!    └──────renewed again────────── lapsed ──conflict, COURTESY_MAX, or LAPSED_MAX────────────▶ expired
//! ```
//!
//! Renewals are noted in memory only, and reported to the leader, which alone decides on client leases. A new
//! leader waits for one full lease before it finds a client lapsed. So does a leader that lost its quorum for
//! a while, or hung: no renewal could arrive meanwhile.
//!
//! Renewals that a metaserver had not reported before it died are lost. The leader therefore begins all leases
//! anew when another metaserver falls silent or starts, and lets a client lapse only after the time in which
//! it finds a silent metaserver ([`ClientState::lapse_time`]). A metaserver that dies again and again does not
//! keep a dead client: a lease begins anew only within one such time after the last renewal that the leader
//! knows.
//!
//! The state machine records that a client has lapsed. The state machine decides on conflicts, and expires
//! lapsed clients in the same step as the OPEN or LOCK that conflicts with their state. Decisions outside of
//! the state machine use [`ClientState::yields_to_conflict`].

mod watch;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use namespace::{ClientId, ClientRecord, Command, InodeId, Share, read};
use parking_lot::Mutex;
use store::View;

use crate::errors::FileError;
use crate::state::ClientState;

/// State of one client's lease.
#[derive(Debug)]
struct Lease {
    /// Time of the last known renewal, on the monotonic clock.
    renewed: Duration,
    /// Beginning of the lease: the last known renewal, or a later time until which renewals may be lost.
    begun: Duration,
    /// True if the client is recorded as lapsed in the state machine, or is about to be.
    lapsed: bool,
    /// True if the client renewed here since the last report to the leader.
    to_report: bool,
    /// True if it renewed here at any time. Others are not taken for late: they may have renewed elsewhere.
    is_served: bool,
    /// Held by the request that has the state machine renew a lease which had run out, for which the others of the
    /// client wait. None: no request is late.
    late: Option<Arc<tokio::sync::Mutex<()>>>,
}

impl Lease {
    fn begins(now: Duration) -> Self {
        Self { renewed: now, begun: now, lapsed: false, to_report: false, is_served: false, late: None }
    }

    fn renew(&mut self, now: Duration) {
        (self.renewed, self.begun) = (now, now);
    }
}

/// Leases of all clients.
#[derive(Default)]
pub(crate) struct Leases {
    known: Mutex<BTreeMap<ClientId, Lease>>,
    /// Lapsed clients in conflict with a request that was answered `Delay`.
    in_conflict: Mutex<Vec<ClientId>>,
    wanted: tokio::sync::Notify,
}

impl Leases {
    /// Notes a renewal of the client. Returns a lock if the state machine must hear of it: the client had lapsed, or is
    /// late by what is known here.
    fn note(&self, client: ClientId, now: Duration, length: Duration) -> Option<Arc<tokio::sync::Mutex<()>>> {
        let mut known = self.known.lock();
        let lease = known.entry(client).or_insert(Lease::begins(now));
        if lease.lapsed || lease.is_served && now.saturating_sub(lease.begun) > length {
            lease.late.get_or_insert_default();
        }
        lease.renew(now);
        (lease.to_report, lease.is_served) = (true, true);
        lease.late.clone()
    }

    /// True if the state machine has not heard yet of a renewal that it must hear of. None: the client has ended.
    fn is_late(&self, client: ClientId) -> Option<bool> {
        self.known.lock().get(&client).map(|lease| lease.late.is_some())
    }

    /// Notes a renewal of the client at another metaserver. Returns true if the client had lapsed.
    pub(crate) fn heard_elsewhere(&self, client: ClientId, now: Duration) -> bool {
        let mut known = self.known.lock();
        let lease = known.entry(client).or_insert(Lease::begins(now));
        lease.renew(now);
        lease.lapsed
    }

    /// The state machine has ended the client's courtesy, at the request of any metaserver. The leader need not have
    /// that one's report yet.
    pub(crate) fn is_renewed(&self, client: ClientId, now: Duration) {
        let mut known = self.known.lock();
        let lease = known.entry(client).or_insert(Lease::begins(now));
        lease.renew(now);
        (lease.lapsed, lease.late) = (false, None);
    }

    /// Marks these clients to be reported again: their report did not arrive.
    pub(crate) fn report_again(&self, clients: &[ClientId]) {
        let mut known = self.known.lock();
        for client in clients {
            if let Some(lease) = known.get_mut(client) {
                lease.to_report = true;
            }
        }
    }

    /// Returns the clients that renewed here since the last call of this function.
    pub(crate) fn heard_since_last_report(&self) -> Vec<ClientId> {
        let mut known = self.known.lock();
        let heard = known
            .iter_mut()
            .filter_map(|(client, lease)| std::mem::take(&mut lease.to_report).then_some(*client));
        heard.collect()
    }

    /// Renews all client leases: no renewal could reach the leader.
    fn renew_all(&self, now: Duration) {
        self.known.lock().values_mut().for_each(|lease| lease.renew(now));
    }

    /// Begins leases anew at `at`: until then another metaserver may have had renewals that it has not reported. A
    /// client whose last known renewal is more than `lapse_time` before renewed too late in any case, if it did.
    fn begin_anew(&self, at: Duration, lapse_time: Duration) {
        let mut known = self.known.lock();
        let perhaps_renewed =
            known.values_mut().filter(|lease| at.saturating_sub(lease.renewed) <= lapse_time);
        perhaps_renewed.for_each(|lease| lease.begun = lease.begun.max(at));
    }

    /// Begins the client's lease anew.
    pub(crate) fn begin(&self, client: ClientId, now: Duration) {
        self.known.lock().insert(client, Lease { to_report: true, is_served: true, ..Lease::begins(now) });
    }

    pub(crate) fn set_lapsed(&self, client: ClientId, lapsed: bool) {
        self.known.lock().entry(client).or_insert(Lease::begins(Duration::ZERO)).lapsed = lapsed;
    }

    fn is_lapsed(&self, client: ClientId) -> bool {
        self.known.lock().get(&client).is_some_and(|lease| lease.lapsed)
    }

    /// Returns all known clients.
    pub(crate) fn clients(&self) -> Vec<ClientId> {
        self.known.lock().keys().copied().collect()
    }

    /// Returns all lapsed clients.
    pub(crate) fn lapsed_clients(&self) -> Vec<ClientId> {
        let known = self.known.lock();
        known.iter().filter(|(_, lease)| lease.lapsed).map(|(client, _)| *client).collect()
    }

    pub(crate) fn forget(&self, client: ClientId) {
        self.known.lock().remove(&client);
    }

    /// Returns those of `clients` whose lease has run out and that are not marked as lapsed yet. The lease of
    /// an unknown client begins now.
    fn run_out(&self, clients: &[ClientId], now: Duration, lease: Duration) -> Vec<ClientId> {
        let mut known = self.known.lock();
        // The store lists clients in the order of their ids.
        known.retain(|client, _| clients.binary_search(client).is_ok());
        let late = |client: &&ClientId| {
            let known = known.entry(**client).or_insert(Lease::begins(now));
            !known.lapsed && now.saturating_sub(known.begun) > lease
        };
        clients.iter().filter(late).copied().collect()
    }

    /// Marks the client as lapsed, unless it has renewed since its lease was found to have run out.
    fn lapse(&self, client: ClientId, now: Duration, lease: Duration) -> bool {
        let mut known = self.known.lock();
        let Some(known) = known.get_mut(&client) else { return false };
        let late = !known.lapsed && now.saturating_sub(known.begun) > lease;
        known.lapsed |= late;
        late
    }
}

impl ClientState {
    /// Takes the report of another metaserver: these clients renewed there.
    pub(crate) async fn heard_elsewhere(&self, clients: impl Iterator<Item = ClientId>) {
        let now = self.machine.clock.monotonic();
        for client in clients {
            if self.leases.heard_elsewhere(client, now) {
                let _ = self.renew(client).await; // it lapsed here while its report was on its way
            }
        }
    }

    /// Renews the client's lease and ends its courtesy.
    ///
    /// # Errors
    /// `StaleClientid` if the client was expired a moment ago.
    pub(crate) async fn renew(&self, client: ClientId) -> Result<(), FileError> {
        let now = self.machine.clock.monotonic();
        let Some(late) = self.leases.note(client, now, self.cluster.lease()) else { return Ok(()) };
        let _one = late.lock().await;
        match self.leases.is_late(client) {
            Some(true) => {}
            Some(false) => return Ok(()), // another request of it came first
            None => return Err(namespace::Error::StaleClient.into()),
        }
        let had_lapsed = self.leases.is_lapsed(client);
        // Done before the request is served: after it no conflict takes the client's state away, and the leader does not
        // let it lapse before it has this metaserver's report.
        let renewed = self.propose(None, Command::RenewLease { client }).await;
        match renewed {
            Ok(_) => {
                tracing::info!(client = client.0, had_lapsed, "back after its lease had run out");
                self.leases.is_renewed(client, self.machine.clock.monotonic());
            }
            Err(FileError::State(namespace::Error::StaleClient)) => self.forget_client(client),
            // Unknown: its next request asks again.
            Err(_) => {}
        }
        renewed.map(drop)
    }

    /// Returns true if all of `clients` have lapsed. These are then marked for expiry, which follows soon:
    /// the request is to be sent again.
    pub(crate) fn yields_to_conflict(
        &self,
        view: &dyn View,
        clients: impl IntoIterator<Item = ClientId>,
    ) -> Result<bool, FileError> {
        let mut giving = Vec::new();
        for client in clients {
            match read::client(view, client)? {
                Some(record) if record.lapsed.is_some() => giving.push(client),
                Some(_) => return Ok(false),
                None => {}
            }
        }
        self.leases.in_conflict.lock().extend(giving);
        self.leases.wanted.notify_one();
        Ok(true)
    }

    /// Checks that I/O without an open of its own may have the access `wanted` to a file (RFC 8881, section
    /// 9.1.4.3).
    ///
    /// # Errors
    /// `Locked` if a share reservation denies it; `Delay` if only opens of lapsed clients do, which soon
    /// expire.
    pub(crate) fn check_share(
        &self,
        view: &dyn View,
        inode: InodeId,
        wanted: Share,
    ) -> Result<(), FileError> {
        let holders = read::share_holders(view, inode, wanted)?;
        if holders.is_empty() {
            return Ok(());
        }
        let gone = self.yields_to_conflict(view, holders.into_iter().map(|holder| holder.id))?;
        Err(if gone { FileError::Delay } else { FileError::Locked })
    }

    /// Expires a lapsed client whose courtesy is over. A client that renewed in time stays.
    pub(crate) async fn expire(&self, client: ClientId) -> Result<(), FileError> {
        match self.propose(None, Command::ExpireClient { client }).await {
            Ok(_) => tracing::info!(client = client.0, "expired"),
            // The client has renewed, or has ended already.
            Err(FileError::State(namespace::Error::ClientBusy)) => return Ok(()),
            Err(FileError::State(namespace::Error::StaleClient)) => {}
            Err(status) => return Err(status),
        }
        self.forget_client(client);
        Ok(())
    }

    /// Marks the clients as lapsed that the state machine recorded as lapsed before this server started.
    pub(crate) fn learn_lapsed(&self) -> Result<(), FileError> {
        for client in self.lapsed()? {
            self.leases.set_lapsed(client.id, true);
        }
        Ok(())
    }

    fn lapsed(&self) -> Result<Vec<ClientRecord>, FileError> {
        let view = self.machine.view()?;
        let mut lapsed = Vec::new();
        for client in read::clients(&*view)? {
            let record = read::client(&*view, client)?;
            lapsed.extend(record.filter(|record| record.lapsed.is_some()));
        }
        Ok(lapsed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_never_heard_of_gets_one_full_lease() {
        let (leases, s) = (Leases::default(), Duration::from_secs);
        let clients = [ClientId(1), ClientId(2)];
        assert_eq!(leases.run_out(&clients, s(100), s(30)), []);
        assert!(leases.note(ClientId(1), s(120), s(30)).is_none());
        assert_eq!(leases.run_out(&clients, s(130), s(30)), []);
        assert_eq!(leases.run_out(&clients, s(131), s(30)), [ClientId(2)]);
        assert_eq!(leases.run_out(&clients[..1], s(151), s(30)), [ClientId(1)]);
        leases.set_lapsed(ClientId(1), true);
        assert_eq!(leases.run_out(&clients[..1], s(200), s(30)), [], "once");
        assert!(leases.note(ClientId(1), s(201), s(30)).is_some(), "it is back");
    }

    #[test]
    fn one_that_is_late_is_confirmed_before_it_is_served() {
        let (leases, s) = (Leases::default(), Duration::from_secs);
        let note = |now| leases.note(ClientId(1), s(now), s(30)).is_some();
        assert!(!note(100) && !note(130));
        assert!(note(161), "not known as lapsed yet");
        assert!(note(162), "another request of it");
        leases.is_renewed(ClientId(1), s(163));
        assert!(!note(164));
        // It may have renewed elsewhere.
        leases.heard_elsewhere(ClientId(2), s(100));
        assert!(leases.note(ClientId(2), s(140), s(30)).is_none());
    }

    #[test]
    fn one_that_another_metaserver_has_renewed_does_not_lapse_before_the_report_of_that() {
        let (leases, s) = (Leases::default(), Duration::from_secs);
        let clients = [ClientId(1), ClientId(2)];
        assert_eq!(leases.run_out(&clients, s(100), s(30)), []);
        assert_eq!(leases.run_out(&clients, s(131), s(30)), clients);
        assert!(clients.iter().all(|client| leases.lapse(*client, s(131), s(30))));
        leases.is_renewed(ClientId(2), s(140));
        assert_eq!(leases.lapsed_clients(), [ClientId(1)]);
        assert_eq!(leases.run_out(&clients, s(141), s(30)), []);
        assert_eq!(leases.run_out(&clients, s(171), s(30)), [ClientId(2)]);
    }

    #[test]
    fn who_is_heard_of_while_others_lapse_does_not() {
        let (leases, s) = (Leases::default(), Duration::from_secs);
        let clients = [ClientId(1), ClientId(2)];
        assert_eq!(leases.run_out(&clients, s(100), s(30)), []);
        assert_eq!(leases.run_out(&clients, s(131), s(30)), clients);
        assert!(leases.lapse(ClientId(1), s(131), s(30)));
        assert!(!leases.lapse(ClientId(1), s(131), s(30)), "once");
        assert!(leases.note(ClientId(2), s(132), s(30)).is_none());
        assert!(!leases.lapse(ClientId(2), s(133), s(30)));
    }

    #[test]
    fn a_metaserver_that_dies_again_and_again_keeps_no_dead_client() {
        let (leases, s) = (Leases::default(), Duration::from_secs);
        let (dead, alive) = (ClientId(1), ClientId(2));
        leases.note(dead, s(100), s(36));
        let lapsed = |now| {
            leases.begin_anew(now, s(36));
            leases.note(alive, now, s(36));
            leases.run_out(&[dead, alive], now, s(36))
        };
        for now in (105..=171).step_by(5) {
            assert_eq!(lapsed(s(now)), [], "at {now} s, begun at 135 s the last time");
        }
        assert_eq!(lapsed(s(172)), [dead]);
    }

    #[test]
    fn a_metaserver_that_says_late_that_it_has_started_keeps_no_dead_client() {
        let (leases, s) = (Leases::default(), Duration::from_secs);
        leases.note(ClientId(1), s(100), s(36));
        // Its process before ended at 110 s at the latest, and at 90 s.
        for at in [110, 90] {
            leases.begin_anew(s(at), s(36));
        }
        assert_eq!(leases.run_out(&[ClientId(1)], s(146), s(36)), []);
        assert_eq!(leases.run_out(&[ClientId(1)], s(147), s(36)), [ClientId(1)]);
    }
}
