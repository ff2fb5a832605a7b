//! Where the data of a new file go: evenly, and by free space.
//!
//! Devices are few and shared. For W columns over T targets there are at most T of them: the windows of W neighbours
//! in the ring of targets; for W = T there is one. A file picks its window, and within it the target of its first
//! column, by weighted round robin: each target gains credit in proportion to its free space, and the one with the
//! most credit is chosen and pays. With equal disks that is plain rotation; an emptier disk gets more files.

use std::collections::BTreeMap;
use std::sync::Mutex;

use namespace::{DeviceId, StripePolicy, StripeUnit, TargetId};

/// The layout of new files where no directory says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DefaultStripe {
    /// Bytes on one column before the next.
    pub unit: StripeUnit,
    /// Columns; 0: one on each target.
    pub columns: u32,
}

impl From<DefaultStripe> for StripePolicy {
    fn from(d: DefaultStripe) -> Self {
        Self { unit: d.unit, columns: d.columns }
    }
}

pub use namespace::COLUMNS_MAX;

/// Whose turn it is, and the devices known so far.
#[derive(Default)]
pub(crate) struct Placement {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    credit: BTreeMap<TargetId, i128>,
    devices: BTreeMap<Vec<TargetId>, DeviceId>,
}

/// A choice: the device's targets and the one to begin with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Choice {
    pub targets: Vec<TargetId>,
    pub first: u32,
}

impl Placement {
    /// Chooses for one new file. `usable`: targets with their free bytes, in the order of their ids.
    pub(crate) fn choose(&self, usable: &[(TargetId, u64)], columns: u32) -> Option<Choice> {
        let count = usable.len();
        let width = match columns {
            0 => count,
            n => (n.min(COLUMNS_MAX) as usize).min(count),
        }
        .min(COLUMNS_MAX as usize);
        if width == 0 {
            return None;
        }
        let first = self.turn(usable)?;
        // The window starts at a multiple of the width where it can, so that few devices are made.
        let start = if width == count { 0 } else { first };
        let targets: Vec<_> = (0..width).map(|i| usable[(start + i) % count].0).collect();
        let first = ((first + count - start) % count) as u32;
        Some(Choice { targets, first })
    }

    /// The index of the target whose turn it is.
    fn turn(&self, usable: &[(TargetId, u64)]) -> Option<usize> {
        let mut state = self.state.lock().ok()?;
        // In MiB and at least 1, so that full disks still take turns and answer NOSPC for themselves.
        let weight = |free: u64| i128::from((free >> 20).max(1));
        let mut best: Option<(usize, i128)> = None;
        let mut total = 0;
        for (index, (id, free)) in usable.iter().enumerate() {
            let credit = state.credit.entry(*id).or_default();
            *credit += weight(*free);
            total += weight(*free);
            if best.is_none_or(|(_, most)| *credit > most) {
                best = Some((index, *credit));
            }
        }
        let (index, _) = best?;
        *state.credit.entry(usable[index].0).or_default() -= total;
        Some(index)
    }

    /// The device with these targets, if it is known here.
    pub(crate) fn device(&self, targets: &[TargetId]) -> Option<DeviceId> {
        self.state.lock().ok()?.devices.get(targets).copied()
    }

    /// Notes a device.
    pub(crate) fn learn(&self, targets: Vec<TargetId>, id: DeviceId) {
        if let Ok(mut state) = self.state.lock() {
            state.devices.insert(targets, id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn firsts(free: &[u64], columns: u32, files: usize) -> Vec<u64> {
        let usable: Vec<_> = free.iter().enumerate().map(|(i, f)| (TargetId(i as u64), f << 30)).collect();
        let placement = Placement::default();
        let pick = |_| {
            let choice = placement.choose(&usable, columns).unwrap();
            choice.targets[choice.first as usize].0
        };
        (0..files).map(pick).collect()
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
    fn devices_stay_few() {
        let usable: Vec<_> = (0..6).map(|i| (TargetId(i), 1 << 40)).collect();
        let placement = Placement::default();
        let mut seen: Vec<_> = (0..100).map(|_| placement.choose(&usable, 2).unwrap().targets).collect();
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 6);
        assert_eq!(placement.choose(&usable, 0).unwrap().targets.len(), 6);
        assert_eq!(placement.choose(&usable, 100).unwrap().targets.len(), 6);
        assert_eq!(placement.choose(&[], 1), None);
    }
}
