//! Damage of the store's file: bytes that the disk has altered. redb trusts its pages once it has opened a
//! file, and panics over one that makes no sense. The panic is caught here and becomes an error, since it
//! would end the process, and the next start would meet the same page.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use redb::{DatabaseError, StorageError, TableError, TransactionError};

use crate::{StoreError, Trouble};

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// True if a panic on this thread is caught now, and reported as damage.
#[must_use]
pub fn is_guarded() -> bool {
    GUARDED.get()
}

/// Does `work` with redb; its panic is an error.
pub(crate) fn guarded<T, E: Cause>(
    doing: &'static str,
    work: impl FnOnce() -> Result<T, E>,
) -> Result<T, StoreError> {
    let before = GUARDED.replace(true);
    // redb's own locks are poisoned where that matters: then all that follows is damage, too.
    let outcome = catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(before);
    match outcome {
        Ok(done) => done.map_err(|error| error.into_error(doing)),
        Err(panic) => {
            let said = panic.downcast_ref::<String>().map(String::as_str);
            let said = said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
            Err(StoreError {
                doing,
                cause: format!("the file is damaged: a page makes no sense ({said})"),
                trouble: Trouble::Damaged,
            })
        }
    }
}

/// Error of redb, or one of ours on its way out.
pub(crate) trait Cause {
    fn into_error(self, doing: &'static str) -> StoreError;
}

impl Cause for StoreError {
    fn into_error(self, _: &'static str) -> StoreError {
        self
    }
}

/// Errors of redb, each with the error of the file in it, if any.
macro_rules! causes {
    ($($error:ty, $found:pat => $file:expr;)*) => {
        $(impl Cause for $error {
            fn into_error(self, doing: &'static str) -> StoreError {
                #[allow(unreachable_patterns, reason = "the pattern of a StorageError matches all")]
                let file: Option<&StorageError> = match &self {
                    $found => $file,
                    _ => None,
                };
                let trouble = if file.is_some_and(is_damage) { Trouble::Damaged } else { Trouble::Failed };
                StoreError { doing, cause: self.to_string(), trouble }
            }
        })*
    };
}

causes! {
    StorageError, error => Some(error);
    TransactionError, TransactionError::Storage(error) => Some(error);
    TableError, TableError::Storage(error) => Some(error);
    redb::CommitError, redb::CommitError::Storage(error) => Some(error);
    redb::SetDurabilityError, _ => None;
}

/// True if the bytes of the file are not those of a store. False for an unknown version, which may be a later
/// one, and for an error of the disk, which may be temporary.
pub(crate) fn is_damage_at_open(error: &DatabaseError) -> bool {
    match error {
        DatabaseError::RepairAborted => true,
        DatabaseError::Storage(error) => is_damage(error),
        _ => false,
    }
}

fn is_damage(error: &StorageError) -> bool {
    use std::io::ErrorKind;
    match error {
        // Poisoned: a panic over a damaged page was caught before.
        StorageError::Corrupted(_) | StorageError::LockPoisoned(_) => true,
        StorageError::Io(error) => matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::UnexpectedEof),
        _ => false,
    }
}
