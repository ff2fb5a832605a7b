//! The group of metaservers with the state machine, as this member uses it: views, the read barrier,
//! commands.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use host::{Clock, Entropy};
use namespace::{Command, Proposal, Reply, RequestId, Stamp, Time};
use replica::Replica;
use store::View;

use crate::error::{ClusterError, replica_failed, store_failed};

/// Longest wait for a leader; an election takes a second.
const LEADERLESS_MAX: Duration = Duration::from_secs(20);

/// The state machine behind its replica.
pub struct Group {
    /// This member's replica.
    pub replica: Replica,
    /// The clock that commands get their time from.
    pub clock: Arc<dyn Clock>,
    /// Source of random bits for commands.
    pub entropy: Arc<dyn Entropy>,
    last_barrier: LastBarrier,
}

/// Milliseconds of the monotonic clock, plus 1, at the last read barrier; 0: there was none.
#[derive(Default)]
struct LastBarrier(AtomicU64);

impl LastBarrier {
    fn note(&self, at: Duration) {
        self.0.fetch_max(at.as_millis() as u64 + 1, Ordering::Relaxed);
    }

    fn get(&self) -> Option<Duration> {
        self.0.load(Ordering::Relaxed).checked_sub(1).map(Duration::from_millis)
    }
}

impl Group {
    /// The group of `replica`.
    #[must_use]
    pub fn new(replica: Replica, clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>) -> Self {
        Self { replica, clock, entropy, last_barrier: LastBarrier::default() }
    }

    /// Read barrier: returns when views have everything that any metaserver acknowledged before this call.
    ///
    /// # Errors
    /// [`ClusterError::NoLeader`] after 20 s without a leader.
    pub async fn read_barrier(&self) -> Result<(), ClusterError> {
        let began = self.clock.monotonic();
        let seen = tokio::time::timeout(LEADERLESS_MAX, self.replica.barrier()).await;
        seen.map_err(|_| ClusterError::NoLeader)?.map_err(replica_failed)?;
        self.last_barrier.note(began);
        Ok(())
    }

    /// Start of the last read barrier that has returned, by the monotonic clock; none: there was none.
    #[must_use]
    pub fn last_barrier(&self) -> Option<Duration> {
        self.last_barrier.get()
    }

    /// A view with everything that this metaserver has acknowledged, and with everything that any metaserver
    /// had acknowledged when [`Group::read_barrier`] was called.
    ///
    /// # Errors
    /// [`ClusterError::Store`].
    pub fn view(&self) -> Result<Box<dyn View + Send + Sync>, ClusterError> {
        self.replica.view().map_err(store_failed)
    }

    /// The time, as the state machine keeps it.
    #[must_use]
    pub fn now(&self) -> Time {
        let wall = self.clock.wall();
        Time { seconds: wall.seconds, nanoseconds: wall.nanoseconds }
    }

    /// Returns the reply to a command; the caller handles [`Reply::Delegated`].
    ///
    /// # Errors
    /// [`ClusterError::Refused`], or the failure of the replica to carry the command out.
    pub async fn propose(&self, request: Option<RequestId>, command: Command) -> Result<Reply, ClusterError> {
        let stamp = Stamp { time: self.now(), random: self.entropy.u64() };
        match self.replica.propose(Proposal::new(stamp, request, command)).await {
            Ok(Reply::Refused(error)) => Err(ClusterError::Refused(error)),
            Ok(reply) => Ok(reply),
            Err(error) => Err(replica_failed(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_barrier_is_the_one_that_began_last() {
        let (last, ms) = (LastBarrier::default(), Duration::from_millis);
        assert_eq!(last.get(), None, "there was none");
        last.note(ms(0));
        assert_eq!(last.get(), Some(ms(0)));
        last.note(ms(7000));
        last.note(ms(6000)); // took longer
        assert_eq!(last.get(), Some(ms(7000)));
    }
}
