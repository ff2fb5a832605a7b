//! CPU time of a process with all its threads.

use std::fs;

/// User and system seconds of process `pid`, including those of its ended threads.
///
/// # Panics
/// If there is no such process.
#[track_caller]
pub fn cpu_seconds(pid: u32) -> f64 {
    let path = format!("/proc/{pid}/stat");
    let stat = fs::read_to_string(&path).unwrap_or_else(|e| panic!("read {path}: {e}"));
    // The name, in brackets, may have blanks. After it come the third and the following fields (proc(5)).
    let fields: Vec<&str> = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
    let ticks = |field: usize| fields.get(field - 3).and_then(|f| f.parse::<f64>().ok()).expect("a number");
    (ticks(14) + ticks(15)) / rustix::param::clock_ticks_per_second() as f64
}
