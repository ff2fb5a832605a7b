//! Read lease: a member that holds one reads without asking the leader.
//!
//! ```text
//! member ── ReadIndex ──▶ leader: notes the read lease, has a majority confirm its leadership
//!        ◀── 300 ms ──
//! member: a read notes the last index of its log, waits until that is applied, and reads
//! leader: commits a change only when every holder of a read lease has it in its log
//! ```
//!
//! So each acknowledged or visible change is already in the log of each holder: its reads wait for it, and
//! miss nothing. (Moraru, Andersen, Kaminsky: Paxos Quorum Leases, SoCC 2014, is the published relative.) A
//! member that does not read holds no lease, and no change waits for it. A member that takes entries slowly
//! gets no lease for a while, and asks the leader for each round of reads.
//!
//! The read lease depends on clocks that run at about the same rate, as NFS leases do, not on their time of
//! day. The holder counts from before its request, the leader from after it, and 10 % longer. A process that
//! was stopped or hung finds its lease expired when it goes on. A virtual machine whose clock stops while it
//! is paused or moved does not: for those there is `read_leases = false`, and each round of reads asks the
//! leader.
//!
//! **A new leader** does not know the leases that the old one granted. A lease of the old leader ends when
//! its holder hears of the new one, and at the latest one lease time after the election, since a majority
//! confirmed each grant before. Until then nothing is committed without the other members.
//!
//! **The membership** must stay while leases last: they are granted to members of a committed configuration,
//! and not while a member is being removed or demoted ([`ReadLeaseGrants::pause`]).

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::types::{LeaderId, NodeId, Types};
use host::watch;

/// Duration of a read lease for its holder. Changes wait up to this long when a holder dies.
const READ_LEASE: Duration = Duration::from_millis(300);
/// Duration of a read lease for the leader.
const READ_LEASE_AT_LEADER: Duration = Duration::from_millis(330);
/// Longest expected way of a request to the leader; beyond it a change waits that much longer.
const REQUEST_TIME_MAX: Duration = Duration::from_millis(20);
/// Id for requests without a read lease.
pub(crate) const NO_MEMBER: NodeId = 0;
/// A holder that delayed a change for this long is slow.
const SLOW_HOLDER_AFTER: Duration = Duration::from_millis(50);
/// Time without a new read lease for a slow holder.
const SLOW_HOLDER_FOR: Duration = Duration::from_secs(5);

type Metrics = watch::Receiver<openraft::RaftMetrics<Types>>;

/// Read lease as the leader grants it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReadLease {
    /// Leader and its term.
    pub leader: LeaderId,
    /// Index after the last entry that was, or may have been, committed before changes waited for the holder.
    pub from: u64,
}

/// Read lease as its holder keeps it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeldReadLease {
    lease: ReadLease,
    until: Instant,
}

impl HeldReadLease {
    /// A read lease that was requested at `asked`.
    pub(crate) fn new(lease: ReadLease, asked: Instant) -> Self {
        Self { lease, until: asked + READ_LEASE }
    }

    /// First index that a read must wait for, if the lease is valid and `leader` is the last leader that this
    /// member knows.
    pub(crate) fn valid_from(&self, leader: Option<LeaderId>) -> Option<u64> {
        (leader == Some(self.lease.leader) && Instant::now() < self.until).then_some(self.lease.from)
    }

    /// End of the lease for the leader, which counts from the arrival of the request.
    pub(crate) fn until_at_leader(&self) -> Instant {
        self.until + (READ_LEASE_AT_LEADER - READ_LEASE) + REQUEST_TIME_MAX
    }

    /// True if it is time to renew the lease.
    pub(crate) fn is_old(&self) -> bool {
        self.until < Instant::now() + READ_LEASE / 2
    }
}

/// State of another member, kept by the leader.
struct Holder {
    /// End of its last read lease.
    until: Instant,
    /// End of the time without a new read lease.
    refused_until: Instant,
    /// Last leader that it has answered.
    answered: Option<LeaderId>,
    /// Index after its last entry, as far as it told that leader.
    matched: u64,
    /// True if it takes entries. A member that was away requests leases earlier, and changes would wait for
    /// it.
    reached: bool,
}

#[derive(Default)]
struct State {
    /// Last leadership of this member, and its start.
    led: Option<(LeaderId, Instant)>,
    holders: BTreeMap<NodeId, Holder>,
    /// Number of membership changes in progress.
    paused: u32,
}

/// Read leases that this member grants as the leader.
pub(crate) struct ReadLeaseGrants {
    id: NodeId,
    /// True if read leases are granted and used at all.
    are_granted: AtomicBool,
    state: Mutex<State>,
    /// Signals that a member has more entries, or answered for the first time.
    moved: Notify,
    /// Index after the last entry that any other member was told is committed.
    told: AtomicU64,
    /// Metrics of openraft, with the membership.
    metrics: OnceLock<Metrics>,
}

impl ReadLeaseGrants {
    pub(crate) fn new(id: NodeId, are_granted: bool) -> Self {
        let (state, moved) = (Mutex::default(), Notify::new());
        let are_granted = AtomicBool::new(are_granted);
        Self { id, are_granted, state, moved, told: AtomicU64::new(0), metrics: OnceLock::new() }
    }

    /// True if this member uses read leases.
    pub(crate) fn are_enabled(&self) -> bool {
        self.are_granted.load(Ordering::Acquire)
    }

    /// Enables or disables read leases. Leases that were granted stay valid until they end.
    pub(crate) fn set_enabled(&self, are_granted: bool) {
        self.are_granted.store(are_granted, Ordering::Release);
    }

    /// Sets the metrics, from which the membership is known; leases are granted from then on.
    pub(crate) fn follow_metrics(&self, metrics: Metrics) {
        let _ = self.metrics.set(metrics);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Index after the last entry that any other member was told is committed: it may have shown it to
    /// clients.
    pub(crate) fn told_next(&self) -> u64 {
        self.told.load(Ordering::Acquire)
    }

    /// Notes that another member will be told that the entries before `next` are committed.
    pub(crate) fn note_told_next(&self, next: u64) {
        self.told.fetch_max(next, Ordering::AcqRel);
    }

    /// Grants a read lease to `to`; false if it gets none. The leader's own reads need no note.
    pub(crate) fn grant(&self, to: NodeId) -> bool {
        if !self.are_enabled() || !self.can_grant(to) {
            return false;
        }
        let mut state = self.state();
        if state.paused > 0 {
            return false;
        }
        if to == self.id {
            return true;
        }
        let now = Instant::now();
        let holder = state.holder(to, now);
        if now < holder.refused_until || !holder.reached {
            return false;
        }
        holder.until = now + READ_LEASE_AT_LEADER;
        true
    }

    /// True if `to` is a member of a committed configuration with more than one voter.
    fn can_grant(&self, to: NodeId) -> bool {
        let Some(metrics) = self.metrics.get() else { return false };
        let metrics = metrics.get();
        let members = &metrics.membership_config;
        let is_committed =
            members.log_id().is_none_or(|at| metrics.last_applied.is_some_and(|a| a.index >= at.index));
        let configurations = members.membership().get_joint_config();
        let several = configurations.len() == 1 && configurations.iter().all(|voters| voters.len() > 1);
        is_committed && several && members.membership().get_node(&to).is_some()
    }

    /// Notes that this member sends entries as `leader`.
    pub(crate) fn note_leadership(&self, leader: LeaderId) {
        let mut state = self.state();
        // A stream of an earlier term changes nothing.
        if state.led.is_none_or(|(led, _)| led < leader) {
            state.led = Some((leader, Instant::now()));
        }
    }

    /// Notes that `by` has answered `leader`, this member, and has the entries before `next`.
    pub(crate) fn note_matched(&self, leader: LeaderId, by: NodeId, next: u64) {
        let mut state = self.state();
        let holder = state.holder(by, Instant::now());
        if holder.answered == Some(leader) && holder.matched >= next {
            return;
        }
        holder.matched = if holder.answered == Some(leader) { holder.matched.max(next) } else { next };
        holder.answered = Some(leader);
        drop(state);
        self.moved.notify_waiters();
    }

    /// Notes whether `id` answered the last entries.
    pub(crate) fn note_reached(&self, id: NodeId, reached: bool) {
        self.state().holder(id, Instant::now()).reached = reached;
    }

    /// Waits until every holder of a read lease, except `by`, has the entries before `next`: then `leader`,
    /// this member, may count `by` towards the majority.
    pub(crate) async fn wait_for_holders(&self, leader: LeaderId, by: NodeId, next: u64) {
        let began = Instant::now();
        loop {
            let moved = self.moved.notified();
            let mut moved = std::pin::pin!(moved);
            moved.as_mut().enable();
            let now = Instant::now();
            let Some(until) = self.wait_deadline(leader, by, next, began, now) else { return };
            tokio::select! {
                biased;
                () = moved => {}
                () = sleep_until(until) => {}
            }
        }
    }

    /// Deadline of the wait; None: every holder has the entries.
    fn wait_deadline(
        &self,
        leader: LeaderId,
        by: NodeId,
        next: u64,
        began: Instant,
        now: Instant,
    ) -> Option<Instant> {
        let mut state = self.state();
        let (led, since) = state.led?;
        if led != leader {
            return None; // an answer to an earlier leadership counts for nothing
        }
        let mut until = None;
        for (id, holder) in &mut state.holders {
            let lacks = holder.answered != Some(leader) || holder.matched < next;
            if *id != by && lacks && now < holder.until {
                until = until.max(Some(holder.until));
                if now >= began + SLOW_HOLDER_AFTER && now >= holder.refused_until {
                    tracing::debug!(
                        member = id,
                        "a member takes entries slowly, it gets no read leases for a while"
                    );
                    holder.refused_until = now + SLOW_HOLDER_FOR;
                }
            }
        }
        let settled = since + READ_LEASE_AT_LEADER;
        if now < settled
            && self.others().is_none_or(|all| all.iter().any(|id| *id != by && !state.answered(*id, leader)))
        {
            until = until.max(Some(settled));
        }
        // Checked again when the holder counts as slow.
        let slow = Some(began + SLOW_HOLDER_AFTER).filter(|slow| now < *slow);
        until.map(|until| slow.map_or(until, |slow| slow.min(until)))
    }

    /// Ids of the other members; None: not known yet.
    fn others(&self) -> Option<Vec<NodeId>> {
        let metrics = self.metrics.get()?.get();
        let all = metrics.membership_config.membership().nodes().map(|(id, _)| *id);
        Some(all.filter(|id| *id != self.id).collect())
    }

    /// Stops grants while the returned guard exists; returns when all granted leases have ended.
    pub(crate) async fn pause(&self) -> Paused<'_> {
        self.state().paused += 1;
        let paused = Paused(self);
        let last = self.state().holders.values().map(|holder| holder.until).max();
        // The leader's own lease, too, which is not noted.
        sleep_until(last.unwrap_or_else(Instant::now).max(Instant::now() + READ_LEASE_AT_LEADER)).await;
        paused
    }
}

impl State {
    fn holder(&mut self, id: NodeId, now: Instant) -> &mut Holder {
        let new = || Holder { until: now, refused_until: now, answered: None, matched: 0, reached: true };
        self.holders.entry(id).or_insert_with(new)
    }

    fn answered(&self, id: NodeId, leader: LeaderId) -> bool {
        self.holders.get(&id).is_some_and(|holder| holder.answered == Some(leader))
    }
}

/// Guard that stops grants.
pub(crate) struct Paused<'a>(&'a ReadLeaseGrants);

impl Drop for Paused<'_> {
    fn drop(&mut self) {
        self.0.state().paused -= 1;
    }
}

#[cfg(test)]
#[path = "read_lease/tests.rs"]
mod tests;
