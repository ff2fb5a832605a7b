//! Whether the disk has room for more: some is kept for commands that give room back.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use namespace::{Command, OpenTarget};

/// How often the disk's free space is looked at.
const CHECK_EVERY: Duration = Duration::from_millis(100);

/// How much room there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FreeSpace {
    /// Not even what bringing the store to disk takes.
    Nothing,
    /// What is kept for commands that give room back.
    Reserve,
    /// So little that somebody else should lead.
    Little,
    /// Enough.
    Plenty,
}

/// What was seen last.
pub(crate) struct Space {
    dir: PathBuf,
    reserve_bytes: u64,
    last_check: Mutex<Option<(Instant, FreeSpace)>>,
}

impl Space {
    /// The disk of `dir`, of which this much is to stay free; 0: it is not looked at.
    pub(crate) fn new(dir: PathBuf, reserve_bytes: u64) -> Self {
        Self { dir, reserve_bytes, last_check: Mutex::default() }
    }

    /// How much room the disk has.
    pub(crate) fn free(&self) -> FreeSpace {
        if self.reserve_bytes == 0 {
            return FreeSpace::Plenty;
        }
        let mut last_check = self.last_check.lock().unwrap_or_else(PoisonError::into_inner);
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

/// What so many free bytes are where `reserve` are kept.
fn classify(free_bytes: u64, reserve_bytes: u64) -> FreeSpace {
    match free_bytes {
        _ if free_bytes < reserve_bytes / 2 => FreeSpace::Nothing,
        _ if free_bytes < reserve_bytes => FreeSpace::Reserve,
        _ if free_bytes < reserve_bytes.saturating_mul(2) => FreeSpace::Little,
        _ => FreeSpace::Plenty,
    }
}

/// Whether a command takes room that only a later command gives back.
pub(crate) fn needs_space(command: &Command) -> bool {
    match command {
        Command::Create(_) | Command::Link { .. } | Command::Rename { .. } => true,
        Command::WriteInline { .. } => true,
        // Anyone can send these without having proved anything.
        Command::ExchangeId { .. } | Command::CreateSession { .. } => true,
        Command::Open(open) => matches!(open.target, OpenTarget::Create { .. }),
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
