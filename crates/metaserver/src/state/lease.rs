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

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use cluster::peers::ANSWER_TIME_MAX;
use namespace::{ClientId, ClientRecord, Command, InodeId, Share, read};
use parking_lot::Mutex;
use replica::NodeId;
use store::View;
use tokio::time::Instant;
use wire::peer::{Call, clients::heard};

use crate::errors::FileError;
use crate::state::ClientState;

/// Courtesy time. A lapsed client keeps state without conflicts over a night or a broken switch, but not over
/// a holiday. Files that were removed while the client had them open take space for as long.
const COURTESY_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// Maximum of lapsed clients. Beyond it the client that lapsed first is expired. A big cluster loses about
/// this number of nodes with one switch.
const LAPSED_MAX: usize = 1024;

/// Checks of all client leases, and reports of renewals, in the length of one lease.
const OFTEN: u32 = 16;

/// State of one client's lease.
#[derive(Debug, Clone, Copy)]
struct Lease {
    /// Time of the last known renewal, on the monotonic clock.
    renewed: Duration,
    /// Beginning of the lease: the last known renewal, or a later time until which renewals may be lost.
    begun: Duration,
    /// True if the client is recorded as lapsed in the state machine, or is about to be.
    lapsed: bool,
    /// True if the client renewed here since the last report to the leader.
    to_report: bool,
}

impl Lease {
    fn begins(now: Duration) -> Self {
        Self { renewed: now, begun: now, lapsed: false, to_report: false }
    }

    fn renew(&mut self, now: Duration) {
        (self.renewed, self.begun) = (now, now);
    }
}

/// Term and time of the last moment at which this metaserver could judge leases.
#[derive(Debug, Default)]
struct Judged(Option<(u64, Instant)>);

impl Judged {
    /// Notes that leases can be judged now, in `term`. Returns true if they could be judged in the time
    /// before, too: in the same term, and at most `gap_max` ago.
    fn goes_on(&mut self, term: u64, now: Instant, gap_max: Duration) -> bool {
        let before = self.0.replace((term, now));
        before.is_some_and(|(of, at)| of == term && now.saturating_duration_since(at) <= gap_max)
    }
}

/// Other metaservers that the leader has not heard of for too long.
#[derive(Debug, Default)]
struct Silent(BTreeSet<NodeId>);

impl Silent {
    /// Notes the time since the last contact with each other metaserver. Returns true if one is silent now,
    /// for longer than `time_max`, that was not before.
    fn grows(&mut self, last_contact: &BTreeMap<NodeId, Duration>, time_max: Duration) -> bool {
        let silent = last_contact.iter().filter(|(_, ago)| **ago > time_max).map(|(id, _)| *id);
        let before = std::mem::replace(&mut self.0, silent.collect());
        !self.0.is_subset(&before)
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
    /// Notes a renewal of the client. Returns true if the client had lapsed.
    fn note(&self, client: ClientId, now: Duration) -> bool {
        let mut known = self.known.lock();
        let lease = known.entry(client).or_insert(Lease::begins(now));
        lease.renew(now);
        lease.to_report = true;
        lease.lapsed
    }

    /// Notes a renewal of the client at another metaserver. Returns true if the client had lapsed.
    pub(crate) fn heard_elsewhere(&self, client: ClientId, now: Duration) -> bool {
        let mut known = self.known.lock();
        let lease = known.entry(client).or_insert(Lease::begins(now));
        lease.renew(now);
        lease.lapsed
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

    /// Begins leases anew: another metaserver lost the renewals that it had not reported. A client whose last
    /// known renewal is more than `lapse_time` ago renewed too late in any case, if it did.
    fn begin_anew(&self, now: Duration, lapse_time: Duration) {
        let mut known = self.known.lock();
        let perhaps_renewed =
            known.values_mut().filter(|lease| now.saturating_sub(lease.renewed) <= lapse_time);
        perhaps_renewed.for_each(|lease| lease.begun = now);
    }

    /// Begins the client's lease anew.
    pub(crate) fn begin(&self, client: ClientId, now: Duration) {
        self.known.lock().insert(client, Lease { to_report: true, ..Lease::begins(now) });
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

/// Lapsed clients to expire: beyond [`COURTESY_MAX`] or [`LAPSED_MAX`].
fn overdue(lapsed: &[ClientRecord], now_seconds: i64) -> Vec<ClientId> {
    let mut by_age: Vec<(i64, ClientId)> =
        lapsed.iter().filter_map(|client| client.lapsed.map(|since| (since.seconds, client.id))).collect();
    by_age.sort_unstable();
    let too_many = by_age.len().saturating_sub(LAPSED_MAX);
    let late = |since: i64| now_seconds.saturating_sub(since) > COURTESY_MAX.as_secs() as i64;
    let over = by_age.iter().enumerate().filter(|(at, (since, _))| *at < too_many || late(*since));
    over.map(|(_, (_, client))| *client).collect()
}

impl ClientState {
    /// Reports the clients that renewed here to the leader, if another metaserver leads.
    async fn report_heard(&self) {
        let Some(leader) = self.machine.replica.leader() else { return };
        let clients = self.leases.heard_since_last_report();
        if clients.is_empty() {
            return;
        }
        // The time-out of a lost report is short: the next reports would come too late for other clients.
        let limit = self.looks_at_leases_every().min(ANSWER_TIME_MAX);
        let args = heard::Args { clients: clients.iter().map(|client| client.0).collect() };
        if let Err(error) = self.cluster.call_leader(Call::Heard(args), limit).await {
            self.leases.report_again(&clients);
            tracing::debug!(%error, leader = %leader.name, "the leader did not take the report of clients that live");
        }
    }

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
        if !self.leases.note(client, self.machine.clock.monotonic()) {
            return Ok(());
        }
        // Done before the request is served: after it no conflict takes the client's state away.
        let renewed = self.propose(None, Command::RenewLease { client }).await;
        match renewed {
            Ok(_) => {
                tracing::info!(client = client.0, "back after its lease had run out");
                self.leases.set_lapsed(client, false);
            }
            Err(_) => self.forget_client(client),
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
        self.deferred_ready.notify_one();
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

    /// Watches client leases and courtesy. Never returns.
    pub(crate) async fn watch_leases(self: Arc<Self>) {
        let mut next = Instant::now();
        let (mut judged, mut silent) = (Judged::default(), Silent::default());
        loop {
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(next) => {
                    // The interval follows the current length of the lease, a setting.
                    next = Instant::now() + self.looks_at_leases_every();
                    if !self.machine.replica.leads() {
                        (judged, silent) = (Judged::default(), Silent::default());
                        self.report_heard().await;
                    } else if self.may_judge(&mut judged, &mut silent).await
                        && let Err(status) = self.look_at_leases().await
                    {
                        tracing::warn!(?status, "looking at leases");
                    }
                    if let Err(status) = self.forget_ended_clients() {
                        tracing::warn!(?status, "looking for clients that ended");
                    }
                    // Turns have ended, and lapsed clients no longer conflict.
                    self.tell_all_lock_waiters();
                }
                () = self.leases.wanted.notified() => self.expire_wanted().await,
            }
        }
    }

    /// Interval of lease checks and of reports of renewed clients.
    fn looks_at_leases_every(&self) -> Duration {
        self.cluster.lease() / OFTEN
    }

    async fn expire_wanted(&self) {
        let mut wanted = std::mem::take(&mut *self.leases.in_conflict.lock());
        wanted.sort_unstable();
        wanted.dedup();
        for client in wanted {
            // The time-out is short, for the case without a quorum: renewals must be reported meanwhile. The
            // client in conflict sends its request again.
            let _ = tokio::time::timeout(self.looks_at_leases_every(), self.expire(client)).await;
        }
    }

    /// Time without contact after which another metaserver counts as silent.
    fn silence_max(&self) -> Duration {
        self.looks_at_leases_every().min(ANSWER_TIME_MAX)
    }

    /// Time from the last renewal of a client, as far as the leader knows it, until the client lapses: its
    /// lease, and in a group the time until a renewal is reported or its metaserver is found silent.
    fn lapse_time(&self) -> Duration {
        let alone = self.machine.replica.status().members.len() < 2;
        let unreported =
            if alone { Duration::ZERO } else { 2 * self.looks_at_leases_every() + self.silence_max() };
        self.cluster.lease() + unreported
    }

    /// Begins client leases anew when another metaserver fell silent or started.
    pub(crate) fn renewals_were_lost(&self) {
        self.leases.begin_anew(self.machine.clock.monotonic(), self.lapse_time());
    }

    /// Returns true if the leader has its quorum, without which no renewal arrives. All client leases begin
    /// anew when the leader has its quorum again, and when another metaserver falls silent.
    async fn may_judge(&self, judged: &mut Judged, silent: &mut Silent) -> bool {
        let every = self.looks_at_leases_every();
        if !matches!(tokio::time::timeout(every, self.machine.read_barrier()).await, Ok(Ok(()))) {
            return false;
        }
        let status = self.machine.replica.status();
        if silent.grows(&status.last_contact, self.silence_max()) {
            self.renewals_were_lost();
        }
        if !judged.goes_on(status.term, Instant::now(), 2 * every) {
            self.leases.renew_all(self.machine.clock.monotonic());
        }
        self.machine.replica.leads()
    }

    async fn look_at_leases(&self) -> Result<(), FileError> {
        let clients = read::clients(&*self.machine.view()?)?;
        for client in self.leases.run_out(&clients, self.machine.clock.monotonic(), self.lapse_time()) {
            self.lapse(client).await?;
        }
        for client in overdue(&self.lapsed()?, self.machine.now().seconds) {
            self.expire(client).await?;
        }
        Ok(())
    }

    async fn lapse(&self, client: ClientId) -> Result<(), FileError> {
        // Marked first: a request that comes from now on renews the lease in the state machine.
        if !self.leases.lapse(client, self.machine.clock.monotonic(), self.lapse_time()) {
            return Ok(());
        }
        let lapse = self.propose(None, Command::LapseLease { client });
        let lapsed = tokio::time::timeout(self.looks_at_leases_every(), lapse).await;
        if let Err(status) = lapsed.map_or(Err(FileError::Delay), |reply| reply) {
            // If the command is applied after all, its event arrives like that of another metaserver's
            // command.
            self.leases.set_lapsed(client, false);
            return Err(status);
        }
        let kept = read::client(&*self.machine.view()?, client)?.is_some();
        tracing::info!(client = client.0, kept, "lease ran out");
        if !kept {
            self.forget_client(client);
            self.deferred_ready.notify_one();
        } else if !self.leases.is_lapsed(client) {
            // A request came in between, and its renewal was applied before the lapse.
            self.propose(None, Command::RenewLease { client }).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use namespace::{Principal, Time};

    use super::*;

    #[test]
    fn a_client_never_heard_of_gets_one_full_lease() {
        let (leases, s) = (Leases::default(), Duration::from_secs);
        let clients = [ClientId(1), ClientId(2)];
        assert_eq!(leases.run_out(&clients, s(100), s(30)), []);
        assert!(!leases.note(ClientId(1), s(120)));
        assert_eq!(leases.run_out(&clients, s(130), s(30)), []);
        assert_eq!(leases.run_out(&clients, s(131), s(30)), [ClientId(2)]);
        assert_eq!(leases.run_out(&clients[..1], s(151), s(30)), [ClientId(1)]);
        leases.set_lapsed(ClientId(1), true);
        assert_eq!(leases.run_out(&clients[..1], s(200), s(30)), [], "once");
        assert!(leases.note(ClientId(1), s(201)), "it is back");
    }

    #[test]
    fn who_is_heard_of_while_others_lapse_does_not() {
        let (leases, s) = (Leases::default(), Duration::from_secs);
        let clients = [ClientId(1), ClientId(2)];
        assert_eq!(leases.run_out(&clients, s(100), s(30)), []);
        assert_eq!(leases.run_out(&clients, s(131), s(30)), clients);
        assert!(leases.lapse(ClientId(1), s(131), s(30)));
        assert!(!leases.lapse(ClientId(1), s(131), s(30)), "once");
        assert!(!leases.note(ClientId(2), s(132)));
        assert!(!leases.lapse(ClientId(2), s(133), s(30)));
    }

    #[test]
    fn a_metaserver_that_dies_again_and_again_keeps_no_dead_client() {
        let (leases, s) = (Leases::default(), Duration::from_secs);
        let (dead, alive) = (ClientId(1), ClientId(2));
        leases.note(dead, s(100));
        let lapsed = |now| {
            leases.begin_anew(now, s(36));
            leases.note(alive, now);
            leases.run_out(&[dead, alive], now, s(36))
        };
        for now in (105..=171).step_by(5) {
            assert_eq!(lapsed(s(now)), [], "at {now} s, begun at 135 s the last time");
        }
        assert_eq!(lapsed(s(172)), [dead]);
    }

    #[test]
    fn leases_are_judged_by_who_could_hear_clients_all_the_time() {
        let (mut judged, begin, s) = (Judged::default(), Instant::now(), Duration::from_secs);
        let mut goes_on = |term, at| judged.goes_on(term, begin + s(at), s(8));
        assert!(!goes_on(3, 100), "it has just begun to lead");
        assert!(goes_on(3, 104) && goes_on(3, 112));
        assert!(!goes_on(3, 121), "it could agree with nobody, or hung");
        assert!(goes_on(3, 125));
        assert!(!goes_on(4, 126), "somebody else may have led in between");
    }

    #[test]
    fn a_metaserver_falls_silent_once() {
        let (mut silent, ms) = (Silent::default(), Duration::from_millis);
        let mut grows = |contacts: &[(NodeId, u64)]| {
            silent.grows(&contacts.iter().map(|(id, ago)| (*id, ms(*ago))).collect(), ms(1000))
        };
        assert!(!grows(&[(2, 100), (3, 200)]));
        assert!(grows(&[(2, 100), (3, 1200)]));
        assert!(!grows(&[(2, 100), (3, 2200)]), "known already");
        assert!(grows(&[(2, 1100), (3, 3200)]), "another one");
        assert!(!grows(&[(2, 100), (3, 4200)]));
        assert!(grows(&[(2, 1100), (3, 5200)]), "it had come back");
        assert!(!grows(&[(2, 2100)]), "a member was removed");
    }

    #[test]
    fn courtesy_ends_after_a_day_or_when_too_many_have_it() {
        let lapsed = |id, seconds| ClientRecord {
            id: ClientId(id),
            owner: vec![],
            verifier: [0; 8],
            principal: Principal::Nobody,
            confirmed: true,
            sequence: 1,
            created_session: None,
            reclaim_complete: true,
            lapsed: Some(Time { seconds, nanoseconds: 0 }),
            addresses: vec![],
        };
        let day = 24 * 60 * 60;
        assert_eq!(overdue(&[lapsed(1, 100), lapsed(2, 99)], day + 100), [ClientId(2)]);
        let many: Vec<_> = (0..LAPSED_MAX as u64 + 2).map(|id| lapsed(id, 1000 - id as i64)).collect();
        assert_eq!(overdue(&many, 1000), [ClientId(LAPSED_MAX as u64 + 1), ClientId(LAPSED_MAX as u64)]);
    }
}
