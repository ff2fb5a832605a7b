//! Reads of a replica: by a read lease if it holds one, else by asking the leader.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until, timeout};

use super::proposing::Patience;
use super::{Replica, ReplicaError};
use crate::read::read_lease::{HeldReadLease, NO_MEMBER};
use crate::service::ReadIndex;
use crate::transport::{self, Request};
use crate::types::LeaderId;

/// Time-out of a read by lease: entries of the log are applied after one or two syncs, or truncated by a new
/// leader.
const APPLY_TIME_MAX: Duration = Duration::from_millis(200);

/// First time-out of a question to the leader, which is then repeated: all reads that begin meanwhile wait for it.
pub(super) const ASK_TIME: Duration = Duration::from_secs(1);

/// Read lease that this member holds.
#[derive(Default)]
pub(super) struct ReadLeaseHolder {
    held: Mutex<Option<HeldReadLease>>,
    /// True while a renewal is in progress.
    renewing: AtomicBool,
    /// True once this member is about to stop.
    retiring: AtomicBool,
    /// Leadership of this member in which it has applied all that was acknowledged before.
    settled: Mutex<Option<LeaderId>>,
}

impl ReadLeaseHolder {
    fn held(&self) -> Option<HeldReadLease> {
        *self.held.lock()
    }

    fn hold(&self, lease: HeldReadLease) {
        *self.held.lock() = Some(lease);
    }
}

impl Replica {
    /// Enables or disables read leases.
    pub fn set_read_leases(&self, enabled: bool) {
        self.service.grants.set_enabled(enabled);
    }

    /// Read barrier: returns when a view has everything that any member acknowledged before this call.
    ///
    /// # Errors
    /// [`ReplicaError::Failed`].
    pub async fn barrier(&self) -> Result<(), ReplicaError> {
        if self.is_alone()
            && let Some(leadership) = self.own_leadership()
            && *self.read_lease.settled.lock() == Some(leadership)
        {
            // A learner may have applied, and shown, entries that this member has not applied yet.
            return self.applied(self.service.grants.told_next()).await;
        }
        if let Some(next) = self.index_by_lease()
            && (self.has_applied(next)
                || timeout(APPLY_TIME_MAX, self.applied(next)).await.is_ok_and(|a| a.is_ok()))
        {
            return Ok(());
        }
        let mut patience = Patience::new(ASK_TIME);
        loop {
            let limit = patience.begins();
            let leadership = self.own_leadership();
            match self.read_rounds.index(self.read_index(limit)).await {
                Ok(next) => {
                    self.applied(next).await?;
                    if leadership.is_some() && leadership == self.own_leadership() {
                        *self.read_lease.settled.lock() = leadership;
                    }
                    return Ok(());
                }
                Err(why) => {
                    self.check()?;
                    tracing::debug!(%why, "cannot get a read index from the leader, trying again");
                    patience.failed();
                    self.next_leader().await;
                }
            }
        }
    }

    /// Leadership of this member, if it leads. The only voter may not: its log has all that was acknowledged, but after a
    /// restart it has not applied that, and one that was a voter before may lead.
    fn own_leadership(&self) -> Option<LeaderId> {
        let (leader, _) = self.service.log.reach();
        leader.filter(|leader| leader.node_id == self.id && self.leads())
    }

    /// True if this member leads, and so orders the commands of all members, and has applied all that was ordered before.
    #[must_use]
    pub fn orders(&self) -> bool {
        self.own_leadership().is_some_and(|own| *self.read_lease.settled.lock() == Some(own))
    }

    /// Index below which all entries must be applied for a read that begins now, if this member holds a valid
    /// read lease.
    fn index_by_lease(&self) -> Option<u64> {
        let held = self.read_lease.held()?;
        let (leader, logged) = self.service.log.reach();
        let from = held.valid_from(leader)?;
        if held.is_old() && !self.read_lease.renewing.swap(true, Ordering::AcqRel) {
            let replica = self.clone();
            tokio::spawn(async move {
                if let Err(why) = replica.read_rounds.index(replica.read_index(ASK_TIME)).await {
                    tracing::debug!(%why, "cannot renew the read lease");
                }
                replica.read_lease.renewing.store(false, Ordering::Release);
            });
        }
        // A leader knows the commit index first; another member takes the end of its log, which may be
        // committed.
        let leads = leader.is_some_and(|leader| leader.node_id == self.id);
        Some(from.max(if leads { self.service.grants.told_next() } else { logged }))
    }

    /// Asks the leader, which may be this member, for the read index; keeps the read lease of the answer.
    pub(super) async fn read_index(&self, limit: Duration) -> Result<u64, String> {
        let asked = Instant::now();
        let by = if self.read_lease.retiring.load(Ordering::Acquire) { NO_MEMBER } else { self.id };
        let answer = match self.service.read_index(by).await? {
            ReadIndex::NotLeader => {
                let leader = self.leader().ok_or("no member leads")?;
                let answer = self.call_leader(&leader, &Request::Read(by), limit).await;
                transport::decode(&answer.map_err(|e| e.to_string())?)?
            }
            here @ ReadIndex::Next { .. } => here,
        };
        let ReadIndex::Next { next, lease } = answer else { return Err("the leader changes".into()) };
        if let Some(lease) = lease.filter(|_| self.service.grants.are_enabled()) {
            self.read_lease.hold(HeldReadLease::new(lease, asked));
        }
        Ok(next)
    }

    /// Takes no more read leases, and waits until the current one has ended: if this member stopped before,
    /// changes would wait.
    pub async fn retire_read_lease(&self) {
        self.read_lease.retiring.store(true, Ordering::Release);
        if let Some(held) = self.read_lease.held() {
            sleep_until(held.until_at_leader()).await;
        }
    }

    fn has_applied(&self, next: u64) -> bool {
        *self.progress.get() >= next
    }

    /// Waits until the entries below `next` are applied here.
    pub(super) async fn applied(&self, next: u64) -> Result<(), ReplicaError> {
        let mut progress = self.progress.clone();
        let applied = progress.wait_for(|applied| *applied >= next).await.map(drop);
        applied.map_err(|_| self.failed_by("stopped".into()))
    }
}
