//! Options of a target.

use std::sync::Arc;

use host::{Clock, SystemClock};

use crate::disk::{Disk, SystemDisk};
use crate::environment::Blocking;
use crate::shared_trash::SharedTrash;

/// Files kept open for one target. A process may open 1024 files unless it asks for more, and connections
/// need some.
pub const OPEN_FILES_MAX: usize = 512;

/// Options to open a target.
pub struct TargetOptions {
    /// File I/O of its objects.
    pub disk: Arc<dyn Disk>,
    /// Objects' files kept open.
    pub open_files_max: usize,
    /// The time of removals.
    pub clock: Arc<dyn Clock>,
    /// The trash of other targets of the process, which its own joins.
    pub shared_trash: SharedTrash,
    /// The place of its work.
    pub blocking: Blocking,
    /// Bytes of each object that are written through the kernel's cache; large writes behind them go past it. None: a
    /// part of the machine's memory.
    pub kept_in_cache: Option<u64>,
}

impl Default for TargetOptions {
    fn default() -> Self {
        Self {
            disk: Arc::new(SystemDisk),
            open_files_max: OPEN_FILES_MAX,
            clock: Arc::new(SystemClock::default()),
            shared_trash: SharedTrash::default(),
            blocking: Blocking::default(),
            kept_in_cache: None,
        }
    }
}
