//! A leader whose disk is nearly full has another voter lead, whose disk is not: changes are refused only where nobody
//! has room. A follower without room takes no part until it has some again; a majority is enough without it.

use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::membership::leadership::heirs;
use crate::service::Service;
use crate::space::FreeSpace;
use crate::transport::{self, Channel, Request};
use crate::types::NodeId;

/// How often a leader looks at its disk: a disk is not filled up in so short a time from where this begins, which is twice
/// what is kept free.
const CHECK_EVERY: Duration = Duration::from_millis(200);
/// For the question whether another one has room.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(1);

impl Service {
    /// Whether this member has room to lead.
    pub(crate) fn has_capacity(&self) -> bool {
        !self.log.is_full() && self.space.free() == FreeSpace::Plenty
    }

    /// Whether what takes room cannot be ordered by this leader.
    pub(crate) fn is_short(&self) -> bool {
        self.log.is_full() || self.space.free() <= FreeSpace::Reserve
    }

    /// The first of those who could lead at once that has room.
    async fn heir_with_capacity(&self) -> Option<NodeId> {
        let metrics = self.metrics();
        for heir in heirs(&metrics) {
            let Some(member) = metrics.membership_config.get_node(&heir) else { continue };
            let body = transport::encode(&Request::HasCapacity);
            let answer = self.transport.call(member, Channel::Requests, body, ANSWER_TIME_MAX).await;
            if answer.is_ok_and(|answer| transport::decode(&answer) == Ok(true)) {
                tracing::warn!(to = %member.name, dir = %self.dir.display(), "little space is left for metadata here: another one leads");
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
                    .inspect_err(|why| tracing::info!(%why, "it still leads"))
                    .is_ok()
            }
            None => false,
        }
    }
}

/// Watches the disk of a member for as long as it is there.
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
