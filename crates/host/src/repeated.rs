//! Counter of an event that may repeat without end: a log line for each would fill the disk.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

/// Interval in which a repeated event gets a line of its own, however often it was logged before.
const LINE_EVERY: std::time::Duration = std::time::Duration::from_secs(3600);

/// Counter of a repeated event, which says when to log it: the first time, at each doubling of the number,
/// and once an hour.
#[derive(Debug, Default)]
pub struct Repeated {
    count: AtomicU64,
    logged: Mutex<Option<Instant>>,
}

impl Repeated {
    /// Counter of no event.
    #[must_use]
    pub const fn new() -> Self {
        Self { count: AtomicU64::new(0), logged: Mutex::new(None) }
    }

    /// Counts the event. Returns the number of events, if this one is to be logged.
    pub fn count(&self) -> Option<u64> {
        self.count_at(Instant::now())
    }

    fn count_at(&self, now: Instant) -> Option<u64> {
        let count = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        let mut logged = self.logged.lock();
        let is_old = logged.is_none_or(|at| now.saturating_duration_since(at) >= LINE_EVERY);
        if !is_old && !count.is_power_of_two() {
            return None;
        }
        *logged = Some(now);
        Some(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_logged_at_each_doubling_and_once_an_hour() {
        let repeated = Repeated::new();
        let begin = Instant::now();
        let logged: Vec<u64> = (0..100).filter_map(|_| repeated.count_at(begin)).collect();
        assert_eq!(logged, [1, 2, 4, 8, 16, 32, 64]);
        assert_eq!(repeated.count_at(begin + LINE_EVERY), Some(101));
        assert_eq!(repeated.count_at(begin + LINE_EVERY), None);
    }
}
