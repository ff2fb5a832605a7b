//! Free space on the disk. A reserve is kept for commands that free space.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use namespace::{Command, OpenTarget};
use parking_lot::Mutex;

/// Interval of checks of the disk's free space.
const CHECK_EVERY: Duration = Duration::from_millis(100);

/// Amount of free space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FreeSpace {
    /// Too little even to write the store to disk.
    Nothing,
    /// Less than the reserve, which is kept for commands that free space.
    Reserve,
    /// So little that another member should lead.
    Little,
    /// Enough.
    Plenty,
}

/// Free space at the last check.
pub(crate) struct Space {
    dir: PathBuf,
    reserve_bytes: u64,
    last_check: Mutex<Option<(Instant, FreeSpace)>>,
}

impl Space {
    /// Watches the disk of `dir`, of which `reserve_bytes` are to stay free. 0: the disk is not checked.
    pub(crate) fn new(dir: PathBuf, reserve_bytes: u64) -> Self {
        Self { dir, reserve_bytes, last_check: Mutex::default() }
    }

    /// Amount of free space, at most [`CHECK_EVERY`] old.
    pub(crate) fn free(&self) -> FreeSpace {
        if self.reserve_bytes == 0 {
            return FreeSpace::Plenty;
        }
        let mut last_check = self.last_check.lock();
        match *last_check {
            Some((at, free)) if at.elapsed() <= CHECK_EVERY => free,
            _ => {
                let free = rustix::fs::statvfs(&self.dir).map(|fs| fs.f_bavail * fs.f_frsize);
                let state = free.map_or(FreeSpace::Plenty, |free| classify(free, self.reserve_bytes));
                *last_check = Some((Instant::now(), state));
                state
            }
        }
    }
}

/// Class of `free_bytes` where `reserve_bytes` are kept.
fn classify(free_bytes: u64, reserve_bytes: u64) -> FreeSpace {
    match free_bytes {
        _ if free_bytes < reserve_bytes / 2 => FreeSpace::Nothing,
        _ if free_bytes < reserve_bytes => FreeSpace::Reserve,
        _ if free_bytes < reserve_bytes.saturating_mul(2) => FreeSpace::Little,
        _ => FreeSpace::Plenty,
    }
}

/// True if a command takes space that only a later command frees.
pub(crate) fn needs_space(command: &Command) -> bool {
    match command {
        Command::Create(_) | Command::Link { .. } | Command::Rename { .. } => true,
        Command::WriteInline { .. } => true,
        // Unauthenticated clients can send these.
        Command::ExchangeId { .. } | Command::CreateSession { .. } => true,
        Command::Open(open) | Command::OpenOrDelegate(open) => {
            matches!(open.target, OpenTarget::Create { .. })
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_fills_up_in_steps() {
        let all = [0, 31, 32, 63, 64, 127, 128].map(|free| classify(free, 64));
        use FreeSpace::{Little, Nothing, Plenty, Reserve};
        assert_eq!(all, [Nothing, Nothing, Reserve, Reserve, Little, Little, Plenty]);
    }
}
