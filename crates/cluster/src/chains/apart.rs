//! Copies move apart: a member that shares its zone or its machine with another one moves to a place where it shares
//! less, once there is one. Zones come later than chains, as do machines.

use std::collections::BTreeSet;

use namespace::{Chain, ChainChange, ChainStep, TargetId};

use super::balance::{Fill, MOVES_MAX};
use super::known::Known;
use crate::cluster::Cluster;

impl Cluster {
    /// The next moves. The leader looks at them while all chains are whole.
    pub(super) fn moves_apart(&self, fills: &[Fill]) -> Vec<ChainChange> {
        let known = Known::of(self);
        let nearly_full: BTreeSet<TargetId> =
            fills.iter().filter(|fill| fill.is_nearly_full()).map(|fill| fill.target).collect();
        let next = |chain: &Chain| {
            let step = move_apart(&known, chain, &nearly_full)?;
            known.note(chain.id, step);
            Some(ChainChange { chain: chain.id, version: chain.version, step })
        };
        self.chains()
            .values()
            .filter(|chain| !self.is_chain_lost(chain.id))
            .filter_map(next)
            .take(MOVES_MAX)
            .collect()
    }

    /// Chains with members that share a zone.
    #[must_use]
    pub fn chains_in_one_zone(&self) -> usize {
        let sites = super::sites::Sites::of(&self.map());
        let shares = |chain: &&Chain| sites.closest(chain).is_some_and(|(_, shared)| shared.zone > 0);
        self.chains().values().filter(shares).count()
    }
}

/// The move after which the members of the chain share less.
fn move_apart(known: &Known, chain: &Chain, nearly_full: &BTreeSet<TargetId>) -> Option<ChainStep> {
    let (from, now) = known.sites.closest(chain)?;
    let is_apart = |to: TargetId| known.sites.shared(chain, from, to) < now && !nearly_full.contains(&to);
    let to = known.best_place(chain, from, is_apart)?;
    Some(ChainStep::Move(from, to))
}
