//! Dirty log: what changed in chains of which not all members are in. A member that comes back is refilled by it, and
//! not compared with all data of the chain.
//!
//! ```text
//! version without a member ─▶ ranges of all changes under way, and of all later ones ─▶ version with all members in: empty
//! ```
//!
//! Of two members of a chain, each keeps such a log. Whatever they differ in is in one of the two logs, or a change of
//! it is under way at one of them. For a member acknowledges a change only when all others that are in have it:
//!
//! - What this member did without the other one came after it heard that the other one is not in, or was under way
//!   then.
//! - What the process before this one had noted, and what it may have lost, is in the file `unsettled`
//!   (`chain::dirty_log_file`): the log begins with that.
//!
//! So the log is complete for members of which the former process's was, or that were in, in the last version that the
//! target's record of the chain has (`chain::records`), and for those that are in in a later version. A member that was
//! refilled itself has got what it does not know: for those that were not in meanwhile its log is not complete.
//!
//! A process that starts may hear of a version from before its start. So the first one that it hears of never counts as
//! one in which all are in, but for the first version of the chain.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use wire::data::{self, MemberState};

use super::locks::RangeLocks;
use super::records::Kept;
use super::regions::DirtyRegions;
use crate::object::ObjectName;

/// Objects of one chain that are told apart. With more, all of the chain's count as dirty.
pub(crate) const OBJECTS_MAX: usize = 16_384;
/// Objects and ranges of all chains: 50 MiB.
const WEIGHT_MAX: usize = 1 << 20;

/// Dirty objects of a chain, in the order of LIST.
pub(crate) type DirtyObjects = BTreeMap<ObjectName, DirtyRegions>;

/// The log of one chain.
#[derive(Debug, Default)]
struct Log {
    /// The first version that this process heard of, if it is not earlier than the last one of the former process.
    first: u32,
    /// False until this process has heard of a version.
    is_heard_of: bool,
    /// True if all members are in: then nothing is noted.
    is_whole: bool,
    /// Targets for which the log is complete, each with the latest version in which it was in.
    covers: BTreeMap<u64, u32>,
    objects: DirtyObjects,
    /// All objects may be dirty: there are too many, or they are not known.
    is_overfull: bool,
    /// Objects that were not here when a forwarded change came, while the member was refilled: true for those that the
    /// head was told of. The others may lack what they had before.
    made: BTreeMap<ObjectName, bool>,
    /// True if the head refills this member by logs.
    is_asked: bool,
    /// Target here that is refilled.
    filled: Option<u64>,
}

/// What makes an object at a member that is being refilled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Maker {
    /// The head does not know of it.
    ForwardedChange,
    /// The head, which compares all of the object then. If that is cut short, the log has it.
    Head,
}

fn weight(log: &Log) -> usize {
    log.objects.values().map(|regions| 1 + regions.len()).sum()
}

/// The logs of this server's chains.
pub(crate) struct DirtyLog {
    locks: Arc<RangeLocks>,
    logs: Mutex<Logs>,
    /// Chains of which not all members are in.
    degraded: AtomicUsize,
    /// Number of changes of the logs.
    changes: AtomicU64,
}

#[derive(Default)]
struct Logs {
    /// Targets of this server.
    own: BTreeSet<u64>,
    of: BTreeMap<u64, Log>,
    /// Dirty objects and ranges of all.
    weight: usize,
}

impl Logs {
    /// False: it is in the log already.
    fn add(&mut self, chain: u64, name: ObjectName, range: Range<u64>) -> bool {
        let Some(log) = self.of.get_mut(&chain).filter(|log| !log.is_overfull) else { return false };
        let is_new = !log.objects.contains_key(&name);
        let regions = log.objects.entry(name).or_default();
        let before = if is_new { 0 } else { 1 + regions.len() };
        if !regions.add(range) && !is_new {
            return false;
        }
        self.weight = self.weight + 1 + regions.len() - before;
        if log.objects.len() > OBJECTS_MAX || self.weight > WEIGHT_MAX {
            self.weight -= weight(log);
            log.objects = DirtyObjects::new();
            log.is_overfull = true;
        }
        true
    }

    fn clear(&mut self, chain: u64) {
        if let Some(log) = self.of.get_mut(&chain) {
            self.weight -= weight(log);
            log.objects = DirtyObjects::new();
        }
    }
}

impl DirtyLog {
    pub(crate) fn new(locks: Arc<RangeLocks>) -> Self {
        Self { locks, logs: Mutex::default(), degraded: AtomicUsize::new(0), changes: AtomicU64::new(0) }
    }

    /// The target is one of this server.
    pub(crate) fn serves(&self, target: u64) {
        self.logs.lock().own.insert(target);
    }

    /// Begins the log of a chain of which a former process has kept the data. `objects`: what that one has left; none:
    /// not known.
    pub(crate) fn begin(&self, kept: Kept, objects: Option<DirtyObjects>) {
        let Kept { chain, version, covers } = kept;
        let mut logs = self.logs.lock();
        // Two targets here, while the chain moves from one to the other.
        let is_second = logs.of.contains_key(&chain);
        logs.clear(chain);
        let covers = covers.into_iter().collect();
        let is_overfull = is_second || objects.as_ref().is_none_or(|objects| objects.len() > OBJECTS_MAX);
        let objects = objects.filter(|_| !is_overfull).unwrap_or_default();
        let log = Log { first: version, covers, objects, is_overfull, ..Log::default() };
        logs.weight += weight(&log);
        logs.of.insert(chain, log);
        self.count(&logs);
        self.changed();
    }

    fn changed(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
    }

    /// Number of changes of all logs so far. What was noted before it was asked is in [`DirtyLog::of_chain`] after it.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::SeqCst)
    }

    /// The log of a chain of which not all members are in. The inner none: all objects may be dirty.
    pub(super) fn of_chain(&self, chain: u64) -> Option<Option<DirtyObjects>> {
        let logs = self.logs.lock();
        let log = logs.of.get(&chain).filter(|log| !log.is_whole)?;
        Some((!log.is_overfull).then(|| log.objects.clone()))
    }

    /// True if not all members of the chain are in.
    pub(super) fn is_degraded(&self, chain: u64) -> bool {
        self.degraded.load(Ordering::SeqCst) > 0
            && self.logs.lock().of.get(&chain).is_some_and(|log| !log.is_whole)
    }

    /// A new version of a chain was heard of. Its table is locked, so that changes begin in one version or the other.
    /// Returns the target here that has been taken in although it has objects that the head does not know to be
    /// incomplete: it must leave, and be compared whole.
    pub(super) fn hear(&self, told: &data::Chain) -> Option<u64> {
        let members: BTreeSet<u64> = told.members.iter().map(|member| member.target).collect();
        let with = |state| told.members.iter().filter(move |member| member.state == state);
        let members_in: BTreeMap<u64, u32> =
            with(MemberState::In).map(|member| (member.target, told.version)).collect();
        let mut logs = self.logs.lock();
        let logs = &mut *logs;
        let own = |state| with(state).map(|member| member.target).find(|target| logs.own.contains(target));
        let (filled, taken_in) = (own(MemberState::Refilling), own(MemberState::In));
        let before = logs.of.get(&told.id);
        let (is_new, was_degraded) = (before.is_none(), before.is_some_and(|log| !log.is_whole));
        let log = logs.of.entry(told.id).or_default();
        // From before the version that the former process knew.
        let is_old = told.version < log.first;
        if !log.is_heard_of {
            (log.first, log.is_heard_of) = (log.first.max(told.version), true);
            // Of the time before this process nothing is known.
            log.is_overfull |= is_new && told.version > 1 && taken_in.is_some();
        }
        // One that was dropped, and is a member again, has lost its objects. And what is filled in here, of the time
        // without a third member, is not in the log.
        if !is_old {
            let is_covered = |target: &u64| filled.is_none() || members_in.contains_key(target);
            log.covers.retain(|target, _| members.contains(target) && is_covered(target));
            log.covers.extend(members_in);
        }
        let are_all_in = told.members.iter().all(|member| member.state == MemberState::In);
        let is_incomplete = log.is_asked && (log.is_overfull || log.made.values().any(|is_told| !is_told));
        let filled_before = log.filled.filter(|target| log.covers.get(target) == Some(&told.version));
        let must_leave = filled_before.filter(|_| is_incomplete);
        let is_known = told.version > log.first || told.version == 1 && is_new;
        // A member that is alone differs from none.
        let is_known = is_known || told.members.len() == 1;
        let is_whole = are_all_in && is_known && !is_old && taken_in.is_some() && must_leave.is_none();
        // Each version's head begins anew.
        (log.is_asked, log.filled) = (false, filled);
        log.made.values_mut().for_each(|is_told| *is_told = false);
        if filled.is_none() {
            log.made.clear();
        }
        log.is_whole = is_whole;
        if is_whole {
            log.is_overfull = false;
            logs.clear(told.id);
        }
        // Before the look at the changes under way: one that begins after it notes itself.
        match (was_degraded, is_whole) {
            (false, false) => self.degraded.fetch_add(1, Ordering::SeqCst),
            (true, true) => self.degraded.fetch_sub(1, Ordering::SeqCst),
            _ => 0,
        };
        if !is_whole {
            for (name, range) in self.locks.changes_under_way(told.id) {
                logs.add(told.id, name, range);
            }
        }
        self.changed();
        must_leave
    }

    /// Notes a change of `range`, whose lock is held, before it is made.
    pub(super) fn note(&self, chain: u64, name: ObjectName, range: Range<u64>) {
        if self.degraded.load(Ordering::SeqCst) == 0 {
            return;
        }
        let mut logs = self.logs.lock();
        if logs.of.get(&chain).is_some_and(|log| !log.is_whole) && logs.add(chain, name, range) {
            self.changed();
        }
    }

    /// An object is about to be made at a member here that is being refilled: it was made while the member was away, or
    /// the member has lost it, and all of it may be otherwise. False: the member is not refilled any more.
    pub(super) fn makes(&self, chain: u64, name: ObjectName, by: Maker) -> bool {
        let mut logs = self.logs.lock();
        if logs.of.get(&chain).is_none_or(|log| log.filled.is_none()) {
            return false;
        }
        logs.add(chain, name, 0..u64::MAX);
        self.changed();
        if let Some(log) = logs.of.get_mut(&chain).filter(|log| !log.is_overfull) {
            log.made.insert(name, by == Maker::Head);
        }
        true
    }

    /// True if what this member may have otherwise than the member `target` is known.
    pub(super) fn covers(&self, chain: u64, target: u64) -> bool {
        let logs = self.logs.lock();
        logs.of.get(&chain).is_some_and(|log| !log.is_overfull && log.covers.contains_key(&target))
    }

    /// Objects in which this member may differ from the member `target`, and the latest version in which that one was
    /// in. None: in all.
    pub(super) fn since_member(&self, chain: u64, target: u64) -> Option<(u32, DirtyObjects)> {
        let logs = self.logs.lock();
        let log = logs.of.get(&chain).filter(|log| !log.is_overfull)?;
        Some((*log.covers.get(&target)?, log.objects.clone()))
    }

    /// Some objects after `after` in which this member may differ from the others for its own part, for the head that
    /// refills it; and whether there are more. None: in all, and the head compares all.
    pub(super) fn own(
        &self,
        chain: u64,
        after: Option<ObjectName>,
        count: usize,
    ) -> Option<(Vec<(ObjectName, DirtyRegions)>, bool)> {
        let mut logs = self.logs.lock();
        let log = logs.of.get_mut(&chain)?;
        log.is_asked = !log.is_overfull;
        if log.is_overfull {
            return None;
        }
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut rest = log.objects.range((from, Bound::Unbounded));
        let page: Vec<_> =
            rest.by_ref().take(count).map(|(name, regions)| (*name, regions.clone())).collect();
        let has_more = rest.next().is_some();
        for (name, _) in &page {
            log.made.entry(*name).and_modify(|is_told| *is_told = true);
        }
        Some((page, has_more))
    }

    /// The head compares all of a member here.
    pub(super) fn is_compared_whole(&self, chain: u64) {
        if let Some(log) = self.logs.lock().of.get_mut(&chain) {
            log.is_asked = false;
        }
    }

    /// The others are no chains of this server any more.
    pub(super) fn keep(&self, chains: &BTreeSet<u64>) {
        let mut logs = self.logs.lock();
        logs.of.retain(|chain, _| chains.contains(chain));
        logs.weight = logs.of.values().map(weight).sum();
        self.count(&logs);
    }

    /// The chains are another incarnation's from now on.
    pub(super) fn forget_all(&self) {
        let mut logs = self.logs.lock();
        logs.of.clear();
        logs.weight = 0;
        self.count(&logs);
    }

    fn count(&self, logs: &Logs) {
        self.degraded.store(logs.of.values().filter(|log| !log.is_whole).count(), Ordering::SeqCst);
    }
}

#[cfg(test)]
#[path = "dirty_log/tests.rs"]
mod tests;
