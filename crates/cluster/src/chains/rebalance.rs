//! Requests of an operator to balance targets now, and the report of how even they are.
//!
//! ```text
//! any metaserver ─▶ BALANCE ─▶ leader: forget the looks that were in vain, look at once (`balance`)
//!                ◀─ pools: fullest and emptiest target, chains that move, state
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use namespace::{Chain, MemberState, PoolId, TargetId};
use parking_lot::Mutex;
use tokio::sync::Notify;
use wire::peer::balance;
pub use wire::peer::balance::State as BalanceState;

use super::balance::{Fill, are_alike, is_even, is_whole, of_pool, pools_of};
use crate::cluster::Cluster;
use crate::error::AdminError;

/// Interval between two looks at the targets.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Time without a count of bytes after one that led to no move, while targets stay as full as they are.
const PAUSE: Duration = Duration::from_secs(600);

/// Why targets stay as they are where no chain moves.
pub const WHY_IN_VAIN: &str = "no chain can move: the emptier targets are nine tenths full, or on the nodes of the other \
                               copies, or the chains have too much or too little data";

/// Balance of the targets of a pool, as its leader sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolBalance {
    /// Its name.
    pub pool: String,
    /// Used bytes of the fullest target, in thousandths of all.
    pub fullest: u32,
    /// The same of the emptiest one.
    pub emptiest: u32,
    /// The fullest target.
    pub fullest_target: TargetId,
    /// The emptiest one.
    pub emptiest_target: TargetId,
    /// Chains that move from one target to another.
    pub moving: u32,
    /// Chains that lack a copy, or have one in another pool.
    pub incomplete: u32,
    /// The state.
    pub state: BalanceState,
}

impl PoolBalance {
    pub(crate) fn to_wire(&self) -> balance::PoolBalance {
        balance::PoolBalance {
            pool: Bytes::from(self.pool.clone()),
            fullest: self.fullest,
            emptiest: self.emptiest,
            fullest_target: self.fullest_target.0,
            emptiest_target: self.emptiest_target.0,
            moving: self.moving,
            incomplete: self.incomplete,
            state: self.state,
        }
    }

    pub(crate) fn of_wire(pool: &balance::PoolBalance) -> Self {
        Self {
            pool: String::from_utf8_lossy(&pool.pool).into_owned(),
            fullest: pool.fullest,
            emptiest: pool.emptiest,
            fullest_target: TargetId(pool.fullest_target),
            emptiest_target: TargetId(pool.emptiest_target),
            moving: pool.moving,
            incomplete: pool.incomplete,
            state: pool.state,
        }
    }
}

/// A look that led to no move: the targets before it, and the time of its end.
#[derive(Debug, Clone)]
pub(super) struct InVain {
    pub(super) fills: Vec<Fill>,
    pub(super) at: Duration,
}

impl InVain {
    /// True if another look would find nothing either.
    fn holds(&self, fills: &[Fill], now: Duration) -> bool {
        are_alike(&self.fills, fills) && now.saturating_sub(self.at) < PAUSE
    }
}

/// Looks of the leader at the targets.
#[derive(Default)]
pub(crate) struct Looks {
    memory: Mutex<Memory>,
    /// Notified when the next look is to be at once.
    asked: Notify,
}

/// What the leader remembers of its looks. At most one entry for each pool.
#[derive(Default)]
struct Memory {
    /// Requests to look again.
    requests: u64,
    /// Last looks at pools that led to no move.
    in_vain: BTreeMap<PoolId, InVain>,
    /// Last look for places apart that found no room.
    no_room_apart: Option<InVain>,
}

impl Looks {
    /// Returns when it is time for the next look.
    pub(super) async fn next(&self) {
        let _ = tokio::time::timeout(LOOK_EVERY, self.asked.notified()).await;
    }

    /// Begins a look. Returns its number: notes of a look are void if another one was asked for meanwhile.
    pub(super) fn begin(&self) -> u64 {
        self.memory.lock().requests
    }

    /// Forgets what was found, and has the leader look at once.
    fn again(&self) {
        {
            let mut memory = self.memory.lock();
            *memory = Memory { requests: memory.requests + 1, ..Memory::default() };
        }
        self.asked.notify_one();
    }

    /// True if a look for places apart can find something.
    pub(super) fn is_apart_due(&self, fills: &[Fill], now: Duration) -> bool {
        self.memory.lock().no_room_apart.as_ref().is_none_or(|last| !last.holds(fills, now))
    }

    /// Notes whether the look with this number found no room for places apart.
    pub(super) fn note_apart(&self, look: u64, in_vain: Option<InVain>) {
        let mut memory = self.memory.lock();
        if memory.requests == look {
            memory.no_room_apart = in_vain;
        }
    }

    /// True if a look at the targets of a pool, with these shares, can find something.
    pub(super) fn is_due(&self, pool: PoolId, fills: &[Fill], now: Duration) -> bool {
        self.memory.lock().in_vain.get(&pool).is_none_or(|last| !last.holds(fills, now))
    }

    /// Notes the outcome of the look with this number at the pools that were `due`.
    pub(super) fn note(&self, look: u64, due: &BTreeSet<PoolId>, in_vain: BTreeMap<PoolId, InVain>) {
        let mut memory = self.memory.lock();
        if memory.requests == look {
            memory.in_vain.retain(|pool, _| !due.contains(pool));
            memory.in_vain.extend(in_vain);
        }
    }
}

impl Cluster {
    /// The balance of all pools with targets, from the leader. `look`: it looks for chains to move at once, also in
    /// pools where it found none lately.
    ///
    /// # Errors
    /// [`AdminError::Invalid`] if targets are not to be balanced, [`AdminError::Failed`] without a leader.
    pub async fn rebalance(&self, look: bool) -> Result<Vec<PoolBalance>, AdminError> {
        self.agree().await?;
        if !self.settings().rebalance {
            return Err(AdminError::Invalid(
                "data do not move to emptier targets, since the setting rebalance is false: heorot set rebalance true comes \
                 first"
                    .into(),
            ));
        }
        let here = self.balance_here(look);
        let pools = if here.is_some() { here } else { self.ask_leader_for_balance(look).await };
        pools.ok_or_else(|| {
            AdminError::Failed(
                "the leader of the metaservers did not answer, or is of an earlier version: heorot status shows it; try again"
                    .into(),
            )
        })
    }

    /// The same, if this metaserver leads.
    pub(crate) fn balance_here(&self, look: bool) -> Option<Vec<PoolBalance>> {
        if !self.group.replica.leads() {
            return None;
        }
        if look {
            tracing::info!("looking for chains to move, since an operator asked for it");
            self.chains.looks.again();
        }
        let fills = self.fills();
        Some(pools_of(&fills).into_iter().filter_map(|pool| self.pool_balance(pool, &fills)).collect())
    }

    fn pool_balance(&self, pool: PoolId, fills: &[Fill]) -> Option<PoolBalance> {
        let own = of_pool(fills, pool);
        let by_share = |a: &&Fill, b: &&Fill| a.share().total_cmp(&b.share());
        let (fullest, emptiest) = (own.iter().max_by(by_share)?, own.iter().min_by(by_share)?);
        let (map, chains) = (self.map(), self.chains());
        let unsettled = chains
            .values()
            .filter(|chain| chain.pool == pool && !is_whole(chain, &map) && !self.is_chain_lost(chain.id));
        let (moving, incomplete): (Vec<&Chain>, Vec<&Chain>) = unsettled.partition(|chain| moves(chain));
        let is_due = || self.chains.looks.is_due(pool, &own, self.group.clock.monotonic());
        let state = match () {
            () if !moving.is_empty() => BalanceState::Moving,
            () if is_even(fills, pool) => BalanceState::Even,
            () if !incomplete.is_empty() => BalanceState::Waiting,
            () if self.is_being_cleaned() => BalanceState::Cleaning,
            () if is_due() => BalanceState::Looking,
            () => BalanceState::InVain,
        };
        let count = |chains: &[&Chain]| u32::try_from(chains.len()).unwrap_or(u32::MAX);
        Some(PoolBalance {
            pool: map.pool_name(pool).into(),
            fullest: thousandths(fullest),
            emptiest: thousandths(emptiest),
            fullest_target: fullest.target,
            emptiest_target: emptiest.target,
            moving: count(&moving),
            incomplete: count(&incomplete),
            state,
        })
    }
}

/// True if as many members have all data as there are to be, and another one gets it or is to be dropped.
fn moves(chain: &Chain) -> bool {
    let copies = usize::from(chain.copies);
    let has_all_copies = chain.with_state(MemberState::In).count() >= copies;
    let has_more = chain.members.len() > copies;
    has_all_copies && (has_more || chain.is_of_one_for_now())
}

fn thousandths(fill: &Fill) -> u32 {
    (fill.share() * 1000.0).round() as u32
}

#[cfg(test)]
mod tests {
    use super::super::balance::fill_of;
    use super::*;

    #[test]
    fn a_look_in_vain_is_not_repeated_until_targets_change_or_an_operator_asks() {
        let (looks, pool, seconds) = (Looks::default(), PoolId::DEFAULT, Duration::from_secs);
        let fills = [fill_of(1, 1000, 500), fill_of(2, 1000, 100)];
        let in_vain = |at| InVain { fills: fills.to_vec(), at };
        assert!(looks.is_due(pool, &fills, seconds(1)) && looks.is_apart_due(&fills, seconds(1)));
        let note = |look, at| {
            looks.note(look, &BTreeSet::from([pool]), BTreeMap::from([(pool, in_vain(at))]));
            looks.note_apart(look, Some(in_vain(at)));
        };
        note(looks.begin(), seconds(1));
        assert!(!looks.is_due(pool, &fills, seconds(600)) && !looks.is_apart_due(&fills, seconds(600)));
        assert!(looks.is_due(PoolId(1), &fills, seconds(2)), "another pool");
        assert!(looks.is_due(pool, &[fills[0], fill_of(2, 1000, 200)], seconds(2)), "it has filled");
        assert!(looks.is_due(pool, &fills, seconds(601)), "the pause is over");

        // The look that goes on while an operator asks ends in vain: that is not what was asked for.
        let look = looks.begin();
        looks.again();
        note(look, seconds(2));
        assert!(looks.is_due(pool, &fills, seconds(3)) && looks.is_apart_due(&fills, seconds(3)));
        note(looks.begin(), seconds(4));
        assert!(!looks.is_due(pool, &fills, seconds(5)) && !looks.is_apart_due(&fills, seconds(5)));
        looks.note(looks.begin(), &BTreeSet::from([pool]), BTreeMap::new());
        assert!(looks.is_due(pool, &fills, seconds(6)), "chains moved");
    }

    #[tokio::test(start_paused = true)]
    async fn the_leader_looks_at_once_when_it_is_asked() {
        let looks = Looks::default();
        let began = tokio::time::Instant::now();
        looks.next().await;
        assert_eq!(began.elapsed(), LOOK_EVERY);
        looks.again();
        looks.next().await;
        assert_eq!(began.elapsed(), LOOK_EVERY);
    }
}
