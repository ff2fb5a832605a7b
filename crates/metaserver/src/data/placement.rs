//! Placement of the data of a new file: evenly, by free space and health.
//!
//! Each column has a target of its own. All targets that take files gain credit in proportion to their free
//! space. The W targets with the most credit keep the file, and pay. With equal disks that is plain rotation;
//! an emptier disk gets more columns. The target of the first column is chosen in the same way among the W,
//! since small files have no other column.
//!
//! **Devices stay few.** Clients learn each device id once, so a device is an ascending list of targets that
//! many files share, and a file records at which target it begins. A new device is made only while fewer than
//! [`devices_wanted`] devices of the width can be used; otherwise the device with the most credit is taken.
//! Changes of targets make new devices only until enough devices without the missing targets are known, and
//! never more than [`DEVICES_MAX`].

use std::collections::BTreeMap;

use cluster::Usable;
use namespace::COLUMNS_MAX;
use namespace::{DeviceId, FileLayout, TargetId};
use parking_lot::{Mutex, MutexGuard};

/// Maximum of devices of a metadata group: a client that knows all of them has some hundred bytes for each.
const DEVICES_MAX: usize = 4096;

/// Wanted number of devices of one width over `targets` targets: one for each window of neighbours, so that
/// every pair of targets gets its share of files.
fn devices_wanted(targets: usize) -> usize {
    targets.max(8)
}

/// Credit of the targets, and the devices known so far.
#[derive(Default)]
pub(crate) struct Placement(Mutex<State>);

#[derive(Default)]
struct State {
    /// Credit for columns.
    credit: BTreeMap<TargetId, i128>,
    /// Credit for first columns of files.
    first: BTreeMap<TargetId, i128>,
    devices: BTreeMap<Vec<TargetId>, DeviceId>,
}

/// Placement of one file: the device's targets and the index of the first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Choice {
    pub targets: Vec<TargetId>,
    pub first: u32,
}

impl Placement {
    /// Chooses targets for one new file: `columns` of them (0: all), or as many as there are.
    pub(crate) fn choose(&self, usable: &[Usable], columns: u32) -> Option<Choice> {
        let candidates = with_room(usable);
        let width = match columns {
            0 => candidates.len(),
            n => (n as usize).min(candidates.len()),
        }
        .min(COLUMNS_MAX as usize);
        if width == 0 {
            return None;
        }
        let mut state = self.lock();
        state.earn(&candidates);
        let targets = state.device_for(&candidates, width);
        state.pay(&candidates, &targets);
        let first = state.turn(&candidates, &targets);
        Some(Choice { targets, first })
    }

    /// Chooses other targets for the columns of a file for which `moves` is true; the file has this layout
    /// over `targets`. A target that already has a column of the file gets a second one only when there is no
    /// other. None when there is no target at all.
    pub(crate) fn choose_again(
        &self,
        usable: &[Usable],
        layout: &FileLayout,
        targets: &[TargetId],
        moves: impl Fn(u32) -> bool,
    ) -> Option<Choice> {
        let by_column: Vec<_> = (0..layout.columns).map(|column| layout.target(targets, column)).collect();
        let mut new: Vec<TargetId> = by_column.iter().copied().collect::<Option<_>>()?;
        let mut others: Vec<_> =
            usable.iter().filter(|u| u.has_room && !targets.contains(&u.target)).copied().collect();
        let mut state = self.lock();
        state.earn(&others);
        let mut moved = Vec::new();
        for column in (0..layout.columns).filter(|column| moves(*column)) {
            let best = others.iter().enumerate().max_by_key(|(_, u)| state.credit.get(&u.target).copied());
            let other = match best.map(|(at, _)| at) {
                Some(at) => others.remove(at).target,
                None => {
                    let now = new[column as usize];
                    let again = usable.iter().filter(|u| u.has_room && u.target != now);
                    again.max_by_key(|u| (u.free, u.target))?.target
                }
            };
            new[column as usize] = other;
            moved.push(other);
        }
        state.pay(&others, &moved);
        // Rotated to an ascending list: other files may then share the device.
        let least = (0..new.len()).min_by_key(|at| new[*at])?;
        let rotated: Vec<_> = (0..new.len()).map(|i| new[(least + i) % new.len()]).collect();
        if !state.devices.contains_key(&rotated) && state.devices.len() >= DEVICES_MAX {
            return None;
        }
        Some(Choice { targets: rotated, first: ((new.len() - least) % new.len()) as u32 })
    }

    /// Device with these targets, if it is known here.
    pub(crate) fn device(&self, targets: &[TargetId]) -> Option<DeviceId> {
        self.lock().devices.get(targets).copied()
    }

    /// Adds a device.
    pub(crate) fn learn(&self, targets: Vec<TargetId>, id: DeviceId) {
        self.lock().devices.insert(targets, id);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }
}

/// Targets with free space; all targets when none has, so that the data server answers NOSPC.
fn with_room(usable: &[Usable]) -> Vec<Usable> {
    let roomy: Vec<_> = usable.iter().filter(|u| u.has_room).copied().collect();
    if roomy.is_empty() { usable.to_vec() } else { roomy }
}

/// Free space in MiB, at least 1, so that full disks still take turns.
fn weight(usable: &Usable) -> i128 {
    i128::from((usable.free >> 20).max(1))
}

fn total(usable: &[Usable]) -> i128 {
    usable.iter().map(weight).sum()
}

impl State {
    fn earn(&mut self, usable: &[Usable]) {
        for u in usable {
            *self.credit.entry(u.target).or_default() += weight(u);
        }
    }

    /// Takes the earned credit of all targets in equal parts from the targets that keep the file. Credit has
    /// a bound: a target that was out of turn for long does not get all files afterwards.
    fn pay(&mut self, usable: &[Usable], targets: &[TargetId]) {
        let all = total(usable);
        for target in targets {
            *self.credit.entry(*target).or_default() -= all / targets.len() as i128;
        }
        for u in usable {
            let credit = self.credit.entry(u.target).or_default();
            *credit = (*credit).clamp(-2 * all, 2 * all);
        }
    }

    /// Targets for a device, ascending.
    fn device_for(&self, usable: &[Usable], width: usize) -> Vec<TargetId> {
        let credit = |target: &TargetId| self.credit.get(target).copied().unwrap_or_default();
        let mut best: Vec<TargetId> = usable.iter().map(|u| u.target).collect();
        // At equal credit the lower id comes first, so that the order is always the same.
        best.sort_by_key(|target| (-credit(target), *target));
        best.truncate(width);
        best.sort_unstable();
        if self.devices.contains_key(&best) {
            return best;
        }
        let ascends = |targets: &[TargetId]| targets.windows(2).all(|pair| pair[0] < pair[1]);
        let can = |target: &TargetId| usable.iter().any(|u| u.target == *target);
        let known = self.devices.keys().filter(|targets| ascends(targets) && targets.iter().all(can));
        let known: Vec<_> = known.collect();
        let of_width = || known.iter().filter(|targets| targets.len() == width);
        let sum = |targets: &[TargetId]| targets.iter().map(credit).sum::<i128>();
        if of_width().count() >= devices_wanted(usable.len()) {
            return of_width().max_by_key(|targets| sum(targets)).map_or(best, |found| found.to_vec());
        }
        if self.devices.len() >= DEVICES_MAX {
            let nearest = known.iter().max_by_key(|targets| (targets.len().min(width), sum(targets)));
            return nearest.map_or(best, |found| found.to_vec());
        }
        best
    }

    /// Index in `targets` of the target that gets the first column.
    fn turn(&mut self, usable: &[Usable], targets: &[TargetId]) -> u32 {
        let members = usable.iter().filter(|u| targets.contains(&u.target));
        let members: Vec<_> = members.copied().collect();
        let all = total(&members);
        let mut best: Option<(TargetId, i128)> = None;
        for member in &members {
            let credit = self.first.entry(member.target).or_default();
            *credit = (*credit + weight(member)).clamp(-2 * all, 2 * all);
            if best.is_none_or(|(_, most)| *credit > most) {
                best = Some((member.target, *credit));
            }
        }
        let Some((chosen, _)) = best else { return 0 };
        *self.first.entry(chosen).or_default() -= all;
        targets.iter().position(|target| *target == chosen).unwrap_or(0) as u32
    }
}

#[cfg(test)]
mod tests {
    use namespace::StripeUnit;

    use super::*;

    fn disk(id: u64, free_gib: u64) -> Usable {
        Usable { target: TargetId(id), free: free_gib << 30, has_room: free_gib > 0 }
    }

    fn disks(free_gib: &[u64]) -> Vec<Usable> {
        (0..).zip(free_gib).map(|(id, free)| disk(id, *free)).collect()
    }

    /// Places files, and adds the devices for them.
    fn place(placement: &Placement, usable: &[Usable], columns: u32, files: usize) -> Vec<Choice> {
        let one = |_| {
            let choice = placement.choose(usable, columns).unwrap();
            if placement.device(&choice.targets).is_none() {
                let id = DeviceId(1 + placement.lock().devices.len() as u64);
                placement.learn(choice.targets.clone(), id);
            }
            choice
        };
        (0..files).map(one).collect()
    }

    fn firsts(free_gib: &[u64], columns: u32, files: usize) -> Vec<u64> {
        let choices = place(&Placement::default(), &disks(free_gib), columns, files);
        choices.iter().map(|choice| choice.targets[choice.first as usize].0).collect()
    }

    fn columns_of(choices: &[Choice], id: u64) -> usize {
        choices.iter().filter(|choice| choice.targets.contains(&TargetId(id))).count()
    }

    #[test]
    fn equal_disks_take_turns_and_emptier_ones_get_more() {
        assert_eq!(firsts(&[10, 10, 10, 10], 4, 8), [0, 1, 2, 3, 0, 1, 2, 3]);
        assert_eq!(firsts(&[10, 10, 10], 1, 6), [0, 1, 2, 0, 1, 2]);
        let picks = firsts(&[30, 10], 1, 400);
        assert_eq!(picks.iter().filter(|t| **t == 0).count(), 300);
        assert!(firsts(&[], 1, 0).is_empty());
    }

    #[test]
    fn every_column_is_chosen_by_room() {
        let choices = place(&Placement::default(), &disks(&[40, 40, 40, 10, 10, 10]), 2, 900);
        for (id, expected) in [(0, 480), (1, 480), (2, 480), (3, 120), (4, 120), (5, 120)] {
            let got = columns_of(&choices, id);
            assert!(got.abs_diff(expected) < 60, "target {id} has a column of {got}, not of {expected}");
        }
    }

    #[test]
    fn a_full_target_gets_no_column_while_others_have_room() {
        let choices = place(&Placement::default(), &disks(&[0, 10, 0, 10, 0, 10]), 4, 30);
        let three = [TargetId(1), TargetId(3), TargetId(5)];
        assert!(choices.iter().all(|choice| choice.targets == three), "{choices:?}");
        let none = place(&Placement::default(), &disks(&[0, 0]), 4, 2);
        assert!(none.iter().all(|choice| choice.targets.len() == 2), "they say NOSPC themselves");
    }

    #[test]
    fn devices_stay_few_also_when_targets_come_and_go() {
        let all = disks(&[9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20]);
        let placement = Placement::default();
        place(&placement, &all, 4, 500);
        assert!(placement.lock().devices.len() <= devices_wanted(12));
        let mut after_round = Vec::new();
        for _ in 0..3 {
            for gone in 0..all.len() {
                for also in 0..gone {
                    let there = |u: &&Usable| ![gone as u64, also as u64].contains(&u.target.0);
                    let there: Vec<_> = all.iter().filter(there).copied().collect();
                    place(&placement, &there, 4, 20);
                }
            }
            after_round.push(placement.lock().devices.len());
        }
        assert!(after_round[0] <= 8 * all.len(), "{after_round:?}");
        assert_eq!(after_round[0], after_round[2], "no more are made");
        assert_eq!(placement.choose(&all, 0).unwrap().targets.len(), 12);
        assert_eq!(placement.choose(&all, 100).unwrap().targets.len(), 12);
        assert_eq!(placement.choose(&[], 1), None);
    }

    #[test]
    fn columns_that_move_go_to_targets_that_the_file_does_not_have() {
        let placement = Placement::default();
        let targets = [0, 1, 2].map(TargetId);
        let layout = FileLayout { device: DeviceId(1), first: 1, unit: StripeUnit::DEFAULT, columns: 3 };
        // Column 0 is on target 1, column 1 on 2, column 2 on 0.
        let all = disks(&[10, 10, 10, 0, 30, 10]);
        let choice = placement.choose_again(&all, &layout, &targets, |column| column == 0).unwrap();
        let moved = FileLayout { first: choice.first, ..layout };
        let at = |column| moved.target(&choice.targets, column).unwrap().0;
        assert_eq!([at(0), at(1), at(2)], [4, 2, 0]);
        assert_eq!(choice.targets[0], TargetId(0), "the list begins at its least");
        let twice = placement.choose_again(&all[..4], &layout, &targets, |column| column == 0).unwrap();
        let moved = FileLayout { first: twice.first, ..layout };
        assert_eq!(moved.target(&twice.targets, 0), Some(TargetId(2)), "no other target has room");
        assert!(placement.choose_again(&all[1..2], &layout, &targets, |column| column == 0).is_none());
        let two = placement.choose_again(&all, &layout, &targets, |column| column < 2).unwrap();
        let moved = FileLayout { first: two.first, ..layout };
        let at = |column| moved.target(&two.targets, column).unwrap().0;
        assert_eq!(at(2), 0);
        assert_eq!([at(0), at(1)].iter().sum::<u64>(), 9, "one each on 4 and 5");
    }
}
