//! What the leader knows of targets, for the steps of chains.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use namespace::{Chain, ChainId, ChainMember, ChainStep, DataServerId, MemberState, PoolId, TargetId};
use parking_lot::Mutex;
use wire::data::TargetCondition;

use super::sites::Sites;
use super::step::{Presence, Targets};
use crate::cluster::Cluster;

/// Chains that are refilled at a time for each target, as source or as new member. Heads refill eight of theirs at a time:
/// the others are there when one of these is done, before the leader hears of it.
const REFILLS_OF_TARGET_MAX: usize = 24;
/// Interval at which a full member is tried again. It leaves when a change finds no room, which holds writers up
/// for a second.
const TRY_FULL_EVERY: Duration = Duration::from_secs(30);

/// State of all targets at one time.
pub(super) struct Known {
    presence: BTreeMap<TargetId, Presence>,
    full: BTreeSet<TargetId>,
    pub(super) sites: Sites,
    /// Pools of the targets that are not in the default one.
    pools: BTreeMap<TargetId, PoolId>,
    /// Chains of each target, and those of them that are refilled; with the steps of this look.
    load: Mutex<BTreeMap<TargetId, Load>>,
    now_seconds: i64,
    replace_after: Duration,
}

#[derive(Debug, Clone, Copy, Default)]
struct Load {
    chains: usize,
    refills: usize,
}

impl Known {
    pub(super) fn of(cluster: &Cluster) -> Self {
        let (map, now) = (cluster.map(), cluster.group.clock.monotonic());
        let is_over = |server: &DataServerId| cluster.chains.leases.is_over(*server, now);
        Self::without(cluster, &map.present_data_servers().map(|server| server.id).filter(is_over).collect())
    }

    /// The same; the leases of the data servers `over` are over.
    pub(super) fn without(cluster: &Cluster, over: &BTreeSet<DataServerId>) -> Self {
        let (map, lost) = (cluster.map(), cluster.data_servers.lost_targets());
        let now = cluster.group.clock.monotonic();
        let reports = cluster.data_servers.report();
        let conditions: BTreeMap<TargetId, TargetCondition> =
            reports.iter().map(|report| (report.target, report.condition)).collect();
        let leases = &cluster.chains.leases;
        let mut presence = BTreeMap::new();
        for server in map.present_data_servers() {
            let (is_held, is_over) = (leases.is_held(server.id, now), over.contains(&server.id));
            for target in &server.targets {
                let drains = map.is_draining(*target, server.id);
                let condition = conditions.get(target);
                // Damaged blocks are mended from other members.
                let serves = [TargetCondition::Ok, TargetCondition::Full, TargetCondition::Damaged];
                let is_well = condition.is_some_and(|condition| serves.contains(condition));
                let found = match (is_held, is_over) {
                    _ if lost.contains(target) => Presence::Lost,
                    (_, true) => Presence::Gone,
                    (true, _) if is_well && drains => Presence::Draining,
                    (true, _) if condition == Some(&TargetCondition::Full) => Presence::Full,
                    (true, _) if is_well => Presence::Well,
                    (true, _) if condition.is_some() => Presence::Gone,
                    _ => Presence::Unsure,
                };
                presence.insert(*target, found);
            }
        }
        presence.extend(lost.iter().map(|target| (*target, Presence::Lost)));
        let mut load = BTreeMap::<TargetId, Load>::new();
        for chain in cluster.chains().values() {
            // One whose head is gone fills nothing.
            let is_gone =
                |head: &TargetId| matches!(presence.get(head), None | Some(Presence::Gone | Presence::Lost));
            let is_filled = chain.with_state(MemberState::Refilling).next().is_some();
            let refills = usize::from(is_filled && !chain.head().as_ref().is_none_or(is_gone));
            for member in &chain.members {
                let load = load.entry(member.target).or_default();
                load.chains += 1;
                load.refills += refills;
            }
        }
        let replace_after = cluster.settings().replace_after;
        let now_seconds = cluster.group.now().seconds;
        let sites = Sites::of(&map);
        let pools = map.pools_of_targets.clone();
        let is_full = |(target, condition): (&TargetId, &TargetCondition)| {
            (*condition == TargetCondition::Full).then_some(*target)
        };
        let full = conditions.iter().filter_map(is_full).collect();
        Self { presence, full, sites, pools, load: Mutex::new(load), now_seconds, replace_after }
    }

    /// Time since the member's last change of state.
    fn away(&self, member: &ChainMember) -> Duration {
        let seconds = self.now_seconds.saturating_sub(member.since.seconds);
        Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
    }

    pub(super) fn pool_of(&self, target: TargetId) -> PoolId {
        self.pools.get(&target).copied().unwrap_or_default()
    }

    /// State of the target, of whatever chain.
    pub(super) fn presence_of(&self, target: TargetId) -> Presence {
        // A target that no data server has may be on its way to another one, with its disk.
        self.presence.get(&target).copied().unwrap_or(Presence::Gone)
    }

    fn others<'a>(chain: &'a Chain, but: TargetId) -> impl Iterator<Item = TargetId> + 'a {
        chain.members.iter().map(|member| member.target).filter(move |target| *target != but)
    }

    /// True if `target` can take the place of a member of this chain: it is well and in the chain's pool, has little to
    /// refill, and its data server has no other member.
    pub(super) fn can_take(&self, chain: &Chain, instead_of: TargetId, target: TargetId) -> bool {
        let server = |target| self.sites.get(target).map(|site| site.server);
        let is_taken = |other| server(other) == server(target);
        let refills = self.load.lock().get(&target).map_or(0, |load| load.refills);
        server(target).is_some()
            && self.presence_of(target) == Presence::Well
            && self.pool_of(target) == chain.pool
            && !chain.has(target)
            && !Self::others(chain, instead_of).any(is_taken)
            && refills < REFILLS_OF_TARGET_MAX
    }

    /// Number of chains that the target is a member of, with those of the steps of this look.
    pub(super) fn chains_on(&self, target: TargetId) -> usize {
        self.load.lock().get(&target).map_or(0, |load| load.chains)
    }

    /// The best target in the place of a member, of those that `is_fit`: it shares least with the others, and has
    /// fewest chains.
    pub(super) fn best_place(
        &self,
        chain: &Chain,
        instead_of: TargetId,
        is_fit: impl Fn(TargetId) -> bool,
    ) -> Option<TargetId> {
        let can = |target: &TargetId| self.can_take(chain, instead_of, *target) && is_fit(*target);
        let shared = |target| self.sites.shared(chain, instead_of, target);
        let order = |target: &TargetId| (shared(*target), self.chains_on(*target), *target);
        self.presence.keys().copied().filter(can).min_by_key(order)
    }

    /// True if the target serves, and is to stay.
    pub(super) fn stays(&self, target: TargetId) -> bool {
        matches!(self.presence_of(target), Presence::Well | Presence::Full)
    }

    /// Counts a step that will be taken.
    pub(super) fn note(&self, _: ChainId, step: ChainStep) {
        let (ChainStep::Replace(_, target) | ChainStep::Add(target) | ChainStep::Move(_, target)) = step
        else {
            return;
        };
        let mut load = self.load.lock();
        let load = load.entry(target).or_default();
        load.chains += 1;
        load.refills += 1;
    }
}

impl Targets for Known {
    fn presence(&self, chain: &Chain, target: TargetId) -> Presence {
        match self.presence_of(target) {
            Presence::Well | Presence::Full if self.pool_of(target) != chain.pool => Presence::Draining,
            presence => presence,
        }
    }

    fn is_full(&self, target: TargetId) -> bool {
        self.full.contains(&target)
    }

    fn other_pool(&self, chain: &Chain) -> Option<PoolId> {
        let stays = |presence: &Presence| !matches!(presence, Presence::Lost | Presence::Draining);
        let is_there = |(target, presence): (&TargetId, &Presence)| {
            stays(presence) && self.pool_of(*target) == chain.pool
        };
        let is_empty = !self.presence.iter().any(is_there);
        let mut others = chain.members.iter().map(|member| self.pool_of(member.target));
        others.find(|pool| *pool != chain.pool).filter(|_| is_empty)
    }

    fn substitute(&self, chain: &Chain, instead_of: TargetId) -> Option<TargetId> {
        self.best_place(chain, instead_of, |_| true)
    }

    fn servers_in(&self, chain: &Chain, without: TargetId) -> usize {
        let others = chain.with_state(MemberState::In).filter(|other| *other != without);
        let servers: BTreeSet<_> =
            others.map(|target| self.sites.get(target).map(|site| site.server)).collect();
        servers.len()
    }

    fn is_overdue(&self, member: &ChainMember) -> bool {
        self.away(member) >= self.replace_after
    }

    fn may_be_tried(&self, member: &ChainMember) -> bool {
        self.away(member) >= TRY_FULL_EVERY
    }
}
