use namespace::Share;
use nfs::{Backchannel, SessionLimits};
use wire::nfs4::SessionId;
use wire::rpc::Credential;

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

fn session() -> Arc<Session> {
    let limits = SessionLimits {
        request_bytes_max: 1 << 20,
        response_bytes_max: 1 << 20,
        cached_bytes_max: 4096,
        operations_max: 16,
        slots: 2,
    };
    let id = SessionId([7; 16]);
    Arc::new(Session::new(id, 1, limits, Backchannel::new(id, 0, Credential::None, 1, false), true))
}

/// An open of client 1, whose OPEN had sequence 5 of slot 0.
fn brief(session: &Arc<Session>, id: u64, owner: &[u8]) -> BriefOpen {
    let open = OpenState {
        stateid: Stateid::brief(id),
        client: ClientId(1),
        inode: INODE,
        owner: owner.to_vec(),
        access: Share::READ,
        deny: Share::NONE,
        opened: 0,
    };
    let at = Position { session: session.id(), slot: 0, sequence: 5, operation: 2 };
    let came = (Arc::clone(session), at);
    BriefOpen { open, export: InodeId::ROOT, since: s(100), came, is_being_written: false }
}

#[test]
fn an_open_is_closed_once_by_its_client_with_its_last_stateid() {
    let (opens, session) = (begun(), session());
    assert!(opens.add(opens.quiet().unwrap(), brief(&session, 3, b"o")));
    let first = Stateid::brief(3);
    let again = opens.open_again(ClientId(1), b"o", INODE);
    let second = Stateid { sequence: 2, ..first };
    assert_eq!(again, Found::Here(second));
    assert_eq!(opens.open_again(ClientId(1), b"other", INODE), Found::Elsewhere);
    assert_eq!(opens.open_again(ClientId(2), b"o", INODE), Found::Elsewhere);
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
    let (opens, session) = (begun(), session());
    let before = opens.quiet().unwrap();
    assert!(opens.conflict_begins());
    assert!(opens.quiet().is_none() && !opens.add(before, brief(&session, 1, b"o")), "it is under way");
    assert!(!opens.conflict_begins(), "a second one");
    opens.table.lock().conflicts = 0;
    assert!(!opens.add(before, brief(&session, 1, b"o")), "the view may not show it");
    assert!(opens.add(opens.quiet().unwrap(), brief(&session, 1, b"o")));
}

#[test]
fn opens_are_bounded_and_end_with_their_client() {
    let (opens, session) = (begun(), session());
    for id in 0..u64::from(OF_CLIENT_MAX) {
        assert!(opens.add(opens.quiet().unwrap(), brief(&session, id, &id.to_be_bytes())));
    }
    assert!(!opens.add(opens.quiet().unwrap(), brief(&session, 1 << 20, b"one more")));
    opens.forget_client(ClientId(2));
    assert!(opens.has_some(ClientId(1)));
    opens.forget_client(ClientId(1));
    assert!(!opens.has_some(ClientId(1)) && opens.table.lock().of_file.is_empty());
    for inode in 0..2 * LATELY_MAX as u64 {
        opens.table.lock().note_opened(ClientId(1), InodeId(inode), s(100));
    }
    assert!(opens.table.lock().lately.len() <= LATELY_MAX);
}

#[test]
fn an_open_is_written_once_it_lasts_and_its_client_is_known_to_have_it() {
    let (opens, session) = (begun(), session());
    let add = |id| assert!(opens.add(opens.quiet().unwrap(), brief(&session, id, &id.to_be_bytes())));
    add(3);
    let id = Stateid::brief(3).id;
    assert!(opens.due(s(159), true).is_empty(), "the answer to its OPEN may be lost");
    assert_eq!(opens.due(s(100), false), [id], "another member leads");
    let (like, alone) = (nfs::RequestFingerprint::default(), false);
    assert!(session.begin(0, 6, like, alone).is_ok());
    assert!(opens.due(s(100), true).is_empty());
    assert_eq!(opens.due(s(101), true), [id]);
    assert_eq!(opens.table.lock().begin_writing(&[id]).len(), 1);
    assert!(opens.table.lock().begin_writing(&[id]).is_empty() && opens.due(s(101), true).is_empty());
    assert_eq!(opens.close(ClientId(1), Stateid::brief(3), INODE), Ok(Found::BeingWritten(id)));
    assert_eq!(opens.open_again(ClientId(1), &3_u64.to_be_bytes(), INODE), Found::BeingWritten(id));

    let elsewhere = super::tests::session();
    assert!(opens.add(opens.quiet().unwrap(), brief(&elsewhere, 4, b"lost")));
    assert!(opens.due(s(160), true).is_empty() && opens.get(Stateid::brief(4).id).is_none());
}
