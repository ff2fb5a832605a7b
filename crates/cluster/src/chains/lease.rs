//! Leases of data servers for their members of chains.
//!
//! A member that is cut off could serve reads that are older than a write which the others have acknowledged
//! without it. So it serves only under a lease, which the leader gives with each answer to REGISTER, and the leader
//! takes it out of its chains only when that lease is over.
//!
//! ```text
//! data server   ├ REGISTER sent ──────── LEASE ────────┤ serves nothing
//! leader           ├ granted ─────────── LEASE ───────────┤ margin ┤ Leave
//! ```
//!
//! A data server whose process is dead serves nothing: its lease is over when its machine says so
//! (`dead_data_servers`).
//!
//! The leader proves by a read barrier that it leads before it gives a lease. A new leader waits for as long as the
//! leases may last that an earlier one gave.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use namespace::DataServerId;
use parking_lot::Mutex;

/// Length of a lease. Writes of a member that hangs or is cut off wait for its end, for the margin and for the change
/// of the chain: 2 s are the goal.
pub const LEASE: Duration = Duration::from_millis(1500);
/// Interval of heartbeats while there are chains: a lease survives the loss of two.
pub const HEARTBEAT_OF_MEMBERS: Duration = Duration::from_millis(350);
/// A data server without a lease for this long is checked: its process may be dead.
const OVERDUE_AFTER: Duration = Duration::from_millis(550);
/// Clocks of two machines differ by less than this in one lease.
const MARGIN: Duration = Duration::from_millis(200);

/// Leases that this metaserver gave while it led.
#[derive(Default)]
pub(crate) struct Leases(Mutex<Granted>);

#[derive(Default)]
struct Granted {
    /// Term in which this metaserver leads, and its beginning by the monotonic clock.
    term: Option<(u64, Duration)>,
    /// Time of the last lease of each data server in this term.
    granted: BTreeMap<DataServerId, Duration>,
    /// Data servers whose processes died after the last lease of each.
    dead: BTreeSet<DataServerId>,
    /// Data servers that get no lease now: their members are being taken out of chains.
    barred: BTreeSet<DataServerId>,
}

impl Granted {
    /// Time of the last lease that a data server may have: in this term, or the last that a leader before gave. None:
    /// this metaserver does not lead.
    fn last(&self, server: DataServerId) -> Option<Duration> {
        let (_, began) = self.term?;
        Some(self.granted.get(&server).copied().unwrap_or(began))
    }

    fn is_over(&self, server: DataServerId, now: Duration) -> bool {
        let is_past = |last| now.saturating_sub(last) > LEASE + MARGIN;
        self.last(server).is_some_and(|last| is_past(last) || self.dead.contains(&server))
    }
}

impl Leases {
    /// Notes that this metaserver leads in `term`; none: it does not lead.
    pub(crate) fn lead(&self, term: Option<u64>, now: Duration) {
        let mut granted = self.0.lock();
        if granted.term.map(|(term, _)| term) != term {
            *granted = Granted { term: term.map(|term| (term, now)), ..Granted::default() };
        }
    }

    /// Notes a lease, given now by the leader. False: it cannot be given now.
    pub(crate) fn grant(&self, server: DataServerId, now: Duration) -> bool {
        let mut granted = self.0.lock();
        if granted.barred.contains(&server) {
            return false;
        }
        granted.granted.insert(server, now);
        granted.dead.remove(&server);
        true
    }

    /// Those of the data servers whose leases are over. They get no other ones until [`Leases::unbar`]: one that is back
    /// meanwhile would serve by the chains that it is being taken out of.
    pub(crate) fn bar(
        &self,
        servers: impl Iterator<Item = DataServerId>,
        now: Duration,
    ) -> BTreeSet<DataServerId> {
        let mut granted = self.0.lock();
        let over: BTreeSet<DataServerId> = servers.filter(|server| granted.is_over(*server, now)).collect();
        granted.barred.clone_from(&over);
        over
    }

    /// The chains have been changed: all data servers get leases again.
    pub(crate) fn unbar(&self) {
        self.0.lock().barred.clear();
    }

    /// True if the data server has a lease of this term.
    pub(crate) fn is_held(&self, server: DataServerId, now: Duration) -> bool {
        let granted = self.0.lock();
        let is_valid = |at: &Duration| now.saturating_sub(*at) < LEASE;
        granted.granted.get(&server).is_some_and(is_valid) && !granted.dead.contains(&server)
    }

    /// True if the data server has no lease any more, whichever leader gave it.
    pub(crate) fn is_over(&self, server: DataServerId, now: Duration) -> bool {
        self.0.lock().is_over(server, now)
    }

    /// True if the data server may have a lease, and has not asked for the next one in time.
    pub(crate) fn is_overdue(&self, server: DataServerId, now: Duration) -> bool {
        let last = self.last(server);
        !self.is_over(server, now) && last.is_some_and(|last| now.saturating_sub(last) > OVERDUE_AFTER)
    }

    /// Time of the last lease that the data server may have; none: this metaserver does not lead.
    pub(crate) fn last(&self, server: DataServerId) -> Option<Duration> {
        self.0.lock().last(server)
    }

    /// Time of the last lease of each data server that has got one in this term.
    pub(crate) fn all(&self) -> BTreeMap<DataServerId, Duration> {
        self.0.lock().granted.clone()
    }

    /// Time of the last lease that a leader before may have given; none: this metaserver does not lead.
    pub(crate) fn first(&self) -> Option<Duration> {
        self.0.lock().term.map(|(_, began)| began)
    }

    /// Notes that the process is dead which had the lease of `last`. Returns true if that lease was not over yet. A
    /// later lease is of another process, and counts.
    pub(crate) fn end(&self, server: DataServerId, last: Option<Duration>, now: Duration) -> bool {
        let mut granted = self.0.lock();
        if last.is_none() || granted.last(server) != last || granted.is_over(server, now) {
            return false;
        }
        granted.dead.insert(server)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_leader_waits_for_the_leases_of_the_one_before() {
        let (leases, ms, server) = (Leases::default(), Duration::from_millis, DataServerId(1));
        assert!(!leases.is_over(server, ms(100_000)), "it does not lead");
        leases.lead(Some(3), ms(10_000));
        assert!(!leases.is_over(server, ms(11_700)) && !leases.is_held(server, ms(10_000)));
        assert!(leases.is_over(server, ms(11_701)));
        leases.grant(server, ms(11_000));
        assert!(leases.is_held(server, ms(12_499)) && !leases.is_held(server, ms(12_500)));
        assert!(!leases.is_over(server, ms(12_700)) && leases.is_over(server, ms(12_701)));
        leases.lead(Some(3), ms(12_600));
        assert!(!leases.is_over(server, ms(12_700)), "the same term");
        leases.lead(None, ms(14_000));
        leases.lead(Some(5), ms(20_000));
        assert!(!leases.is_held(server, ms(20_000)) && !leases.is_over(server, ms(21_700)));
    }

    #[test]
    fn a_lease_ends_with_its_process_and_not_with_the_one_before() {
        let (leases, ms, server) = (Leases::default(), Duration::from_millis, DataServerId(1));
        assert!(!leases.end(server, leases.last(server), ms(9_000)), "it does not lead");
        leases.lead(Some(3), ms(10_000));
        assert!(!leases.is_overdue(server, ms(10_550)) && leases.is_overdue(server, ms(10_551)));
        leases.grant(server, ms(10_600));
        assert!(!leases.is_overdue(server, ms(11_150)) && leases.is_overdue(server, ms(11_151)));
        let seen = leases.last(server);
        leases.grant(server, ms(11_200)); // to the process that started meanwhile
        assert!(!leases.end(server, seen, ms(11_200)) && leases.is_held(server, ms(11_200)));
        let end = |now| leases.end(server, leases.last(server), ms(now));
        assert!(end(11_201) && !end(11_201), "once");
        assert!(leases.is_over(server, ms(11_201)) && !leases.is_held(server, ms(11_201)));
        assert!(!leases.is_overdue(server, ms(11_900)), "it is known");
        leases.grant(server, ms(12_000));
        assert!(leases.is_held(server, ms(12_001)) && !leases.is_over(server, ms(12_001)));
        // The lease of a process that a leader before heard.
        leases.lead(Some(4), ms(13_000));
        assert!(end(13_001) && leases.is_over(server, ms(13_001)));
        leases.lead(Some(5), ms(14_000));
        assert!(!leases.is_over(server, ms(14_001)), "it may have a lease of the leader between");
        assert!(!end(15_701) && leases.is_over(server, ms(15_701)), "it was over");
    }

    #[test]
    fn a_data_server_that_is_taken_out_gets_its_next_lease_afterwards() {
        let (leases, ms) = (Leases::default(), Duration::from_millis);
        let (gone, lives) = (DataServerId(1), DataServerId(2));
        leases.lead(Some(3), ms(10_000));
        assert!(leases.grant(lives, ms(11_000)));
        assert_eq!(leases.bar([gone, lives].into_iter(), ms(11_701)), BTreeSet::from([gone]));
        assert!(!leases.grant(gone, ms(11_702)) && leases.grant(lives, ms(11_702)));
        assert!(leases.is_over(gone, ms(11_703)));
        leases.unbar();
        assert!(leases.grant(gone, ms(11_704)) && leases.is_held(gone, ms(11_704)));
    }
}
