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

fn kept(version: u32, members_in: &[u64]) -> Kept {
    let covers = members_in.iter().map(|target| (*target, version)).collect();
    Kept { chain: CHAIN, version, covers }
}

fn inodes(objects: &DirtyObjects) -> Vec<u64> {
    objects.keys().map(|name| name.inode).collect()
}

/// The log of a server with the first member's target.
fn log_of_first(locks: Arc<RangeLocks>) -> DirtyLog {
    let log = DirtyLog::new(locks);
    log.serves(1);
    log
}

fn own(log: &DirtyLog) -> Option<Vec<u64>> {
    let (objects, has_more) = log.own(CHAIN, None, usize::MAX)?;
    assert!(!has_more);
    Some(objects.iter().map(|(name, _)| name.inode).collect())
}

#[tokio::test]
async fn what_changes_without_a_member_is_kept_until_all_are_in() {
    let locks = Arc::new(RangeLocks::default());
    let log = log_of_first(Arc::clone(&locks));
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
    assert_eq!(own(&log), Some(vec![2, 3, 5]));
    log.hear(&told(4, &[In, In, Away]));
    assert_eq!(own(&log), Some(vec![2, 3, 5]), "the third lacks them");
    log.hear(&told(5, &[In, In, In]));
    log.note(CHAIN, name(6), 0..1);
    assert_eq!(own(&log), Some(vec![]));
    assert_eq!(log.degraded.load(Ordering::SeqCst), 0);
}

#[test]
fn a_member_that_was_dropped_or_never_in_is_not_covered() {
    let log = log_of_first(Arc::default());
    log.hear(&told(1, &[In, In, Refilling]));
    assert!(log.since_member(CHAIN, 3).is_none() && log.since_member(CHAIN, 2).is_some());
    log.hear(&told(2, &[In]));
    log.hear(&told(3, &[In, Refilling]));
    assert!(log.since_member(CHAIN, 2).is_none(), "its objects were removed meanwhile");
    log.hear(&told(4, &[In, In]));
    log.keep(&BTreeSet::new());
    assert!(log.since_member(CHAIN, 2).is_none() && own(&log).is_none());
}

#[test]
fn a_process_that_starts_covers_those_that_its_record_has() {
    let log = log_of_first(Arc::default());
    let unsettled = || DirtyObjects::from([(name(1), DirtyRegions::all())]);
    log.begin(kept(5, &[1, 2]), Some(unsettled()));
    log.hear(&told(5, &[In, Away, Away]));
    assert!(log.since_member(CHAIN, 3).is_none());
    assert_eq!(log.since_member(CHAIN, 2), Some((5, unsettled())));
    log.hear(&told(6, &[In, In, In]));
    assert_eq!(own(&log), Some(vec![]));
    log.keep(&BTreeSet::new());
    log.begin(kept(6, &[1, 2]), Some(unsettled()));
    log.hear(&told(7, &[In, In]));
    assert_eq!(own(&log), Some(vec![1]), "a version of before its start");
    log.hear(&told(8, &[In, In]));
    assert_eq!(own(&log), Some(vec![]));
    log.keep(&BTreeSet::new());
    log.hear(&told(9, &[In, In]));
    assert!(own(&log).is_none(), "without a record nothing is known");
    log.hear(&told(10, &[In, In]));
    assert_eq!(own(&log), Some(vec![]));
    log.keep(&BTreeSet::new());
    log.begin(kept(6, &[1, 2]), None);
    log.hear(&told(7, &[In, Refilling]));
    assert!(log.since_member(CHAIN, 2).is_none(), "what was unsettled is not known");
}

#[test]
fn too_many_objects_are_all() {
    let log = log_of_first(Arc::default());
    log.hear(&told(1, &[In, In]));
    log.hear(&told(2, &[In, Away]));
    for inode in 0..=OBJECTS_MAX as u64 {
        log.note(CHAIN, name(inode), 0..1);
    }
    assert!(log.since_member(CHAIN, 2).is_none() && own(&log).is_none());
    assert_eq!(log.logs.lock().weight, 0);
    log.hear(&told(3, &[In, In]));
    log.hear(&told(4, &[In, Away]));
    log.note(CHAIN, name(1), 0..1);
    assert!(log.since_member(CHAIN, 2).is_some());
    assert_eq!(log.logs.lock().weight, 2);
}

#[test]
fn a_member_that_was_filled_covers_no_third_that_was_away() {
    let log = log_of_first(Arc::default());
    log.hear(&told(1, &[In, In, In]));
    log.hear(&told(2, &[Away, In, Away]));
    log.hear(&told(3, &[Refilling, In, Away]));
    log.hear(&told(4, &[In, In, Away]));
    log.hear(&told(5, &[In, Away, Refilling]));
    assert!(log.since_member(CHAIN, 3).is_none(), "what it was filled with is not in the log");
    assert_eq!(log.since_member(CHAIN, 2).map(|(version, _)| version), Some(4));
}

#[test]
fn a_member_with_objects_that_the_head_does_not_know_to_be_incomplete_leaves() {
    let log = log_of_first(Arc::default());
    let makes = |inode, by| log.makes(CHAIN, name(inode), by);
    log.hear(&told(1, &[In, In]));
    assert!(!makes(1, Maker::ForwardedChange), "it is in");
    log.hear(&told(2, &[Refilling, In]));
    assert!(makes(1, Maker::ForwardedChange));
    assert_eq!(own(&log), Some(vec![1]));
    assert!(makes(2, Maker::Head));
    assert_eq!(log.hear(&told(3, &[In, In])), None, "the head knows of both");
    log.hear(&told(4, &[Refilling, In]));
    assert_eq!(own(&log), Some(vec![]));
    makes(2, Maker::ForwardedChange);
    assert_eq!(log.hear(&told(5, &[In, In])), Some(1));
    log.hear(&told(6, &[Refilling, In]));
    makes(3, Maker::ForwardedChange);
    assert_eq!(log.hear(&told(7, &[In, In])), None, "the head has not asked: it has compared all");
    log.hear(&told(8, &[Refilling, In]));
    assert_eq!(own(&log), Some(vec![]));
    log.is_compared_whole(CHAIN);
    makes(4, Maker::ForwardedChange);
    assert_eq!(log.hear(&told(9, &[In, In])), None, "it asked, and then compared all");
    log.hear(&told(10, &[Refilling, In]));
    makes(5, Maker::Head);
    log.hear(&told(11, &[Refilling, In]));
    assert_eq!(own(&log), Some(vec![5]), "the next head is told of what the first had not finished");
}
