//! Log: retention, reading, and damage.

use std::ops::Range;
use std::time::Duration;

use namespace::{Command, InodeId, Proposal, Stamp};

use super::*;
use crate::log::segments::MARK_EVERY;
use crate::types::{Change, LeaderId};

fn id(term: u64, index: u64) -> LogId {
    LogId { leader_id: LeaderId { term, node_id: 1 }, index }
}

fn with_entries(dir: &Path, term: u64, count: u64) {
    let mut disk = Disk::open(LogDir::local(dir), |_| {}).unwrap();
    let entries = (0..count).map(|index| Entry { log_id: id(term, index), payload: Payload::Blank });
    disk.append(&entries.collect::<Vec<_>>()).unwrap();
}

/// State of a store that has all entries up to 100.
fn store_state(installed: Option<LogId>) -> StoreState {
    StoreState { last: Some(id(3, 100)), installed, written: None }
}

#[test]
fn a_store_that_came_to_the_disk_before_the_last_of_the_log_is_not_taken_for_damage() {
    for (written, count, is_behind) in
        [(90, 95, true), (95, 95, true), (96, 95, false), (0, 0, true), (1, 0, false)]
    {
        let dir = tempfile::tempdir().unwrap();
        with_entries(dir.path(), 3, count);
        let environment = Environment::default();
        let opened =
            Log::open(&environment, dir.path(), StoreState { written: Some(written), ..store_state(None) });
        match opened.err().unwrap() {
            LogError::Behind => assert!(is_behind, "{written} of {count}"),
            error => assert!(!is_behind, "{written} of {count}: {error}"),
        }
    }
}

#[test]
fn a_crash_between_a_snapshot_and_the_purge_of_the_log_is_not_taken_for_damage() {
    for (term, count) in [(1, 5), (1, 0), (1, 150)] {
        let dir = tempfile::tempdir().unwrap();
        with_entries(dir.path(), term, count);
        let environment = Environment::default();
        if count < 100 {
            let without = Log::open(&environment, dir.path(), store_state(None));
            assert!(matches!(without.err().unwrap(), LogError::Damaged { .. }), "nobody says why");
            let older = Log::open(&environment, dir.path(), store_state(Some(id(3, 50))));
            assert!(matches!(older.err().unwrap(), LogError::Damaged { .. }), "it went on after that");
        }
        let log = Log::open(&environment, dir.path(), store_state(Some(id(3, 100)))).unwrap();
        assert_eq!(log.memory().purged, Some(id(3, 100)));
        assert_eq!((log.next(), log.written(), log.memory().recent.len()), (101, 101, 0), "{count}");
        log.close().expect("it runs").join();
        let log = Log::open(&environment, dir.path(), store_state(Some(id(3, 100)))).unwrap();
        assert_eq!(log.next(), 101);
        log.close().expect("it runs").join();
    }
}

#[test]
fn entries_that_follow_a_snapshot_stay_when_the_log_was_not_purged() {
    let dir = tempfile::tempdir().unwrap();
    with_entries(dir.path(), 3, 150);
    let log = Log::open(&Environment::default(), dir.path(), store_state(Some(id(3, 100)))).unwrap();
    assert_eq!((log.next(), log.memory().purged), (150, None));
    log.close().expect("it runs").join();
}

#[test]
fn what_a_member_that_lags_lacks_is_kept_for_longer() {
    let dir = tempfile::tempdir().unwrap();
    let log_dir = LogDir { segment_bytes: 4096, ..LogDir::local(dir.path()) };
    let mut disk = Disk::open(log_dir, |_| {}).unwrap();
    for index in 0..1000 {
        disk.append(&[Entry { log_id: id(1, index), payload: Payload::Blank }]).unwrap();
    }
    drop(disk);
    let environment = Environment { segment_bytes: 4096, ..Environment::default() };
    let store_state = StoreState { last: Some(id(1, 999)), installed: None, written: None };
    let log = Log::open(&environment, dir.path(), store_state).unwrap();
    let retention = LogRetention { always: 8 << 10, for_lagging_members: 24 << 10 };
    let upto = |lagging| log.can_purge(retention, lagging);
    let usual = upto(None).expect("there is more than that");
    assert_eq!(upto(Some(usual + 1)), Some(usual), "it lacks nothing that goes");
    let bound = upto(Some(0)).expect("there is more than that, too");
    assert!(bound < usual, "{bound} of {usual}");
    let between = upto(Some(usual - 10)).expect("what it has may go");
    assert!((bound..usual - 10).contains(&between), "{bound} {between} {usual}");
    log.close().expect("it runs").join();
}

fn large(index: u64) -> Entry {
    let (inode, data) = (InodeId(3), vec![7; 60 << 10].into());
    let command = Command::WriteInline { inode, offset: 0, data };
    let proposal = Proposal::new(Stamp::default(), None, command);
    Entry { log_id: id(1, index), payload: Payload::Normal(Change(Arc::new(proposal))) }
}

#[test]
fn a_batch_that_begins_on_disk_and_ends_in_memory_is_not_too_long() {
    let dir = tempfile::tempdir().unwrap();
    let environment = Environment { segment_bytes: 256 << 10, ..Environment::default() };
    let log_dir = LogDir { segment_bytes: environment.segment_bytes, ..LogDir::local(dir.path()) };
    let mut disk = Disk::open(log_dir, |_| {}).unwrap();
    (0..16).for_each(|index| disk.append(&[large(index)]).unwrap());
    drop(disk);
    let store_state = StoreState { last: Some(id(1, 15)), installed: None, written: None };
    let log = Log::open(&environment, dir.path(), store_state).unwrap();
    let second = disk::lock(&log.segments)[1].first;
    assert!(second > 1);
    log.memory().recent.drain(..second as usize);
    let batch = log.read(0, 16, SEND_BYTES_MAX).unwrap();
    assert!(batch.len() as u64 > second, "some are from memory");
    let bytes: usize = batch.iter().map(data_bytes).sum();
    assert!(bytes < SEND_BYTES_MAX + (64 << 10), "{bytes} bytes");
    log.close().expect("it runs").join();
}

#[test]
fn what_is_read_from_disk_is_what_was_asked_for_and_little_more() {
    let dir = tempfile::tempdir().unwrap();
    let count = 10 * MARK_EVERY + 7;
    with_entries(dir.path(), 1, count);
    let store_state = StoreState { last: Some(id(1, count - 1)), installed: None, written: None };
    let log = Log::open(&Environment::default(), dir.path(), store_state).unwrap();
    log.memory().recent.clear();
    for start in [0, 1, MARK_EVERY - 1, MARK_EVERY, 3 * MARK_EVERY + 1, count - 1] {
        for end in [start + 1, start + 300, 4 * MARK_EVERY, count, u64::MAX] {
            let found: Vec<u64> =
                log.read(start, end, usize::MAX).unwrap().iter().map(|entry| entry.log_id.index).collect();
            assert_eq!(found, (start..end.min(count)).collect::<Vec<_>>(), "{start}..{end}");
        }
    }
    let segment = log.segment_of(0).unwrap();
    assert!(segment.beyond(300) - segment.near(1).0 < segment.end / 4, "of a long segment");
    log.close().expect("it runs").join();
}

#[tokio::test]
async fn entries_truncated_while_they_were_written_do_not_count_as_written() {
    let dir = tempfile::tempdir().unwrap();
    let environment = Environment { disk_delay: Some(Arc::new(|| Duration::ZERO)), ..Environment::default() };
    let mut log = Log::open(&environment, dir.path(), StoreState::default()).unwrap();
    let entries = |term, indices: Range<u64>| {
        indices.map(move |index| Entry { log_id: id(term, index), payload: Payload::Blank })
    };
    // All jobs are queued before the first one runs.
    log.append(entries(1, 0..10), IOFlushed::noop()).await.unwrap();
    log.truncate_after(Some(id(1, 4))).await.unwrap();
    log.append(entries(2, 5..8), IOFlushed::noop()).await.unwrap();
    log.truncate_after(Some(id(2, 6))).await.unwrap();
    let mut seen = vec![];
    while !log.memory().truncations.is_empty() {
        tokio::task::yield_now().await;
        seen.push(log.written());
    }
    seen.dedup();
    assert!(seen.is_sorted() && seen.contains(&5), "{seen:?}");
    assert_eq!((log.written(), log.next()), (7, 7), "{seen:?}");
    log.append(entries(3, 7..9), IOFlushed::noop()).await.unwrap();
    log.close().expect("it runs").ended().await;
    assert_eq!(log.written(), 9);
}
