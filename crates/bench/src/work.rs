//! Execution of a task by one worker: prepared before the common start, timed from there.
//!
//! One file for each kind of task. Before each record or name, work asks its [`Turn`] whether to continue,
//! and reports to it after each.

mod folders;
mod names;
pub(crate) mod tally;
mod transfer;
pub(crate) mod tree;
mod turn;
mod walk;
mod whole_file;

pub use tally::{Progress, Stage};
pub use turn::Turn;

use std::sync::Arc;

use crate::phase::Phase;
use crate::target::Target;
use crate::task::Task;
use crate::trouble::Trouble;

/// Task that is ready to start: files are open, buffers are allocated.
pub trait Work: Send {
    /// Executes the task.
    ///
    /// # Errors
    /// Error with its file and offset.
    fn carry_out(self: Box<Self>, turn: &mut Turn<'_>) -> Result<(), Trouble>;
}

/// Prepares a task; this is not timed.
///
/// # Errors
/// As [`Work::carry_out`].
pub fn prepare(task: &Task, phase: &Phase, target: &Arc<dyn Target>) -> Result<Box<dyn Work>, Trouble> {
    match task {
        Task::Rest => Ok(Box::new(Rest)),
        Task::Make(path) => Ok(Box::new(folders::Make { path: path.clone(), target: target.clone() })),
        Task::Clear(path) => Ok(Box::new(folders::Clear { path: path.clone(), target: target.clone() })),
        Task::Transfer(transfer) => transfer::prepare(transfer, phase, &**target),
        Task::Names(names) => names::prepare(names, phase, target),
        Task::Walk(walk) => walk::prepare(walk, target),
        Task::Tree(tree) => Ok(tree::prepare(tree, phase, target)),
    }
}

struct Rest;

impl Work for Rest {
    fn carry_out(self: Box<Self>, _turn: &mut Turn<'_>) -> Result<(), Trouble> {
        Ok(())
    }
}
