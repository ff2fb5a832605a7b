//! What a benchmark needs of any file system: a load with one or several processes, and a report of what was measured.
//!
//! In: a mounted directory, and a row's name. Out: operations and seconds, and, of many such pairs, a table. It never
//! learns whose servers are behind the directory; who starts them and looks at their CPU is in `tests`.

pub mod operation;
pub mod phase;
pub mod report;
pub mod result;
pub mod target;
pub mod task;
