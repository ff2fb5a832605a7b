//! Measures any file system: a load made by one process or by many machines at once, and files of results.
//!
//! In: a run (`run/`, one file for each) and what it is to be done to (`target/`). A run is a list of phases;
//! a team (`team`) carries each out with all its workers, started together (`crew`, `work/`), on this machine
//! or on many (`agents/`). Out: one JSON file (`result`), in which each figure stands beside what the
//! hardware allows (`model`), and of several such files one page (`page`, with `plot`). It never learns whose
//! servers are behind a directory; who starts them and looks at their CPU is in `tests`.

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
