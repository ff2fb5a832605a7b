//! CPU time of a process with all its threads.

/// User and system seconds of process `pid`, including those of its ended threads.
///
/// # Panics
/// If there is no such process.
#[track_caller]
pub fn cpu_seconds(pid: u32) -> f64 {
    lab::cpu_seconds(pid).unwrap_or_else(|e| panic!("{e}"))
}
