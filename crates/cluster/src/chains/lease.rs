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
//! The leader proves by a read barrier that it leads before it gives a lease. A new leader waits for as long as the
//! leases may last that an earlier one gave.

use std::collections::BTreeMap;
use std::time::Duration;

use namespace::DataServerId;
use parking_lot::Mutex;

/// Length of a lease: with the change of the chain, within the 5 s that a write may wait for a lost member.
pub const LEASE: Duration = Duration::from_secs(2);
/// Interval of heartbeats while there are chains: a lease survives the loss of two.
pub const HEARTBEAT_OF_MEMBERS: Duration = Duration::from_millis(500);
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
}

impl Leases {
    /// Notes that this metaserver leads in `term`; none: it does not lead.
    pub(crate) fn lead(&self, term: Option<u64>, now: Duration) {
        let mut granted = self.0.lock();
        if granted.term.map(|(term, _)| term) != term {
            *granted = Granted { term: term.map(|term| (term, now)), granted: BTreeMap::new() };
        }
    }

    /// Notes a lease, given now by the leader.
    pub(crate) fn grant(&self, server: DataServerId, now: Duration) {
        self.0.lock().granted.insert(server, now);
    }

    /// True if the data server has a lease of this term.
    pub(crate) fn is_held(&self, server: DataServerId, now: Duration) -> bool {
        self.0.lock().granted.get(&server).is_some_and(|at| now.saturating_sub(*at) < LEASE)
    }

    /// True if the data server has no lease any more, whichever leader gave it.
    pub(crate) fn is_over(&self, server: DataServerId, now: Duration) -> bool {
        let granted = self.0.lock();
        let Some((_, began)) = granted.term else { return false };
        let last = granted.granted.get(&server).copied().unwrap_or(began);
        now.saturating_sub(last) > LEASE + MARGIN
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
        assert!(!leases.is_over(server, ms(12_200)) && !leases.is_held(server, ms(10_000)));
        assert!(leases.is_over(server, ms(12_201)));
        leases.grant(server, ms(11_000));
        assert!(leases.is_held(server, ms(12_999)) && !leases.is_held(server, ms(13_000)));
        assert!(!leases.is_over(server, ms(13_200)) && leases.is_over(server, ms(13_201)));
        leases.lead(Some(3), ms(13_000));
        assert!(!leases.is_over(server, ms(13_200)), "the same term");
        leases.lead(None, ms(14_000));
        leases.lead(Some(5), ms(20_000));
        assert!(!leases.is_held(server, ms(20_000)) && !leases.is_over(server, ms(22_000)));
    }
}
