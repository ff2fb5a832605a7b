//! Placement of chains: which targets keep the copies of the same columns.
//!
//! Chains are made in advance, [`CHAINS_OF_TARGET`] for each target, so that the load of a target and the
//! repair after its loss are spread over all others. Each chain is made in three steps:
//!
//! ```text
//! least loaded target ─▶ other sites: fewest chains shared, at most one chain more than the least ─▶ head
//! ```
//!
//! **Bound.** For T equal targets, each on a node of its own, with c chains each and k copies (tests: 3 to 1000
//! targets): a target is in c chains, give or take one, and is the head of c/k, give or take two. Two targets
//! share at most one chain more than c(k-1)/(T-1), rounded up. So a lost target's repair reads from, and writes
//! to, T-1 others or c(k-1)/2 of them, whichever is less, and nearly the same from each.

use std::collections::{BTreeMap, BTreeSet};

use namespace::TargetId;

use super::sites::Site;

/// Chains of a target of average weight.
pub const CHAINS_OF_TARGET: usize = 64;

/// Target for chains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// The target.
    pub target: TargetId,
    /// Its site: a chain has one target of each data server, and of each zone and machine as far as there are
    /// enough.
    pub site: Site,
    /// Its share of the chains, such as its size in TiB; at least 1.
    pub weight: u32,
}

/// Reason why chains cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unplaceable {
    /// No copies are asked for.
    #[error("a chain has at least one copy")]
    NoCopies,
    /// Too few data servers.
    #[error(
        "{copies} copies need data servers on {copies} nodes, and there are {nodes}: add nodes, or ask for fewer copies"
    )]
    Nodes {
        /// Copies asked for.
        copies: usize,
        /// Data servers.
        nodes: usize,
    },
    /// Too few zones.
    #[error(
        "{copies} copies need {copies} zones, and there are {zones}: add zones, take `zone` out of the configurations, or ask for fewer copies"
    )]
    Zones {
        /// Copies asked for.
        copies: usize,
        /// Zones of the data servers.
        zones: usize,
    },
    /// Data servers with and without a zone.
    #[error("{0} data servers have no zone, and others have one: give all a `zone`, or none")]
    SomeWithoutZone(usize),
}

/// Makes the chains that `places` lack beside the `existing` ones. Each is a list of `copies` targets, the head
/// first. The same input makes the same chains.
///
/// # Errors
/// [`Unplaceable`].
pub(super) fn make_chains(
    places: &[Place],
    copies: usize,
    existing: &[Vec<TargetId>],
) -> Result<Vec<Vec<TargetId>>, Unplaceable> {
    check_nodes(places, copies)?;
    let mut table = Table::new(places);
    existing.iter().for_each(|chain| table.note(chain));
    let mut made = Vec::new();
    while table.lacks_chains(copies) {
        let Some(chain) = table.make(copies) else { break };
        made.push(chain);
    }
    Ok(made)
}

fn check_nodes(places: &[Place], copies: usize) -> Result<(), Unplaceable> {
    if copies == 0 {
        return Err(Unplaceable::NoCopies);
    }
    let nodes = places.iter().map(|place| place.site.server).collect::<BTreeSet<_>>().len();
    if nodes < copies { Err(Unplaceable::Nodes { copies, nodes }) } else { Ok(()) }
}

/// Checks that each copy can have a zone of its own, if there are zones.
///
/// # Errors
/// [`Unplaceable`].
pub(super) fn check_zones(places: &[Place], copies: usize) -> Result<(), Unplaceable> {
    let (without, with): (Vec<&Place>, Vec<&Place>) =
        places.iter().partition(|place| place.site.zone.is_empty());
    let zones: BTreeSet<_> = with.iter().map(|place| &place.site.zone).collect();
    let without: BTreeSet<_> = without.iter().map(|place| place.site.server).collect();
    match (zones.len(), without.len()) {
        (0, _) => Ok(()),
        (_, without @ 1..) => Err(Unplaceable::SomeWithoutZone(without)),
        (zones, 0) if zones < copies => Err(Unplaceable::Zones { copies, zones }),
        _ => Ok(()),
    }
}

/// Chains of each target so far, by its index.
struct Table<'a> {
    places: &'a [Place],
    index: BTreeMap<TargetId, usize>,
    load: Vec<u64>,
    heads: Vec<u64>,
    /// Chains that two targets share: of `a` and `b` at `a * places + b`.
    shared: Vec<u32>,
}

impl<'a> Table<'a> {
    fn new(places: &'a [Place]) -> Self {
        let count = places.len();
        Self {
            places,
            index: places.iter().enumerate().map(|(at, place)| (place.target, at)).collect(),
            load: vec![0; count],
            heads: vec![0; count],
            shared: vec![0; count * count],
        }
    }

    fn weight(&self, at: usize) -> u64 {
        u64::from(self.places[at].weight.max(1))
    }

    /// Load with `more` chains, per weight.
    fn relative(&self, at: usize, more: u64) -> u64 {
        ((self.load[at] + more) << 20) / self.weight(at)
    }

    /// True while the targets together have fewer chains than they should. What a target has above its share does
    /// not count: chains that were made for data on it are no help to others.
    fn lacks_chains(&self, copies: usize) -> bool {
        let wanted = (CHAINS_OF_TARGET * self.places.len()) as u64;
        let weights: u64 = (0..self.places.len()).map(|at| self.weight(at)).sum();
        let share = |at: usize| (wanted * self.weight(at)).div_ceil(weights.max(1)) + 1;
        let counted = |at: usize| self.load[at].min(share(at));
        (0..self.places.len()).map(counted).sum::<u64>() + copies as u64 <= wanted
    }

    fn make(&mut self, copies: usize) -> Option<Vec<TargetId>> {
        let first = (0..self.places.len()).min_by_key(|at| (self.relative(*at, 0), *at))?;
        let mut members = vec![first];
        while members.len() < copies {
            members.push(self.next(&members)?);
        }
        let head = (0..members.len()).min_by_key(|at| {
            let member = members[*at];
            (self.heads[member] << 20) / self.weight(member)
        })?;
        members.rotate_left(head);
        let chain: Vec<TargetId> = members.iter().map(|at| self.places[*at].target).collect();
        self.note(&chain);
        Some(chain)
    }

    /// The next member beside these.
    fn next(&self, members: &[usize]) -> Option<usize> {
        let site = |at: usize| &self.places[at].site;
        let is_on_others = |at: &usize| members.iter().all(|member| site(*at).server != site(*member).server);
        let shared = |at: usize| site(at).shared(members.iter().map(|member| site(*member)));
        let others: Vec<_> = (0..self.places.len()).filter(is_on_others).map(|at| (at, shared(at))).collect();
        let apart = others.iter().map(|(_, shared)| *shared).min()?;
        let can: Vec<usize> =
            others.into_iter().filter(|(_, shared)| *shared == apart).map(|(at, _)| at).collect();
        let least = can.iter().map(|at| self.relative(*at, 1)).min()?;
        // Not yet a chain ahead of the least loaded.
        let even = can.into_iter().filter(|at| self.relative(*at, 0) <= least);
        let count = self.places.len();
        let last = *members.last()?;
        even.min_by_key(|at| {
            let shared = |member: &usize| u64::from(self.shared[member * count + at]).pow(2);
            let sharing: u64 = members.iter().map(shared).sum();
            (sharing, self.relative(*at, 0), (at + count - last) % count)
        })
    }

    fn note(&mut self, chain: &[TargetId]) {
        let members: Vec<usize> = chain.iter().filter_map(|target| self.index.get(target).copied()).collect();
        if let Some(head) = chain.first().and_then(|target| self.index.get(target)) {
            self.heads[*head] += 1;
        }
        for one in &members {
            self.load[*one] += 1;
            for other in members.iter().filter(|other| *other != one) {
                self.shared[one * self.places.len() + other] += 1;
            }
        }
    }
}

#[cfg(test)]
#[path = "placement/tests.rs"]
mod tests;
