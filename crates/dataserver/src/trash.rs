//! The trash of a target: removed objects are kept for a while, so that a removal that should not have been
//! (of a metaserver that was restored from an old backup, say) can be undone by hand.
//!
//! ```text
//! trash/000001764230400/00000001.000000000000002a.00000003.00000000
//!       │               the object's name
//!       period of 10 minutes in which it was removed, by its begin: seconds since 1970, 15 digits
//! ```
//!
//! Its bytes count as free: they are given back, the oldest first, as soon as a write needs them, and in any
//! case when it has been there for as long as the operator set.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use host::Clock;
use parking_lot::{Mutex, MutexGuard};

use crate::held_dir::{HeldDir, Visit};
use crate::object::ObjectName;

/// No time to keep removed objects is set yet: until a metaserver sets one, none is given up for its age.
const UNTOLD: u64 = u64::MAX;
/// Length of a period: a day has 144 directories of it.
const PERIOD_SECONDS: u64 = 600;
/// Objects in the trash of a target at most, for each takes an inode of its file system; the oldest go first.
const ENTRIES_MAX: u64 = 1 << 20;

/// Removed objects of one period.
#[derive(Debug, Clone, Copy, Default)]
struct Period {
    entries: u64,
    bytes: u64,
}

/// The trash of one target.
pub(crate) struct Trash {
    dir: HeldDir,
    clock: Arc<dyn Clock>,
    /// Seconds that objects are kept.
    keep: AtomicU64,
    periods: Mutex<BTreeMap<u64, Period>>,
    /// Bytes in all periods.
    bytes: AtomicU64,
    /// Held by the thread that removes for good: other threads wait for the bytes that it frees.
    emptying: Mutex<()>,
}

impl Trash {
    /// The trash in `dir`. Looks at all that is in it.
    pub(crate) fn open(dir: HeldDir, clock: Arc<dyn Clock>) -> io::Result<Self> {
        let mut periods = BTreeMap::new();
        let mut found = Vec::new();
        dir.names(|name, _| {
            found.extend(parse(name));
            Visit::GoOn
        })?;
        for begin in found {
            let of_period = dir.child(&directory(begin))?;
            let mut period = Period::default();
            of_period.names(|name, _| {
                period.entries += 1;
                period.bytes += of_period.allocated_bytes(name).unwrap_or(0);
                Visit::GoOn
            })?;
            periods.insert(begin, period);
        }
        let bytes = AtomicU64::new(periods.values().map(|period| period.bytes).sum());
        let keep = AtomicU64::new(UNTOLD);
        Ok(Self { dir, clock, keep, periods: Mutex::new(periods), bytes, emptying: Mutex::default() })
    }

    /// Objects are kept for this time from now on; zero: not at all.
    pub(crate) fn set_time(&self, keep: Duration) {
        self.keep.store(keep.as_secs(), Ordering::Relaxed);
    }

    /// Bytes that emptying it would free.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Takes a file of the object in, which is `file` in `from`, and is called `name` here. Not durable before `from` is synced.
    ///
    /// # Errors
    /// `NotFound` if it is not there, and the kernel's. On a disk without room for the trash's own entry, or
    /// where the operator wants none, it is removed for good.
    pub(crate) fn take(&self, from: &HeldDir, file: &str, name: &str) -> io::Result<()> {
        if self.keep.load(Ordering::Relaxed) == 0 {
            return from.remove_file(file);
        }
        let bytes = from.allocated_bytes(file)?;
        let now = self.now();
        let begin = now - now % PERIOD_SECONDS;
        match self.move_in(from, file, begin, name) {
            Ok(()) => {}
            // Its directory was just removed as empty.
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.move_in(from, file, begin, name)?,
            Err(error) if lacks_room(&error) => return from.remove_file(file),
            Err(error) => return Err(error),
        }
        let mut periods = self.periods();
        let period = periods.entry(begin).or_default();
        period.entries += 1;
        period.bytes += bytes;
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    fn move_in(&self, from: &HeldDir, file: &str, begin: u64, name: &str) -> io::Result<()> {
        let directory = directory(begin);
        self.dir.create_dir(&directory)?;
        from.move_file(file, &self.dir, &format!("{directory}/{name}"))
    }

    /// True if the object was removed and is still in the trash.
    pub(crate) fn contains(&self, name: &ObjectName) -> io::Result<bool> {
        let begins: Vec<u64> = self.periods().keys().rev().copied().collect();
        for begin in begins {
            if self.dir.contains(&format!("{}/{name}", directory(begin)))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Removes for good the objects that have been here for long enough, and those over the bound.
    pub(crate) fn sweep(&self) -> io::Result<()> {
        let _one = self.emptying.lock();
        let oldest_kept = self.now().saturating_sub(self.keep.load(Ordering::Relaxed));
        loop {
            let oldest = {
                let periods = self.periods();
                let entries: u64 = periods.values().map(|period| period.entries).sum();
                // A period has ended before any of it is old enough, so nothing is put into it while it goes.
                let old = |begin: u64| begin + PERIOD_SECONDS <= oldest_kept;
                let oldest = periods.keys().next().copied();
                oldest.filter(|begin| old(*begin) || entries > ENTRIES_MAX && periods.len() > 1)
            };
            let Some(begin) = oldest else { return Ok(()) };
            self.remove_from(begin, u64::MAX)?;
            if self.periods().contains_key(&begin) {
                return Ok(()); // there are things in it that are not ours
            }
        }
    }

    /// Removes for good, the oldest first, until `bytes` are freed or it is empty. Returns how many were.
    pub(crate) fn reclaim(&self, bytes: u64) -> io::Result<u64> {
        let before = self.bytes();
        let _one = self.emptying.lock();
        // The bytes that another thread freed meanwhile may be enough.
        let mut freed = before.saturating_sub(self.bytes());
        while freed < bytes {
            let Some(begin) = self.periods().keys().next().copied() else { break };
            let more = self.remove_from(begin, bytes - freed)?;
            if more == 0 && self.periods().contains_key(&begin) {
                break; // there are things in it that are not ours
            }
            freed += more;
        }
        Ok(freed)
    }

    /// Removes objects of one period until `bytes` are freed, and the period when none is left. The caller
    /// has `emptying`.
    fn remove_from(&self, begin: u64, bytes: u64) -> io::Result<u64> {
        let of_period = match self.dir.child(&directory(begin)) {
            Ok(dir) => dir,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.forget(begin);
                return Ok(0);
            }
            Err(error) => return Err(error),
        };
        let mut freed = 0;
        let mut trouble = None;
        of_period.names(|name, _| {
            if freed >= bytes {
                return Visit::Stop;
            }
            let one = of_period.allocated_bytes(name).unwrap_or(0);
            match of_period.remove_file(name) {
                Ok(()) => {
                    freed += one;
                    if let Some(period) = self.periods().get_mut(&begin) {
                        period.entries = period.entries.saturating_sub(1);
                        period.bytes = period.bytes.saturating_sub(one);
                    }
                    let _ = self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |all| {
                        Some(all.saturating_sub(one))
                    });
                    Visit::GoOn
                }
                Err(error) => {
                    trouble = Some(error);
                    Visit::Stop
                }
            }
        })?;
        if let Some(error) = trouble {
            return Err(error);
        }
        if freed < bytes || self.periods().get(&begin).is_none_or(|period| period.entries == 0) {
            match self.dir.remove_dir(&directory(begin)) {
                Ok(()) => self.forget(begin),
                Err(error) if error.kind() == io::ErrorKind::NotFound => self.forget(begin),
                // Objects came in meanwhile.
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
                Err(error) => return Err(error),
            }
        }
        Ok(freed)
    }

    fn forget(&self, begin: u64) {
        if let Some(period) = self.periods().remove(&begin) {
            let _ = self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |all| {
                Some(all.saturating_sub(period.bytes))
            });
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.clock.wall().seconds).unwrap_or(0)
    }

    fn periods(&self) -> MutexGuard<'_, BTreeMap<u64, Period>> {
        self.periods.lock()
    }
}

fn directory(begin: u64) -> String {
    format!("{begin:015}")
}

fn parse(name: &str) -> Option<u64> {
    let plain = name.len() == 15 && name.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| name.parse().ok())?
}

fn lacks_room(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
