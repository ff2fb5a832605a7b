//! A replica is read: by a lease where it holds one, else by asking the leader.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout};

use super::{Replica, ReplicaError};
use crate::lease::{HeldLease, NOBODY};
use crate::service::ReadAt;
use crate::transport::{self, Request};

/// What the log has at a moment is applied after a disk's sync or two; or it was cut off again, by a new leader.
const APPLY_TIME_MAX: Duration = Duration::from_millis(200);

/// The lease that this member holds.
#[derive(Default)]
pub(super) struct Reader {
    held: Mutex<Option<HeldLease>>,
    /// Somebody asks for the next.
    renews: AtomicBool,
    /// This member is about to stop.
    retires: AtomicBool,
}

impl Reader {
    fn held(&self) -> Option<HeldLease> {
        *self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hold(&self, lease: HeldLease) {
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = Some(lease);
    }
}

impl Replica {
    /// Whether this member gives and takes leases of reads from now on.
    pub fn set_read_leases(&self, are_given: bool) {
        self.service.grants.set_given(are_given);
    }

    /// Returns when a view taken then has everything that was acknowledged, on any member, before this call.
    ///
    /// # Errors
    /// [`ReplicaError::Failed`].
    pub async fn barrier(&self) -> Result<(), ReplicaError> {
        if self.is_alone() {
            // A learner may have applied, and shown, what this one has yet to.
            return self.applied(self.service.grants.told()).await;
        }
        if let Some(next) = self.leased()
            && (self.has_applied(next)
                || timeout(APPLY_TIME_MAX, self.applied(next)).await.is_ok_and(|a| a.is_ok()))
        {
            return Ok(());
        }
        loop {
            match self.reads.index(self.read_index()).await {
                Ok(next) => return self.applied(next).await,
                Err(why) => {
                    self.check()?;
                    tracing::debug!(%why, "no read index");
                    self.next_leader().await;
                }
            }
        }
    }

    /// The index below which all must be applied for a read that begins now, if this member holds a lease.
    fn leased(&self) -> Option<u64> {
        let held = self.lease.held()?;
        let (leader, logged) = self.service.log.reach();
        let from = held.from(leader)?;
        if held.is_old() && !self.lease.renews.swap(true, Ordering::AcqRel) {
            let replica = self.clone();
            tokio::spawn(async move {
                if let Err(why) = replica.reads.index(replica.read_index()).await {
                    tracing::debug!(%why, "the lease of reads is not renewed");
                }
                replica.lease.renews.store(false, Ordering::Release);
            });
        }
        // A leader knows what is committed before anybody else does; another one knows no more than what may be.
        let leads = leader.is_some_and(|leader| leader.node_id == self.id);
        Some(from.max(if leads { self.service.grants.told() } else { logged }))
    }

    /// Asks the leader, who may be this member; keeps the lease that comes with the answer.
    pub(super) async fn read_index(&self) -> Result<u64, String> {
        let asked = Instant::now();
        let by = if self.lease.retires.load(Ordering::Acquire) { NOBODY } else { self.id };
        let answer = match self.service.read(by).await? {
            ReadAt::Elsewhere => {
                let leader = self.leader().ok_or("nobody leads")?;
                let answer =
                    self.call_leader(&leader, &Request::Read(by)).await.map_err(|e| e.to_string())?;
                transport::decode(&answer)?
            }
            here @ ReadAt::Next { .. } => here,
        };
        let ReadAt::Next { next, lease } = answer else { return Err("the leader changes".into()) };
        if let Some(lease) = lease.filter(|_| self.service.grants.are_taken()) {
            self.lease.hold(HeldLease::new(lease, asked));
        }
        Ok(next)
    }

    /// Takes no more leases, and returns when the one that this member holds has ended: changes would wait for that when
    /// it stops before.
    pub async fn retire(&self) {
        self.lease.retires.store(true, Ordering::Release);
        if let Some(held) = self.lease.held() {
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
