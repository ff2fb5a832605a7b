//! Bound of a phase by the model.

use std::collections::BTreeSet;

use super::setup::{Files, Hardware, Load, Setup};
use super::solve::Solution;
use crate::phase::Phase;
use crate::result::{Bound, Cache};
use crate::task::Task;

/// Bound of a phase by `hardware`, if the model covers the phase: one that moves file data in one direction,
/// and not from the client's own page cache.
#[must_use]
pub fn bound(hardware: &Hardware, phase: &Phase) -> Option<Bound> {
    let load = load(phase)?;
    let solution = Solution::of(&Setup::new(*hardware, load).ok()?);
    Some(Bound { rate: solution.rate(), binds: solution.binds().name().into() })
}

fn load(phase: &Phase) -> Option<Load> {
    if phase.cache == Cache::Warm {
        return None;
    }
    let mut direction = None;
    let mut files = BTreeSet::new();
    let mut clients = 0;
    for worker_tasks in &phase.tasks {
        let mut works = false;
        for task in worker_tasks {
            match task {
                Task::Rest => continue,
                Task::Transfer(transfer)
                    if *direction.get_or_insert(transfer.direction) == transfer.direction =>
                {
                    files.insert(&transfer.path);
                    works = true;
                }
                Task::Transfer(_)
                | Task::Make(_)
                | Task::Clear(_)
                | Task::Names(_)
                | Task::Walk(_)
                | Task::Tree(_) => return None,
            }
        }
        clients += u64::from(works);
    }
    Some(Load { clients, direction: direction?, files: Files::Shared(files.len() as u64) })
}
