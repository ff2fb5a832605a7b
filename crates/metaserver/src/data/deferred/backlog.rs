//! Progress of each target with deferred object operations. Only open records are sent to a target. A target
//! that does not answer is tried again after a pause that grows.
//!
//! ```text
//! records       1  2  3  4  5  6  7  8
//! mark          ────────────────────▶│     done by all targets that are not behind
//! target 9      ──────▶│ behind, until 12:00:07
//! ```
//!
//! Records have ascending ids, so one number is enough for a target's progress. The leader keeps it in
//! memory. A new leader begins at 0, since a removal that is done twice does no harm.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use namespace::TargetId;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

/// The first pause after a failure; each further failure doubles it.
const PAUSE_MIN: Duration = Duration::from_millis(500);
/// Maximum pause. It is for failures of a data server that stays registered: a registration ends the pause.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Maximum of open truncations in memory; beyond it, all records are read again.
const TRUNCATIONS_MAX: usize = 10_000;

/// Progress of all targets, and truncations under way.
#[derive(Default)]
pub(crate) struct Backlog(Mutex<State>);

#[derive(Default)]
struct State {
    /// Last record that all targets which are not behind have done.
    mark: u64,
    behind: BTreeMap<TargetId, Behind>,
    /// Truncations found and not done, by the ids of their records.
    truncations: BTreeMap<u64, Pause>,
    /// True if there are open truncations that are not in `truncations`.
    more_truncations: bool,
}

struct Behind {
    mark: u64,
    pause: Pause,
    /// True if the target is tried in this round.
    tried: bool,
}

/// Pause before the next try of something that failed.
pub(crate) struct Pause {
    failures: u32,
    until: Instant,
}

impl Pause {
    pub(crate) fn none(now: Instant) -> Self {
        Self { failures: 0, until: now }
    }

    pub(crate) fn is_over(&self, now: Instant) -> bool {
        self.until <= now
    }

    pub(crate) fn grow(&mut self, now: Instant) {
        let factor = 1u32 << self.failures.min(8);
        self.failures += 1;
        self.until = now + (PAUSE_MIN * factor).min(PAUSE_MAX);
    }
}

impl Backlog {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }

    /// Forgets everything: another metaserver leads.
    pub(crate) fn reset(&self) {
        *self.lock() = State::default();
    }

    /// Ends the pauses of these targets, and of all truncations.
    pub(crate) fn retry_now(&self, targets: &[TargetId]) {
        let mut state = self.lock();
        for target in targets {
            if let Some(behind) = state.behind.get_mut(target) {
                behind.pause = Pause::none(Instant::now());
            }
        }
        state.more_truncations = true;
        state.truncations.clear();
    }

    /// Begins a round. Returns the record after which the round begins. Records for `lost` targets are
    /// skipped.
    pub(crate) fn begin(&self, lost: &BTreeSet<TargetId>, now: Instant) -> u64 {
        let mut state = self.lock();
        let mut after = if state.more_truncations { 0 } else { state.mark };
        state.more_truncations = false;
        state.behind.retain(|target, behind| {
            behind.tried = behind.pause.until <= now;
            let is_lost = lost.contains(target);
            if behind.tried || is_lost {
                after = after.min(behind.mark);
            }
            !is_lost
        });
        after
    }

    /// True if the record is to be sent to the target in this round.
    pub(crate) fn is_open(&self, target: TargetId, record: u64) -> bool {
        let state = self.lock();
        match state.behind.get(&target) {
            Some(behind) => behind.tried && behind.mark < record,
            None => state.mark < record,
        }
    }

    /// True if the target has done the record, after the open records up to it were sent.
    pub(crate) fn has_done(&self, target: TargetId, record: u64) -> bool {
        self.lock().behind.get(&target).is_none_or(|behind| behind.mark >= record)
    }

    /// Notes that the target has done all records up to `record`.
    pub(crate) fn done(&self, target: TargetId, record: u64) {
        if let Some(behind) = self.lock().behind.get_mut(&target) {
            behind.mark = behind.mark.max(record);
        }
    }

    /// Notes that the target has not done the records after `record`.
    pub(crate) fn failed(&self, target: TargetId, record: u64, now: Instant) {
        let mut state = self.lock();
        let mark = state.mark.max(record);
        let new = || Behind { mark, pause: Pause::none(now), tried: false };
        let behind = state.behind.entry(target).or_insert_with(new);
        behind.tried = false;
        behind.pause.grow(now);
    }

    /// Ends a round that processed all records, up to `last`.
    pub(crate) fn end(&self, last: u64) {
        let mut state = self.lock();
        state.mark = state.mark.max(last);
        state.behind.retain(|_, behind| !behind.tried);
    }

    /// Adds a truncation.
    pub(crate) fn truncation_found(&self, record: u64, now: Instant) {
        let mut state = self.lock();
        if state.truncations.len() < TRUNCATIONS_MAX {
            state.truncations.entry(record).or_insert_with(|| Pause::none(now));
        } else if !state.truncations.contains_key(&record) {
            state.more_truncations = true;
        }
    }

    /// Truncations to try now.
    pub(crate) fn truncations_due(&self, now: Instant) -> Vec<u64> {
        let state = self.lock();
        state.truncations.iter().filter(|(_, pause)| pause.until <= now).map(|(record, _)| *record).collect()
    }

    /// Notes a try of a truncation; `is_over`: nothing is left to do.
    pub(crate) fn truncation_tried(&self, record: u64, is_over: bool, now: Instant) {
        let mut state = self.lock();
        if is_over {
            state.truncations.remove(&record);
        } else if let Some(pause) = state.truncations.get_mut(&record) {
            pause.grow(now);
        }
    }

    /// Time of the next try; none: nothing has failed.
    pub(crate) fn next_try(&self) -> Option<Instant> {
        let state = self.lock();
        let targets = state.behind.values().map(|behind| behind.pause.until);
        targets.chain(state.truncations.values().map(|pause| pause.until)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: TargetId = TargetId(1);
    const B: TargetId = TargetId(2);

    /// Sends all open records up to `last`; returns the records sent to each target.
    fn round(
        backlog: &Backlog,
        last: u64,
        away: &[TargetId],
        lost: &[TargetId],
        now: Instant,
    ) -> Vec<(u64, u64)> {
        let after = backlog.begin(&lost.iter().copied().collect(), now);
        let mut sent = Vec::new();
        for record in after + 1..=last {
            for target in [A, B] {
                if !lost.contains(&target) && backlog.is_open(target, record) {
                    sent.push((target.0, record));
                    match away.contains(&target) {
                        true => backlog.failed(target, record - 1, now),
                        false => backlog.done(target, record),
                    }
                }
            }
        }
        backlog.end(last);
        sent
    }

    #[test]
    fn a_target_that_is_away_holds_up_no_other_and_gets_only_what_it_missed() {
        let backlog = Backlog::default();
        let now = Instant::now();
        assert_eq!(round(&backlog, 2, &[B], &[], now), [(1, 1), (2, 1), (1, 2)]);
        assert!(backlog.has_done(A, 2) && !backlog.has_done(B, 1));
        assert_eq!(round(&backlog, 3, &[B], &[], now), [(1, 3)], "it has a pause");
        let later = now + PAUSE_MIN;
        assert_eq!(round(&backlog, 3, &[B], &[], later), [(2, 1)]);
        assert_eq!(round(&backlog, 3, &[B], &[], later + PAUSE_MIN), [], "the pause is longer now");
        backlog.retry_now(&[B]);
        let back = Instant::now() + PAUSE_MIN;
        assert_eq!(round(&backlog, 4, &[], &[], back), [(2, 1), (2, 2), (2, 3), (1, 4), (2, 4)]);
        assert!(backlog.has_done(B, 4));
        assert_eq!(round(&backlog, 4, &[], &[], back), []);
        assert_eq!(backlog.next_try(), None);
    }

    #[test]
    fn records_that_wait_for_a_target_are_gone_through_again_when_it_is_lost() {
        let backlog = Backlog::default();
        let now = Instant::now();
        round(&backlog, 5, &[B], &[], now);
        assert_eq!(backlog.begin(&BTreeSet::new(), now), 5);
        assert_eq!(backlog.begin(&BTreeSet::from([B]), now), 0);
        assert!(backlog.has_done(B, 5), "nothing is waited for");
    }

    #[test]
    fn pauses_grow_to_a_bound() {
        let (backlog, mut now) = (Backlog::default(), Instant::now());
        backlog.truncation_found(7, now);
        for _ in 0..20 {
            assert_eq!(backlog.truncations_due(now), [7]);
            backlog.truncation_tried(7, false, now);
            let next = backlog.next_try().unwrap();
            assert!(next - now >= PAUSE_MIN && next - now <= PAUSE_MAX);
            now = next;
        }
        backlog.truncation_tried(7, true, now);
        assert_eq!(backlog.next_try(), None);
    }
}
