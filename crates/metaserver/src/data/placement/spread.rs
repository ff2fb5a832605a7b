//! Chains for one file, such that its load is even.
//!
//! A column is written to the head of its chain, which passes it on to the second member, and that one to the third;
//! a reader of the file is sent to the first members of its chains, or to the second, or to the third. So the file
//! has all targets evenly only if its chains have different targets at *each* place:
//!
//! ```text
//! column   0   1   2   3              0   1   2   3
//! heads    A   B   C   D              A   B   C   D
//! second   B   A   B   A  two idle    B   C   D   A  even
//! ```

use std::collections::BTreeMap;

use namespace::{COPIES_MAX, ChainId, TargetId};

use super::Candidate;

/// Chains of one head that are looked at, those with the most credit.
const OF_HEAD_MAX: usize = 16;

/// `width` of the candidates, which are in the order of their credit: the best of each head, or of its next ones the
/// first with fewer targets twice at a place; then, if there are too few heads, the best of the others.
pub(super) fn spread(by_credit: &[&Candidate], width: usize) -> Vec<ChainId> {
    let mut heads = Vec::new();
    let mut of_head: BTreeMap<TargetId, Vec<&Candidate>> = BTreeMap::new();
    for candidate in by_credit {
        let of_head = of_head.entry(candidate.head()).or_insert_with(|| {
            heads.push(candidate.head());
            Vec::new()
        });
        of_head.push(candidate);
    }
    heads.truncate(width);
    let mut chosen: Vec<&Candidate> = heads.iter().map(|head| of_head[head][0]).collect();
    let mut uses = Uses::default();
    chosen.iter().for_each(|candidate| uses.add(candidate));
    // Each exchange has fewer targets twice: it ends.
    while let Some((at, better)) = exchange(&chosen, &of_head, &mut uses) {
        uses.remove(chosen[at]);
        uses.add(better);
        chosen[at] = better;
    }
    let is_chosen = |candidate: &Candidate| chosen.iter().any(|chosen| chosen.chain == candidate.chain);
    let others = by_credit.iter().filter(|candidate| !is_chosen(candidate)).take(width - chosen.len());
    chosen.iter().chain(others).map(|candidate| candidate.chain).collect()
}

/// How often these chains have a target twice at a place.
pub(super) fn unevenness<'a>(chains: impl Iterator<Item = &'a Candidate>) -> usize {
    let mut uses = Uses::default();
    chains.map(|chain| (uses.cost(chain), uses.add(chain)).0).sum()
}

/// A chosen chain, and one of the same head that is better in its place.
fn exchange<'a>(
    chosen: &[&'a Candidate],
    of_head: &BTreeMap<TargetId, Vec<&'a Candidate>>,
    uses: &mut Uses,
) -> Option<(usize, &'a Candidate)> {
    for (at, now) in chosen.iter().enumerate() {
        uses.remove(now);
        let cost = uses.cost(now);
        let better = match cost {
            0 => None,
            cost => {
                of_head[&now.head()].iter().take(OF_HEAD_MAX).find(|other| uses.cost(other) < cost).copied()
            }
        };
        uses.add(now);
        if let Some(better) = better {
            return Some((at, better));
        }
    }
    None
}

/// How many of the chosen chains have a target at a place.
#[derive(Default)]
struct Uses([BTreeMap<TargetId, usize>; COPIES_MAX]);

impl Uses {
    fn add(&mut self, candidate: &Candidate) {
        for (uses, target) in self.0.iter_mut().zip(candidate.members) {
            target.into_iter().for_each(|target| *uses.entry(target).or_default() += 1);
        }
    }

    fn remove(&mut self, candidate: &Candidate) {
        for (uses, target) in self.0.iter_mut().zip(candidate.members) {
            target.into_iter().for_each(|target| *uses.entry(target).or_default() -= 1);
        }
    }

    /// How often the others have this one's targets at the same places.
    fn cost(&self, candidate: &Candidate) -> usize {
        let uses = self.0.iter().zip(candidate.members);
        uses.filter_map(|(uses, target)| uses.get(&target?)).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// All chains of `copies` members out of `targets`.
    fn all(targets: u64, copies: usize) -> Vec<Candidate> {
        let mut lists: Vec<Vec<u64>> = vec![vec![]];
        for _ in 0..copies {
            let longer = |list: &Vec<u64>| {
                let list = list.clone();
                let next = (0..targets).filter(|target| !list.contains(target)).collect::<Vec<_>>();
                next.into_iter().map(move |target| [&list[..], &[target]].concat())
            };
            lists = lists.iter().flat_map(longer).collect();
        }
        let candidate = |(id, list): (u64, Vec<u64>)| {
            let mut members = [None; COPIES_MAX];
            members.iter_mut().zip(list).for_each(|(member, target)| *member = Some(TargetId(target)));
            Candidate { chain: ChainId(id), members, free: 1 << 30, has_room: true }
        };
        (0..).zip(lists).map(candidate).collect()
    }

    /// Targets at each place of the chosen chains.
    fn places(candidates: &[Candidate], chosen: &[ChainId]) -> Vec<usize> {
        let of = |chain: &ChainId| candidates.iter().find(|candidate| candidate.chain == *chain).unwrap();
        let at = |place: usize| {
            chosen.iter().filter_map(|chain| of(chain).members[place]).collect::<BTreeSet<_>>()
        };
        (0..COPIES_MAX).map(|place| at(place).len()).collect()
    }

    #[test]
    fn a_file_over_all_heads_has_each_target_once_at_each_place() {
        for (targets, copies) in [(3, 2), (4, 2), (5, 2), (8, 2), (4, 3), (5, 3), (6, 3)] {
            let candidates = all(targets, copies);
            // Whatever their credit is.
            for turn in 0..candidates.len() {
                let mut by_credit: Vec<&Candidate> = candidates.iter().collect();
                by_credit.rotate_left(turn);
                let chosen = spread(&by_credit, targets as usize);
                let mut expected = vec![targets as usize; copies];
                expected.resize(COPIES_MAX, 0);
                let found = places(&candidates, &chosen);
                assert_eq!(found[0], expected[0], "the heads of {targets} targets, {copies} copies");
                let missing: usize = expected.iter().zip(&found).map(|(e, f)| e - f).sum();
                assert!(missing <= copies - 2, "{targets} targets, {copies} copies, turn {turn}: {found:?}");
            }
        }
    }

    #[test]
    fn credit_decides_where_the_load_is_even_anyway() {
        let candidates = all(6, 1);
        let by_credit: Vec<&Candidate> = candidates.iter().rev().collect();
        assert_eq!(spread(&by_credit, 3), [5, 4, 3].map(ChainId));
        // More columns than targets: some have two.
        let candidates = all(3, 2);
        let by_credit: Vec<&Candidate> = candidates.iter().collect();
        let chosen = spread(&by_credit, 5);
        assert_eq!(chosen.iter().collect::<BTreeSet<_>>().len(), 5);
        assert_eq!(spread(&by_credit, 0), []);
    }
}
