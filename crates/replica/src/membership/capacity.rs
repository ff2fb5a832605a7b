//! Capacity: a leader whose disk is nearly full hands over to a voter with free space, so commands are
//! refused only if no member has space. A follower without space waits until it has some; a majority is
//! enough without it.

use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::membership::leadership::heirs;
use crate::service::Service;
use crate::space::FreeSpace;
use crate::transport::{self, Channel, Request};
use crate::types::NodeId;

/// Interval of the leader's disk checks. The hand-over begins at twice the reserve: no disk fills that much
/// between two checks.
const CHECK_EVERY: Duration = Duration::from_millis(200);
/// Time-out of the question whether another member has capacity.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(1);

impl Service {
    /// True if this member has the space to lead.
    pub(crate) fn has_capacity(&self) -> bool {
        !self.log.is_full() && self.space.free() == FreeSpace::Plenty
    }

    /// True if this leader cannot order commands that need space.
    pub(crate) fn is_short(&self) -> bool {
        self.log.is_full() || self.space.free() <= FreeSpace::Reserve
    }

    /// The first of the heirs that has capacity.
    async fn heir_with_capacity(&self) -> Option<NodeId> {
        let metrics = self.metrics();
        for heir in heirs(&metrics) {
            let Some(member) = metrics.membership_config.get_node(&heir) else { continue };
            let body = transport::encode(&Request::HasCapacity);
            let answer = self.transport.call(member, Channel::Requests, body, ANSWER_TIME_MAX).await;
            if answer.is_ok_and(|answer| transport::decode(&answer) == Ok(true)) {
                tracing::warn!(to = %member.name, dir = %self.dir.display(), "little space for metadata, handing leadership over: free space on this disk");
                return Some(heir);
            }
        }
        None
    }

    async fn hand_over_to_heir_with_capacity(&self) -> bool {
        match self.heir_with_capacity().await {
            Some(heir) => {
                let guard = self.lock_reconfiguration().await;
                self.transfer(&guard, heir)
                    .await
                    .inspect_err(
                        |why| tracing::info!(%why, "leadership transfer failed, this metaserver still leads"),
                    )
                    .is_ok()
            }
            None => false,
        }
    }
}

/// Checks the disk of this member until it stops.
pub(crate) async fn watch_capacity(service: Weak<Service>) {
    let mut checks = tokio::time::interval(CHECK_EVERY);
    checks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        checks.tick().await;
        let Some(service) = service.upgrade() else { return };
        let no_member_has_capacity = service.raft.is_leader()
            && !service.has_capacity()
            && !service.hand_over_to_heir_with_capacity().await;
        service.no_member_has_capacity.store(no_member_has_capacity, Ordering::Relaxed);
    }
}
