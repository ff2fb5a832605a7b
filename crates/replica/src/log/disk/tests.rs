//! Segments after crashes, changes by hand, and hostile client data.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;

use namespace::{Command, InodeId, Proposal, Stamp};

use crate::environment::SEGMENT_BYTES;
use crate::log::segments::{MARK_EVERY, SPARE};
use crate::types::{Change, LeaderId, Payload};

use super::*;

fn id(term: u64, index: u64) -> LogId {
    LogId { leader_id: LeaderId { term, node_id: 1 }, index }
}

fn entries(term: u64, indices: std::ops::Range<u64>) -> Vec<Entry> {
    indices.map(|index| Entry { log_id: id(term, index), payload: Payload::Blank }).collect()
}

fn found(dir: &Path) -> Result<(Disk, Vec<LogId>), LogError> {
    let mut all = vec![];
    Disk::open(LogDir::local(dir), |entry| all.push(entry.log_id)).map(|disk| (disk, all))
}

fn ids(term: u64, indices: std::ops::Range<u64>) -> Vec<LogId> {
    entries(term, indices).into_iter().map(|entry| entry.log_id).collect()
}

/// A segment of its own for the next entry.
fn roll(disk: &mut Disk) {
    let mut all = lock(&disk.segments);
    let last = all.last_mut().expect("a segment");
    last.bytes = last.end;
}

#[test]
fn what_was_appended_is_there_after_a_crash_and_a_torn_tail_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let (mut disk, _) = found(dir.path()).unwrap();
    disk.append(&entries(1, 0..2)).unwrap();
    disk.append(&entries(1, 2..3)).unwrap();
    let segment = lock(&disk.segments)[0].clone();
    drop(disk);
    assert_eq!(found(dir.path()).unwrap().1, ids(1, 0..3));

    // One write of two records, of which only the second is whole on disk.
    let [mut torn, whole] = [3, 4].map(|index| {
        let mut record = Vec::new();
        record::encode(&entries(1, index..index + 1)[0], 3, &mut record).unwrap();
        segment.salt.put(&mut record);
        record
    });
    *torn.last_mut().unwrap() ^= 1;
    torn.extend(whole);
    let file = OpenOptions::new().write(true).open(&segment.path).unwrap();
    file.write_all_at(&torn, segment.end).unwrap();
    let (mut disk, all) = found(dir.path()).unwrap();
    assert_eq!(all, ids(1, 0..3));
    disk.append(&entries(1, 3..4)).unwrap();
    assert_eq!(found(dir.path()).unwrap().1, ids(1, 0..4), "the second of the torn tail is gone");
}

/// Record of `index` with this payload, as another version of this program would write it.
fn of_another_version(index: u64, payload: &[u8], salt: Salt) -> Vec<u8> {
    let mut bytes = Vec::new();
    record::encode(&entries(1, index..index + 1)[0], index, &mut bytes).unwrap();
    bytes.truncate(record::HEADER_BYTES);
    bytes.extend_from_slice(payload);
    bytes[8..12].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    let crc = crc32c::crc32c(&bytes[16..]);
    bytes[12..16].copy_from_slice(&crc.to_le_bytes());
    salt.put(&mut bytes);
    bytes
}

#[test]
fn an_entry_of_a_newer_version_is_said_and_is_neither_skipped_nor_truncated() {
    let command = Command::Link { inode: InodeId(7), dir: InodeId::ROOT, name: b"name".to_vec() };
    let known = Proposal::new(Stamp::default(), None, command);
    let known = [&[1][..], &postcard::to_stdvec(&known).unwrap()].concat();
    let longer = [&known[..], &[0]].concat(); // one more field
    let unknown = postcard::to_stdvec(&(Stamp::default(), None::<u8>, u32::MAX)).unwrap(); // an unknown command
    let unknown = [&[1][..], &unknown].concat();
    for (payload, is_known) in [(&known, true), (&longer, false), (&unknown, false), (&vec![9], false)] {
        for behind in [0, 1] {
            let dir = tempfile::tempdir().unwrap();
            let (mut disk, _) = found(dir.path()).unwrap();
            disk.append(&entries(1, 0..3)).unwrap();
            let segment = lock(&disk.segments)[0].clone();
            drop(disk);
            let mut bytes = of_another_version(3, payload, segment.salt);
            for index in 4..4 + behind {
                bytes.extend(of_another_version(index, &[0], segment.salt));
            }
            let file = OpenOptions::new().write(true).open(&segment.path).unwrap();
            file.write_all_at(&bytes, segment.end).unwrap();
            for _again in 0..2 {
                match found(dir.path()) {
                    Ok((_, all)) => assert!(is_known && all == ids(1, 0..4 + behind), "{all:?}"),
                    Err(LogError::Newer { index: 3, .. }) => assert!(!is_known),
                    Err(other) => panic!("{other}"),
                }
            }
            let mut kept = vec![0; bytes.len()];
            file.sync_all().unwrap();
            std::fs::File::open(&segment.path).unwrap().read_exact_at(&mut kept, segment.end).unwrap();
            assert_eq!(kept, bytes, "what is in the log stays");
        }
    }
}

#[test]
fn a_record_that_was_acknowledged_and_is_damaged_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let (mut disk, _) = found(dir.path()).unwrap();
    disk.append(&entries(1, 0..2)).unwrap();
    disk.append(&entries(1, 2..3)).unwrap();
    let path = lock(&disk.segments)[0].path.clone();
    drop(disk);
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&[0xff], HEADER_BYTES + record::HEADER_BYTES as u64 + 9).unwrap();
    let error = found(dir.path()).err().unwrap();
    assert!(matches!(error, LogError::Damaged { index: 1, .. }), "{error}");

    file.write_all_at(&[0xff], 20).unwrap();
    let error = found(dir.path()).err().unwrap();
    assert!(matches!(error, LogError::Damaged { index: 0, .. }), "the header: {error}");
    for older in [b"heorot log 1\n", b"heorot log 3\n"] {
        file.write_all_at(older, 0).unwrap();
        assert!(matches!(found(dir.path()).err().unwrap(), LogError::Older(_)));
    }
}

#[test]
fn truncated_entries_are_gone_and_those_in_their_place_stay() {
    let dir = tempfile::tempdir().unwrap();
    let (mut disk, _) = found(dir.path()).unwrap();
    let many = 3 * MARK_EVERY;
    disk.append(&entries(1, 0..many)).unwrap();
    roll(&mut disk);
    disk.append(&entries(1, many..many + 10)).unwrap();
    roll(&mut disk);
    disk.append(&entries(1, many + 10..many + 20)).unwrap();

    disk.truncate(Some(id(1, many + 4))).unwrap();
    disk.append(&entries(2, many + 5..many + 7)).unwrap();
    let all = [ids(1, 0..many + 5), ids(2, many + 5..many + 7)].concat();
    assert_eq!(found(dir.path()).unwrap().1, all);
    drop(disk);

    let (mut disk, _) = found(dir.path()).unwrap();
    disk.truncate(Some(id(1, 299))).unwrap();
    assert_eq!(found(dir.path()).unwrap().1, ids(1, 0..300), "into another segment");
    disk.append(&entries(3, 300..301)).unwrap();
    disk.truncate(None).unwrap();
    disk.append(&entries(4, 0..1)).unwrap();
    assert_eq!(found(dir.path()).unwrap().1, ids(4, 0..1));
}

#[test]
fn a_crash_while_a_truncated_log_is_zeroed_is_not_taken_for_damage() {
    let image = |holes: &[u64]| {
        let dir = tempfile::tempdir().unwrap();
        let (mut disk, _) = found(dir.path()).unwrap();
        let (mut begins, mut path) = (vec![], None);
        for index in 0..20 {
            disk.append(&entries(1, index..index + 1)).unwrap();
            let all = lock(&disk.segments);
            begins.push(all[0].end);
            path = Some(all[0].path.clone());
        }
        drop(disk);
        // Some blocks of zeros are on disk, others are not.
        truncation::write_note(&host::SystemFiles, dir.path(), Truncation::From(5)).unwrap();
        let file = OpenOptions::new().write(true).open(path.unwrap()).unwrap();
        for index in holes {
            file.write_all_at(&[0; 16], begins[*index as usize - 1]).unwrap();
        }
        dir
    };
    for holes in [&[][..], &[5], &[7], &[5, 6, 7, 8], &[6, 19], &[5, 19]] {
        let dir = image(holes);
        let (mut disk, all) = found(dir.path()).unwrap();
        assert_eq!(all, ids(1, 0..5), "{holes:?}");
        disk.append(&entries(2, 5..7)).unwrap();
        drop(disk);
        let all = found(dir.path()).unwrap().1;
        assert_eq!(all, [ids(1, 0..5), ids(2, 5..7)].concat(), "entries appended after the truncation stay");
    }
    let error = found(image(&[3]).path()).err().unwrap();
    assert!(
        matches!(error, LogError::Damaged { index: 3, .. }),
        "before the truncation it is damage: {error}"
    );
}

#[test]
fn a_crash_while_truncated_segments_are_removed_leaves_the_truncation_to_be_finished() {
    let dir = tempfile::tempdir().unwrap();
    let (mut disk, _) = found(dir.path()).unwrap();
    disk.append(&entries(1, 0..10)).unwrap();
    roll(&mut disk);
    disk.append(&entries(1, 10..20)).unwrap();
    roll(&mut disk);
    disk.append(&entries(1, 20..30)).unwrap();
    drop(disk);
    truncation::write_note(&host::SystemFiles, dir.path(), Truncation::From(10)).unwrap();
    assert_eq!(found(dir.path()).unwrap().1, ids(1, 0..10));
    assert_eq!(found(dir.path()).unwrap().1, ids(1, 0..10), "and it is finished");
}

#[test]
fn segments_are_given_up_whole_and_used_again_without_what_they_held() {
    let dir = tempfile::tempdir().unwrap();
    let (mut disk, _) = found(dir.path()).unwrap();
    disk.append(&entries(1, 0..100)).unwrap();
    roll(&mut disk);
    disk.append(&entries(1, 100..110)).unwrap();
    roll(&mut disk);
    disk.append(&entries(1, 110..111)).unwrap();
    lock(&disk.segments)[0].bytes = SEGMENT_BYTES;
    disk.purge(id(1, 50)).unwrap();
    assert_eq!(found(dir.path()).unwrap().1.len(), 111, "half a segment is not given up");
    disk.purge(id(1, 99)).unwrap();
    assert!(dir.path().join(SPARE).exists());
    assert_eq!(found(dir.path()).unwrap().1, ids(1, 100..111));
    roll(&mut disk);
    disk.append(&entries(1, 111..112)).unwrap();
    assert!(!dir.path().join(SPARE).exists(), "it is the current one now");
    assert_eq!(found(dir.path()).unwrap().1, ids(1, 100..112));
}

/// Small write whose data look like a record that says all was on disk; a client can send it, but does not
/// know the salt.
fn forging(index: u64) -> Entry {
    let mut data = Vec::new();
    let forged = Entry { log_id: id(u64::MAX, u64::MAX), payload: Payload::Blank };
    record::encode(&forged, u64::MAX, &mut data).unwrap();
    let command = Command::WriteInline { inode: InodeId(3), offset: 0, data: data.into() };
    let proposal = Proposal::new(Stamp::default(), None, command);
    Entry { log_id: id(1, index), payload: Payload::Normal(Change(Arc::new(proposal))) }
}

#[test]
fn a_record_that_a_client_wrote_into_its_data_is_none_wherever_it_stands() {
    // In the old contents of the segment, after the end of the log.
    let dir = tempfile::tempdir().unwrap();
    let (mut disk, _) = found(dir.path()).unwrap();
    let many: Vec<Entry> = (0..100).map(forging).collect();
    disk.append(&many).unwrap();
    roll(&mut disk);
    disk.append(&entries(1, 100..101)).unwrap();
    roll(&mut disk);
    lock(&disk.segments)[0].bytes = SEGMENT_BYTES;
    disk.purge(id(1, 99)).unwrap();
    assert!(dir.path().join(SPARE).exists());
    disk.append(&entries(1, 101..102)).unwrap();
    assert!(!dir.path().join(SPARE).exists());
    drop(disk);
    assert_eq!(found(dir.path()).unwrap().1, ids(1, 100..102), "in a segment that is used again");

    // In the last write, which a crash tore.
    let dir = tempfile::tempdir().unwrap();
    let (mut disk, _) = found(dir.path()).unwrap();
    disk.append(&entries(1, 0..1)).unwrap();
    let segment = lock(&disk.segments)[0].clone();
    disk.append(&[forging(1)]).unwrap();
    drop(disk);
    let file = OpenOptions::new().write(true).open(&segment.path).unwrap();
    file.write_all_at(&[0xff], segment.end + 16).unwrap();
    assert_eq!(found(dir.path()).unwrap().1, ids(1, 0..1), "in a torn write");
}

#[test]
fn after_a_snapshot_that_reaches_beyond_it_the_log_goes_on_from_there() {
    let dir = tempfile::tempdir().unwrap();
    let (mut disk, _) = found(dir.path()).unwrap();
    disk.append(&entries(1, 0..5)).unwrap();
    disk.purge(id(3, 1000)).unwrap();
    let (reopened, all) = found(dir.path()).unwrap();
    assert_eq!((all, reopened.last), (vec![], Some(id(3, 1000))));
    drop(reopened);
    disk.append(&entries(3, 1001..1003)).unwrap();
    assert_eq!(found(dir.path()).unwrap().1, ids(3, 1001..1003));
}

#[test]
fn a_crash_while_a_log_begins_anew_leaves_it_to_be_done_at_the_start() {
    for gone in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let (mut disk, _) = found(dir.path()).unwrap();
        disk.append(&entries(1, 0..10)).unwrap();
        let segment = lock(&disk.segments)[0].clone();
        drop(disk);
        truncation::write_note(&host::SystemFiles, dir.path(), Truncation::After(id(2, 41))).unwrap();
        if gone {
            segments::retire(&LogDir::local(dir.path()), &segment).unwrap();
        }
        let (mut disk, ids_found) = found(dir.path()).unwrap();
        assert_eq!((disk.next(), ids_found.len()), (42, 0));
        disk.append(&entries(2, 42..44)).unwrap();
        drop(disk);
        assert_eq!(found(dir.path()).unwrap().1, ids(2, 42..44), "it is done once");
    }
}

#[test]
fn a_log_that_begins_anew_writes_into_nothing_that_has_later_records() {
    let dir = tempfile::tempdir().unwrap();
    let (mut disk, _) = found(dir.path()).unwrap();
    disk.append(&entries(1, 0..150)).unwrap();
    disk.restart_after(id(2, 100)).unwrap();
    drop(disk);
    assert!(!dir.path().join(SPARE).exists());
    // Twice: each start looks behind the end of a segment.
    let (mut disk, all) = found(dir.path()).unwrap();
    assert_eq!(all, []);
    disk.append(&entries(2, 101..103)).unwrap();
    drop(disk);
    assert_eq!(found(dir.path()).unwrap().1, ids(2, 101..103));
}

#[test]
fn a_segment_without_records_that_is_too_small_is_replaced_and_not_given_up_twice() {
    let dir = tempfile::tempdir().unwrap();
    let (mut disk, _) = found(dir.path()).unwrap();
    disk.append(&entries(1, 0..1)).unwrap();
    disk.truncate(None).unwrap();
    let end = lock(&disk.segments)[0].end;
    lock(&disk.segments)[0].bytes = end + 8;
    disk.append(&entries(1, 0..10)).unwrap();
    assert_eq!(lock(&disk.segments).len(), 1);
    roll(&mut disk);
    disk.append(&entries(1, 10..12)).unwrap();
    disk.purge(id(1, 9)).unwrap();
    drop(disk);
    assert_eq!(found(dir.path()).unwrap().1, ids(1, 10..12));
}
