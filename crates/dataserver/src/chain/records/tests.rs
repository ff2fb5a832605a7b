use data::MemberState::{Away, In, Refilling};

use super::*;

fn told(id: u64, version: u32, states: &[data::MemberState]) -> data::Chain {
    let member = |(at, state): (usize, &data::MemberState)| data::Member {
        target: at as u64 + 1,
        address: bytes::Bytes::new(),
        state: *state,
    };
    data::Chain { id, version, verifier: 1, members: states.iter().enumerate().map(member).collect() }
}

fn known(records: &ChainRecords) -> Vec<(u64, u32, Vec<u64>, Vec<u64>)> {
    let page = records.page(None).unwrap();
    page.records.into_iter().map(|r| (r.chain, r.version, r.members_in, r.refilled)).collect()
}

#[test]
fn the_latest_version_with_members_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let records = ChainRecords::open(dir.path(), 2);
    records.note(9, &[told(5, 1, &[In, In])], false);
    assert!(!records.has_news(), "not its chain");
    records.note(2, &[told(5, 3, &[In, Refilling]), told(4, 1, &[In, In])], false);
    assert!(records.has_news() && !records.is_written(5, 3) && records.is_written(6, 1));
    records.write_down();
    assert!(!records.has_news() && records.is_written(5, 3) && !records.is_written(5, 4));
    records.note(2, &[told(5, 2, &[In, In])], false);
    records.note(2, &[told(5, 4, &[Away, Away])], false);
    assert!(!records.has_news(), "an earlier one, and one as after a restore");
    records.note(2, &[told(5, 5, &[In])], false);
    assert_eq!(known(&records), [(4, 1, vec![1, 2], vec![]), (5, 5, vec![1], vec![])], "it was dropped");
    assert_eq!(known(&ChainRecords::open(dir.path(), 2))[1], (5, 3, vec![1], vec![2]), "not written yet");
    records.write_down();
    assert_eq!(known(&ChainRecords::open(dir.path(), 2)), known(&records));
}

#[test]
fn a_damaged_file_is_said_to_be_and_a_full_disk_is_tried_again() {
    let dir = tempfile::tempdir().unwrap();
    let records = ChainRecords::open(dir.path(), 2);
    let file = dir.path().join(CHAINS_FILE);
    std::fs::create_dir(dir.path().join("chains.new")).unwrap(); // in the way
    records.note(1, &[told(5, 1, &[In, In])], false);
    assert!(!records.is_written(5, 1));
    records.write_down();
    assert!(!file.exists() && records.has_news() && records.is_written(5, 1), "nothing waits for ever");
    std::fs::remove_dir(dir.path().join("chains.new")).unwrap();
    records.write_down();
    let text = std::fs::read(&file).unwrap();
    let damaged = (0..text.len()).map(|at| {
        let mut bytes = text.clone();
        bytes[at] ^= 1;
        bytes
    });
    for bytes in damaged.chain([vec![], vec![0; text.len()], vec![255; 9]]) {
        std::fs::write(&file, &bytes).unwrap();
        let records = ChainRecords::open(dir.path(), 2);
        assert_eq!(records.page(None), Err(Status::Damaged), "{bytes:?}");
        records.note(1, &[told(6, 1, &[In])], false);
        records.write_down();
        assert!(std::fs::read(&file).unwrap() == bytes, "it does not look whole");
    }
    std::fs::write(&file, text).unwrap();
    assert_eq!(known(&ChainRecords::open(dir.path(), 2)), [(5, 1, vec![1, 2], vec![])]);
}

#[test]
fn a_target_that_lost_data_or_was_not_in_has_no_version_since_which_it_has_kept_them() {
    let dir = tempfile::tempdir().unwrap();
    let open = || ChainRecords::open(dir.path(), 2);
    let records = open();
    records.note(2, &[told(5, 3, &[In, In]), told(6, 3, &[In, In]), told(7, 1, &[In, Refilling])], true);
    let was_in = |records: &ChainRecords| [5, 6, 7, 8].map(|chain| records.was_in(chain));
    assert_eq!(was_in(&records), [3, 3, 0, 0]);
    assert!(!records.says_loss(5) && records.says_loss(8));
    records.note(2, &[told(5, 4, &[In, Away]), told(6, 4, &[In])], false);
    assert_eq!(was_in(&records), [3, 0, 0, 0]);
    assert!(!records.says_loss(6), "the file does not say so yet");
    records.write_down();
    assert!(records.says_loss(6) && !records.says_loss(5));
    let kept = [Kept { chain: 5, version: 4, covers: vec![(1, 4)] }];
    assert_eq!((records.kept(), open().kept()), (kept.to_vec(), kept.to_vec()));
    assert_eq!(was_in(&open()), [3, 0, 0, 0], "its dirty log is in a file");
    records.note(2, &[told(5, 5, &[In, In]), told(6, 5, &[In, In])], true);
    assert_eq!(was_in(&records), [5, 0, 0, 0], "in, by another step than its refilling");
    records.note(2, &[told(6, 6, &[In, Refilling])], false);
    records.note(2, &[told(6, 7, &[In, In])], false);
    records.write_down();
    assert_eq!(was_in(&open()), [5, 7, 0, 0]);
    records.note(2, &[told(5, 5, &[In, In])], true);
    assert_eq!(was_in(&records), [5, 0, 0, 0], "it is a member of no others");
    records.clear_was_in(|chain| chain == 5);
    records.write_down();
    assert_eq!(was_in(&open()), [0; 4]);
    let text = "0000000000000005 7 0000000000000002 -\n0000000000000006 7 0000000000000001 - 7\n";
    let text = format!("{text}crc32c {:08x}\n", crc32c::crc32c(text.as_bytes()));
    std::fs::write(dir.path().join(CHAINS_FILE), text).unwrap();
    assert_eq!(was_in(&open()), [0; 4], "of an earlier version of Heorot");
}

#[test]
fn members_that_are_away_are_covered_by_the_log_until_this_one_is_refilled() {
    let dir = tempfile::tempdir().unwrap();
    let open = || ChainRecords::open(dir.path(), 1);
    let records = open();
    let covers = |version, states: &[data::MemberState]| {
        records.note(1, &[told(5, version, states)], false);
        records.write_down();
        let kept = open().kept();
        assert_eq!(kept, records.kept());
        kept.into_iter().next().map(|kept| kept.covers)
    };
    assert_eq!(covers(3, &[In, In, Refilling]), Some(vec![(1, 3), (2, 3)]), "one was never in");
    assert_eq!(covers(4, &[In, In, In]), Some(vec![(1, 4), (2, 4), (3, 4)]));
    assert_eq!(covers(6, &[In, Away, In]), Some(vec![(1, 6), (3, 6), (2, 4)]));
    assert_eq!(covers(7, &[In, Refilling, Away]), Some(vec![(1, 7), (2, 4), (3, 6)]));
    assert_eq!(covers(8, &[In, In]), Some(vec![(1, 8), (2, 8)]), "the third was dropped");
    assert_eq!(covers(9, &[In, In, Refilling]), Some(vec![(1, 9), (2, 9)]));
    assert_eq!(covers(10, &[In, In, In]), Some(vec![(1, 10), (2, 10), (3, 10)]));
    assert_eq!(covers(11, &[Away, In, Away]), Some(vec![(2, 11), (3, 10)]));
    assert_eq!(covers(12, &[Refilling, In, Away]), Some(vec![(2, 12)]), "of the time without the third");
    assert_eq!(covers(13, &[In, In, Away]), Some(vec![(1, 13), (2, 13)]));
}

#[test]
fn many_records_are_told_in_pages() {
    let dir = tempfile::tempdir().unwrap();
    let records = ChainRecords::open(dir.path(), 2);
    let all: Vec<data::Chain> = (1..=PAGE as u64 + 1).map(|id| told(id, 1, &[In])).collect();
    records.note(1, &all, false);
    let first = records.page(None).unwrap();
    assert_eq!((first.records.len(), first.done), (PAGE, false));
    let second = records.page(Some(PAGE as u64)).unwrap();
    assert_eq!((second.records.len(), second.done), (1, true));
}
