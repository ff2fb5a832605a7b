//! Clocks: wall time for time stamps, which may jump, and monotonic time for leases.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

/// Wall time: seconds since 1970 and nanoseconds below 10^9.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct WallTime {
    /// Seconds since 1970-01-01T00:00:00Z.
    pub seconds: i64,
    /// 0 to 999,999,999.
    pub nanoseconds: u32,
}

/// Source of time.
pub trait Clock: Send + Sync + 'static {
    /// The time of day.
    fn wall(&self) -> WallTime;
    /// Time since a fixed moment of this process; never decreases.
    fn monotonic(&self) -> Duration;
}

/// Clocks of the machine.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { start: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn wall(&self) -> WallTime {
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => WallTime {
                seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
                nanoseconds: since.subsec_nanos(),
            },
            // A clock before 1970 is a fault of the machine; use the epoch then.
            Err(_) => WallTime { seconds: 0, nanoseconds: 0 },
        }
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }
}

/// Clock that only a test advances.
#[derive(Debug, Default)]
pub struct ManualClock {
    now: Mutex<Duration>,
}

impl ManualClock {
    /// Advances both clocks.
    ///
    /// # Panics
    /// When another thread panicked while it held the clock.
    pub fn advance(&self, by: Duration) {
        *self.now.lock() += by;
    }
}

impl Clock for ManualClock {
    fn wall(&self) -> WallTime {
        let now = self.monotonic();
        WallTime { seconds: 1_000_000_000 + now.as_secs() as i64, nanoseconds: now.subsec_nanos() }
    }

    fn monotonic(&self) -> Duration {
        *self.now.lock()
    }
}
