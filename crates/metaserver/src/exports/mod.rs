//! Exports: which clients see which directories, under which rules.

pub(crate) mod admission;
pub(crate) mod pseudo;
pub(crate) mod refusals;
mod rules;

pub use refusals::Refusals;
pub(crate) use rules::*;
pub use rules::{Access, Export, Exports, NOBODY, Rules, Squash};
