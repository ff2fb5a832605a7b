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

use std::collections::{BTreeMap, BTreeSet};

use namespace::{COPIES_MAX, ChainId, TargetId};

use super::Candidate;

/// Chains that are tried to find one more column a place: the work of one file has a bound.
const TRIES_MAX: usize = 64;

/// `width` of the candidates, which are in the order of their credit: one of each head, such that few targets are
/// twice at a place, with two copies none if so many tries show how; then, if there are too few heads, the best of the
/// others.
pub(super) fn spread(by_credit: &[&Candidate], width: usize) -> Vec<ChainId> {
    let mut columns = Columns::default();
    let mut of_head: BTreeMap<TargetId, usize> = BTreeMap::new();
    for candidate in by_credit {
        let heads = of_head.len();
        let at = *of_head.entry(candidate.head()).or_insert(heads);
        if at == columns.all.len() && at < width {
            columns.all.push(Column::default());
        }
        if let Some(column) = columns.all.get_mut(at) {
            column.add(candidate);
        }
    }
    for at in 0..columns.all.len() {
        columns.place(at, &mut BTreeSet::new());
    }
    for at in 0..columns.all.len() {
        columns.place_anyway(at);
    }
    let chosen: Vec<&Candidate> = columns.all.iter().filter_map(|column| column.chosen).collect();
    let is_chosen = |candidate: &Candidate| chosen.iter().any(|chosen| chosen.chain == candidate.chain);
    let others = by_credit.iter().filter(|candidate| !is_chosen(candidate)).take(width - chosen.len());
    chosen.iter().chain(others).map(|candidate| candidate.chain).collect()
}

/// How often these chains have a target twice at a place.
pub(super) fn unevenness<'a>(chains: impl Iterator<Item = &'a Candidate>) -> usize {
    let mut uses = Uses::default();
    chains.map(|chain| (uses.cost(chain), uses.add(chain)).0).sum()
}

/// A column of the file, which has a head of its own.
#[derive(Default)]
struct Column<'a> {
    /// Chains of the head, the best of those with the same members, in the order of their credit.
    options: Vec<&'a Candidate>,
    chosen: Option<&'a Candidate>,
    /// True while a chain is looked for: it is not to be sent away by those that it sends away.
    moves: bool,
}

impl<'a> Column<'a> {
    fn add(&mut self, candidate: &'a Candidate) {
        if self.options.iter().all(|option| option.members != candidate.members) {
            self.options.push(candidate);
        }
    }
}

/// Columns, and what their chosen chains use.
#[derive(Default)]
struct Columns<'a> {
    all: Vec<Column<'a>>,
    uses: Uses,
}

impl<'a> Columns<'a> {
    /// Chooses a chain for a column without one, such that no other column has one of its targets at the same place.
    /// Those that have are given other chains, and so on: with two copies the augmenting path of a matching. Each chain
    /// is `tried` once, since it leads to the same ones again. False: none was found, and nothing was changed.
    fn place(&mut self, at: usize, tried: &mut BTreeSet<ChainId>) -> bool {
        let options = self.all[at].options.clone();
        if let Some(option) = options.iter().find(|option| self.uses.cost(option) == 0) {
            self.choose(at, Some(option));
            return true;
        }
        self.all[at].moves = true;
        let found = options.iter().any(|option| self.place_on(at, option, tried));
        self.all[at].moves = false;
        found
    }

    /// Chooses this chain for the column, and others for those that are in the way.
    fn place_on(&mut self, at: usize, option: &'a Candidate, tried: &mut BTreeSet<ChainId>) -> bool {
        let others = self.in_the_way(option);
        if others.iter().any(|other| self.all[*other].moves)
            || tried.len() >= TRIES_MAX
            || !tried.insert(option.chain)
        {
            return false;
        }
        let before: Vec<_> = self.all.iter().map(|column| column.chosen).collect();
        others.iter().for_each(|other| self.choose(*other, None));
        self.choose(at, Some(option));
        if others.iter().all(|other| self.place(*other, tried)) {
            return true;
        }
        before.into_iter().enumerate().for_each(|(at, before)| self.choose(at, before));
        false
    }

    /// Chooses the chain with the fewest targets twice at a place for a column without one.
    fn place_anyway(&mut self, at: usize) {
        if self.all[at].chosen.is_none() {
            let least = self.all[at].options.iter().min_by_key(|option| self.uses.cost(option));
            self.choose(at, least.copied());
        }
    }

    fn choose(&mut self, at: usize, chosen: Option<&'a Candidate>) {
        let before = std::mem::replace(&mut self.all[at].chosen, chosen);
        before.into_iter().for_each(|before| self.uses.remove(before));
        chosen.into_iter().for_each(|chosen| self.uses.add(chosen));
    }

    /// Columns that have a target of this chain at the same place.
    fn in_the_way(&self, option: &Candidate) -> Vec<usize> {
        let is_same = |(one, other): (&Option<TargetId>, &Option<TargetId>)| one.is_some() && one == other;
        let is_in_the_way = |chosen: &Candidate| chosen.members.iter().zip(&option.members).any(is_same);
        let of_all = self.all.iter().enumerate();
        of_all.filter(|(_, column)| column.chosen.is_some_and(is_in_the_way)).map(|(at, _)| at).collect()
    }
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

    /// Chains of a head and a second member.
    fn of_pairs<'a>(pairs: impl Iterator<Item = &'a (u64, u64)>) -> Vec<Candidate> {
        let candidate = |(id, (head, second)): (u64, &(u64, u64))| {
            let members = [Some(TargetId(*head)), Some(TargetId(*second)), None];
            Candidate { chain: ChainId(id), members, free: 1 << 30, has_room: true }
        };
        (0..).zip(pairs).map(candidate).collect()
    }

    /// Targets at each place of the chosen chains.
    fn places(candidates: &[Candidate], chosen: &[ChainId]) -> Vec<usize> {
        let of = |chain: &ChainId| candidates.iter().find(|candidate| candidate.chain == *chain).unwrap();
        let at = |place: usize| {
            chosen.iter().filter_map(|chain| of(chain).members[place]).collect::<BTreeSet<_>>()
        };
        (0..COPIES_MAX).map(|place| at(place).len()).collect()
    }

    /// Chooses in the order of each turn of `candidates`: the number of targets that are missing at a place, of each.
    fn missing(candidates: &[Candidate], targets: usize, copies: usize) -> Vec<usize> {
        let missing = |turn: usize| {
            let mut by_credit: Vec<&Candidate> = candidates.iter().collect();
            by_credit.rotate_left(turn);
            let found = places(candidates, &spread(&by_credit, targets));
            assert_eq!(found[0], targets, "each target is a head");
            found[..copies].iter().map(|found| targets - found).sum()
        };
        (0..candidates.len()).map(missing).collect()
    }

    #[test]
    fn a_file_over_all_heads_has_each_target_once_at_each_place() {
        for (targets, copies) in [(3, 2), (4, 2), (5, 2), (8, 2), (20, 2), (4, 3), (5, 3), (6, 3)] {
            let mut candidates = all(targets, copies);
            // Whatever their credit is.
            for shuffle in [1, 7, 101, 1009] {
                candidates.sort_by_key(|candidate| (candidate.chain.0 + 1) * shuffle % 8191);
                let missing = missing(&candidates, targets as usize, copies);
                // With two copies none ever; a third place cannot always be had.
                let (all, places) = (missing.iter().sum::<usize>(), missing.len() * targets as usize);
                assert!(all * 12 <= places * (copies - 2), "{targets}, {copies}: {missing:?}");
            }
        }
    }

    #[test]
    fn a_rare_chain_with_little_credit_is_taken_where_only_it_makes_the_load_even() {
        // As they were made while one data server after another came: target 3 is hardly ever second.
        let often = [(0, 1), (1, 0), (2, 0), (2, 1), (3, 0), (3, 1), (3, 2)];
        let pairs = often.iter().cycle().take(20 * often.len()).chain(&[(2, 3)]);
        let candidates = of_pairs(pairs);
        assert_eq!(missing(&candidates, 4, 2), vec![0; candidates.len()]);
    }

    #[test]
    fn a_column_that_was_sent_away_does_not_send_the_other_one_back() {
        for (targets, pairs) in [
            (4, vec![(1, 3), (1, 0), (2, 0), (2, 1), (0, 3), (3, 2)]),
            (5, vec![(3, 2), (3, 4), (4, 3), (4, 2), (2, 0), (2, 1), (2, 3), (1, 0), (0, 1)]),
        ] {
            let candidates = of_pairs(pairs.iter());
            assert_eq!(missing(&candidates, targets, 2), vec![0; pairs.len()], "{targets}");
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
