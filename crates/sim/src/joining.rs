//! Join of a machine with an empty disk, as a new member: by `heorot join`, or as the rebuild of a metaserver
//! that lost its log.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use replica::{MemberRole, NodeId, Replica};

use crate::member::replica_member;
use crate::net::Address;
use crate::rng::Rng;
use crate::shared::Shared;

const REMOVE_TIME_MAX: Duration = Duration::from_secs(5);
const JOIN_TIME_MAX: Duration = Duration::from_secs(10);
const AGAIN: Duration = Duration::from_millis(300);

/// Join of a machine, before it may serve.
pub struct Joining {
    /// Address of the machine.
    pub address: Address,
    /// Id of the new member.
    pub id: NodeId,
    /// Id of the lost member that this one replaces, until it is removed.
    pub lost: Arc<Mutex<Option<NodeId>>>,
    /// Number of machines.
    pub machines: u64,
    /// Shared state, for the history.
    pub shared: Arc<Shared>,
    /// Random choice of the first member to ask.
    pub rng: Rng,
    /// Set once the member has a vote.
    pub done: Arc<AtomicBool>,
}

impl Joining {
    /// Asks one machine after the other, until this member is a voter.
    pub async fn run(mut self, replica: Replica) {
        // In turn: a removed member that does not know it yet answers only that no member leads.
        let mut other = self.rng.within(1..=self.machines);
        while !self.belongs(&replica) {
            other = other % self.machines + 1;
            if other != self.address {
                self.ask(&replica, &other.to_string()).await;
            }
            tokio::time::sleep(AGAIN).await;
        }
        self.done.store(true, Ordering::Relaxed);
    }

    fn belongs(&self, replica: &Replica) -> bool {
        replica.status().members.iter().any(|(id, _, votes)| *id == self.id && *votes)
    }

    async fn ask(&self, replica: &Replica, other: &str) {
        let lost = *self.lost.lock();
        if let Some(lost) = lost {
            let outcome = replica.remove_lost(other, lost, REMOVE_TIME_MAX).await;
            self.shared.note(|| format!("member {} asked {other} to remove {lost}: {outcome:?}", self.id));
            if outcome.is_err() {
                return;
            }
            *self.lost.lock() = None;
        }
        let outcome =
            replica.join(other, replica_member(self.address), MemberRole::Voter, JOIN_TIME_MAX).await;
        self.shared.note(|| format!("member {} asked {other} to be taken in: {outcome:?}", self.id));
    }
}
