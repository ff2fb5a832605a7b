//! Commands of a metaserver that takes an inode number for another file's change nothing.

use namespace::*;

use crate::world::*;

/// The proposal of a metaserver whose store is `theirs`.
fn asked_at(theirs: &World, command: Command) -> Proposal {
    let generations = Generations::of(&*theirs.view(), &command).unwrap();
    let stamp = Stamp { time: at(theirs.seconds), random: 77 };
    Proposal { generations, ..Proposal::new(stamp, None, command) }
}

/// Two members that have given the same inode number to two files.
fn members() -> (World, World) {
    let (mut sound, mut odd) = (World::new(), World::new());
    sound.small_file("/a");
    odd.seconds += 1; // it draws other random bits from here on
    odd.small_file("/b");
    assert_eq!(sound.id("/a"), odd.id("/b"));
    assert_ne!(sound.stat("/a").generation, odd.stat("/b").generation);
    (sound, odd)
}

#[test]
fn a_command_for_a_file_with_another_generation_is_stale_and_changes_nothing() {
    let (mut sound, odd) = members();
    let inode = odd.id("/b");
    let dir = InodeId::ROOT;
    let (name, data) = (b"x".to_vec(), bytes::Bytes::from_static(b"data"));
    let layout = LAYOUT;
    let observed = Observation {
        inode,
        grant: 0,
        epoch: 1,
        end: 9,
        modified: at(1),
        version: 1,
        durable: true,
        space_used: None,
    };
    let size = SetAttributes { size: Some(0), ..SetAttributes::default() };
    let exists = XattrExists::Either;
    let value = vec![1];
    let checked = FileVersion { epoch: 1, change: 0, grant: 0, data: Some(DataPlace::Inline) };
    let before = sound.dump();
    for command in [
        Command::WriteInline { inode, offset: 0, data },
        Command::SetAttributes { inode, set: size },
        Command::Link { inode, dir, name: name.clone() },
        Command::Wrote { inode, end: 9, bytes: 1 << 40, epoch: 1 },
        Command::Migrate { inode, made: None },
        Command::Migrated { inode, layout, epoch: 1 },
        Command::PlaceAs { inode, layout },
        Command::Relocate { inode, from: layout, to: layout, checked },
        Command::RaiseEpoch { inode, epoch: 1 },
        Command::SetXattr { inode, name: name.clone(), value, exists },
        Command::RemoveXattr { inode, name },
        Command::Observe { files: vec![observed] },
    ] {
        let told = format!("{command:?}");
        assert_eq!(sound.apply_knowing(asked_at(&odd, command.clone())), Err(Error::Stale), "{told}");
        let unchecked = Proposal::new(Stamp::default(), None, command);
        assert_ne!(
            members().0.apply_knowing(unchecked),
            Err(Error::Stale),
            "{told}: by the generation alone"
        );
    }
    assert!(sound.dump() == before, "nothing has changed");
}

#[test]
fn a_stateid_or_deferred_op_of_a_file_with_another_generation_is_stale() {
    let (mut sound, mut odd) = members();
    let client = sound.client("c");
    assert_eq!(odd.client("c"), client, "ids of clients, states and work are counted");
    let open = sound.open(client, "/a", BOTH).unwrap();
    assert_eq!(odd.open(client, "/b", BOTH).unwrap(), open);
    let before = sound.dump();
    let close = Command::Close { client, stateid: open };
    assert_eq!(sound.apply_knowing(asked_at(&odd, close.clone())), Err(Error::Stale));
    let lock = Command::Lock {
        client,
        inode: odd.id("/b"),
        owner: LockOwner::New { open, owner: b"o".to_vec() },
        kind: LockKind::Write,
        range: ByteRange { start: 0, end: 9 },
    };
    assert_eq!(sound.apply_knowing(asked_at(&odd, lock)), Err(Error::Stale));
    assert!(sound.dump() == before, "nothing has changed");
    assert!(sound.apply(close).is_ok());

    let (mut sound, mut odd) = members();
    for (world, path) in [(&mut sound, "/a"), (&mut odd, "/b")] {
        let inode = world.id(path);
        world.apply(Command::Migrate { inode, made: Some(Placed { layout: LAYOUT, epoch: 1 }) }).unwrap();
        world.remove(path).unwrap();
    }
    let ids: Vec<u64> = odd.deferred_ops().iter().map(|deferred| deferred.id).collect();
    assert_eq!(ids, sound.deferred_ops().iter().map(|deferred| deferred.id).collect::<Vec<_>>());
    let done = Command::DeferredDone { ids };
    assert_eq!(sound.apply_knowing(asked_at(&odd, done.clone())), Err(Error::Stale));
    assert_eq!(sound.deferred().len(), 1, "its objects are still to be removed");
    assert!(sound.apply(done).is_ok());
}

#[test]
fn an_inode_that_is_gone_is_stale_by_itself_and_one_that_the_asked_metaserver_lacks_is_not_judged() {
    let mut w = World::new();
    let dir = w.dir("/d");
    let make = Command::Create(create(dir, b"f", NewNode::Directory, Exists::Refuse));
    let late = asked_at(&w, make.clone());
    w.remove("/d").unwrap();
    assert_eq!(w.apply_knowing(late), Err(Error::Stale));
    let mut behind = World::new();
    behind.dir("/other");
    let unknown = InodeId(99);
    let touch = Command::SetAttributes { inode: unknown, set: SetAttributes::default() };
    assert_eq!(w.apply_knowing(asked_at(&behind, touch)), Err(Error::Stale), "it is not there");
}

#[test]
fn a_repetition_is_answered_as_before_whatever_it_carries() {
    let (mut sound, odd) = members();
    let client = sound.client("c");
    let session = read::sessions(&*sound.view(), client).unwrap()[0];
    let request = Some(RequestId::Compound(CompoundRequest { session, slot: 0, sequence: 1, index: 0 }));
    let write =
        |data: &'static [u8]| Command::WriteInline { inode: odd.id("/b"), offset: 0, data: data.into() };
    let first = sound.apply_from(request, write(b"one")).unwrap();
    let again = sound.apply_knowing(Proposal { request, ..asked_at(&odd, write(b"one")) });
    assert_eq!(again, Ok(first), "it was done");
    assert_eq!(sound.small_data("/a"), "one");
}

/// What generations cost in the log.
#[test]
fn each_name_costs_four_bytes() {
    let w = World::new();
    let size = |generations| {
        let command = Command::Rename {
            from_dir: InodeId::ROOT,
            from: b"a".to_vec(),
            to_dir: InodeId::ROOT,
            to: b"b".to_vec(),
        };
        let proposal = Proposal::new(Stamp::default(), None, command);
        let generations = if generations {
            Generations::of(&*w.view(), &proposal.command).unwrap()
        } else {
            proposal.generations.clone()
        };
        postcard::to_allocvec(&Proposal { generations, ..proposal }).unwrap().len()
    };
    assert_eq!(size(true) - size(false), 8);
}
