//! A task carried out by one worker: got ready before the common start, timed from there.
//!
//! One file for each kind of task. Before each record or name, work asks its [`Turn`] whether to go on, and
//! after each it says what it did.

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

/// A task that is ready to start: files are open, buffers are there.
pub trait Work: Send {
    /// Does it.
    ///
    /// # Errors
    /// The trouble, with its file and place.
    fn carry_out(self: Box<Self>, turn: &mut Turn<'_>) -> Result<(), Trouble>;
}

/// Gets a task ready; this is not timed.
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
