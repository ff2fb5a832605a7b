//! Read delegations.

use namespace::*;

use crate::world::*;

/// Two clients with a session each, and a file that the first has a delegation of.
fn delegated() -> (World, ClientId, ClientId, Stateid, Stateid) {
    let mut w = World::new();
    let (a, b) = (w.client("a"), w.client("b"));
    w.file("/f");
    let (open, delegation) = w.open_delegated(a, "/f").unwrap();
    (w, a, b, open, delegation.expect("nobody writes"))
}

/// First byte of the keys of session slots, in which the sequence of a command that waits is noted.
const SLOTS: u8 = 0x14;
/// Tag of the marks of contended files.
const CONTENDED: u8 = 0x2c;

fn request(w: &World, client: ClientId, sequence: u32) -> Option<RequestId> {
    let session = read::sessions(&*w.view(), client).unwrap()[0];
    Some(RequestId::Compound(CompoundRequest { session, slot: 0, sequence, index: 0 }))
}

#[test]
fn a_reader_gets_a_delegation_with_its_open_and_other_readers_too() {
    let (mut w, a, b, _, first) = delegated();
    let (_, second) = w.open_delegated(b, "/f").unwrap();
    let file = w.id("/f");
    assert_eq!(read::delegations(&*w.view(), file).unwrap(), [(a, first), (b, second.unwrap())]);
    assert_eq!(w.open_delegated(a, "/f").unwrap().1, None, "one is enough");
    assert!(w.open(b, "/f", READ).is_ok());
}

#[test]
fn no_delegation_of_a_file_that_somebody_writes_or_keeps_from_readers() {
    let mut w = World::new();
    let (a, b) = (w.client("a"), w.client("b"));
    for path in ["/written", "/kept", "/laid out"] {
        w.file(path);
    }
    w.open(b, "/written", BOTH).unwrap();
    assert_eq!(w.open_delegated(a, "/written").unwrap().1, None);
    w.open_as(a, "other", "/kept", WRITE, READ).unwrap();
    assert_eq!(w.open_delegated(b, "/kept"), Err(Error::ShareDenied));

    // One that was downgraded may still write through its layout.
    let open = w.open_as(b, "o", "/laid out", READ, NONE).unwrap();
    let open = Stateid { sequence: open.sequence + 1, ..open };
    assert_eq!(w.open_as(b, "o", "/laid out", BOTH, NONE), Ok(open));
    w.layout(b, "/laid out", open, IoMode::ReadWrite).unwrap();
    w.apply(Command::OpenDowngrade { client: b, stateid: open, access: READ, deny: NONE }).unwrap();
    assert_eq!(w.open_delegated(a, "/laid out").unwrap().1, None);
}

#[test]
fn what_others_change_waits_until_the_delegation_is_back() {
    let (mut w, a, b, open, delegation) = delegated();
    w.close(a, open).unwrap();
    let inode = w.id("/f");
    let waits = Ok(Reply::Delegated { inode });
    let without_slots = |w: &World| {
        let mut pairs = w.dump();
        pairs.retain(|(key, _)| ![SLOTS, CONTENDED].contains(&key[0]));
        pairs
    };
    let before = without_slots(&w);
    let owner = || b"other".to_vec();
    let ((dir, name), (_, new)) = (w.split("/f"), w.split("/g"));
    let named = || OpenTarget::Name { dir, name: name.clone() };
    let truncating = OpenTarget::Create {
        create: create(dir, &name, NewNode::File(LAYOUT), Exists::Take),
        truncate: true,
    };
    let open = |target, access, deny| {
        Command::Open(Open {
            client: b,
            owner: owner(),
            target,
            access,
            deny,
            delegate: false,
            export: InodeId::ROOT,
        })
    };
    let from = (dir, name.clone());
    for command in [
        open(named(), WRITE, NONE),
        open(named(), READ, READ),
        open(truncating, READ, NONE),
        Command::SetAttributes {
            inode,
            set: SetAttributes { mode: Some(0o600), ..SetAttributes::default() },
        },
        Command::Wrote { inode, end: 5, bytes: 1 << 40, epoch: 1 },
        Command::Remove { dir, name: from.1.clone(), expect: Expect::Anything },
        Command::Rename { from_dir: dir, from: from.1.clone(), to_dir: dir, to: new.clone() },
        Command::Link { inode, dir, name: new },
        Command::SetXattr { inode, name: b"x".to_vec(), value: vec![], exists: XattrExists::Either },
    ] {
        assert_eq!(w.apply_from(request(&w, b, 1), command.clone()), waits, "{command:?}");
        assert_eq!(without_slots(&w), before, "nothing was done: {command:?}");
    }
    w.file("/over");
    assert_eq!(w.rename("/over", "/f"), waits);
    w.make("/small", NewNode::File(LAYOUT), Exists::Refuse).unwrap();
    w.open_delegated(a, "/small").unwrap();
    let small = w.id("/small");
    let write = Command::WriteInline { inode: small, offset: 0, data: b"small".as_slice().into() };
    assert_eq!(w.apply(write), Ok(Reply::Delegated { inode: small }));
    assert!(
        w.apply(open(named(), READ, WRITE)).is_ok(),
        "to keep others from writing is no harm to a reader"
    );
    w.return_delegation(a, delegation).unwrap();
    w.wrote("/f", 5).unwrap();
}

#[test]
fn while_a_change_waits_the_file_gets_no_other_delegation() {
    let (mut w, a, b, _, delegation) = delegated();
    let c = w.client("c");
    let (dir, name) = w.split("/f");
    let remove = Command::Remove { dir, name, expect: Expect::Anything };
    assert!(matches!(w.apply_from(request(&w, b, 1), remove.clone()), Ok(Reply::Delegated { .. })));
    assert_eq!(w.open_delegated(c, "/f").unwrap().1, None, "else the change would wait for it, too");
    w.return_delegation(a, delegation).unwrap();
    let (_, again) = w.open_delegated(c, "/f").unwrap();
    assert!(again.is_some(), "the change has not come again");
    let (_, second) = w.open_delegated(a, "/f").unwrap();
    assert!(matches!(w.apply_from(request(&w, b, 1), remove.clone()), Ok(Reply::Delegated { .. })));
    w.apply(Command::DelegationRevoke { client: a, delegation: second.unwrap().id }).unwrap();
    assert_eq!(w.open_delegated(a, "/f").unwrap().1, None, "one is not back");
    w.return_delegation(c, again.unwrap()).unwrap();
    assert!(matches!(w.apply_from(request(&w, b, 1), remove), Ok(Reply::Removed { .. })));
}

#[test]
fn a_command_that_waited_is_done_when_it_is_asked_again() {
    let (mut w, a, b, _, delegation) = delegated();
    let (dir, name) = w.split("/f");
    let remove = Command::Remove { dir, name, expect: Expect::Anything };
    let from = request(&w, b, 1);
    assert!(matches!(w.apply_from(from, remove.clone()), Ok(Reply::Delegated { .. })));
    w.return_delegation(a, delegation).unwrap();
    let removed = w.apply_from(from, remove.clone());
    assert!(matches!(removed, Ok(Reply::Removed { .. })));
    assert_eq!(w.apply_from(from, remove), removed, "now it is remembered");
}

#[test]
fn a_command_that_waited_is_not_done_once_its_slot_has_gone_on() {
    let (mut w, a, b, _, delegation) = delegated();
    let (dir, name) = w.split("/f");
    let remove = Command::Remove { dir, name, expect: Expect::Anything };
    let (late, next) = (request(&w, b, 1), request(&w, b, 2));
    for from in [late, late, next] {
        assert!(matches!(w.apply_from(from, remove.clone()), Ok(Reply::Delegated { .. })));
    }
    w.return_delegation(a, delegation).unwrap();
    assert_eq!(w.apply_from(late, remove.clone()), Err(Error::Misordered));
    assert!(matches!(w.apply_from(next, remove), Ok(Reply::Removed { .. })));
}

#[test]
fn a_client_is_not_kept_from_what_it_does_itself() {
    let (mut w, a, b, _, delegation) = delegated();
    w.open_as(a, "writer", "/f", BOTH, NONE).unwrap();
    let set = SetAttributes { mode: Some(0o600), ..SetAttributes::default() };
    let inode = w.id("/f");
    w.apply_from(request(&w, a, 1), Command::SetAttributes { inode, set }).unwrap();
    assert_eq!(read::delegations(&*w.view(), inode).unwrap(), [(a, delegation)]);
    assert_eq!(w.open_delegated(b, "/f").unwrap().1, None, "but now there is a writer");
}

#[test]
fn a_delegation_outlives_the_open_that_it_came_with_and_its_layout_too() {
    let (mut w, a, _, open, delegation) = delegated();
    let file = w.id("/f");
    w.close(a, open).unwrap();
    w.layout(a, "/f", delegation, IoMode::Read).unwrap();
    assert_eq!(
        w.apply(Command::LayoutGet {
            client: a,
            inode: file,
            stateid: delegation,
            mode: IoMode::ReadWrite,
            made: None,
            version: 0,
            export: InodeId::ROOT
        }),
        Err(Error::OpenMode)
    );
    let again = w.open(a, "/f", READ).unwrap();
    w.close(a, again).unwrap();
    assert_eq!(read::layouts(&*w.view(), file).unwrap().len(), 1);
    w.return_delegation(a, delegation).unwrap();
    assert_eq!(read::layouts(&*w.view(), file).unwrap(), [], "the last that allowed it is gone");
    assert_eq!(w.return_delegation(a, delegation), Err(Error::BadStateid));
}

#[test]
fn a_file_that_its_reader_removed_stays_until_the_delegation_is_back() {
    let (mut w, a, _, open, delegation) = delegated();
    let (file, (dir, name)) = (w.id("/f"), w.split("/f"));
    w.apply_from(request(&w, a, 1), Command::Remove { dir, name, expect: Expect::Anything }).unwrap();
    w.close(a, open).unwrap();
    assert!(w.inode(file).is_some_and(|inode| inode.links == 0));
    w.return_delegation(a, delegation).unwrap();
    assert_eq!((w.inode(file), w.deferred()), (None, vec![(file, DeferredKind::Remove)]));
}

#[test]
fn a_revoked_delegation_is_in_nobodys_way_and_is_known_until_it_is_freed() {
    let (mut w, a, b, open, delegation) = delegated();
    let inode = w.id("/f");
    let free = |w: &mut World| w.apply(Command::FreeState { client: a, stateid: delegation });
    assert_eq!(free(&mut w), Err(Error::LocksHeld));
    w.close(a, open).unwrap();
    w.apply(Command::DelegationRevoke { client: a, delegation: delegation.id }).unwrap();
    assert_eq!(read::revoked(&*w.view()).unwrap(), [a]);
    assert_eq!(w.return_delegation(a, delegation), Err(Error::DelegationRevoked));
    assert_eq!(w.layout(a, "/f", delegation, IoMode::Read), Err(Error::DelegationRevoked));
    w.open(b, "/f", WRITE).unwrap();
    w.remove("/f").unwrap();
    w.expire(b).unwrap();
    assert_eq!(w.inode(inode), None, "not even the file need stay");
    free(&mut w).unwrap();
    assert_eq!(read::revoked(&*w.view()).unwrap(), []);
    assert_eq!(free(&mut w), Err(Error::BadStateid));
}

#[test]
fn delegations_go_with_their_client() {
    let (mut w, a, b, _, _) = delegated();
    let inode = w.id("/f");
    w.file("/g");
    let revoked = w.open_delegated(a, "/g").unwrap().1.expect("a delegation").id;
    w.apply(Command::DelegationRevoke { client: a, delegation: revoked }).unwrap();
    w.expire(a).unwrap();
    assert_eq!(read::delegations(&*w.view(), inode).unwrap(), []);
    assert_eq!(read::revoked(&*w.view()).unwrap(), []);
    w.open(b, "/f", WRITE).unwrap();
}

/// ```text
/// A opens /f to read through the export of /d, and gets a layout through it    both note /d
/// A asks again for a layout, through the whole volume                          it still notes /d
/// ```
#[test]
fn a_delegation_and_a_layout_note_the_export_that_they_came_through() {
    let mut w = World::new();
    let a = w.client("a");
    let (dir, file) = (w.dir("/d"), w.file("/f"));
    let (target, owner) = (OpenTarget::Inode(file), b"o".to_vec());
    let open = Open { client: a, owner, target, access: READ, deny: NONE, delegate: true, export: dir };
    let Reply::Opened { stateid, delegation, .. } = w.apply(Command::Open(open)).unwrap() else { panic!() };
    let (mode, made) = (IoMode::Read, None);
    let get = |export| Command::LayoutGet { client: a, inode: file, stateid, mode, made, version: 0, export };
    let Reply::Layout { stateid: layout, .. } = w.apply(get(dir)).unwrap() else { panic!() };
    w.apply(get(InodeId::ROOT)).unwrap();
    let Some(State::Delegation(delegation)) = w.state(delegation.unwrap()) else { panic!() };
    let Some(State::Layout(layout)) = w.state(layout) else { panic!() };
    assert_eq!((delegation.export, layout.export), (dir, dir));
}
