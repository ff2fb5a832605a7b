//! Whether the disk has room for more: some is kept for commands that give room back.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use namespace::{Command, OpenTarget};

/// How often the disk's free space is looked at.
const CHECK_EVERY: Duration = Duration::from_millis(100);

/// How much room there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Left {
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
    seen: Mutex<Option<(Instant, Left)>>,
}

impl Space {
    /// The disk of `dir`, of which this much is to stay free; 0: it is not looked at.
    pub(crate) fn new(dir: PathBuf, reserve_bytes: u64) -> Self {
        Self { dir, reserve_bytes, seen: Mutex::default() }
    }

    /// How much room the disk has.
    pub(crate) fn left(&self) -> Left {
        if self.reserve_bytes == 0 {
            return Left::Plenty;
        }
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match *seen {
            Some((at, left)) if at.elapsed() <= CHECK_EVERY => left,
            _ => {
                let free = rustix::fs::statvfs(&self.dir).map(|fs| fs.f_bavail * fs.f_frsize);
                let left = free.map_or(Left::Plenty, |free| left(free, self.reserve_bytes));
                *seen = Some((Instant::now(), left));
                left
            }
        }
    }
}

/// What so many free bytes are where `reserve` are kept.
fn left(free: u64, reserve: u64) -> Left {
    match free {
        _ if free < reserve / 2 => Left::Nothing,
        _ if free < reserve => Left::Reserve,
        _ if free < reserve.saturating_mul(2) => Left::Little,
        _ => Left::Plenty,
    }
}

/// Whether a command takes room that only a later command gives back.
pub(crate) fn makes_something(command: &Command) -> bool {
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
        let all = [0, 31, 32, 63, 64, 127, 128].map(|free| left(free, 64));
        use Left::{Little, Nothing, Plenty, Reserve};
        assert_eq!(all, [Nothing, Nothing, Reserve, Reserve, Little, Little, Plenty]);
    }
}
