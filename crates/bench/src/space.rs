//! Disk space that a run needs, computed before it begins.

use std::collections::BTreeMap;

use host::size;

use crate::phase::Phase;
use crate::task::{Direction, NameOperation, Task, TreeOperation};
use crate::trouble::Trouble;
use crate::work::tree;

/// Refuses a run without enough space.
///
/// # Errors
/// When there is not enough space.
pub fn check(phases: &[Phase], free_bytes: Option<u64>) -> Result<(), Trouble> {
    let needed = needed_bytes(phases);
    match free_bytes {
        Some(free) if free < needed => Err(Trouble(format!(
            "this run writes up to {}, but only {} are free there: free some space, or choose a smaller --size, or fewer \
             --files",
            size::show(needed),
            size::show(free)
        ))),
        _ => Ok(()),
    }
}

/// Maximal space of the run's files at any time.
fn needed_bytes(phases: &[Phase]) -> u64 {
    let mut files: BTreeMap<String, u64> = BTreeMap::new();
    let mut most = 0;
    // The amount of a phase with a time limit is unknown.
    let known = phases.iter().filter(|phase| phase.limit.is_none());
    for task in known.flat_map(|phase| phase.tasks.iter().flatten()) {
        match task {
            Task::Transfer(t) if t.direction == Direction::Write => {
                let r = t.records;
                let end = r.offset(r.count.saturating_sub(1)).saturating_add(r.record_bytes);
                let file = files.entry(t.path.clone()).or_default();
                *file = end.max(*file);
            }
            Task::Names(n) if n.operation == NameOperation::Create => {
                let dir = n.dirs.first().map_or("", String::as_str);
                files.insert(format!("{dir}/{}{}", n.prefix, n.first), n.count.saturating_mul(n.file_bytes));
            }
            Task::Names(n) if n.operation == NameOperation::Unlink => {
                let dir = n.dirs.first().map_or("", String::as_str);
                files.remove(&format!("{dir}/{}{}", n.prefix, n.first));
            }
            Task::Tree(t) if t.operation == TreeOperation::Unpack => {
                files.insert(t.dir.clone(), tree::bytes_about(t.files));
            }
            Task::Tree(t) if t.operation == TreeOperation::Remove => {
                files.remove(&t.dir);
            }
            Task::Clear(folder) => files.retain(|path, _| !path.starts_with(&format!("{folder}/"))),
            Task::Rest
            | Task::Make(_)
            | Task::Transfer(_)
            | Task::Names(_)
            | Task::Walk(_)
            | Task::Tree(_) => {}
        }
        most = most.max(files.values().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes)));
    }
    most
}
