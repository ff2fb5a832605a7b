//! Pace of refilling: a limit in bytes per second, and a share that is left to clients.
//!
//! While clients read or write here, one region at a time is compared, and a pause follows that is as many times as long
//! as the region took. So refilling has the same share of whatever binds: a disk, a link or the processors. Of several
//! heads that refill one data server each takes its part of that share, and so has each data server that a head refills.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

/// Default limit, in bytes per second: less than one disk reads.
pub const REFILL_RATE: u64 = 256 << 20;
/// While clients work, refilling has one of so many parts of the time.
const PARTS: u32 = 3;
/// Pauses of one that is refilled by dirty logs: little is missing, and soon there.
const PAUSES_BY_LOGS: u32 = 1;
/// Parts, at most: of many heads that refill one data server.
const PARTS_MAX: u32 = 64;
/// Longest pause after a region: refilling ends, whatever clients do.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Time after a call of a client in which clients count as working.
const BUSY_FOR: Duration = Duration::from_millis(100);

/// Pace of all refills of this server.
pub(super) struct Pace {
    /// Bytes per second.
    rate: AtomicU64,
    /// Data servers that are refilled.
    members: AtomicU32,
    /// The one region at a time.
    only: Semaphore,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Time from which the limit allows the next bytes.
    next: Option<Instant>,
    /// Calls of clients, when they were last looked at; the time until which clients count as working.
    calls: u64,
    busy_until: Option<Instant>,
    /// End of the pause.
    pause_ends: Option<Instant>,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            rate: AtomicU64::new(REFILL_RATE),
            members: AtomicU32::new(1),
            only: Semaphore::new(1),
            state: Mutex::default(),
        }
    }
}

/// How a member is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// By dirty logs.
    ByLogs,
    /// Whole; so many data servers refill targets of the member's data server.
    Whole {
        /// These data servers.
        heads: u32,
    },
}

/// Permission to compare a region; its drop is the region's end.
pub(super) struct Turn<'a> {
    pace: &'a Pace,
    began: Instant,
    /// Pause that follows, for each part of its time.
    pauses: u32,
    /// None: no client works here.
    only: Option<SemaphorePermit<'a>>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if self.only.is_some() {
            let pause = self.began.elapsed().saturating_mul(self.pauses).min(PAUSE_MAX);
            self.pace.state.lock().pause_ends = Some(Instant::now() + pause);
        }
    }
}

impl Pace {
    /// Sets the limit, in bytes per second.
    pub(super) fn set_rate(&self, rate: u64) {
        self.rate.store(rate.max(1), Ordering::Relaxed);
    }

    /// Sets the number of data servers that this one refills.
    pub(super) fn refills(&self, members: usize) {
        self.members.store(u32::try_from(members).unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    /// Pause after a region of a member that so many data servers refill, for each part of the region's time.
    fn pauses(&self, kind: Kind) -> u32 {
        match kind {
            Kind::ByLogs => PAUSES_BY_LOGS,
            Kind::Whole { heads } => {
                let members = self.members.load(Ordering::Relaxed).max(1);
                PARTS.saturating_mul(heads).div_ceil(members).clamp(PARTS, PARTS_MAX) - 1
            }
        }
    }

    /// Waits until `bytes` more may be compared. `calls`: calls of clients so far.
    pub(super) async fn turn(&self, bytes: u64, calls: u64, kind: Kind) -> Turn<'_> {
        // It is never closed.
        let only = if self.is_busy(calls) { self.only.acquire().await.ok() } else { None };
        let pauses = self.pauses(kind);
        let until = {
            let mut state = self.state.lock();
            let now = Instant::now();
            let next = state.next.map_or(now, |next| next.max(now));
            let time = bytes.saturating_mul(1_000_000_000) / self.rate.load(Ordering::Relaxed);
            state.next = Some(next + Duration::from_nanos(time));
            let pause_ends = state.pause_ends.filter(|_| only.is_some());
            pause_ends.map_or(next, |ends| ends.max(next))
        };
        tokio::time::sleep_until(until).await;
        Turn { pace: self, began: Instant::now(), pauses, only }
    }

    fn is_busy(&self, calls: u64) -> bool {
        let mut state = self.state.lock();
        let now = Instant::now();
        if std::mem::replace(&mut state.calls, calls) != calls {
            state.busy_until = Some(now + BUSY_FOR);
        }
        state.busy_until.is_some_and(|until| now < until)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::task::JoinSet;

    use super::*;

    const MIB: u64 = 1 << 20;

    /// Compares `regions`, each of 1 MiB and 10 ms, on `tasks` tasks; returns the time.
    async fn compare(
        pace: &Arc<Pace>,
        tasks: usize,
        regions: usize,
        calls: fn() -> u64,
        heads: u32,
    ) -> Duration {
        let began = Instant::now();
        let mut all = JoinSet::new();
        for _ in 0..tasks {
            let pace = Arc::clone(pace);
            all.spawn(async move {
                for _ in 0..regions {
                    let _turn = pace.turn(MIB, calls(), Kind::Whole { heads }).await;
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            });
        }
        all.join_all().await;
        began.elapsed()
    }

    fn idle() -> u64 {
        7
    }

    fn busy() -> u64 {
        static CALLS: AtomicU64 = AtomicU64::new(0);
        CALLS.fetch_add(1, Ordering::Relaxed)
    }

    fn is_about(time: Duration, ms: u64) -> bool {
        (ms * 9 / 10..ms * 11 / 10 + 20).contains(&(time.as_millis() as u64))
    }

    #[tokio::test(start_paused = true)]
    async fn without_clients_only_the_limit_binds() {
        let pace = Arc::new(Pace::default());
        pace.state.lock().calls = idle();
        let time = compare(&pace, 4, 25, idle, 1).await;
        assert!(is_about(time, 400), "100 MiB at 256 MiB/s: {time:?}");
        pace.set_rate(10 * MIB);
        let time = compare(&pace, 4, 25, idle, 1).await;
        assert!(is_about(time, 10_000), "{time:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn clients_have_two_thirds_of_the_time() {
        let pace = Arc::new(Pace::default());
        let time = compare(&pace, 4, 25, busy, 1).await;
        assert!(is_about(time, 3000), "100 regions of 10 ms: {time:?}");
        let time = compare(&pace, 4, 25, busy, 3).await;
        assert!(is_about(time, 9000), "three data servers refill one: {time:?}");
        pace.refills(3);
        assert!(is_about(compare(&pace, 1, 25, busy, 3).await, 750), "each of them refills three");
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_region_is_not_followed_by_a_long_pause() {
        let pace = Pace::default();
        let turn = pace.turn(MIB, 1, Kind::Whole { heads: 1 }).await;
        tokio::time::sleep(Duration::from_secs(30)).await;
        drop(turn);
        let began = Instant::now();
        drop(pace.turn(MIB, 2, Kind::ByLogs).await);
        assert_eq!(began.elapsed().as_millis(), PAUSE_MAX.as_millis());
    }
}
