//! What data servers report of the refilling of members of chains: how much is left, and how fast it goes.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use namespace::DataServerId;
use wire::cluster::register::Refill;

use super::{DataServers, SILENT_AFTER};

/// Time over which the rate is taken.
const RATE_OVER: Duration = Duration::from_secs(10);
/// Reports kept of a data server, at most.
const REPORTS_MAX: usize = 128;

/// Refilling of all members of chains.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Refilling {
    /// Bytes that members are still to be compared with, of those that are compared whole.
    pub left: u64,
    /// Bytes compared since nothing was left.
    pub done: u64,
    /// Bytes compared in a second.
    pub per_second: u64,
    /// Members that are compared whole.
    pub members: u64,
    /// Bytes of their chains.
    pub bytes: u64,
}

impl Refilling {
    /// Bytes of a chain, on the average.
    #[must_use]
    pub fn bytes_of_chain(&self) -> u64 {
        self.bytes.checked_div(self.members).unwrap_or(0)
    }

    fn with(self, other: Refilling) -> Refilling {
        Refilling {
            left: self.left.saturating_add(other.left),
            done: self.done.saturating_add(other.done),
            per_second: self.per_second.saturating_add(other.per_second),
            members: self.members.saturating_add(other.members),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }
}

/// Reports of all data servers.
#[derive(Default)]
pub(super) struct Refills(BTreeMap<DataServerId, Reports>);

/// Reports of one data server.
struct Reports {
    process: u64,
    last: Refill,
    /// Bytes that the process had compared when nothing was left for the last [`RATE_OVER`].
    before: u64,
    /// Time of the last report with members.
    busy_at: Option<Duration>,
    /// Time, and bytes that the process had compared; the last [`RATE_OVER`].
    compared: VecDeque<(Duration, u64)>,
}

impl Reports {
    fn note(&mut self, now: Duration, report: Refill) {
        self.last = report;
        // Between two chains of one repair a data server has none for a moment.
        let was_busy = self.busy_at.is_some_and(|at| now.saturating_sub(at) <= RATE_OVER);
        match report.members {
            0 if was_busy => {}
            0 => self.before = report.compared,
            _ => {
                self.busy_at = Some(now);
                if !was_busy {
                    self.compared.clear(); // the rate is that of the refilling
                }
            }
        }
        self.compared.push_back((now, report.compared));
        let is_old = |(at, _): &(Duration, u64)| now.saturating_sub(*at) > RATE_OVER;
        while self.compared.len() > REPORTS_MAX || self.compared.get(1).is_some_and(is_old) {
            self.compared.pop_front();
        }
    }

    fn refilling(&self, now: Duration) -> Refilling {
        let (Some((first, from)), Some((last, to))) = (self.compared.front(), self.compared.back()) else {
            return Refilling::default();
        };
        if now.saturating_sub(*last) >= SILENT_AFTER {
            return Refilling::default();
        }
        let bytes = u128::from(to.saturating_sub(*from));
        let per_second = (bytes * 1000).checked_div(last.saturating_sub(*first).as_millis()).unwrap_or(0);
        Refilling {
            left: self.last.left,
            done: to.saturating_sub(self.before),
            per_second: u64::try_from(per_second).unwrap_or(u64::MAX),
            members: self.last.members,
            bytes: self.last.bytes,
        }
    }
}

impl Refills {
    /// Keeps those of these data servers.
    pub(super) fn retain(&mut self, keeps: impl Fn(DataServerId) -> bool) {
        self.0.retain(|server, _| keeps(*server));
    }
}

impl DataServers {
    /// Notes what this process of a data server has reported.
    pub fn note_refilling(&self, server: DataServerId, process: u64, report: Refill) {
        let now = self.clock.monotonic();
        let mut refills = self.refills.lock();
        let new = || Reports {
            process,
            last: report,
            before: report.compared,
            busy_at: None,
            compared: VecDeque::new(),
        };
        let reports = refills.0.entry(server).or_insert_with(new);
        if reports.process != process {
            *reports = new();
        }
        reports.note(now, report);
    }

    /// The refilling of members, by the reports of the last seconds.
    #[must_use]
    pub fn refilling(&self) -> Refilling {
        let now = self.clock.monotonic();
        let refills = self.refills.lock();
        refills.0.values().map(|reports| reports.refilling(now)).fold(Refilling::default(), Refilling::with)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(left: u64, compared: u64) -> Refill {
        Refill { members: 2, bytes: 3000, left, compared }
    }

    #[test]
    fn the_rate_is_that_of_the_last_seconds_and_what_is_done_counts_from_the_last_rest() {
        let last = Refill::default();
        let mut reports = Reports { process: 1, last, before: 0, busy_at: None, compared: VecDeque::new() };
        let second = Duration::from_secs;
        assert_eq!(reports.refilling(second(1)), Refilling::default());
        reports.note(second(1), Refill { compared: 500, ..Refill::default() });
        reports.note(second(2), report(1000, 500));
        reports.note(second(4), report(400, 1100));
        let refilling = Refilling { left: 400, done: 600, per_second: 300, members: 2, bytes: 3000 };
        assert_eq!(reports.refilling(second(4)), refilling);
        assert_eq!(refilling.with(refilling).bytes_of_chain(), 1500);
        assert_eq!(reports.refilling(second(9)), Refilling::default(), "it is silent");
        for at in 5..30 {
            reports.note(second(at), report(300, 1000 + 100 * at));
        }
        let now = reports.refilling(second(29));
        assert_eq!((now.left, now.done, now.per_second), (300, 3400, 100));
        let none = Refill { compared: 4000, ..Refill::default() };
        reports.note(second(31), none);
        assert_eq!(reports.refilling(second(31)).done, 3500, "between two chains");
        reports.note(second(45), none);
        assert_eq!(reports.refilling(second(45)).done, 0);
        assert!(reports.compared.len() <= 12, "{:?}", reports.compared);
        for at in 0..1000 {
            reports.note(second(50), report(300, at));
        }
        assert!(reports.compared.len() <= REPORTS_MAX + 1);
        assert_eq!(reports.refilling(second(50)).per_second, 0, "all of the same moment");
    }
}
