//! Command-line parts that `heorot` and `heorot-bench` share.
//!
//! In: arguments, environment, signals. Out: one line for each failure with an exit status, logs on standard
//! error, and the description of a command line for manual pages and completions. This crate does not depend
//! on servers, files or benchmarks.

pub mod description;
pub mod documented;
mod failure;
pub mod limits;
pub mod logging;
pub mod signals;
pub mod usage;

pub use failure::{Failure, INTERRUPTED, TAKEN_OUT, UNKNOWN};
