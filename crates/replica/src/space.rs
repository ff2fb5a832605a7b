//! Whether the disk has room for more: some is kept for commands that give room back.

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use namespace::{Command, OpenTarget};

/// How often the disk's free space is looked at.
const CHECK_EVERY: Duration = Duration::from_millis(100);

/// What was seen last.
pub(crate) struct Space {
    dir: PathBuf,
    reserve_bytes: u64,
    seen: Mutex<Option<(Instant, bool)>>,
}

impl Space {
    /// The disk of `dir`, of which this much is to stay free.
    pub(crate) fn new(dir: PathBuf, reserve_bytes: u64) -> Self {
        Self { dir, reserve_bytes, seen: Mutex::default() }
    }

    /// Whether the disk is nearly full.
    pub(crate) fn is_low(&self) -> bool {
        if self.reserve_bytes == 0 {
            return false;
        }
        let Ok(mut seen) = self.seen.lock() else { return false };
        match *seen {
            Some((at, low)) if at.elapsed() <= CHECK_EVERY => low,
            _ => {
                let low = rustix::fs::statvfs(&self.dir)
                    .is_ok_and(|fs| fs.f_bavail * fs.f_frsize < self.reserve_bytes);
                *seen = Some((Instant::now(), low));
                low
            }
        }
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
