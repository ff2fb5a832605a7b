//! Clock check of the cluster's machines, while they run. The leader asks the other metaservers for their
//! clocks; data servers send theirs with each REGISTER. A clock that differs by more than
//! [`CLOCKS_DIFFER_MAX`] is a finding of `heorot status`.
//!
//! The reference is the clock of most machines, not the leader's clock: the leader's own clock may be the
//! wrong one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use namespace::NodeKey;
use parking_lot::Mutex;
use replica::NodeId;

use crate::cluster::Cluster;
use crate::join_server::CLOCKS_DIFFER_MAX;

/// Interval of the leader's questions. A wrong clock is reported within this time plus a heartbeat.
const ASK_EVERY: Duration = Duration::from_secs(5);
/// Validity of a reported clock: an older report says nothing about the clock now.
const VALID: Duration = Duration::from_secs(30);

/// Clocks reported by other machines; and the metaservers that reported to be out of service.
#[derive(Default)]
pub struct Clocks(Mutex<BTreeMap<NodeKey, Said>>, Mutex<BTreeSet<NodeId>>);

/// A clock's lead over this machine's clock, and the time of the report.
#[derive(Clone, Copy)]
struct Said {
    ahead_ms: i64,
    at: Duration,
}

impl Clocks {
    /// Notes that a machine's clock showed `theirs_ms` when this machine's clock showed `ours_ms`, both in
    /// milliseconds since 1970. The difference contains the delay of the message.
    pub fn note(&self, key: NodeKey, theirs_ms: u64, ours_ms: u64, at: Duration) {
        let ahead = i128::from(theirs_ms) - i128::from(ours_ms);
        let ahead_ms = ahead.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        self.0.lock().insert(key, Said { ahead_ms, at });
    }

    pub(crate) fn note_out_of_service(&self, members: BTreeSet<NodeId>) {
        *self.1.lock() = members;
    }

    pub(crate) fn out_of_service(&self) -> BTreeSet<NodeId> {
        self.1.lock().clone()
    }

    /// Each clock's lead over the cluster's time, this machine's (`own`) included, in milliseconds.
    pub(crate) fn ahead(&self, own: NodeKey, now: Duration) -> BTreeMap<NodeKey, i64> {
        let mut said = self.0.lock();
        said.retain(|_, said| now.saturating_sub(said.at) < VALID);
        let mut clocks: BTreeMap<NodeKey, i64> =
            said.iter().map(|(key, said)| (*key, said.ahead_ms)).collect();
        clocks.insert(own, 0);
        let right = reference(clocks.values().copied().collect());
        clocks.into_iter().map(|(key, ahead)| (key, ahead.saturating_sub(right))).collect()
    }
}

/// The reference time: this machine's (0) if at least half of all clocks agree with it, else the median.
fn reference(mut ahead: Vec<i64>) -> i64 {
    let agree = ahead.iter().filter(|ahead| !differs(**ahead)).count();
    if agree * 2 >= ahead.len() {
        return 0;
    }
    ahead.sort_unstable();
    ahead[ahead.len() / 2]
}

/// True if a clock with this lead over the cluster's time is wrong.
#[must_use]
pub fn differs(ahead_ms: i64) -> bool {
    u128::from(ahead_ms.unsigned_abs()) > CLOCKS_DIFFER_MAX.as_millis()
}

impl Cluster {
    /// Milliseconds since 1970 by this machine's clock.
    #[must_use]
    pub fn clock_ms(&self) -> u64 {
        let wall = self.group.clock.wall();
        u64::try_from(wall.seconds).unwrap_or(0) * 1000 + u64::from(wall.nanoseconds / 1_000_000)
    }

    /// Asks all other metaservers for their clocks, in a loop, while this one leads.
    pub async fn compare_clocks(self: Arc<Self>) {
        let mut often = tokio::time::interval(ASK_EVERY);
        often.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            often.tick().await;
            if self.group.replica.leads() {
                self.ask_for_clocks().await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use namespace::DataServerId;

    use super::*;

    const HOUR: i64 = 3_600_000;

    fn wrong(leads: &[i64]) -> Vec<usize> {
        let clocks = Clocks::default();
        let own = NodeKey::Metaserver(0);
        let ours = 1_900_000_000_000_u64;
        for (id, ahead) in (1..).zip(leads) {
            let key = NodeKey::DataServer(DataServerId(id));
            clocks.note(key, ours.saturating_add_signed(*ahead), ours, Duration::from_secs(9));
        }
        let ahead = clocks.ahead(own, Duration::from_secs(10));
        ahead.values().enumerate().filter(|(_, ahead)| differs(**ahead)).map(|(n, _)| n).collect()
    }

    #[test]
    fn the_clock_that_most_others_contradict_is_wrong() {
        assert_eq!(wrong(&[0, 3000, -4000]), [0; 0]);
        assert_eq!(wrong(&[0, HOUR, 10]), [2]);
        assert_eq!(wrong(&[HOUR]), [1], "of two, the leader is believed");
        assert_eq!(wrong(&[HOUR, HOUR + 5, HOUR - 20]), [0], "the leader's own");
        assert_eq!(wrong(&[i64::MAX, i64::MIN]), [1, 2]);
    }

    #[test]
    fn an_old_word_says_nothing() {
        let (clocks, s) = (Clocks::default(), Duration::from_secs);
        clocks.note(NodeKey::Metaserver(2), 0, HOUR as u64, s(10));
        assert_eq!(clocks.ahead(NodeKey::Metaserver(1), s(20)).len(), 2);
        assert_eq!(clocks.ahead(NodeKey::Metaserver(1), s(41)).len(), 1);
    }
}
