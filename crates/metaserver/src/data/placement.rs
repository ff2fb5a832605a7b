//! Placement of the data of a new file: evenly, by free space and health.
//!
//! Each column has a chain of its own: of one target, or of as many as the file has copies. All chains that take
//! files gain credit in proportion to their free
//! space. The W chains with the most credit keep the file, and pay. With equal disks that is plain rotation;
//! an emptier disk gets more columns. The chain of the first column is chosen in the same way among the W,
//! since small files have no other column.
//!
//! **Devices stay few.** Clients learn each device id once, so a device is an ascending list of chains that
//! many files share, and a file records at which chain it begins. A new device is made only while fewer than
//! [`devices_wanted`] devices of the width can be used; otherwise the device with the most credit is taken.
//! Changes of chains make new devices only until enough devices without the missing chains are known, and
//! never more than [`DEVICES_MAX`].

mod spread;

use std::collections::{BTreeMap, BTreeSet};

use namespace::{
    COLUMNS_MAX, COPIES_MAX, Chain, ChainId, DeviceId, FileLayout, InodeId, MemberState, PoolId, TargetId,
};
use parking_lot::{Mutex, MutexGuard};

use crate::data::Data;

/// Maximum of devices of a metadata group: a client that knows all of them has some hundred bytes for each.
const DEVICES_MAX: usize = 4096;

/// Maximum of open chains of a target that files are spread over.
const NUMBERS_MAX: usize = 16;

/// Wanted number of devices of one width over `chains` chains: one for each window of neighbours, so that
/// every pair of chains gets its share of files.
fn devices_wanted(chains: usize) -> usize {
    chains.max(8)
}

/// Credit of the chains, and the devices known so far.
#[derive(Default)]
pub(crate) struct Placement(Mutex<State>);

#[derive(Default)]
struct State {
    /// Credit for columns.
    credit: BTreeMap<ChainId, i128>,
    /// Credit for first columns of files.
    first: BTreeMap<ChainId, i128>,
    devices: BTreeMap<Vec<ChainId>, DeviceId>,
}

/// A chain that takes new files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub chain: ChainId,
    /// Its members in their order, the head first: the columns of a file have different ones at each place, as far as
    /// there are.
    pub members: [Option<TargetId>; COPIES_MAX],
    /// Bytes that can be written.
    pub free: u64,
    /// True if it has free space for more than a moment.
    pub has_room: bool,
}

impl Candidate {
    /// A chain of these members, of which there is at least one.
    fn new(chain: ChainId, members: &[TargetId], free: u64, has_room: bool) -> Option<Self> {
        members.first()?;
        let mut places = [None; COPIES_MAX];
        places.iter_mut().zip(members).for_each(|(place, member)| *place = Some(*member));
        Some(Self { chain, members: places, free, has_room })
    }

    fn head(&self) -> TargetId {
        self.members[0].unwrap_or(TargetId(self.chain.0))
    }
}

/// Placement of one file: the device's chains and the index of the first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Choice {
    pub chains: Vec<ChainId>,
    pub first: u32,
}

impl Placement {
    /// Chooses chains for one new file: `columns` of them (0: all), or as many as there are.
    pub(crate) fn choose(&self, usable: &[Candidate], columns: u32) -> Option<Choice> {
        let candidates = with_room(usable);
        let width = match columns {
            0 => heads(&candidates),
            n => (n as usize).min(candidates.len()),
        }
        .min(COLUMNS_MAX as usize);
        if width == 0 {
            return None;
        }
        let mut state = self.lock();
        state.earn(&candidates);
        let chains = state.device_for(&candidates, width);
        state.pay(&candidates, &chains);
        let first = state.turn(&candidates, &chains);
        Some(Choice { chains, first })
    }

    /// Chooses other chains for the columns of a file for which `moves` is true; the file has this layout
    /// over `chains`. A chain that already has a column of the file gets a second one only when there is no
    /// other. None when there is no chain at all.
    pub(crate) fn choose_again(
        &self,
        usable: &[Candidate],
        layout: &FileLayout,
        chains: &[ChainId],
        moves: impl Fn(u32) -> bool,
    ) -> Option<Choice> {
        let by_column: Vec<_> = (0..layout.columns).map(|column| layout.chain(chains, column)).collect();
        let mut new: Vec<ChainId> = by_column.iter().copied().collect::<Option<_>>()?;
        let mut others: Vec<_> =
            usable.iter().filter(|u| u.has_room && !chains.contains(&u.chain)).copied().collect();
        let mut state = self.lock();
        state.earn(&others);
        let mut moved = Vec::new();
        for column in (0..layout.columns).filter(|column| moves(*column)) {
            let best = others.iter().enumerate().max_by_key(|(_, u)| state.credit.get(&u.chain).copied());
            let other = match best.map(|(at, _)| at) {
                Some(at) => others.remove(at).chain,
                None => {
                    let now = new[column as usize];
                    let again = usable.iter().filter(|u| u.has_room && u.chain != now);
                    again.max_by_key(|u| (u.free, u.chain))?.chain
                }
            };
            new[column as usize] = other;
            moved.push(other);
        }
        state.pay(&others, &moved);
        Some(Choice::of_columns(&new)).filter(|choice| state.may_use(&choice.chains))
    }

    /// True if there is a device for these chains, or room for one.
    pub(crate) fn may_use(&self, chains: &[ChainId]) -> bool {
        self.lock().may_use(chains)
    }

    /// Which of the open chains of each target a file's columns are put on: few devices, many chains.
    pub(crate) fn number_of_chain(&self, file: InodeId) -> usize {
        let numbers = (DEVICES_MAX / 4 / self.lock().devices.len().max(1)).clamp(1, NUMBERS_MAX);
        file.0 as usize % numbers
    }

    /// Device with these chains, if it is known here.
    pub(crate) fn device(&self, chains: &[ChainId]) -> Option<DeviceId> {
        self.lock().devices.get(chains).copied()
    }

    /// Adds a device.
    pub(crate) fn learn(&self, chains: Vec<ChainId>, id: DeviceId) {
        self.lock().devices.insert(chains, id);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }
}

/// Chains with free space; all chains when none has, so that the data server answers NOSPC.
fn with_room(usable: &[Candidate]) -> Vec<Candidate> {
    let roomy: Vec<_> = usable.iter().filter(|u| u.has_room).copied().collect();
    if roomy.is_empty() { usable.to_vec() } else { roomy }
}

/// Free space in MiB, at least 1, so that full disks still take turns.
fn weight(usable: &Candidate) -> i128 {
    i128::from((usable.free >> 20).max(1))
}

fn total(usable: &[Candidate]) -> i128 {
    usable.iter().map(weight).sum()
}

/// Number of different heads.
fn heads(candidates: &[Candidate]) -> usize {
    candidates.iter().map(Candidate::head).collect::<BTreeSet<_>>().len()
}

impl Data {
    /// Chains of this many copies in a pool that take new files, in the order of their ids. Of chains with copies, those
    /// that have all members; if none of them has room, those that have at least a head, if one of them has room.
    pub(crate) fn candidates(&self, copies: u8, pool: PoolId) -> Vec<Candidate> {
        let (usable, map) = (self.cluster.data_servers.usable(), self.cluster.map());
        if copies < 2 {
            let single =
                |u: cluster::Usable| Candidate::new(u.target.into(), &[u.target], u.free, u.has_room);
            let is_in_pool = |u: &cluster::Usable| map.pool_of(u.target) == pool;
            return usable.into_iter().filter(is_in_pool).filter_map(single).collect();
        }
        let usable: BTreeMap<TargetId, cluster::Usable> = usable.into_iter().map(|u| (u.target, u)).collect();
        let chains = self.cluster.chains();
        let of_copies = chains.values().filter(|chain| (chain.copies, chain.pool) == (copies, pool));
        let candidate = |chain: &Chain| {
            let members: Vec<&cluster::Usable> =
                chain.with_state(MemberState::In).map_while(|target| usable.get(&target)).collect();
            let free = members.iter().map(|u| u.free).min()?;
            let is_whole = members.len() >= usize::from(chain.copies);
            let has_room = !self.cluster.has_no_room(chain);
            let members: Vec<TargetId> = members.iter().map(|u| u.target).collect();
            Some((is_whole, Candidate::new(chain.id, &members, free, has_room)?))
        };
        let (whole, partly): (Vec<_>, Vec<_>) =
            of_copies.filter_map(candidate).partition(|(is_whole, _)| *is_whole);
        let has_room = |chains: &[(bool, Candidate)]| chains.iter().any(|(_, chain)| chain.has_room);
        let best = if whole.is_empty() || !has_room(&whole) && has_room(&partly) { partly } else { whole };
        best.into_iter().map(|(_, candidate)| candidate).collect()
    }

    /// Chains that columns on these chains can move to: of as many copies, in the same pool.
    pub(crate) fn candidates_beside(&self, chains: &[ChainId]) -> Vec<Candidate> {
        self.candidates(self.copies_of(chains), self.pool_of(chains))
    }

    /// Pool of these chains, by the first one.
    pub(crate) fn pool_of(&self, chains: &[ChainId]) -> PoolId {
        let Some(first) = chains.first() else { return PoolId::DEFAULT };
        match self.cluster.chains().get(first) {
            Some(chain) => chain.pool,
            None => self.cluster.map().pool_of(TargetId(first.0)),
        }
    }

    /// Copies of the columns on these chains.
    pub(crate) fn copies_of(&self, chains: &[ChainId]) -> u8 {
        let all = self.cluster.chains();
        chains.iter().filter_map(|chain| all.get(chain)).map(|chain| chain.copies).max().unwrap_or(1)
    }
}

impl Choice {
    /// The placement of these columns in their order, as a list that begins at its least chain: others may share it.
    pub(crate) fn of_columns(columns: &[ChainId]) -> Self {
        let count = columns.len();
        let least = (0..count).min_by_key(|at| columns[*at]).unwrap_or(0);
        let chains = (0..count).map(|at| columns[(least + at) % count]).collect();
        Self { chains, first: ((count - least) % count.max(1)) as u32 }
    }
}

impl State {
    fn may_use(&self, chains: &[ChainId]) -> bool {
        self.devices.contains_key(chains) || self.devices.len() < DEVICES_MAX
    }

    fn earn(&mut self, usable: &[Candidate]) {
        for u in usable {
            *self.credit.entry(u.chain).or_default() += weight(u);
        }
    }

    /// Takes the earned credit of all chains in equal parts from the chains that keep the file. Credit has
    /// a bound: a chain that was out of turn for long does not get all files afterwards.
    fn pay(&mut self, usable: &[Candidate], chains: &[ChainId]) {
        let all = total(usable);
        for chain in chains {
            *self.credit.entry(*chain).or_default() -= all / chains.len() as i128;
        }
        for u in usable {
            let credit = self.credit.entry(u.chain).or_default();
            *credit = (*credit).clamp(-2 * all, 2 * all);
        }
    }

    /// Targets for a device, ascending.
    fn device_for(&self, usable: &[Candidate], width: usize) -> Vec<ChainId> {
        let credit = |chain: &ChainId| self.credit.get(chain).copied().unwrap_or_default();
        let mut by_credit: Vec<&Candidate> = usable.iter().collect();
        // At equal credit the lower id comes first, so that the order is always the same.
        by_credit.sort_by_cached_key(|u| (-credit(&u.chain), u.chain));
        let mut best = spread::spread(&by_credit, width);
        best.sort_unstable();
        if self.devices.contains_key(&best) {
            return best;
        }
        let ascends = |chains: &[ChainId]| chains.windows(2).all(|pair| pair[0] < pair[1]);
        let mut by_id: Vec<&Candidate> = usable.iter().collect();
        by_id.sort_by_key(|u| u.chain);
        let find = |chain: &ChainId| by_id.binary_search_by_key(chain, |u| u.chain).ok().map(|at| by_id[at]);
        // Members may have changed their places since the device was made.
        let unevenness = |chains: &[ChainId]| spread::unevenness(chains.iter().filter_map(find));
        let known =
            self.devices.keys().filter(|chains| ascends(chains) && chains.iter().all(|c| find(c).is_some()));
        let known: Vec<_> = known.collect();
        let sum = |chains: &[ChainId]| chains.iter().map(credit).sum::<i128>();
        let best_unevenness = unevenness(&best);
        let even: Vec<_> = known
            .iter()
            .filter(|chains| chains.len() == width && unevenness(chains) <= best_unevenness)
            .collect();
        if even.len() >= devices_wanted(usable.len()) {
            return even.into_iter().max_by_key(|chains| sum(chains)).map_or(best, |found| found.to_vec());
        }
        if self.devices.len() >= DEVICES_MAX {
            let nearest = known.iter().max_by_key(|chains| (chains.len().min(width), sum(chains)));
            return nearest.map_or(best, |found| found.to_vec());
        }
        best
    }

    /// Index in `chains` of the chain that gets the first column.
    fn turn(&mut self, usable: &[Candidate], chains: &[ChainId]) -> u32 {
        let members = usable.iter().filter(|u| chains.contains(&u.chain));
        let members: Vec<_> = members.copied().collect();
        let all = total(&members);
        let mut best: Option<(ChainId, i128)> = None;
        for member in &members {
            let credit = self.first.entry(member.chain).or_default();
            *credit = (*credit + weight(member)).clamp(-2 * all, 2 * all);
            if best.is_none_or(|(_, most)| *credit > most) {
                best = Some((member.chain, *credit));
            }
        }
        let Some((chosen, _)) = best else { return 0 };
        *self.first.entry(chosen).or_default() -= all;
        chains.iter().position(|chain| *chain == chosen).unwrap_or(0) as u32
    }
}

#[cfg(test)]
#[path = "placement/tests.rs"]
mod tests;
