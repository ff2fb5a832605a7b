//! Retries of operations for which the system lacks resources for a moment: file descriptors, memory.
//!
//! The metadata log and store treat any other error as a fault of the disk and stop, although the disk is
//! sound.

use std::io;
use std::time::{Duration, Instant};

use rustix::io::Errno;

/// First and maximal wait; each wait doubles.
const WAIT: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// Runs `work`, with retries while the system has no descriptor or no memory for it, or after a signal. Logs
/// the shortage once.
///
/// # Errors
/// Any other error of `work`.
pub fn patiently<T>(doing: &str, mut work: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let mut wait = WAIT.0;
    loop {
        let error = match work() {
            Err(error) if passes(&error) => error,
            outcome => return outcome,
        };
        if wait == WAIT.0 && error.kind() != io::ErrorKind::Interrupted {
            tracing::error!(doing, %error, "the system has too few descriptors or too little memory for the metadata, waiting; free some");
        }
        std::thread::sleep(wait);
        wait = (wait * 2).min(WAIT.1);
    }
}

/// Time limit for space on a full disk. A metaserver that is stopped also waits at most this long.
const ROOM_TIME_MAX: Duration = Duration::from_secs(60);
/// Retry interval for a write to a full disk.
const TRY_AGAIN: Duration = Duration::from_millis(50);

/// Runs a write as [`patiently`] does, with retries for a minute while the disk is full. Logs that once.
///
/// # Errors
/// Any other error of `work`, or the error that the disk is full.
pub fn with_room<T>(doing: &str, mut work: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let mut since = None;
    loop {
        let error = match patiently(doing, &mut work) {
            Err(error) if is_full(&error) => error,
            outcome => return outcome,
        };
        let began = *since.get_or_insert_with(|| {
            tracing::error!(doing, %error, "the disk is full, retrying for a minute; free some space");
            Instant::now()
        });
        if began.elapsed() >= ROOM_TIME_MAX {
            return Err(error);
        }
        std::thread::sleep(TRY_AGAIN);
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Whether an error is a shortage of resources, not of the file or the disk.
fn passes(error: &io::Error) -> bool {
    let number = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(number, Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::INTR))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_is_waited_for_and_what_does_not_is_said() {
        for errno in [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::INTR] {
            let mut times = 0;
            let outcome = patiently("open", || {
                times += 1;
                if times < 3 { Err(io::Error::from_raw_os_error(errno.raw_os_error())) } else { Ok(times) }
            });
            assert_eq!(outcome.unwrap(), 3);
        }
        for errno in [Errno::IO, Errno::NOSPC, Errno::NOENT] {
            let mut times = 0;
            let outcome: io::Result<()> = patiently("open", || {
                times += 1;
                Err(io::Error::from_raw_os_error(errno.raw_os_error()))
            });
            assert_eq!((outcome.unwrap_err().raw_os_error(), times), (Some(errno.raw_os_error()), 1));
        }
    }
}
