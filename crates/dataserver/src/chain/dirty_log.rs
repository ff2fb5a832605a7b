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
//! - What this process does not know of the one before it, and what that one may have lost, is in the file
//!   `unsettled` (`chain::unsettled`): the log begins with that.
//!
//! So the log is complete for members that were in when it began, in the last version that the target's record of the
//! chain has (`chain::records`), or later.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use wire::data::{self, MemberState};

use super::locks::RangeLocks;
use super::regions::DirtyRegions;
use crate::object::ObjectName;

/// Objects of one chain that are told apart, and of all chains. With more, all of the chain's count as dirty.
pub(crate) const OBJECTS_MAX: usize = 16_384;
const OBJECTS_OF_ALL_MAX: usize = 1 << 20;

/// Dirty objects of a chain.
pub(crate) type DirtyObjects = HashMap<ObjectName, DirtyRegions>;

/// The log of one chain.
#[derive(Debug, Default)]
struct Log {
    /// Version of the chain that it began with.
    began: u32,
    /// True if all members are in: then nothing is noted.
    is_whole: bool,
    /// Targets for which the log is complete, each with the latest version in which it was in.
    covers: HashMap<u64, u32>,
    objects: DirtyObjects,
    /// All objects may be dirty: there are too many, or they are not known.
    is_overfull: bool,
}

/// The logs of this server's chains.
pub(crate) struct DirtyLog {
    locks: Arc<RangeLocks>,
    logs: Mutex<Logs>,
    /// Chains of which not all members are in.
    degraded: AtomicUsize,
}

#[derive(Default)]
struct Logs {
    of: HashMap<u64, Log>,
    /// Dirty objects of all.
    objects: usize,
}

impl Logs {
    fn add(&mut self, chain: u64, name: ObjectName, range: Range<u64>) {
        let Some(log) = self.of.get_mut(&chain).filter(|log| !log.is_overfull) else { return };
        self.objects -= log.objects.len();
        log.objects.entry(name).or_default().add(range);
        if log.objects.len() > OBJECTS_MAX || self.objects + log.objects.len() > OBJECTS_OF_ALL_MAX {
            log.objects = HashMap::new();
            log.is_overfull = true;
        }
        self.objects += log.objects.len();
    }

    fn remove(&mut self, chain: u64) {
        self.objects -= self.of.remove(&chain).map_or(0, |log| log.objects.len());
    }
}

impl DirtyLog {
    pub(crate) fn new(locks: Arc<RangeLocks>) -> Self {
        Self { locks, logs: Mutex::default(), degraded: AtomicUsize::new(0) }
    }

    /// Begins the log of a chain that a former process knew in `version`, with these members in. `objects`: what that
    /// process had not settled; none: not known.
    pub(crate) fn begin(&self, chain: u64, version: u32, members_in: &[u64], objects: Option<DirtyObjects>) {
        let mut logs = self.logs.lock();
        // Two targets here, while the chain moves from one to the other.
        let is_second = logs.of.contains_key(&chain);
        logs.remove(chain);
        let covers = members_in.iter().map(|target| (*target, version)).collect();
        let is_overfull = is_second || objects.as_ref().is_none_or(|objects| objects.len() > OBJECTS_MAX);
        let objects = objects.filter(|_| !is_overfull).unwrap_or_default();
        logs.objects += objects.len();
        logs.of.insert(chain, Log { began: version, is_whole: false, covers, objects, is_overfull });
        self.count(&logs);
    }

    /// A new version of a chain was heard of. Its table is locked, so that changes begin in one version or the other.
    pub(super) fn hear(&self, told: &data::Chain) {
        let members: HashSet<u64> = told.members.iter().map(|member| member.target).collect();
        let is_in = |member: &&data::Member| member.state == MemberState::In;
        let members_in = told.members.iter().filter(is_in).map(|member| (member.target, told.version));
        let mut logs = self.logs.lock();
        let logs = &mut *logs;
        // Of a chain that is new here nothing is known of the time before.
        let log = logs.of.entry(told.id).or_default();
        // One that was dropped, and is a member again, has lost its objects.
        log.covers.retain(|target, _| members.contains(target));
        log.covers.extend(members_in);
        log.is_whole =
            told.version > log.began && told.members.iter().all(|member| member.state == MemberState::In);
        if log.is_whole {
            logs.objects -= std::mem::take(&mut log.objects).len();
            log.is_overfull = false;
        }
        let is_whole = log.is_whole;
        // Before the look at the changes under way: one that begins after it notes itself.
        self.count(logs);
        if !is_whole {
            for (name, range) in self.locks.changes_under_way(told.id) {
                logs.add(told.id, name, range);
            }
        }
    }

    /// Notes a change of `range`, whose lock is held, before it is made.
    pub(super) fn note(&self, chain: u64, name: ObjectName, range: Range<u64>) {
        if self.degraded.load(Ordering::SeqCst) == 0 {
            return;
        }
        let mut logs = self.logs.lock();
        if logs.of.get(&chain).is_some_and(|log| !log.is_whole) {
            logs.add(chain, name, range);
        }
    }

    /// Objects in which this member may differ from the member `target`, and the latest version in which that one was
    /// in. None: in all.
    pub(super) fn since_member(&self, chain: u64, target: u64) -> Option<(u32, DirtyObjects)> {
        let logs = self.logs.lock();
        let log = logs.of.get(&chain).filter(|log| !log.is_overfull)?;
        Some((*log.covers.get(&target)?, log.objects.clone()))
    }

    /// Objects in which this member may differ from the others for its own part. None: in all.
    pub(super) fn own(&self, chain: u64) -> Option<DirtyObjects> {
        let logs = self.logs.lock();
        logs.of.get(&chain).filter(|log| !log.is_overfull).map(|log| log.objects.clone())
    }

    /// The others are no chains of this server any more.
    pub(super) fn keep(&self, chains: &HashSet<u64>) {
        let mut logs = self.logs.lock();
        logs.of.retain(|chain, _| chains.contains(chain));
        logs.objects = logs.of.values().map(|log| log.objects.len()).sum();
        self.count(&logs);
    }

    /// The chains are another incarnation's from now on.
    pub(super) fn forget_all(&self) {
        let mut logs = self.logs.lock();
        *logs = Logs::default();
        self.count(&logs);
    }

    fn count(&self, logs: &Logs) {
        self.degraded.store(logs.of.values().filter(|log| !log.is_whole).count(), Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use MemberState::{Away, In, Refilling};

    use super::*;
    use crate::chain::locks::Kind;

    const CHAIN: u64 = 9;

    fn told(version: u32, states: &[MemberState]) -> data::Chain {
        let member = |(at, state): (usize, &MemberState)| data::Member {
            target: at as u64 + 1,
            address: bytes::Bytes::new(),
            state: *state,
        };
        let members = states.iter().enumerate().map(member).collect();
        data::Chain { id: CHAIN, version, verifier: 1, members }
    }

    fn name(inode: u64) -> ObjectName {
        ObjectName { inode, column: 0, volume: 1, generation: 1 }
    }

    fn inodes(objects: &DirtyObjects) -> Vec<u64> {
        let mut inodes: Vec<u64> = objects.keys().map(|name| name.inode).collect();
        inodes.sort_unstable();
        inodes
    }

    #[tokio::test]
    async fn what_changes_without_a_member_is_kept_until_all_are_in() {
        let locks = Arc::new(RangeLocks::default());
        let log = DirtyLog::new(Arc::clone(&locks));
        log.hear(&told(1, &[In, In, In]));
        log.note(CHAIN, name(1), 0..1);
        assert_eq!(log.since_member(CHAIN, 2).map(|(version, _)| version), Some(1));
        let under_way = locks.ask((1, name(2)), 0..1, Kind::Alone(CHAIN)).held().await;
        let _other = locks.ask((1, name(8)), 0..1, Kind::Alone(CHAIN + 1)).held().await;
        let _read = locks.ask((1, name(7)), 0..1, Kind::Shared).held().await;
        log.hear(&told(2, &[In, Away, In]));
        drop(under_way);
        log.note(CHAIN, name(3), 5..7);
        log.note(CHAIN + 1, name(4), 5..7);
        log.hear(&told(3, &[In, Refilling, Away]));
        log.note(CHAIN, name(5), 0..0);
        let (version, objects) = log.since_member(CHAIN, 2).unwrap();
        assert_eq!((version, inodes(&objects)), (1, vec![2, 3, 5]));
        assert_eq!(log.since_member(CHAIN, 3).map(|(version, _)| version), Some(2));
        assert_eq!(log.own(CHAIN), Some(objects));
        log.hear(&told(4, &[In, In, Away]));
        assert_eq!(inodes(&log.own(CHAIN).unwrap()), [2, 3, 5], "the third lacks them");
        log.hear(&told(5, &[In, In, In]));
        log.note(CHAIN, name(6), 0..1);
        assert_eq!(inodes(&log.own(CHAIN).unwrap()), [0; 0]);
        assert_eq!(log.degraded.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn a_member_that_was_dropped_or_never_in_is_not_covered() {
        let log = DirtyLog::new(Arc::default());
        log.hear(&told(1, &[In, In, Refilling]));
        assert!(log.since_member(CHAIN, 3).is_none() && log.since_member(CHAIN, 2).is_some());
        log.hear(&told(2, &[In]));
        log.hear(&told(3, &[In, Refilling]));
        assert!(log.since_member(CHAIN, 2).is_none(), "its objects were removed meanwhile");
        log.hear(&told(4, &[In, In]));
        log.keep(&HashSet::new());
        assert!(log.since_member(CHAIN, 2).is_none() && log.own(CHAIN).is_none());
    }

    #[test]
    fn a_process_that_starts_covers_those_that_its_record_has() {
        let log = DirtyLog::new(Arc::default());
        let unsettled = || HashMap::from([(name(1), DirtyRegions::all())]);
        log.begin(CHAIN, 5, &[1, 2], Some(unsettled()));
        log.hear(&told(5, &[In, Away, Away]));
        assert!(log.since_member(CHAIN, 3).is_none());
        assert_eq!(log.since_member(CHAIN, 2), Some((5, unsettled())));
        log.hear(&told(6, &[In, In, In]));
        assert_eq!(log.own(CHAIN), Some(HashMap::new()));
        log.keep(&HashSet::new());
        log.begin(CHAIN, 6, &[1, 2], None);
        log.hear(&told(7, &[In, Refilling]));
        assert!(log.since_member(CHAIN, 2).is_none(), "what was unsettled is not known");
    }

    #[test]
    fn too_many_objects_are_all() {
        let log = DirtyLog::new(Arc::default());
        log.hear(&told(1, &[In, In]));
        log.hear(&told(2, &[In, Away]));
        for inode in 0..=OBJECTS_MAX as u64 {
            log.note(CHAIN, name(inode), 0..1);
        }
        assert!(log.since_member(CHAIN, 2).is_none() && log.own(CHAIN).is_none());
        assert_eq!(log.logs.lock().objects, 0);
        log.hear(&told(3, &[In, In]));
        log.hear(&told(4, &[In, Away]));
        log.note(CHAIN, name(1), 0..1);
        assert!(log.since_member(CHAIN, 2).is_some());
        assert_eq!(log.logs.lock().objects, 1);
    }
}
