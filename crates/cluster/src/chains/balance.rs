//! Balance of targets: members of chains move from the fullest target to emptier ones.
//!
//! ```text
//! one target is 5 % fuller than another ─▶ USAGE: bytes of its chains ─▶ Move(from, to) of some ─▶ refilled, dropped
//!        ▲                                                                                            │
//!        └───────────────── what they left behind is removed ◀────────────────────────────────────────┘
//! ```
//!
//! A chain moves only if its new target is not fuller afterwards than the old one, so each move takes both nearer
//! to the average, and rounds end. Each pool is balanced by itself: while chains of it lack a member, or are open, nothing
//! moves there. Columns without a chain stay where they are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use namespace::{Chain, ChainChange, ChainId, ChainStep, ClusterMap, MemberState, PoolId, TargetId};
use wire::data::{ObjectName, Procedure, TargetCondition, usage};

use super::known::Known;
use super::rebalance::{InVain, WHY_IN_VAIN};
use crate::cluster::Cluster;

/// Difference of two targets' shares of used bytes that is left alone.
const WITHIN: f64 = 0.05;
/// A chain moves that has at least one part in so many of its target's bytes.
const TOO_SMALL: u64 = 2000;
/// Parts in ten of a target's bytes that may be used after a move.
const TENTHS_MAX: u64 = 9;
/// Chains that move at a time.
pub(super) const MOVES_MAX: usize = 16;
/// Time limit of USAGE for one page.
const PAGE_TIME_MAX: Duration = Duration::from_secs(60);

/// A target and its bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Fill {
    pub(super) target: TargetId,
    pub(super) pool: PoolId,
    total: u64,
    pub(super) used: u64,
}

impl Fill {
    pub(super) fn share(&self) -> f64 {
        self.used as f64 / self.total.max(1) as f64
    }

    /// True if so many bytes more leave room.
    pub(super) fn can_take(&self, bytes: u64) -> bool {
        self.used.saturating_add(bytes) < self.total / 10 * TENTHS_MAX
    }
}

pub(super) fn pools_of(fills: &[Fill]) -> BTreeSet<PoolId> {
    fills.iter().map(|fill| fill.pool).collect()
}

/// Targets of one pool.
pub(super) fn of_pool(fills: &[Fill], pool: PoolId) -> Vec<Fill> {
    fills.iter().filter(|fill| fill.pool == pool).copied().collect()
}

/// The least and the greatest share of used bytes in a pool.
fn least_and_most(fills: &[Fill], pool: PoolId) -> (f64, f64) {
    let shares = fills.iter().filter(|fill| fill.pool == pool).map(Fill::share);
    shares.fold((1.0, 0.0), |(least, most), share| (least.min(share), most.max(share)))
}

pub(super) fn is_even(fills: &[Fill], pool: PoolId) -> bool {
    let (least, most) = least_and_most(fills, pool);
    most - least <= WITHIN
}

/// The most bytes whose move makes `to` no fuller than `from` is then.
fn bytes_that_fit(from: Fill, to: Fill) -> u64 {
    let [from_used, from_total, to_used, to_total] =
        [from.used, from.total, to.used, to.total].map(u128::from);
    let difference = (from_used * to_total).saturating_sub(to_used * from_total);
    let even = difference / (from_total + to_total).max(1);
    let room = (to.total / 10 * TENTHS_MAX).saturating_sub(to.used);
    u64::try_from(even).unwrap_or(u64::MAX).min(room)
}

/// The largest chain on `from` whose move to an emptier target makes that one no fuller than `from` is then.
fn best_move(
    from: Fill,
    others: &[Fill],
    bytes_of_chains: &BTreeMap<ChainId, u64>,
    can_take: impl Fn(ChainId, TargetId) -> bool,
) -> Option<(ChainId, TargetId, u64)> {
    let is_emptier =
        |to: &&Fill| to.pool == from.pool && to.target != from.target && from.share() - to.share() > WITHIN;
    let mut emptier: Vec<&Fill> = others.iter().filter(is_emptier).collect();
    emptier.sort_by(|a, b| a.share().total_cmp(&b.share()));
    let least = from.total / TOO_SMALL;
    emptier.into_iter().find_map(|to| {
        let most = bytes_that_fit(from, *to);
        let fits = |(chain, bytes): &(&ChainId, &u64)| {
            (least..=most).contains(*bytes) && can_take(**chain, to.target)
        };
        let (chain, bytes) =
            bytes_of_chains.iter().filter(fits).max_by_key(|(chain, bytes)| (**bytes, **chain))?;
        Some((*chain, to.target, *bytes))
    })
}

/// Says why the targets of a pool stay as they are.
fn say_in_vain(fills: &[Fill], pool: &str) {
    let shares = || fills.iter().map(Fill::share);
    let (emptiest, fullest) = (shares().fold(1.0, f64::min), shares().fold(0.0, f64::max));
    tracing::info!(
        fullest = (fullest * 100.0).round(),
        emptiest = (emptiest * 100.0).round(),
        pool,
        "targets of a pool are not equally full (in per cent), and {WHY_IN_VAIN}"
    );
}

/// True if these are the same targets, with about the same shares of used bytes.
pub(super) fn are_alike(before: &[Fill], now: &[Fill]) -> bool {
    let is_alike =
        |(a, b): (&Fill, &Fill)| a.target == b.target && (a.share() - b.share()).abs() < WITHIN / 4.0;
    before.len() == now.len() && before.iter().zip(now).all(is_alike)
}

/// True if the chain has all members, of its pool, and all of them are in.
pub(super) fn is_whole(chain: &Chain, map: &ClusterMap) -> bool {
    let copies = usize::from(chain.copies);
    !chain.is_of_one_for_now()
        && chain.members.len() == copies
        && chain.with_state(MemberState::In).count() == copies
        && chain.members.iter().all(|member| map.pool_of(member.target) == chain.pool)
}

/// Key of an object's place in LIST: directory, inode, column.
fn in_order(object: ObjectName) -> (u8, u64, u32) {
    (object.inode as u8, object.inode, object.column)
}

/// What a look at the targets has found.
#[derive(Default)]
struct Moves {
    /// The next moves; none: nothing that a target with too much has can move.
    moves: Vec<ChainChange>,
    /// Pools with a target that could not be asked.
    unknown: BTreeSet<PoolId>,
}

impl Cluster {
    /// Moves members of chains to targets with more room while this metaserver leads. Never returns.
    pub async fn balance_targets(self: Arc<Self>) {
        let mut cleaned = BTreeSet::new();
        let now = || self.group.clock.monotonic();
        let looks = &self.chains.looks;
        loop {
            looks.next().await;
            if !self.group.replica.leads() {
                cleaned.clear();
                continue;
            }
            if !self.settings().rebalance || self.is_being_cleaned() {
                continue;
            }
            let look = looks.begin();
            let unsettled = self.unsettled_pools();
            let mut fills = self.fills();
            fills.retain(|fill| !unsettled.contains(&fill.pool));
            if fills.is_empty() {
                continue;
            }
            if looks.is_apart_due(&fills, now()) {
                let apart = self.moves_apart(&fills, |chain| !unsettled.contains(&chain.pool)).await;
                looks.note_apart(look, apart.is_none().then(|| InVain { fills: fills.clone(), at: now() }));
                let apart = apart.unwrap_or_default();
                if !apart.is_empty() {
                    if let Err(error) = self.change_chains(&apart).await {
                        tracing::warn!(%error, "copies cannot move apart, retrying");
                    }
                    continue;
                }
            }
            let mut due = pools_of(&fills);
            due.retain(|pool| !is_even(&fills, *pool));
            due.retain(|pool| looks.is_due(*pool, &of_pool(&fills, *pool), now()));
            if due.is_empty() {
                continue;
            }
            let uneven = fills.iter().filter(|fill| due.contains(&fill.pool)).copied().collect();
            let Moves { moves, unknown } = self.next_moves(uneven, &mut cleaned).await;
            let chains = self.chains();
            let moving = moves.iter().filter_map(|change| Some(chains.get(&change.chain)?.pool));
            let moving: BTreeSet<PoolId> = moving.collect();
            // With as many moves as there may be, pools may not have had their turn.
            let is_all = !self.is_being_cleaned() && moves.len() < MOVES_MAX;
            let stay = due.difference(&moving).filter(|pool| is_all && !unknown.contains(pool));
            let in_vain = stay.map(|pool| {
                let fills = of_pool(&fills, *pool);
                say_in_vain(&fills, self.map().pool_name(*pool));
                (*pool, InVain { fills, at: now() })
            });
            looks.note(look, &due, in_vain.collect());
            if !moves.is_empty()
                && let Err(error) = self.change_chains(&moves).await
            {
                tracing::warn!(%error, "chains cannot move to emptier targets, retrying");
            }
        }
    }

    /// True if something that was left behind is still to be removed.
    pub(super) fn is_being_cleaned(&self) -> bool {
        let known = Known::of(self);
        self.chains.left_behind.targets().keys().any(|target| known.stays(*target))
    }

    /// Pools with chains that do not have all members, or of which members have gone to other pools.
    fn unsettled_pools(&self) -> BTreeSet<PoolId> {
        let map = self.map();
        let is_whole = |chain: &Chain| is_whole(chain, &map);
        let chains = self.chains();
        let unsettled = chains.values().filter(|chain| !is_whole(chain) && !self.is_chain_lost(chain.id));
        unsettled.map(|chain| chain.pool).collect()
    }

    /// Targets that data can move to or from, one of each file system. Reserved bytes count as used, those in
    /// the trash as free.
    pub(super) fn fills(&self) -> Vec<Fill> {
        let known = Known::of(self);
        let mut file_systems = BTreeSet::new();
        let fill = |report: crate::data_servers::TargetReport| {
            let moves = [TargetCondition::Ok, TargetCondition::Full].contains(&report.condition);
            let is_known = report.alive && report.total_bytes > 0 && moves && known.stays(report.target);
            let is_first = is_known && file_systems.insert((report.server, report.file_system));
            is_first.then(|| Fill {
                target: report.target,
                pool: known.pool_of(report.target),
                total: report.total_bytes,
                used: report.total_bytes.saturating_sub(report.free_bytes),
            })
        };
        self.data_servers.report().into_iter().filter_map(fill).collect()
    }

    /// The next moves. A target that is not in `cleaned` is cleaned first.
    async fn next_moves(&self, mut fills: Vec<Fill>, cleaned: &mut BTreeSet<TargetId>) -> Moves {
        fills.sort_by(|a, b| b.share().total_cmp(&a.share()));
        let (chains, known) = (self.chains(), Known::of(self));
        let can_take = |id: ChainId, from: TargetId, to: TargetId| {
            chains.get(&id).is_some_and(|chain| {
                let shared = |target| known.sites.shared(chain, from, target);
                known.can_take(chain, from, to) && shared(to) <= shared(from)
            })
        };
        let mut next = Moves::default();
        for at in 0..fills.len() {
            let from = fills[at].target;
            let (least, _) = least_and_most(&fills, fills[at].pool);
            if fills[at].share() - least <= WITHIN || next.moves.len() >= MOVES_MAX {
                continue;
            }
            let Some(mut bytes) = self.bytes_of_chains(from).await else {
                next.unknown.insert(fills[at].pool);
                continue;
            };
            let all = bytes.len();
            bytes.retain(|chain, _| self.is_member(*chain, from));
            if bytes.len() < all && cleaned.insert(from) {
                self.chains.left_behind.note([from]); // by the leader before this one
                return Moves::default();
            }
            // One member of a chain moves at a time.
            bytes.retain(|chain, _| next.moves.iter().all(|other| other.chain != *chain));
            while next.moves.len() < MOVES_MAX
                && let Some((id, to, moved)) =
                    best_move(fills[at], &fills, &bytes, |id, to| can_take(id, from, to))
            {
                bytes.remove(&id);
                let Some(version) = chains.get(&id).map(|chain| chain.version) else { continue };
                let step = ChainStep::Move(from, to);
                known.note(id, step);
                next.moves.push(ChainChange { chain: id, version, step });
                fills[at].used = fills[at].used.saturating_sub(moved);
                fills.iter_mut().filter(|fill| fill.target == to).for_each(|to| {
                    to.used = to.used.saturating_add(moved);
                });
            }
        }
        next
    }

    /// Bytes of each chain with copies on a target. None: it does not answer.
    pub(super) async fn bytes_of_chains(&self, target: TargetId) -> Option<BTreeMap<ChainId, u64>> {
        let peer = self.data_servers.peer(target)?;
        let (mut sums, mut after) = (BTreeMap::<ChainId, u64>::new(), None);
        let chains = self.chains();
        while self.group.replica.leads() && self.settings().rebalance {
            let args = usage::Args { target: target.0, after };
            let page =
                peer.call::<usage::Res>(Procedure::Usage as u32, &args, PAGE_TIME_MAX).await.ok()?.ok()?;
            for usage::ChainBytes { chain, bytes } in
                page.chains.into_iter().filter(|page| chains.contains_key(&ChainId(page.chain)))
            {
                let sum = sums.entry(ChainId(chain)).or_default();
                *sum = sum.saturating_add(bytes);
            }
            match page.next {
                // Pages ascend, in the order of LIST: a wrong answer ends the count.
                Some(next) if after.is_none_or(|after| in_order(after) < in_order(next)) => {
                    after = Some(next)
                }
                _ => return Some(sums),
            }
        }
        None
    }
}

#[cfg(test)]
pub(super) fn fill_of(target: u64, total: u64, used: u64) -> Fill {
    Fill { target: TargetId(target), pool: PoolId::DEFAULT, total, used }
}

#[cfg(test)]
mod tests {
    use super::fill_of as fill;
    use super::*;

    fn chains(bytes: &[u64]) -> BTreeMap<ChainId, u64> {
        (0..).map(ChainId).zip(bytes.iter().copied()).collect()
    }

    #[test]
    fn the_largest_chain_moves_that_does_not_turn_the_difference_round() {
        let (full, empty) = (fill(1, 1000, 600), fill(2, 1000, 400));
        let any = |_, _| true;
        // 100 bytes make both equal.
        let moved = best_move(full, &[full, empty], &chains(&[101, 100, 50]), any);
        assert_eq!(moved, Some((ChainId(1), TargetId(2), 100)));
        assert_eq!(best_move(full, &[full, empty], &chains(&[101, 300]), any), None, "too large");
        assert_eq!(best_move(full, &[full, fill(2, 1000, 550)], &chains(&[10]), any), None, "within 5 %");
        assert_eq!(best_move(fill(1, 10_000, 6000), &[empty], &chains(&[4]), any), None, "too small");
    }

    #[test]
    fn each_pool_is_balanced_by_itself() {
        let flash = |target, used| Fill { pool: PoolId(1), ..fill(target, 1000, used) };
        let fills = [fill(1, 1000, 800), fill(2, 1000, 790), flash(3, 100), flash(4, 300)];
        assert!(is_even(&fills, PoolId::DEFAULT) && !is_even(&fills, PoolId(1)));
        assert_eq!(best_move(fills[0], &fills, &chains(&[10]), |_, _| true), None);
        let moved = best_move(fills[3], &fills, &chains(&[10]), |_, _| true);
        assert_eq!(moved, Some((ChainId(0), TargetId(3), 10)));
    }

    #[test]
    fn a_count_is_repeated_early_when_a_target_has_filled_or_is_new() {
        let before = [fill(1, 1000, 500), fill(2, 1000, 100)];
        assert!(are_alike(&before, &[fill(1, 1000, 509), fill(2, 1000, 95)]));
        assert!(!are_alike(&before, &[fill(1, 1000, 520), fill(2, 1000, 100)]));
        assert!(!are_alike(&before, &before[..1]) && !are_alike(&before, &[before[0], fill(3, 1000, 100)]));
    }

    #[test]
    fn the_emptiest_target_that_can_take_a_chain_gets_it() {
        let (full, half, empty) = (fill(1, 1000, 800), fill(2, 1000, 500), fill(3, 4000, 400));
        let fills = [full, half, empty];
        assert_eq!(best_move(full, &fills, &chains(&[90]), |_, _| true), Some((ChainId(0), TargetId(3), 90)));
        let not_there = |_, to| to != TargetId(3);
        assert_eq!(best_move(full, &fills, &chains(&[90]), not_there), Some((ChainId(0), TargetId(2), 90)));
        assert_eq!(best_move(full, &fills, &chains(&[90]), |_, _| false), None);
        // It would be as full as 0.9 of its size.
        let nearly = fill(2, 100, 85);
        assert_eq!(best_move(fill(1, 1000, 1000), &[nearly], &chains(&[6]), |_, _| true), None);
    }

    /// Whatever the sizes of chains are, rounds end, and with small chains all targets are within the bound.
    #[test]
    fn rounds_end_in_balance() {
        for (new, chain_bytes) in [(1, 100), (3, 100), (1, 3000), (2, 900)] {
            let mut on: Vec<BTreeMap<ChainId, u64>> = vec![BTreeMap::new(); 4 + new];
            for id in 0..4 * 6000 / chain_bytes {
                on[id as usize % 4].insert(ChainId(id), chain_bytes);
            }
            let mut rounds = 0;
            loop {
                let used = |at: usize| on[at].values().sum::<u64>();
                let mut fills: Vec<Fill> =
                    (0..on.len()).map(|at| fill(at as u64, 10_000, used(at))).collect();
                fills.sort_by(|a, b| b.share().total_cmp(&a.share()));
                let of = |fill: &Fill| &on[fill.target.0 as usize];
                let found = fills
                    .iter()
                    .find_map(|from| Some((from.target, best_move(*from, &fills, of(from), |_, _| true)?)));
                let Some((from, (id, to, bytes))) = found else {
                    let spread = fills[0].share() - fills[fills.len() - 1].share();
                    assert!(
                        spread <= WITHIN.max(2.0 * chain_bytes as f64 / 10_000.0),
                        "{spread} {chain_bytes}"
                    );
                    break;
                };
                on[from.0 as usize].remove(&id);
                on[to.0 as usize].insert(id, bytes);
                rounds += 1;
                assert!(rounds < 1000);
            }
        }
    }
}
