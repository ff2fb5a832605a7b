//! Write delegations: of creators and of only openers.

use namespace::*;

use crate::world::*;

impl World {
    /// Opens a file by name, and wants a delegation.
    fn open_for(&mut self, client: ClientId, owner: &str, path: &str, access: Share) -> Opened {
        let (dir, name) = self.split(path);
        self.opened(client, owner, OpenTarget::Name { dir, name }, access)
    }

    /// Makes a file with OPEN, or finds it.
    fn open_created(&mut self, client: ClientId, path: &str) -> Opened {
        let (dir, name) = self.split(path);
        let create = create(dir, &name, NewNode::File(LAYOUT), Exists::Take);
        self.opened(client, "owner", OpenTarget::Create { create, truncate: false }, BOTH)
    }

    fn opened(&mut self, client: ClientId, owner: &str, target: OpenTarget, access: Share) -> Opened {
        self.opened_by(Command::Open(wanting(client, owner, target, access)))
    }

    fn opened_by(&mut self, open: Command) -> Opened {
        match self.apply(open) {
            Ok(Reply::Opened { stateid, delegation, .. }) => Opened::Open(stateid, delegation),
            Ok(Reply::Delegated { .. }) => Opened::Waits,
            other => panic!("{other:?}"),
        }
    }

    fn writer(&self, path: &str) -> Option<ClientId> {
        read::write_delegation(&*self.view(), self.id(path)).unwrap()
    }
}

/// An OPEN that wants a delegation.
fn wanting(client: ClientId, owner: &str, target: OpenTarget, access: Share) -> Open {
    let owner = owner.as_bytes().to_vec();
    Open { client, owner, target, access, deny: NONE, delegate: true, export: InodeId::ROOT }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opened {
    Open(Stateid, Option<Stateid>),
    /// A delegation is in the way.
    Waits,
}

impl Opened {
    fn open(self) -> Stateid {
        let Opened::Open(open, _) = self else { panic!("it waits") };
        open
    }

    fn delegation(self) -> Option<Stateid> {
        let Opened::Open(_, delegation) = self else { panic!("it waits") };
        delegation
    }
}

#[test]
fn the_creator_gets_one_and_others_wait_for_it_also_to_read() {
    let mut w = World::new();
    let (a, b) = (w.client("a"), w.client("b"));
    let made = w.open_created(a, "/f");
    let delegation = made.delegation().expect("of a new file");
    assert_eq!(w.writer("/f"), Some(a));
    let held = w.state(delegation);
    assert!(matches!(held, Some(State::Delegation(held)) if held.writes() && held.inode == w.id("/f")));
    w.close(a, made.open()).unwrap();
    assert_eq!(w.open_for(b, "o", "/f", READ), Opened::Waits);
    assert_eq!(w.open_for(b, "o", "/f", WRITE), Opened::Waits);
    // Its own opens conflict with nothing.
    let again = w.open_for(a, "o", "/f", READ);
    assert_eq!(again.delegation(), None, "one is enough");
    w.close(a, again.open()).unwrap();
    w.return_delegation(a, delegation).unwrap();
    assert_eq!(w.writer("/f"), None);
    assert!(w.open_for(b, "o", "/f", READ).delegation().is_some());
}

#[test]
fn an_only_opener_for_writing_gets_one_and_others_do_not() {
    let mut w = World::new();
    let (a, b) = (w.client("a"), w.client("b"));
    w.small_file("/f");
    let reader = w.open(b, "/f", READ).unwrap();
    let writer = w.open_for(a, "o", "/f", BOTH);
    assert_eq!(writer.delegation(), None, "another client reads it");
    w.close(b, reader).unwrap();
    w.close(a, writer.open()).unwrap();
    let first = w.open(a, "/f", READ).unwrap();
    assert_eq!(
        w.open_for(a, "o", "/f", WRITE).delegation(),
        None,
        "its client has opens that are known here"
    );
    w.close(a, first).unwrap();
    // To the open that its owner has.
    assert!(w.open_for(a, "o", "/f", BOTH).delegation().is_some());
}

#[test]
fn a_creation_that_finds_the_file_gets_none() {
    let mut w = World::new();
    let a = w.client("a");
    w.small_file("/f");
    assert_eq!(w.open_created(a, "/f").delegation(), None);
}

/// ```text
/// A has delegations of /f, /g (with a layout, not open), /h (with a layout, open)
/// one command ends those of /f and /h, and skips: /g, one that is gone, B's under the name of A
/// ```
#[test]
fn many_are_returned_at_once() {
    let mut w = World::new();
    let (a, b) = (w.client("a"), w.client("b"));
    let files = ["/f", "/g", "/h"];
    let made = files.map(|path| w.open_created(a, path));
    let held = made.map(|made| made.delegation().expect("of a new file"));
    let of_b = w.open_created(b, "/b").delegation().unwrap();
    for (n, path) in files.into_iter().enumerate() {
        if n > 0 {
            w.layout(a, path, held[n], IoMode::ReadWrite).unwrap();
        }
        if n != 2 {
            w.close(a, made[n].open()).unwrap();
        }
    }
    let gone = Stateid { sequence: 1, id: StateId(999) };
    let returned: Vec<_> = held.into_iter().chain([gone, of_b]).map(|stateid| (a, stateid)).collect();
    let command = Command::DelegationsReturn { returned };
    for _ in 0..2 {
        assert_eq!(w.apply(command.clone()), Ok(Reply::Done));
        assert_eq!(held.map(|held| w.state(held).is_some()), [false, true, false]);
        assert_eq!((w.writer("/h"), w.writer("/b")), (None, Some(b)));
    }
    assert_eq!(read::layouts(&*w.view(), w.id("/h")).unwrap().len(), 1, "it is open");
    w.return_delegation(a, held[1]).unwrap();
    assert_eq!(read::layouts(&*w.view(), w.id("/g")).unwrap().len(), 0);
}

/// ```text
/// A makes /f, lays it out with its delegation, and loses the delegation    the layout goes, though /f is open
/// ```
#[test]
fn the_layout_goes_with_a_write_delegation_that_is_lost() {
    let mut w = World::new();
    let a = w.client("a");
    let made = w.open_created(a, "/f");
    let delegation = made.delegation().expect("of a new file");
    let (client, inode, stateid, mode) = (a, w.id("/f"), delegation, IoMode::ReadWrite);
    let made_objects = Some(Placed { layout: LAYOUT, epoch: 1 });
    let get = Command::LayoutGet {
        client,
        inode,
        stateid,
        mode,
        made: made_objects,
        version: 0,
        export: InodeId::ROOT,
    };
    w.apply(get).expect("lays out");
    w.apply(Command::DelegationRevoke { client: a, delegation: delegation.id }).unwrap();
    assert_eq!(read::layouts(&*w.view(), inode).unwrap(), []);
    assert!(w.state(made.open()).is_some(), "it stays open");
    assert_eq!(w.writer("/f"), None);
    assert_eq!(w.findings(), Vec::<String>::new());
}

#[test]
fn near_a_limit_there_is_none() {
    let mut w = World::new();
    let a = w.client("a");
    let limits = |bytes_hard| Limits { bytes_hard, ..Limits::default() };
    let set = |limits| Command::SetLimits { volume: VolumeId::FIRST, subject: Subject::Volume, limits };
    w.apply(set(limits(1 << 30))).unwrap();
    w.small_file("/other");
    w.write_small("/other", 0, "some").expect("writes");
    assert_eq!(w.open_created(a, "/near").delegation(), None);
    w.apply(set(limits(2 << 30))).unwrap();
    assert!(w.open_created(a, "/far").delegation().is_some());
}

#[test]
fn a_snapshot_waits_until_all_are_back_and_none_is_granted_meanwhile() {
    let mut w = World::new();
    let a = w.client("a");
    let delegation = w.open_created(a, "/f").delegation().expect("of a new file");
    let make = |w: &mut World| w.apply(Command::MakeSnapshot { volume: VolumeId::FIRST, name: b"s".into() });
    assert_eq!(make(&mut w), Ok(Reply::Snapshot { made: None }));
    assert_eq!(read::write_delegations(&*w.view(), VolumeId::FIRST, 9).unwrap(), [(w.id("/f"), a)]);
    assert_eq!(w.open_created(a, "/g").delegation(), None);
    w.return_delegation(a, delegation).unwrap();
    assert!(matches!(make(&mut w), Ok(Reply::Snapshot { made: Some(_) })));
    assert!(w.open_created(a, "/h").delegation().is_some());
}

/// ```text
/// A makes /f, and takes a delegation for an open     no open; others wait
/// A opens it by name, with the delegation             an open
/// ```
#[test]
fn a_delegation_takes_the_place_of_an_open() {
    let mut w = World::new();
    let (a, b) = (w.client("a"), w.client("b"));
    let (dir, name) = w.split("/f");
    let made = create(dir, &name, NewNode::File(LAYOUT), Exists::Take);
    let target = OpenTarget::Create { create: made, truncate: false };
    let Opened::Open(open, delegation) = w.opened_by(Command::OpenOrDelegate(wanting(a, "o", target, BOTH)))
    else {
        panic!()
    };
    assert_eq!(delegation, Some(open), "there is no other stateid");
    assert_eq!(read::opens(&*w.view(), w.id("/f")).unwrap(), []);
    assert_eq!(w.open_for(b, "o", "/f", READ), Opened::Waits);
    // What its client opened by itself is told before the delegation goes back.
    let told = w.open(a, "/f", BOTH).unwrap();
    w.return_delegation(a, open).unwrap();
    w.remove("/f").unwrap();
    assert!(w.state(told).is_some());
    w.close(a, told).unwrap();

    // For reading, too; beside an open that its owner has, and without a delegation, there is an open.
    w.small_file("/g");
    let inode = w.id("/g");
    let again = |access| Command::OpenOrDelegate(wanting(a, "o", OpenTarget::Inode(inode), access));
    let Opened::Open(read, Some(delegation)) = w.opened_by(again(READ)) else { panic!() };
    assert_eq!(read, delegation);
    let Opened::Open(open, None) = w.opened_by(again(BOTH)) else { panic!() };
    assert_eq!(read::opens(&*w.view(), inode).unwrap(), [open.id]);
    let Opened::Open(more, None) = w.opened_by(again(BOTH)) else { panic!() };
    assert_eq!((more.id, more.sequence), (open.id, open.sequence + 1));
    assert_eq!(w.findings(), Vec::<String>::new());
}
