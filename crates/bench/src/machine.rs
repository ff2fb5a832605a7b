//! Description of a machine for the file of results.

use rustix::system::{sysinfo, uname};

use crate::result::Machine;
use crate::target::Target;

/// Describes this machine.
#[must_use]
pub fn this(target: &dyn Target) -> Machine {
    let (names, info) = (uname(), sysinfo());
    let text = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    Machine {
        host: text(names.nodename()),
        kernel: format!("{} {}", text(names.sysname()), text(names.release())),
        cpus: std::thread::available_parallelism().map_or(0, |n| u32::try_from(n.get()).unwrap_or(u32::MAX)),
        memory_bytes: info.totalram.saturating_mul(u64::from(info.mem_unit)),
        target: target.describe(),
        clock: None,
    }
}
