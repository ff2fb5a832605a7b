//! Exactly once, where no client's session stands behind a command: calls of NFSv3, and metaservers
//! themselves.

use namespace::*;

use crate::world::*;

fn call(xid: u32) -> CallId {
    CallId { client: [7; 16], port: 700, xid, procedure: 9, checksum: 77 }
}

fn mkdir(name: &str) -> Command {
    Command::Create(create(InodeId::ROOT, name.as_bytes(), NewNode::Directory, Exists::Refuse))
}

fn rmdir(name: &str) -> Command {
    Command::Remove { dir: InodeId::ROOT, name: name.into(), expect: Expect::Directory }
}

fn of_call(xid: u32, index: u32) -> Option<RequestId> {
    Some(RequestId::Call(call(xid), index))
}

/// The session that a process of a member has.
fn start(w: &mut World, member: u64) -> u64 {
    let Ok(Reply::Started { life }) = w.apply(Command::ServerStarts { member, age_ms: 0 }) else {
        panic!("it starts")
    };
    life
}

fn by_server(member: u64, life: u64, slot: u32, sequence: u64) -> Option<RequestId> {
    Some(RequestId::Server(MemberRequest { member, life, slot, sequence }))
}

fn count(w: &World, tag: u8) -> usize {
    w.dump().iter().filter(|(key, _)| key[0] == tag).count()
}

#[test]
fn a_call_of_nfsv3_that_comes_again_is_answered_and_not_done() {
    let mut w = World::new();
    let made = w.apply_from(of_call(1, 0), mkdir("d"));
    assert!(made.is_ok());
    let before = w.dump();
    assert_eq!(w.apply_from(of_call(1, 0), mkdir("d")), made, "and not Exists");
    assert_eq!(w.dump(), before, "a repetition changes nothing");
    assert_eq!(read::recorded(&*w.view(), &RequestId::Call(call(1), 0)).unwrap(), made.ok());
    assert_eq!(w.apply_from(of_call(2, 0), mkdir("d")), Err(Error::Exists), "another call");

    let removed = w.apply_from(of_call(3, 0), rmdir("d"));
    assert!(removed.is_ok());
    assert_eq!(w.apply_from(of_call(3, 0), rmdir("d")), removed, "and not NoEntry");
    assert_eq!(w.apply_from(of_call(2, 0), mkdir("d")), Err(Error::Exists), "a refusal is remembered, too");
    let beside = RequestId::Call(CallId { port: 701, ..call(1) }, 0);
    assert_ne!(read::recorded(&*w.view(), &RequestId::Call(call(1), 0)).unwrap(), None);
    assert_eq!(read::recorded(&*w.view(), &beside).unwrap(), None, "another port is another client");
    let other = Some(RequestId::Call(CallId { client: [8; 16], ..call(1) }, 0));
    w.apply_from(other, mkdir("d")).unwrap();
}

#[test]
fn each_command_of_a_call_has_a_reply_of_its_own() {
    let mut w = World::new();
    let first = w.apply_from(of_call(1, 0), mkdir("d"));
    let second = w.apply_from(of_call(1, 1), mkdir("e"));
    assert!(second.is_ok());
    assert_eq!(w.apply_from(of_call(1, 0), mkdir("d")), first);
    assert_eq!(w.apply_from(of_call(1, 1), mkdir("e")), second);
    assert_eq!(count(&w, 0x17), 1, "one record");
}

#[test]
fn a_call_that_is_told_to_come_again_is_done_then() {
    let mut w = World::new();
    let a = w.client("a");
    w.file("/f");
    let (open, inode) = (w.open(a, "/f", BOTH).unwrap(), w.id("/f"));
    let layout = w.layout(a, "/f", open, IoMode::ReadWrite).unwrap().id;
    let truncation =
        Command::SetAttributes { inode, set: SetAttributes { size: Some(0), ..Default::default() } };
    assert_eq!(w.apply_from(of_call(1, 0), truncation.clone()), Err(Error::Delay), "the layout is out");
    w.apply(Command::LayoutReturn { client: a, scope: ReturnScope::Revoke { layout } }).unwrap();
    w.apply_from(of_call(1, 0), truncation).unwrap();
}

#[test]
fn calls_are_forgotten_by_age_and_by_number() {
    let mut w = World::new();
    let last = CALL_SECONDS_MAX as u32 + 50;
    for xid in 0..last {
        // A second each.
        let _ = w.apply_from(of_call(xid, 0), rmdir("not there"));
    }
    assert_eq!(count(&w, 0x17), CALL_SECONDS_MAX as usize + 1);
    assert_eq!(count(&w, 0x18), CALL_SECONDS_MAX as usize + 2, "and what tells the oldest and the next");
    w.apply(mkdir("d")).unwrap();
    assert!(w.apply_from(of_call(0, 0), rmdir("d")).is_ok(), "an old call's number is free again");

    // All in one moment: too many to check the store after each.
    w.many(CALLS_MAX + 10, |n| (of_call(last + n as u32, 0), rmdir("not there")));
    assert_eq!(count(&w, 0x17) as u64, CALLS_MAX);
    w.apply(mkdir("d")).unwrap();
    assert_eq!(w.apply_from(of_call(last + 11, 0), rmdir("d")), Err(Error::NoEntry), "remembered");
    assert!(w.apply_from(of_call(last, 0), rmdir("d")).is_ok(), "forgotten");
}

#[test]
fn what_a_metaserver_does_by_itself_is_done_once_also_when_its_leader_was_lost() {
    let mut w = World::new();
    let life = start(&mut w, 5);
    let made = w.apply_from(by_server(5, life, 0, 1), mkdir("d"));
    assert!(made.is_ok());
    assert_eq!(w.apply_from(by_server(5, life, 0, 1), mkdir("d")), made, "and not Exists");
    w.apply_from(by_server(5, life, 1, 1), mkdir("e")).unwrap();
    w.apply_from(by_server(5, life, 0, 2), rmdir("d")).unwrap();
    assert_eq!(
        w.apply_from(by_server(5, life, 0, 1), mkdir("d")),
        Err(Error::Misordered),
        "nobody waits for it"
    );
    assert_eq!(count(&w, 0x1a), 2, "one reply for each slot");
}

#[test]
fn what_a_process_had_under_way_when_it_ended_is_not_done_after_the_next_one_began() {
    let mut w = World::new();
    let (first, other) = (start(&mut w, 5), start(&mut w, 6));
    w.apply_from(by_server(5, first, 0, 1), mkdir("d")).unwrap();
    let second = start(&mut w, 5);
    assert!(second > first && other != second);
    assert_eq!(count(&w, 0x1a), 0, "its slots went");
    assert_eq!(w.apply_from(by_server(5, first, 0, 2), mkdir("late")), Err(Error::ServerGone));
    assert_eq!(w.find("/late"), None);
    w.apply_from(by_server(5, second, 0, 1), mkdir("new")).unwrap();
    w.apply_from(by_server(6, other, 0, 1), mkdir("other")).unwrap();
}

#[test]
fn a_process_that_asks_twice_for_its_session_has_one() {
    let mut w = World::new();
    let ask = |w: &mut World| w.apply_at(70, 0xabc, None, Command::ServerStarts { member: 5, age_ms: 0 });
    let first = ask(&mut w);
    assert_eq!(ask(&mut w), first);
    assert_ne!(w.apply_at(70, 0xabd, None, Command::ServerStarts { member: 5, age_ms: 0 }), first);
}

#[test]
fn metaservers_that_are_long_gone_are_forgotten_for_new_ones() {
    let mut w = World::new();
    let first = start(&mut w, 1);
    for member in 2..=SERVERS_MAX as u64 + 1 {
        let life = start(&mut w, member);
        w.apply_from(by_server(member, life, 0, 1), rmdir("not there")).unwrap_err();
    }
    assert_eq!((count(&w, 0x19), count(&w, 0x1a)), (SERVERS_MAX, SERVERS_MAX));
    assert_eq!(w.apply_from(by_server(1, first, 0, 1), mkdir("d")), Err(Error::ServerGone));
}

#[test]
fn a_metaserver_that_belongs_is_not_forgotten_for_new_ones_while_others_do_not() {
    let mut w = World::new();
    let belongs = |member| {
        let (name, address, version) = (format!("mds{member}"), String::new(), String::new());
        let node =
            Node { key: NodeKey::Metaserver(member), name, address, version, state: NodeState::Serving };
        Command::Map(MapChange::Put(node))
    };
    let (lives, removed) = (start(&mut w, 1), start(&mut w, 2));
    for member in [1, 2] {
        w.apply(belongs(member)).unwrap();
    }
    w.apply(Command::Map(MapChange::State(NodeKey::Metaserver(2), NodeState::Removed))).unwrap();
    let mut last = 0;
    for member in 3..=SERVERS_MAX as u64 + 2 {
        last = start(&mut w, member);
    }
    assert_eq!(count(&w, 0x19), SERVERS_MAX);
    assert_eq!(w.apply_from(by_server(2, removed, 0, 1), mkdir("late")), Err(Error::ServerGone));
    assert!(start(&mut w, 100) > last, "a life is never used again");
    assert_eq!(w.apply_from(by_server(3, removed + 1, 0, 1), mkdir("late")), Err(Error::ServerGone));
    w.apply_from(by_server(1, lives, 0, 1), mkdir("d")).unwrap();
}
