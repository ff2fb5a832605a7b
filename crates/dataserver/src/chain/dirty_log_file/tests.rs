use bytes::Bytes;
use wire::data::{Chain, Member, MemberState};

use super::super::locks::RangeLocks;
use super::super::regions::DirtyRegions;
use super::*;
use crate::Target;

const MIB: u64 = 1 << 20;

fn name(inode: u64) -> ObjectName {
    ObjectName { inode, column: 1, volume: 2, generation: 3 }
}

fn told(id: u64, version: u32, states: [MemberState; 2], targets: [u64; 2]) -> Chain {
    let member = |(target, state)| Member { target, address: Bytes::new(), state };
    Chain { id, version, verifier: 1, members: targets.into_iter().zip(states).map(member).collect() }
}

/// A target that a process has opened, with its dirty log.
struct Opened {
    target: Arc<Target>,
    log: Arc<DirtyLog>,
}

impl Opened {
    fn of(dir: &Path) -> Self {
        let target = Target::open_or_create(&dir.join("target"), [1; 16], &host::SystemEntropy).unwrap();
        let log = Arc::new(DirtyLog::new(Arc::new(RangeLocks::default())));
        log.serves(target.id());
        for kept in target.chain_records().kept() {
            let left = target.dirty_log_file().of_chain(kept.chain);
            log.begin(kept, left);
        }
        target.dirty_log_file().begin(Arc::clone(&log));
        Self { target, log }
    }

    /// Versions of chains 7 and 8, of this target and another one.
    fn hear(&self, version: u32, of_other: MemberState) {
        for id in [7, 8] {
            let told = told(id, version, [MemberState::In, of_other], [self.target.id(), 1]);
            self.target.chain_records().note(self.target.id(), std::slice::from_ref(&told), false);
            self.log.hear(&told);
        }
        self.target.chain_records().write_down();
    }

    fn write_down(&self) -> bool {
        self.target.dirty_log_file().write_down(self.target.chain_records())
    }

    fn since(&self, chain: u64) -> Option<(u32, DirtyObjects)> {
        self.log.since_member(chain, 1)
    }
}

#[test]
fn the_next_process_has_the_log_until_the_chain_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let opened = Opened::of(dir.path());
    opened.hear(1, MemberState::In);
    opened.hear(2, MemberState::Away);
    opened.log.note(7, name(1), 0..0);
    opened.log.note(7, name(2), MIB..3 * MIB);
    opened.log.note(7, name(2), 9 * MIB..u64::MAX);
    for inode in 0..=OBJECTS_MAX as u64 {
        opened.log.note(8, name(inode), 0..1);
    }
    assert!(opened.write_down());
    let before = opened.since(7).unwrap();
    assert_eq!((before.0, before.1.len()), (1, 2));
    drop(opened);

    let again = Opened::of(dir.path());
    assert_eq!(again.since(7), Some(before.clone()), "of the second process");
    assert_eq!(again.since(8), None, "too many");
    again.hear(3, MemberState::Away);
    again.log.note(7, name(3), 0..1);
    assert!(again.write_down());
    drop(again);

    let third = Opened::of(dir.path());
    let mut more = before;
    let mut region = DirtyRegions::default();
    region.add(0..1);
    more.1.insert(name(3), region);
    assert_eq!(third.since(7), Some(more), "of the third process");
    third.hear(4, MemberState::Refilling);
    third.hear(5, MemberState::In);
    third.hear(6, MemberState::Away);
    assert!(third.write_down());
    drop(third);
    assert_eq!(Opened::of(dir.path()).since(7), Some((5, DirtyObjects::new())), "it was whole");
}

#[test]
fn without_news_nothing_is_written_and_without_a_log_nothing_is_settled() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("target").join(FILE);
    let opened = Opened::of(dir.path());
    assert!(opened.write_down() && !file.exists());
    opened.hear(1, MemberState::In);
    assert!(opened.write_down() && !file.exists(), "nothing is dirty");
    opened.hear(2, MemberState::Away);
    opened.log.note(7, name(1), 0..1);
    std::fs::create_dir(file.with_extension("new")).unwrap(); // in the way
    assert!(!opened.write_down());
    std::fs::remove_dir(file.with_extension("new")).unwrap();
    assert!(opened.write_down() && file.exists());
    std::fs::remove_file(&file).unwrap();
    opened.log.note(7, name(1), 0..1);
    assert!(opened.write_down() && !file.exists(), "it was noted before");
    drop(opened);
    let target = Target::open_or_create(&dir.path().join("target"), [1; 16], &host::SystemEntropy).unwrap();
    assert!(!target.may_settle(), "its log has not begun");
}

#[test]
fn of_a_damaged_file_or_change_log_nothing_is_known() {
    let dir = tempfile::tempdir().unwrap();
    let (file, changes) = (dir.path().join("target").join(FILE), dir.path().join("target/changes.log"));
    let opened = Opened::of(dir.path());
    opened.hear(1, MemberState::In);
    opened.hear(2, MemberState::Away);
    opened.log.note(8, name(3), 0..u64::MAX);
    assert!(opened.write_down());
    drop(opened);
    let text = std::fs::read(&file).unwrap();
    let damaged =
        (0..text.len()).step_by(7).map(|at| [&text[..at], &[text[at] ^ 1], &text[at + 1..]].concat());
    for bytes in damaged.chain([vec![], vec![0; text.len()], vec![255; 9]]) {
        std::fs::write(&file, &bytes).unwrap();
        assert!(Opened::of(dir.path()).since(7).is_none(), "{bytes:?}");
    }
    let opened = Opened::of(dir.path());
    assert!(opened.write_down());
    drop(opened);
    assert!(Opened::of(dir.path()).since(7).is_none(), "also to the next process");
    std::fs::write(&file, &text).unwrap();
    assert!(Opened::of(dir.path()).since(7).is_some());
    let mut bytes = std::fs::read(&changes).unwrap();
    bytes[64 * 5 + 9] = 1; // a record that is not sound
    std::fs::write(&changes, bytes).unwrap();
    assert!(Opened::of(dir.path()).since(7).is_none());
    std::fs::remove_file(&changes).unwrap();
    assert!(Opened::of(dir.path()).since(8).is_none(), "without a change log");
}

#[test]
fn what_the_change_log_has_of_an_object_that_is_gone_is_its_chains() {
    let dir = tempfile::tempdir().unwrap();
    let opened = Opened::of(dir.path());
    opened.hear(1, MemberState::In);
    opened.hear(2, MemberState::Away);
    opened.target.objects().note_removal(&name(4), 7).unwrap();
    drop(opened);
    let again = Opened::of(dir.path());
    let (since, objects) = again.since(7).unwrap();
    assert_eq!((since, objects.keys().copied().collect::<Vec<_>>()), (1, vec![name(4)]));
    assert!(objects[&name(4)].are_all());
    assert_eq!(again.since(8), Some((1, DirtyObjects::new())));
}
