//! A panic that is caught: that of a command that breaks an invariant of the state machine. Any other panic of a server ends
//! its process (`heorot`), which asks [`is_guarded`].

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Commands that broke an invariant in this process.
static FAULTS: AtomicU64 = AtomicU64::new(0);

/// Whether a panic on this thread is caught now.
#[must_use]
pub fn is_guarded() -> bool {
    GUARDED.get()
}

/// Commands that broke an invariant of the state machine since the process began. Each is in the log, as an error.
#[must_use]
pub fn faults() -> u64 {
    FAULTS.load(Ordering::Relaxed)
}

pub(crate) fn count_fault() {
    FAULTS.fetch_add(1, Ordering::Relaxed);
}

/// Does `work`, whose panic is an error. What it worked on must not be used after one.
pub(crate) fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, ()> {
    GUARDED.set(true);
    let outcome = catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(false);
    outcome.map_err(drop)
}
