//! Watch of client leases: each metaserver reports renewals to the leader, which lets silent clients lapse and
//! expires those whose courtesy is over.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use cluster::peers::ANSWER_TIME_MAX;
use namespace::{ClientId, ClientRecord, Command, read};
use replica::NodeId;
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

    /// Tells the leader that this metaserver has started: renewals that its process before had not reported are lost. It
    /// is done at once, and not with the first command of this process: until then dead clients' leases may run out.
    pub(crate) async fn tell_of_start(self: Arc<Self>) {
        while let Err(error) = self.machine.replica.begin_server_session(self.machine.now()).await {
            tracing::debug!(%error, "the group has not heard of this start yet");
            tokio::time::sleep(self.looks_at_leases_every()).await;
        }
    }

    /// Begins client leases anew, as of this time ago: another metaserver fell silent or started.
    pub(crate) fn renewals_were_lost(&self, ago: Duration) {
        self.leases.begin_anew(self.machine.clock.monotonic().saturating_sub(ago), self.lapse_time());
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
            self.renewals_were_lost(Duration::ZERO);
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
        // Read first: a session that the client makes from now on at another metaserver renews its lease.
        let judged = read::client(&*self.machine.view()?, client)?;
        // Marked first: a request that comes from now on renews the lease in the state machine.
        if !self.leases.lapse(client, self.machine.clock.monotonic(), self.lapse_time()) {
            return Ok(());
        }
        let sequence = judged.map(|client| client.sequence);
        let lapse = self.propose(None, Command::LapseLease { client, sequence });
        let lapsed = tokio::time::timeout(self.looks_at_leases_every(), lapse).await;
        if let Err(status) = lapsed.map_or(Err(FileError::Delay), |reply| reply) {
            // If the command is applied after all, its event arrives like that of another metaserver's
            // command.
            self.leases.set_lapsed(client, false);
            let has_new_session = status == FileError::State(namespace::Error::ClientBusy);
            return if has_new_session { Ok(()) } else { Err(status) };
        }
        let kept = read::client(&*self.machine.view()?, client)?.is_some();
        tracing::info!(client = client.0, kept, "lease ran out");
        if !kept {
            self.forget_client(client);
        } else if !self.leases.is_lapsed(client) {
            // A request came in between, and its renewal was applied before the lapse.
            self.propose(None, Command::RenewLease { client }).await?;
        }
        Ok(())
    }

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
}

#[cfg(test)]
mod tests {
    use namespace::{Principal, Time};

    use super::*;

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
