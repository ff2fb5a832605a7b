//! Ends of clients and sessions that have much: no command takes up more than its bound.

use namespace::*;

use crate::broken::findings;
use crate::world::*;

/// States of one client, five times as many as one command removes.
const MANY: u64 = 5_000;

fn open_as(client: ClientId, owner: u64, inode: InodeId) -> Command {
    Command::Open(Open {
        client,
        owner: owner.to_be_bytes().to_vec(),
        target: OpenTarget::Inode(inode),
        access: READ,
        deny: NONE,
        delegate: false,
        export: InodeId::ROOT,
    })
}

/// Client `a` with so many states, and client `b`.
fn a_client_with(states: u64) -> (World, ClientId, ClientId) {
    let mut w = World::new();
    let (a, b) = (w.client("a"), w.client("b"));
    let many = w.file("/many");
    for path in ["/gone", "/denied", "/laid_out", "/locked", "/delegated"] {
        w.file(path);
    }
    w.is_large = true;
    w.many(states, |owner| (None, open_as(a, owner, many)));
    // The states that matter come last.
    let gone = w.open(a, "/gone", READ).unwrap();
    w.layout(a, "/gone", gone, IoMode::Read).unwrap();
    w.remove("/gone").unwrap();
    w.open_as(a, "o", "/denied", BOTH, BOTH).unwrap();
    let laid_out = w.open(a, "/laid_out", BOTH).unwrap();
    w.layout(a, "/laid_out", laid_out, IoMode::ReadWrite).unwrap();
    let locked = w.open(a, "/locked", BOTH).unwrap();
    stateid(w.lock_new(a, locked, "l", LockKind::Write, 0..100));
    assert!(w.open_delegated(a, "/delegated").unwrap().1.is_some());
    assert_eq!(w.deferred(), []);
    (w, a, b)
}

/// What the states of a client that has ended would keep another from.
fn does_what_was_in_conflict(w: &mut World, b: ClientId) {
    w.open(b, "/denied", BOTH).unwrap();
    let locked = w.open(b, "/locked", BOTH).unwrap();
    stateid(w.lock_new(b, locked, "l", LockKind::Write, 50..60));
    let set = SetAttributes { size: Some(0), ..SetAttributes::default() };
    w.set("/laid_out", set).unwrap();
    w.open(b, "/delegated", BOTH).unwrap();
    for path in ["/laid_out", "/delegated"] {
        assert_eq!(read::layouts(&*w.view(), w.id(path)).unwrap(), []);
        assert_eq!(read::delegations(&*w.view(), w.id(path)).unwrap(), []);
    }
}

#[test]
fn a_client_with_100_000_states_ends_in_bounded_commands() {
    const STATES: u64 = 100_000;
    let (mut w, a, b) = a_client_with(STATES);
    w.lapse(a).unwrap();
    assert_eq!(w.bounded(Command::ExpireClient { client: a }), Reply::Done);
    assert!(read::has_leftovers(&*w.view()).unwrap());
    assert_eq!(w.findings(), Vec::<String>::new());
    assert_eq!(read::client(&*w.view(), a).unwrap(), None);

    does_what_was_in_conflict(&mut w, b);
    assert_eq!(w.client("a").0, a.0 + 2, "the client comes back at once, as another");
    let before = read::state_counts(&*w.view()).unwrap();
    let commands = w.remove_leftovers();
    assert!(commands as u64 >= STATES / RECORDS_OF_COMMAND_MAX as u64, "{commands} commands");
    assert_eq!(w.findings(), Vec::<String>::new());
    assert!(!read::has_state(&*w.view(), a).unwrap());
    let after = read::state_counts(&*w.view()).unwrap();
    assert!(before.opens > 90_000 && (after.opens, after.locks, after.layouts) == (3, 1, 0), "{after:?}");
    assert!(
        w.deferred().iter().any(|(_, kind)| *kind == DeferredKind::Remove),
        "/gone went with its last state"
    );
    assert_eq!(w.held("/locked"), ["w 50..60"]);
}

#[test]
fn one_open_ends_a_lapsed_client_with_many_states() {
    let (mut w, a, b) = a_client_with(MANY);
    w.lapse(a).unwrap();
    let (dir, name) = w.split("/denied");
    let target = OpenTarget::Name { dir, name };
    let (owner, export) = (b"o".to_vec(), InodeId::ROOT);
    let open = Open { client: b, owner, target, access: READ, deny: NONE, delegate: false, export };
    assert!(matches!(w.bounded(Command::Open(open)), Reply::Opened { .. }));
    assert_eq!(read::client(&*w.view(), a).unwrap(), None);
    does_what_was_in_conflict(&mut w, b);
    let (marks, without): (Vec<_>, Vec<_>) = w.dump().into_iter().partition(|(key, _)| key[0] == 0x32);
    assert_eq!(marks.len(), 1);
    assert!(findings(&without).len() > 3_000, "states that would stay for ever");
    w.remove_leftovers();
    assert_eq!(w.findings(), Vec::<String>::new());
}

#[test]
fn an_open_in_the_way_of_leftovers_comes_again_or_goes_on() {
    let (mut w, a, b) = a_client_with(MANY);
    w.lapse(a).unwrap();
    assert_eq!(w.bounded(Command::ExpireClient { client: a }), Reply::Done);
    let inode = w.id("/many");
    let Command::Open(open) = open_as(b, 0, inode) else { unreachable!() };
    let denies = Command::Open(Open { deny: BOTH, ..open });
    // 4,000 opens of a client that has ended: whether another is among them takes too long to tell.
    assert_eq!(w.bounded(denies.clone()), Reply::Refused(Error::Delay));
    w.remove_leftovers();
    assert!(matches!(w.bounded(denies), Reply::Opened { .. }));
}

#[test]
fn lapsed_clients_in_the_way_of_one_open_end_a_few_at_a_time() {
    let mut w = World::new();
    let inode = w.file("/f");
    let b = w.client("b");
    for n in 0..20 {
        let client = w.client(&format!("c{n}"));
        w.open(client, "/f", READ).unwrap();
        w.lapse(client).unwrap();
    }
    w.remove("/f").unwrap();
    let Command::Open(open) = open_as(b, 0, inode) else { unreachable!() };
    let denies = Command::Open(Open { deny: BOTH, ..open });
    for left in [12, 4] {
        assert_eq!(w.bounded(denies.clone()), Reply::Refused(Error::Delay));
        assert_eq!(read::clients(&*w.view()).unwrap().len(), 1 + left);
        assert_eq!(w.findings(), Vec::<String>::new());
    }
    assert!(matches!(w.bounded(denies), Reply::Opened { .. }), "the file was there all the time");
}

#[test]
fn a_session_with_many_replies_ends_in_bounded_commands() {
    let mut w = World::new();
    let (client, sequence, _) = client_of(w.exchange("a", 1, &root(), false));
    let session = w.create_session(client, sequence).unwrap();
    let request = |n: u64| {
        let (slot, index) = ((n / 128) as u32, (n % 128) as u32);
        let request = CompoundRequest { session, slot, sequence: 1, index };
        (Some(RequestId::Compound(request)), Command::ReclaimComplete { client })
    };
    w.many(64 * 128, request);
    assert_eq!(w.findings(), Vec::<String>::new());
    assert_eq!(w.bounded(Command::DestroySession { session }), Reply::Done);
    assert_eq!(w.findings(), Vec::<String>::new());
    assert_eq!(w.apply_from(request(5).0, Command::ReclaimComplete { client }), Err(Error::BadSession));
    assert!(w.remove_leftovers() >= 7);
    let of_session = |(key, _): &(Vec<u8>, Vec<u8>)| key[0] == 0x14 || key[0] == 0x15;
    assert_eq!(w.dump().iter().filter(|pair| of_session(pair)).count(), 0);
}

#[test]
fn a_client_returns_100_000_layouts_with_one_command() {
    const LAYOUTS: u64 = 100_000;
    let mut w = World::new();
    let (a, b) = (w.client("a"), w.client("b"));
    w.is_large = true;
    w.many(LAYOUTS, |n| {
        let create = create(InodeId::ROOT, &n.to_be_bytes(), NewNode::File(LAYOUT), Exists::Refuse);
        let target = OpenTarget::Create { create, truncate: false };
        let (owner, export) = (b"o".to_vec(), InodeId::ROOT);
        (
            None,
            Command::Open(Open {
                client: a,
                owner,
                target,
                access: BOTH,
                deny: NONE,
                delegate: false,
                export,
            }),
        )
    });
    let opens = read::states(&*w.view(), a).unwrap();
    w.many(LAYOUTS, |n| {
        let (stateid, inode) = (Stateid { sequence: 0, id: opens[n as usize] }, InodeId(3 + n));
        let (mode, made, export) =
            (IoMode::ReadWrite, Some(Placed { layout: LAYOUT, epoch: 1 }), InodeId::ROOT);
        (None, Command::LayoutGet { client: a, inode, stateid, mode, made, version: 0, export })
    });
    assert_eq!(read::state_counts(&*w.view()).unwrap().layouts, LAYOUTS);
    let (first, last) = (InodeId(3), InodeId(2 + LAYOUTS));
    let (_, old, _) = read::layouts(&*w.view(), last).unwrap()[0];

    let all = Command::LayoutReturn { client: a, scope: ReturnScope::All };
    assert_eq!(w.bounded(all.clone()), Reply::State { stateid: None });
    assert_eq!(w.findings(), Vec::<String>::new());
    for inode in [first, last] {
        assert_eq!(read::layouts(&*w.view(), inode).unwrap(), []);
        let set = SetAttributes { size: Some(0), ..SetAttributes::default() };
        assert!(matches!(w.bounded(Command::SetAttributes { inode, set }), Reply::Attributes { .. }));
        w.apply(Command::DeferredDone { ids: vec![1, 2] }).unwrap();
    }
    // It is not there, whatever its record; another takes its place, and stays.
    let scope = ReturnScope::File { inode: last, stateid: old };
    assert_eq!(w.bounded(Command::LayoutReturn { client: a, scope }), Reply::Refused(Error::BadStateid));
    assert_eq!(w.bounded(Command::LayoutRecall { client: a, inode: last }), Reply::State { stateid: None });
    let stateid = Stateid { sequence: 0, id: opens[LAYOUTS as usize - 1] };
    let (mode, made, export) = (IoMode::ReadWrite, Some(Placed { layout: LAYOUT, epoch: 1 }), InodeId::ROOT);
    let get = Command::LayoutGet { client: a, inode: last, stateid, mode, made, version: 0, export };
    assert!(matches!(w.bounded(get), Reply::Layout { .. }));
    let commands = w.remove_leftovers();
    assert!(commands > 190, "{commands} commands look at 200,000 states");
    assert_eq!(read::state_counts(&*w.view()).unwrap().layouts, 1);
    assert_eq!(read::layouts(&*w.view(), last).unwrap().len(), 1);
    assert_eq!(w.findings(), Vec::<String>::new());
    assert_eq!(w.bounded(all), Reply::State { stateid: None });
    assert!(read::client(&*w.view(), b).unwrap().is_some());
}

/// Thousands of clients write one file, and another sets its times.
#[test]
fn setting_the_times_of_a_file_with_many_layouts_changes_one_record_more() {
    let mut w = World::new();
    let inode = w.file("/f");
    w.is_large = true;
    let mut layouts = Vec::new();
    for n in 0..300 {
        let client = w.client(&n.to_string());
        let open = w.open(client, "/f", BOTH).unwrap();
        layouts.push((client, w.layout(client, "/f", open, IoMode::ReadWrite).unwrap()));
    }
    let set = SetAttributes { modified: Some(at(1)), ..SetAttributes::default() };
    let (reply, counts) = w.counted(Command::SetAttributes { inode, set });
    assert!(matches!(reply, Reply::Attributes { .. }));
    assert!(counts.changes <= 2 && counts.reads.get() < 10, "{counts:?}");
    for (client, stateid) in [layouts[0], layouts[299]] {
        let (last_write, modified) = (Some(5), None);
        let commit = Command::LayoutCommit { client, inode, stateid, last_write, modified, observed: None };
        w.bounded(commit.clone());
        assert_eq!(w.stat("/f").modified, at(1), "the time that was set stands");
    }
    let (client, stateid) = layouts[0];
    let (last_write, modified) = (Some(6), None);
    w.bounded(Command::LayoutCommit { client, inode, stateid, last_write, modified, observed: None });
    assert_eq!(w.stat("/f").modified, at(w.seconds), "once");
}
