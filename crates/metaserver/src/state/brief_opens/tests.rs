use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use namespace::Share;
use wire::nfs4::SessionId;

use super::*;

const INODE: InodeId = InodeId(9);

fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn begun() -> BriefOpens {
    let opens = BriefOpens::default();
    assert!(opens.quiet().is_none(), "commands are not seen yet");
    opens.begin();
    opens
}

/// A connection that has ended, or not.
#[derive(Default)]
struct Line(AtomicBool);

impl Lasts for Line {
    fn lasts(&self) -> bool {
        !self.0.load(Ordering::Relaxed)
    }
}

fn at(sequence: u32) -> Position {
    Position { session: SessionId([7; 16]), slot: 0, sequence, operation: 2 }
}

fn weak(line: &Arc<Line>) -> Weak<dyn Lasts> {
    let line: Arc<dyn Lasts> = Arc::<Line>::clone(line);
    Arc::downgrade(&line)
}

/// An open of client 1, whose OPEN had sequence 5 of slot 0.
fn brief(line: &Arc<Line>, id: u64, owner: &[u8]) -> BriefOpen {
    let open = OpenState {
        stateid: Stateid::brief(id),
        client: ClientId(1),
        inode: INODE,
        owner: owner.to_vec(),
        access: Share::READ,
        deny: Share::NONE,
        opened: 0,
    };
    let came = (weak(line), at(5));
    BriefOpen { open, export: InodeId::ROOT, since: s(100), came, is_used: false, is_being_written: false }
}

#[test]
fn an_open_is_closed_once_by_its_client_with_its_last_stateid() {
    let (opens, line) = (begun(), Arc::<Line>::default());
    assert!(opens.add(opens.quiet().unwrap(), brief(&line, 3, b"o")));
    let first = Stateid::brief(3);
    let sent_again = opens.open_again(ClientId(1), b"o", INODE, (weak(&line), at(5)));
    assert_eq!(sent_again, Found::Here(first), "the same OPEN");
    let again = opens.open_again(ClientId(1), b"o", INODE, (weak(&line), at(6)));
    let second = Stateid { sequence: 2, ..first };
    assert_eq!(again, Found::Here(second));
    assert_eq!(opens.open_again(ClientId(1), b"other", INODE, (weak(&line), at(7))), Found::Elsewhere);
    assert_eq!(opens.open_again(ClientId(2), b"o", INODE, (weak(&line), at(7))), Found::Elsewhere);
    assert_eq!(opens.close(ClientId(2), second, INODE), Err(Status::BadStateid));
    assert_eq!(opens.close(ClientId(1), second, InodeId(8)), Err(Status::BadStateid));
    assert_eq!(opens.close(ClientId(1), first, INODE), Err(Status::OldStateid));
    assert_eq!(opens.close(ClientId(1), Stateid { sequence: 3, ..first }, INODE), Err(Status::BadStateid));
    assert_eq!(opens.close(ClientId(1), second, INODE), Ok(Found::Here(second)));
    assert_eq!(opens.close(ClientId(1), second, INODE), Ok(Found::Elsewhere));
    assert!(!opens.has_some(ClientId(1)) && opens.table.lock().of_file.is_empty());
    assert!(opens.was_opened_lately(ClientId(1), INODE, s(129)));
    assert!(!opens.was_opened_lately(ClientId(1), INODE, s(130)));
}

#[test]
fn there_is_no_new_open_by_a_view_from_before_a_conflicting_command() {
    let (opens, line) = (begun(), Arc::<Line>::default());
    let before = opens.quiet().unwrap();
    assert!(opens.conflict_begins());
    assert!(opens.quiet().is_none() && !opens.add(before, brief(&line, 1, b"o")), "it is under way");
    assert!(!opens.conflict_begins(), "a second one");
    opens.table.lock().conflicts = 0;
    assert!(!opens.add(before, brief(&line, 1, b"o")), "the view may not show it");
    assert!(opens.add(opens.quiet().unwrap(), brief(&line, 1, b"o")));
}

#[test]
fn opens_are_bounded_and_end_with_their_client() {
    let (opens, line) = (begun(), Arc::<Line>::default());
    for id in 0..u64::from(OF_CLIENT_MAX) {
        assert!(opens.add(opens.quiet().unwrap(), brief(&line, id, &id.to_be_bytes())));
    }
    assert!(!opens.add(opens.quiet().unwrap(), brief(&line, 1 << 20, b"one more")));
    opens.forget_client(ClientId(2));
    assert!(opens.has_some(ClientId(1)));
    opens.forget_client(ClientId(1));
    assert!(!opens.has_some(ClientId(1)) && opens.table.lock().of_file.is_empty());
    let mut lately = Lately::default();
    for inode in 0..4 * LATELY_MAX as u64 {
        lately.note(ClientId(1), InodeId(inode), s(100));
    }
    assert!(lately.newer.len() + lately.older.len() <= 2 * LATELY_MAX);
    assert!(lately.has(ClientId(1), InodeId(4 * LATELY_MAX as u64 - 1), s(129)));
    assert!(!lately.has(ClientId(1), InodeId(3), s(101)), "the oldest are forgotten");
}

#[test]
fn an_open_is_written_once_it_lasts_and_its_client_is_known_to_have_it() {
    let (opens, line) = (begun(), Arc::<Line>::default());
    let add = |id| assert!(opens.add(opens.quiet().unwrap(), brief(&line, id, &id.to_be_bytes())));
    add(3);
    let id = Stateid::brief(3).id;
    assert!(opens.due(s(100), true).is_empty());
    assert_eq!(opens.due(s(100), false), [id], "another member leads");
    assert_eq!(opens.due(s(101), true), [id]);
    line.0.store(true, Ordering::Relaxed);
    assert!(opens.due(s(159), true).is_empty(), "the answer to its OPEN may be lost");
    opens.note_use(id);
    assert_eq!(opens.due(s(159), true), [id], "it was not");
    assert_eq!(opens.table.lock().begin_writing(&[id]).len(), 1);
    assert!(opens.table.lock().begin_writing(&[id]).is_empty() && opens.due(s(200), true).is_empty());
    assert_eq!(opens.close(ClientId(1), Stateid::brief(3), INODE), Ok(Found::BeingWritten(id)));
    assert_eq!(
        opens.open_again(ClientId(1), &3_u64.to_be_bytes(), INODE, (weak(&line), at(9))),
        Found::BeingWritten(id)
    );
    add(4);
    assert!(opens.due(s(160), true).is_empty() && opens.get(Stateid::brief(4).id).is_none(), "it was");
}

#[test]
fn what_is_in_the_way_of_a_command_is_found_by_file_and_client() {
    use conflicts::InTheWay;
    let (opens, line) = (begun(), Arc::<Line>::default());
    let add = |id, client, inode| {
        let mut brief = brief(&line, id, b"o");
        (brief.open.client, brief.open.inode) = (ClientId(client), InodeId(inode));
        assert!(opens.add(opens.quiet().unwrap(), brief));
        Stateid::brief(id).id
    };
    let (a, b, c) = (add(1, 1, 8), add(2, 1, 9), add(3, 2, 9));
    let found = |which| opens.table.lock().in_the_way(which);
    assert_eq!(found(InTheWay::All), [a, b, c]);
    assert_eq!(found(InTheWay::File(InodeId(9))), [b, c]);
    assert_eq!(found(InTheWay::Client(ClientId(1))), [a, b]);
    assert_eq!(found(InTheWay::Of(ClientId(2), InodeId(9))), [c]);
    assert!(found(InTheWay::Nothing).is_empty() && found(InTheWay::Client(ClientId(3))).is_empty());
    let opening = opens.opens_with_record(ClientId(2), InodeId(8));
    let mut beside = brief(&line, 4, b"o");
    (beside.open.client, beside.open.inode) = (ClientId(2), InodeId(8));
    assert!(!opens.add(opens.quiet().unwrap(), beside), "its OPEN with a record is under way");
    drop(opening);
    assert!(opens.table.lock().opening.is_empty());
    assert_eq!(opens.end(), [a, b, c]);
    assert!(opens.quiet().is_none());
}
