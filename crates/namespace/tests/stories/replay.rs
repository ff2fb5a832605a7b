//! Exactly once: what a slot remembers.

use namespace::*;

use crate::world::*;

fn session(w: &mut World) -> (ClientId, SessionId) {
    let a = w.client("a");
    (a, read::sessions(&*w.view(), a).unwrap()[0])
}

fn request(session: SessionId, slot: u32, sequence: u32, index: u32) -> Option<RequestId> {
    Some(RequestId::Compound(CompoundRequest { session, slot, sequence, index }))
}

fn mkdir(name: &[u8]) -> Command {
    Command::Create(create(InodeId::ROOT, name, NewNode::Directory, Exists::Refuse))
}

fn rmdir(name: &[u8]) -> Command {
    Command::Remove { dir: InodeId::ROOT, name: name.to_vec(), expect: Expect::Directory }
}

#[test]
fn replayed_commands_get_the_stored_reply() {
    let mut w = World::new();
    let (_, s) = session(&mut w);
    let first = w.apply_from(request(s, 0, 1, 0), mkdir(b"d"));
    assert!(first.is_ok());
    let before = w.dump();
    assert_eq!(w.apply_from(request(s, 0, 1, 0), mkdir(b"d")), first, "and not Exists");
    assert_eq!(w.dump(), before, "a repetition changes nothing");

    let removed = w.apply_from(request(s, 0, 2, 0), rmdir(b"d"));
    assert!(removed.is_ok());
    assert_eq!(w.apply_from(request(s, 0, 2, 0), rmdir(b"d")), removed, "and not NoEntry");
}

#[test]
fn a_refusal_is_remembered_too() {
    let mut w = World::new();
    let (_, s) = session(&mut w);
    assert_eq!(w.apply_from(request(s, 0, 1, 0), rmdir(b"d")), Err(Error::NoEntry));
    w.dir("/d");
    assert_eq!(w.apply_from(request(s, 0, 1, 0), rmdir(b"d")), Err(Error::NoEntry));
    w.apply_from(request(s, 0, 2, 0), rmdir(b"d")).unwrap();
}

#[test]
fn each_command_of_a_compound_has_a_reply_of_its_own() {
    let mut w = World::new();
    let (_, s) = session(&mut w);
    let one = w.apply_from(request(s, 3, 7, 0), mkdir(b"1"));
    // The metaserver died here; the client sends the whole compound to another.
    assert_eq!(w.apply_from(request(s, 3, 7, 0), mkdir(b"1")), one);
    w.apply_from(request(s, 3, 7, 1), mkdir(b"2")).unwrap();
    w.apply_from(request(s, 4, 7, 1), mkdir(b"3")).unwrap();
    assert_eq!(w.names("/"), ["1", "2", "3"]);
}

#[test]
fn a_straggler_is_not_done() {
    let mut w = World::new();
    let (_, s) = session(&mut w);
    w.apply_from(request(s, 0, u32::MAX, 0), mkdir(b"1")).unwrap();
    w.apply_from(request(s, 0, 0, 0), mkdir(b"2")).unwrap(); // sequences wrap
    assert_eq!(w.apply_from(request(s, 0, u32::MAX, 0), mkdir(b"3")), Err(Error::Misordered));
    assert_eq!(w.apply_from(request(s, 0, u32::MAX, 1), mkdir(b"3")), Err(Error::Misordered));
    assert_eq!(w.names("/"), ["1", "2"]);
}

#[test]
fn a_slot_is_forgotten_with_its_session() {
    let mut w = World::new();
    let (a, s) = session(&mut w);
    for slot in 0..3 {
        w.apply_from(request(s, slot, 1, 0), mkdir(format!("{slot}").as_bytes())).unwrap();
    }
    let before = w.dump().len();
    w.apply_from(request(s, 0, 2, 0), Command::DestroySession { session: s }).unwrap();
    assert_eq!(w.dump().len(), before - 5, "three slots, the session and its index");
    assert_eq!(
        w.apply_from(request(s, 1, 2, 0), mkdir(b"x")),
        Err(Error::BadSession),
        "nothing is done for it"
    );
    assert_eq!(w.find("/x"), None);
    w.apply(Command::DestroyClient { client: a }).unwrap();
}

/// The replies of a compound with many changes do not make each further change dearer, and go with the next
/// sequence.
#[test]
fn each_change_of_a_long_compound_adds_one_record_and_the_next_compound_removes_them() {
    let mut w = World::new();
    let (_, s) = session(&mut w);
    let slots = |w: &World| w.dump().iter().filter(|(key, _)| matches!(key[0], 0x14 | 0x15)).count();
    let bytes = |w: &World| w.dump().iter().filter(|(key, _)| key[0] == 0x14).map(|(_, v)| v.len()).max();
    w.apply_from(request(s, 0, 1, 0), mkdir(b"0")).unwrap();
    let one = bytes(&w);
    let replies: Vec<_> = (1..100u32)
        .map(|index| w.apply_from(request(s, 0, 1, index), mkdir(format!("{index}").as_bytes())))
        .collect();
    w.apply_from(request(s, 1, 1, 0), rmdir(b"0")).unwrap();
    w.apply_from(request(s, 1, 1, 1), rmdir(b"99")).unwrap();
    assert_eq!((slots(&w), bytes(&w)), (102, one));
    for (index, reply) in (1..100).zip(replies) {
        assert_eq!(w.apply_from(request(s, 0, 1, index), mkdir(b"other")), reply);
    }
    w.apply_from(request(s, 0, 2, 7), mkdir(b"last")).unwrap();
    assert_eq!(slots(&w), 3, "the other slot has its two yet");
    assert_eq!(w.apply_from(request(s, 0, 1, 50), mkdir(b"x")), Err(Error::Misordered));
    w.apply_from(request(s, 0, 3, 0), Command::DestroySession { session: s }).unwrap();
    assert_eq!(slots(&w), 0);
}

#[test]
fn a_lock_denied_is_remembered() {
    let mut w = World::new();
    let (a, s) = session(&mut w);
    let f = w.file("/f");
    let open = w.open(a, "/f", BOTH).unwrap();
    let held = stateid(w.lock_new(a, open, "x", LockKind::Write, 0..9));
    let command = Command::Lock {
        client: a,
        inode: f,
        owner: LockOwner::New { open, owner: b"y".to_vec() },
        kind: LockKind::Read,
        range: ByteRange { start: 0, end: 1 },
    };
    let denied = w.apply_from(request(s, 0, 1, 0), command.clone());
    assert!(matches!(denied, Ok(Reply::Denied(_))));
    w.unlock(a, held, 0..9).unwrap();
    assert_eq!(w.apply_from(request(s, 0, 1, 0), command.clone()), denied);
    assert!(matches!(w.apply_from(request(s, 0, 2, 0), command), Ok(Reply::State { .. })));
}
