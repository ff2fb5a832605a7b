//! Copies move apart: a member that shares its zone or its machine with another one moves to a place where it shares
//! less, once there is one with room. Zones come later than chains, as do machines.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use namespace::{Chain, ChainChange, ChainId, ChainStep, TargetId};

use super::balance::{Fill, MOVES_MAX};
use super::known::Known;
use super::sites::Sites;
use crate::cluster::Cluster;

/// Targets whose bytes are counted for one list of moves.
const COUNTS_MAX: usize = 4;

/// Room of targets: those of one file system share theirs.
struct Rooms {
    fills: Vec<Fill>,
    /// Place in `fills` of each target's file system.
    of_target: BTreeMap<TargetId, usize>,
}

impl Rooms {
    fn has(&self, target: TargetId, bytes: u64) -> bool {
        self.of_target.get(&target).is_some_and(|at| self.fills[*at].can_take(bytes))
    }

    fn take(&mut self, target: TargetId, bytes: u64) {
        if let Some(at) = self.of_target.get(&target) {
            self.fills[*at].used = self.fills[*at].used.saturating_add(bytes);
        }
    }
}

impl Cluster {
    /// The next moves, of the chains that are `settled`. None: there is a better place for some member, but no room.
    pub(super) async fn moves_apart(
        &self,
        fills: &[Fill],
        settled: impl Fn(&Chain) -> bool,
    ) -> Option<Vec<ChainChange>> {
        // One server after another gets its zone: until all have one, members would move for nothing.
        if self.are_zones_partial() {
            return Some(vec![]);
        }
        let (known, chains) = (Known::of(self), self.chains());
        let mut rooms = self.rooms(fills);
        // None: the target does not answer.
        let mut bytes = BTreeMap::<TargetId, Option<BTreeMap<ChainId, u64>>>::new();
        let (mut moves, mut is_in_vain) = (Vec::new(), false);
        for chain in chains.values().filter(|chain| settled(chain) && !self.is_chain_lost(chain.id)) {
            if moves.len() >= MOVES_MAX {
                break;
            }
            let Some((from, _)) = better_place(&known, chain, |_| true) else { continue };
            let is_counted = bytes.contains_key(&from);
            // Each count looks at all objects of a target.
            if better_place(&known, chain, |to| rooms.has(to, 0)).is_none()
                || !is_counted && bytes.len() >= COUNTS_MAX
            {
                is_in_vain |= !is_counted;
                continue;
            }
            let of_chains = match bytes.entry(from) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(place) => place.insert(self.bytes_of_chains(from).await),
            };
            // One that does not answer is asked again at the next look.
            let Some(of_chains) = of_chains else { continue };
            let moved = of_chains.get(&chain.id).copied().unwrap_or(0);
            let Some((from, to)) = better_place(&known, chain, |to| rooms.has(to, moved)) else {
                is_in_vain = true;
                continue;
            };
            rooms.take(to, moved);
            let step = ChainStep::Move(from, to);
            known.note(chain.id, step);
            moves.push(ChainChange { chain: chain.id, version: chain.version, step });
        }
        (!moves.is_empty() || !is_in_vain).then_some(moves)
    }

    /// True if some data servers have a zone, and others have none.
    fn are_zones_partial(&self) -> bool {
        let map = self.map();
        let stays = |server: &&namespace::DataServer| {
            server.targets.iter().any(|target| !map.is_draining(*target, server.id))
        };
        let mut zones = map.present_data_servers().filter(stays).map(|server| server.zone.is_empty());
        let first = zones.next();
        zones.any(|is_empty| Some(is_empty) != first)
    }

    fn rooms(&self, fills: &[Fill]) -> Rooms {
        let reports = self.data_servers.report();
        let key = |target: TargetId| {
            let report = reports.iter().find(|report| report.target == target)?;
            Some((report.server, report.file_system))
        };
        let at: BTreeMap<_, usize> =
            fills.iter().enumerate().filter_map(|(at, fill)| Some((key(fill.target)?, at))).collect();
        let of = reports
            .iter()
            .filter_map(|report| Some((report.target, *at.get(&(report.server, report.file_system))?)));
        Rooms { fills: fills.to_vec(), of_target: of.collect() }
    }

    /// Chains with members that share a zone.
    #[must_use]
    pub fn chains_in_one_zone(&self) -> usize {
        let sites = Sites::of(&self.map());
        let shares = |chain: &&Chain| sites.closest(chain).is_some_and(|(_, shared)| shared.zone > 0);
        self.chains().values().filter(shares).count()
    }
}

/// The member that shares most, and a place of those that are `fit` where it shares less.
fn better_place(
    known: &Known,
    chain: &Chain,
    is_fit: impl Fn(TargetId) -> bool,
) -> Option<(TargetId, TargetId)> {
    let (from, now) = known.sites.closest(chain)?;
    let is_apart = |to: TargetId| known.sites.shared(chain, from, to) < now && is_fit(to);
    Some((from, known.best_place(chain, from, is_apart)?))
}
