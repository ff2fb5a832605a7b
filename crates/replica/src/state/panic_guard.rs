//! Guard for panics of a command that breaks an invariant of the state machine: they are caught, as are
//! panics over a damaged page of the store. Any other panic of a server ends its process (`heorot`), which
//! asks [`is_guarded`].

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Number of commands that broke an invariant in this process.
static FAULTS: AtomicU64 = AtomicU64::new(0);

/// True if a panic on this thread is caught now.
#[must_use]
pub fn is_guarded() -> bool {
    GUARDED.get() || store::is_guarded()
}

/// Number of commands that broke an invariant of the state machine since the process began. Each is logged as
/// an error.
#[must_use]
pub fn faults() -> u64 {
    FAULTS.load(Ordering::Relaxed)
}

pub(crate) fn count_fault() {
    FAULTS.fetch_add(1, Ordering::Relaxed);
}

/// Runs `work`; its panic is an error. State that `work` changed must not be used after a panic.
pub(crate) fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, ()> {
    GUARDED.set(true);
    let outcome = catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(false);
    outcome.map_err(drop)
}
