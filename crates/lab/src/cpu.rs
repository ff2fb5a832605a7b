//! CPU time of a process with all its threads.

use std::fs;
use std::path::Path;

use crate::{Error, Result};

/// User and system seconds of process `pid`, including those of its ended threads.
///
/// # Errors
/// When there is no such process.
pub fn cpu_seconds(pid: u32) -> Result<f64> {
    let path = format!("/proc/{pid}/stat");
    let stat = fs::read_to_string(&path).map_err(Error::file("read", Path::new(&path)))?;
    // The name, in brackets, may have blanks. After it come the third and the following fields (proc(5)).
    let fields: Vec<&str> = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
    let ticks = |field: usize| fields.get(field - 3).and_then(|f| f.parse::<f64>().ok());
    let (Some(user), Some(system)) = (ticks(14), ticks(15)) else {
        return Err(Error::Impossible(format!("{path} has no times: {stat:?}")));
    };
    Ok((user + system) / rustix::param::clock_ticks_per_second() as f64)
}
