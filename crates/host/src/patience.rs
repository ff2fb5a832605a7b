//! What the system has too little of for a moment is waited for: descriptors of files, memory.
//!
//! To the metadata's log and store such an error would be one of the disk, which they do not survive, although nothing is wrong
//! with the disk.

use std::io;
use std::time::Duration;

use rustix::io::Errno;

/// The first wait, and the longest: each is twice the one before.
const WAIT: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// Does `work`, again while the system has no descriptor or no memory for it, or a signal came. That is logged once.
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
            tracing::error!(doing, %error, "the system has too few descriptors or too little memory for the metadata: they wait; free some");
        }
        std::thread::sleep(wait);
        wait = (wait * 2).min(WAIT.1);
    }
}

/// Whether an error says nothing of the file or the disk.
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
