//! A machine with an empty disk joins the group again, as a new member: as `heorot join` does, or as a metaserver does that
//! fills itself from the others because its log was lost.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use replica::{MemberRole, NodeId, Replica};

use crate::dice::Dice;
use crate::member::named;
use crate::net::Address;
use crate::shared::Shared;

const REMOVE_TIME_MAX: Duration = Duration::from_secs(5);
const JOIN_TIME_MAX: Duration = Duration::from_secs(10);
const AGAIN: Duration = Duration::from_millis(300);

/// What there is to do before it may serve.
pub struct Joining {
    /// The machine.
    pub address: Address,
    /// The new member.
    pub id: NodeId,
    /// The member that this one takes the place of, until the group goes on without that.
    pub lost: Arc<Mutex<Option<NodeId>>>,
    /// How many machines there are.
    pub machines: u64,
    /// For what it is told.
    pub shared: Arc<Shared>,
    /// Whom it asks first.
    pub dice: Dice,
    /// Set once it has a vote.
    pub done: Arc<AtomicBool>,
}

impl Joining {
    /// Asks one machine after the other, until it belongs.
    pub async fn run(mut self, replica: Replica) {
        // In turn: one that was removed and does not know it yet says for as long as it is asked that nobody leads.
        let mut other = self.dice.within(1..=self.machines);
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
        let lost = *self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lost) = lost {
            let outcome = replica.remove_lost(other, lost, REMOVE_TIME_MAX).await;
            self.shared.note(|| format!("member {} asked {other} to remove {lost}: {outcome:?}", self.id));
            if outcome.is_err() {
                return;
            }
            *self.lost.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        let outcome = replica.join(other, named(self.address), MemberRole::Voter, JOIN_TIME_MAX).await;
        self.shared.note(|| format!("member {} asked {other} to be taken in: {outcome:?}", self.id));
    }
}
