//! Care of the targets in the background: settling of sums, mending of damaged blocks, looks for lost objects,
//! and scrubs. Each target has tasks of its own, so
//! that a disk that hangs holds no other.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::attached::FillStep;
use crate::checksums::{ChecksumCounts, Scrub, ScrubRecord, ScrubRun, ScrubStep, Settling, Verify};
use crate::object::ObjectName;
use crate::server::DataServer;
use crate::target::Target;
use crate::targets::TargetList;

/// Interval of the settling of sums.
const SETTLE_EVERY: Duration = Duration::from_secs(1);
/// Interval of the looks whether the files of open objects are still there: 512 calls of the kernel, a millisecond.
const LOOK_FOR_FILES: Duration = Duration::from_secs(3);
/// Longest interval of the looks whether a scrub is due, since the settings may change; interval of the notes of its
/// progress, and of the tries after an error.
const SCRUB_LOOK: Duration = Duration::from_secs(60);
/// Interval of the attempts to mend blocks that could not be mended.
const MEND_AGAIN: Duration = Duration::from_secs(10);
/// Pause between two passes over the damaged blocks, some of which may be damaged at all members.
const MEND_PAUSE: Duration = Duration::from_millis(100);
/// Blocks of a target that are mended at a time: clients' reads that wait for others have places, too.
const MENDS_AT_A_TIME: usize = 8;
/// Interval of the looks for attached objects that are to be filled.
const FILL_AGAIN: Duration = Duration::from_secs(10);
/// Pause after some hundred looks.
const FILL_LOOK_PAUSE: Duration = Duration::from_millis(100);
/// Pause after an object that could not be filled.
const FILL_PAUSE: Duration = Duration::from_secs(1);
/// A scrub is not slower than this, so that a small target is not read for weeks.
const SCRUB_BYTES_PER_SECOND_MIN: u64 = 1 << 20;
/// An object costs at least as much time as the reading of so many bytes, since a disk has to seek.
const STEP_BYTES_MIN: u64 = 16 << 10;

/// Settings of the checks of a data server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checks {
    /// Time from the begin of a scrub of a target to that of the next; zero: there is none.
    pub scrub_time: Duration,
    /// Upper limit for each target, in bytes a second; also of the reading after a crash.
    pub scrub_rate: u64,
}

impl Default for Checks {
    fn default() -> Self {
        Self { scrub_time: Duration::from_secs(14 * 86_400), scrub_rate: 32 << 20 }
    }
}

impl Checks {
    /// Rate of a scrub of so many bytes that nothing disturbs: twice what would be in time.
    fn rate(&self, bytes: u64) -> u64 {
        let needed = bytes / self.scrub_time.as_secs().max(1);
        needed.saturating_mul(2).max(SCRUB_BYTES_PER_SECOND_MIN).min(self.scrub_rate.max(1))
    }
}

/// Time until the next look at a scrub that is due at this second. Zero: it is due.
fn time_until(due: u64, now: u64) -> Duration {
    Duration::from_secs(due.saturating_sub(now)).min(SCRUB_LOOK)
}

fn time_of(bytes: u64, rate: u64) -> Duration {
    Duration::from_micros(bytes.saturating_mul(1_000_000) / rate.max(1))
}

/// What the checks of a target have found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetChecks {
    /// Target id.
    pub id: u64,
    /// Findings since the start.
    pub counts: ChecksumCounts,
    /// The scrub under way, and the last one.
    pub scrub: ScrubRecord,
    /// Calls since the start that needed an object that is missing.
    pub lost_object_calls: u64,
}

impl DataServer {
    /// What the checks of each target have found.
    #[must_use]
    pub fn checks_of_targets(&self) -> Vec<TargetChecks> {
        let checks = |target: &Arc<Target>| TargetChecks {
            id: target.id(),
            counts: target.objects().checksum_counts(),
            scrub: target.scrub_record(),
            lost_object_calls: target.objects().lost_object_calls.load(Ordering::Relaxed),
        };
        self.present_targets().iter().map(checks).collect()
    }

    /// Sets the checks. They hold from the next step on.
    pub fn set_checks(&self, checks: Checks) {
        *self.checks.lock() = checks;
    }

    /// Sets when blocks are verified: on these targets by scrubs only, on all others at each read, too.
    pub fn set_verified_at_scrub(&self, targets: &[u64]) {
        for target in self.present_targets().iter() {
            let is_at_scrub = targets.contains(&target.id());
            target.objects().set_verify(if is_at_scrub { Verify::Scrub } else { Verify::Read });
        }
    }

    /// Brings the data and sums of all targets to the disk, as is done some seconds after each change: then the next
    /// process has nothing unsettled, and other members of its chains need not be compared with it. Ends early when
    /// `ends`, between some objects and the next. Blocks.
    pub fn settle(&self, ends: &dyn Fn() -> bool) {
        for target in self.present_targets().iter().filter(|target| !target.objects().lost()) {
            target.chain_records().finish_writing();
            let under_way = |name: &ObjectName| self.chains.under_way(target.id(), name);
            let may_forget = || target.may_settle();
            target.objects().settle_all(&Settling {
                ends,
                may_forget: &may_forget,
                under_way: &under_way,
                ..Settling::default()
            });
        }
    }

    /// Cares for the targets, also for those that are added, for ever; ends when it is dropped, and a disk operation
    /// under way after it.
    pub async fn care_for_targets(self: Arc<Self>) {
        let mut tasks = JoinSet::new();
        let (mut targets, mut cared_for) = (self.targets.watch(), 0);
        loop {
            let all = TargetList::clone(&targets.get_and_mark());
            for target in &all[cared_for..] {
                tasks.spawn(settle(Arc::clone(&self), Arc::clone(target)));
                tasks.spawn(scrub(Arc::clone(&self), Arc::clone(target)));
                tasks.spawn(fill(Arc::clone(&self), Arc::clone(target)));
                tasks.spawn(mend(Arc::clone(&self), Arc::clone(target)));
                tasks.spawn(find_lost_objects(Arc::clone(&self), Arc::clone(target)));
            }
            cared_for = all.len();
            if targets.changed().await.is_err() {
                return; // the list is this server's own
            }
        }
    }
}

async fn settle(server: Arc<DataServer>, target: Arc<Target>) {
    loop {
        sleep(SETTLE_EVERY).await;
        let rate = server.checks.lock().scrub_rate;
        let (of, chains) = (Arc::clone(&target), Arc::clone(&server.chains));
        let settled = target.run(move |objects| {
            if of.may_begin_to_settle() {
                let under_way = |name: &ObjectName| chains.under_way(of.id(), name);
                let pace = |bytes| of.blocking().pause(time_of(bytes, rate));
                let may_forget = || of.may_settle();
                objects.settle(&Settling {
                    pace: &pace,
                    may_forget: &may_forget,
                    under_way: &under_way,
                    ..Settling::default()
                });
            }
            Ok(())
        });
        let _ = settled.await; // a failure is logged where it happens
    }
}

/// Mends damaged blocks of objects with copies, for ever: at once when one is found, and again in intervals,
/// since the other members may have been away.
async fn mend(server: Arc<DataServer>, target: Arc<Target>) {
    loop {
        let _ = timeout(MEND_AGAIN, target.objects().checksums.findings.news()).await;
        let mut after = None;
        loop {
            let page = target.objects().checksums.findings.damaged_after(after, MENDS_AT_A_TIME);
            let Some(last) = page.last().copied() else { break };
            after = Some(last);
            let mut mends = JoinSet::new();
            for (name, block) in page {
                let (chains, target) = (Arc::clone(&server.chains), Arc::clone(&target));
                mends.spawn(async move { chains.mend_found(&target, name, block).await });
            }
            while mends.join_next().await.is_some() {}
        }
        sleep(MEND_PAUSE).await;
    }
}

/// Fills attached objects, for ever.
async fn fill(server: Arc<DataServer>, target: Arc<Target>) {
    let mut from = None;
    loop {
        let calls = target.objects().calls();
        let step = target.run(move |objects| Ok(objects.fill_step(from))).await.unwrap_or(FillStep::Ended);
        from = match step {
            FillStep::Filled(name, bytes) => {
                let is_busy = target.objects().calls() != calls;
                let rate = server.checks.lock().scrub_rate;
                sleep(time_of(bytes.max(STEP_BYTES_MIN), rate) * if is_busy { 2 } else { 1 }).await;
                Some(name)
            }
            FillStep::Rests(name) => {
                sleep(FILL_LOOK_PAUSE).await;
                name.next()
            }
            FillStep::Failed(name, error) => {
                tracing::debug!(target = %target.path().display(), %name, %error, "an attached object is not filled");
                sleep(FILL_PAUSE).await;
                name.next()
            }
            FillStep::Ended => {
                // Those before the one that it began with, or that could not be filled, have their turn later.
                let _ = timeout(FILL_AGAIN, target.objects().attachments.news()).await;
                None
            }
        };
    }
}

async fn find_lost_objects(server: Arc<DataServer>, target: Arc<Target>) {
    loop {
        sleep(LOOK_FOR_FILES).await;
        server.chains.find_lost_objects(&target).await;
    }
}

/// Scrubs a target, for ever. A scrub that a restart interrupted goes on. While clients read and write it has
/// half of its rate.
async fn scrub(server: Arc<DataServer>, target: Arc<Target>) {
    let clock = &server.clock;
    let now = || u64::try_from(clock.wall().seconds).unwrap_or(0);
    loop {
        let mut record = target.scrub_record();
        let checks = *server.checks.lock();
        let due = record.last.map_or(0, |last| last.begun + checks.scrub_time.as_secs());
        let left = if checks.scrub_time.is_zero() { SCRUB_LOOK } else { time_until(due, now()) };
        if checks.scrub_time.is_zero() || record.begun.is_none() && !left.is_zero() {
            sleep(left).await;
            continue;
        }
        let begun = *record.begun.get_or_insert_with(now);
        let (mut scrub, bytes_before, found_before) =
            (Scrub::resume(record.after()), record.bytes, record.found);
        let found_in_all = |target: &Target| {
            let counts = target.objects().checksum_counts();
            counts.damaged + counts.sums_damaged + counts.rewritten
        };
        let found_at_begin = found_in_all(&target);
        let (mut noted, mut calls) = (clock.monotonic(), target.objects().calls());
        let mut rate = SCRUB_BYTES_PER_SECOND_MIN;
        loop {
            let checks = *server.checks.lock();
            if checks.scrub_time.is_zero() {
                break;
            }
            let is_due = clock.monotonic() >= noted + SCRUB_LOOK || scrub.objects == 0;
            let step = target.run(move |objects| {
                let space = if is_due { Some(objects.space()?) } else { None };
                let step = objects.scrub_step(&mut scrub)?;
                Ok((step, scrub, space.map(|space| space.total.saturating_sub(space.free))))
            });
            let Ok((step, next, used)) = step.await else {
                sleep(SCRUB_LOOK).await;
                break; // it goes on from the last note
            };
            scrub = next;
            rate = used.map_or(rate, |used| checks.rate(used));
            record.bytes = bytes_before + scrub.bytes;
            record.found = found_before + found_in_all(&target).saturating_sub(found_at_begin);
            let ScrubStep::Read(read) = step else {
                let run = ScrubRun { begun, ended: now(), bytes: record.bytes, found: record.found };
                log_end(&target, run);
                note(&target, ScrubRecord::ended(run), true).await;
                break;
            };
            record.set_after(scrub.after);
            if is_due {
                noted = clock.monotonic();
            }
            note(&target, record.clone(), is_due).await;
            let is_busy = std::mem::replace(&mut calls, target.objects().calls()) != calls;
            sleep(time_of(read.max(STEP_BYTES_MIN), rate) * if is_busy { 2 } else { 1 }).await;
        }
    }
}

async fn note(target: &Arc<Target>, record: ScrubRecord, durable: bool) {
    if !durable {
        target.note_scrub(record, false);
        return;
    }
    let noting = Arc::clone(target);
    let _ = target.blocking().run(move || noting.note_scrub(record, true)).await;
}

fn log_end(target: &Target, run: ScrubRun) {
    let ScrubRun { begun, ended, bytes, found } = run;
    let (target, seconds) = (target.path().display(), ended.saturating_sub(begun));
    if found == 0 {
        tracing::info!(%target, bytes, seconds, "the scrub of a target ended: all blocks fit their checksums");
    } else {
        tracing::error!(
            %target, bytes, seconds, found,
            "the scrub of a target found damaged blocks or checksums: each has a line of its own. Check the disk (dmesg, \
             smartctl)"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scrub_is_in_time_at_half_its_rate_within_its_limits() {
        let checks = Checks { scrub_time: Duration::from_secs(1000), scrub_rate: 64 << 20 };
        assert_eq!(checks.rate(10_000 << 20), 20 << 20);
        assert_eq!(checks.rate(1 << 20), SCRUB_BYTES_PER_SECOND_MIN);
        assert_eq!(checks.rate(u64::MAX), 64 << 20);
        assert_eq!(time_of(1 << 20, 1 << 20), Duration::from_secs(1));
        assert_eq!(Checks { scrub_rate: 0, ..checks }.rate(5), 1);
    }
}
