//! Benchmark of any file system: load from one process or from many machines, and files of results.
//!
//! In: a run (`run/`, one file each) and its target (`target/`). A run is a list of phases; a team (`team`)
//! executes each with all its workers, started together (`crew`, `work/`), on this machine or on many
//! (`agents/`). Out: one JSON file (`result`), with each result next to the bound of the hardware (`model`),
//! and one page of several such files (`page`, with `plot`). This crate does not depend on the servers;
//! `tests` starts them and measures their CPU.

pub mod agents;
mod aligned;
pub mod common;
pub mod crew;
pub mod data;
pub mod latencies;
pub mod machine;
mod measured;
pub mod model;
pub mod output;
pub mod page;
pub mod phase;
pub mod plot;
pub mod report;
pub mod result;
pub mod run;
pub mod session;
mod space;
pub mod table;
pub mod target;
pub mod task;
pub mod team;
pub mod trouble;
pub mod work;
