//! What `check` finds: no record of a store can be lost unseen.

use std::collections::BTreeMap;

use namespace::*;
use store::{Durability, MemoryStore, Store};

use crate::world::*;

/// A store with something in every table.
fn rich() -> World {
    let mut w = World::new();
    let targets = vec![TargetId(1), TargetId(2)];
    let addresses = vec!["10.0.0.1:2050".to_string()];
    let server = DataServer {
        id: DataServerId(1),
        name: "ds".to_string(),
        addresses,
        service_address: None,
        zone: String::new(),
        targets: targets.clone(),
        process: 1,
    };
    w.apply(Command::PutDataServer { server, known: None }).unwrap();
    w.apply(Command::DefineDevice { chains: targets.into_iter().map(ChainId::from).collect() }).unwrap();
    let key = NodeKey::DataServer(DataServerId(1));
    let (name, address, version) = ("ds".to_string(), "10.0.0.1:2050".to_string(), "0.1.0".to_string());
    w.apply(Command::Map(MapChange::Put(Node { key, name, address, version, state: NodeState::Serving })))
        .unwrap();
    let a = w.client("a");
    let session = read::sessions(&*w.view(), a).unwrap()[0];
    w.dir("/d");
    w.file("/d/f");
    w.make("/d/s", NewNode::Symlink(b"f".to_vec()), Exists::Refuse).unwrap();
    let request = CompoundRequest { session, slot: 0, sequence: 1, index: 0 };
    let wrote = Command::Wrote { inode: w.id("/d/f"), end: 9, bytes: 1 << 40, epoch: 1 };
    w.apply_from(Some(RequestId::Compound(request)), wrote.clone()).unwrap();
    w.apply_from(Some(RequestId::Compound(CompoundRequest { index: 1, ..request })), wrote.clone()).unwrap();
    w.apply_from(Some(RequestId::Compound(CompoundRequest { slot: 1, ..request })), wrote).unwrap();
    w.set_xattr("/d/f", "mine", b"value", XattrExists::Create).unwrap();
    let open = w.open(a, "/d/f", BOTH).unwrap();
    w.lock_new(a, open, "x", LockKind::Write, 0..5).unwrap();
    w.lock_new(a, open, "y", LockKind::Read, 5..9).unwrap();
    w.exchange("b", 1, &root(), false).unwrap();
    w.file("/d/read");
    w.open_delegated(a, "/d/read").unwrap();
    w.layout(a, "/d/f", open, IoMode::ReadWrite).unwrap();
    w.set("/d/f", SetAttributes { size: Some(3), layout_of: Some(a), ..SetAttributes::default() }).unwrap();
    w.file("/d/left");
    let open = w.open(a, "/d/left", BOTH).unwrap();
    let layout = w.layout(a, "/d/left", open, IoMode::ReadWrite).unwrap().id;
    w.apply(Command::LayoutReturn { client: a, scope: ReturnScope::Revoke { layout } }).unwrap();
    w.small_file("/d/small");
    w.write_small("/d/small", 0, "data").unwrap();
    w.volume("/d/volume").unwrap();
    w.small_file("/d/volume/f");
    w.limit(VolumeId(1), Subject::User(7), Limits { bytes_hard: 9, ..Limits::default() }).unwrap();
    // A snapshot that has values and objects of its own, and a clone of it that is promoted.
    w.file("/d/volume/shared");
    w.file("/d/volume/left");
    w.dir("/d/volume/gone");
    let snapshot = w.snapshot(VolumeId(1), "s");
    w.copy("/d/volume/left");
    w.remove("/d/volume/f").unwrap();
    let clone = w.clone_of(&snapshot, "/d/clone").unwrap();
    w.remove("/d/clone/gone").unwrap();
    w.apply(Command::Promote { volume: clone }).unwrap();
    let shown = w.clone_of(&snapshot, "/d/shown").unwrap();
    assert!(shown.is_clone());
    let assigned = Assigned { image: Some(snapshot.id), previous: None };
    let group = BootGroup { name: "blue".into(), root: BootRoot::Group, words: String::new(), assigned };
    w.apply(Command::Boot(BootChange::Group { was: None, becomes: Some(group) })).unwrap();
    let assigned = Assigned::default();
    let node = BootNode { name: "oak".into(), mac: [2, 0, 0, 0, 0, 1], group: "blue".into(), assigned };
    w.apply(Command::Boot(BootChange::Node { was: None, becomes: Some(node) })).unwrap();
    w
}

pub fn findings(pairs: &[(Vec<u8>, Vec<u8>)]) -> Vec<String> {
    let store = MemoryStore::new();
    store
        .batch(Durability::Deferred, &mut |edit| {
            pairs.iter().try_for_each(|(key, value)| edit.put(key, value))
        })
        .expect("puts");
    check(&*store.snapshot().expect("a snapshot")).expect("checks")
}

#[test]
fn every_record_that_is_lost_is_missed() {
    let all = rich().dump();
    assert_eq!(findings(&all), Vec::<String>::new());
    let tables: BTreeMap<u8, ()> = all.iter().map(|(key, _)| (key[0], ())).collect();
    assert_eq!(tables.len(), 57, "something is in every table: {tables:02x?}");
    for lost in 0..all.len() {
        let mut rest = all.clone();
        let (key, _) = rest.remove(lost);
        // Nothing else tells what a slot was answered, nor that an object had an attribute.
        const SECOND_SLOT: [u8; 5] = [0x14, 0, 0, 0, 1];
        const XATTRS: u8 = 0x05;
        let unseen = key[0] == SECOND_SLOT[0] && key.ends_with(&SECOND_SLOT[1..]) || key[0] == XATTRS;
        // Instead of a clone's own record, that of its origin is shown; here they are the same.
        let is_of_clone = (1..=5).contains(&key[0]) && key[1] == 0x40;
        assert!(unseen || is_of_clone || !findings(&rest).is_empty(), "{key:02x?}");
    }
}

#[test]
fn every_record_that_cannot_be_read_is_found() {
    let all = rich().dump();
    for (at, (key, value)) in all.iter().enumerate() {
        if value.is_empty() {
            continue; // an index that says all by being there
        }
        let mut flipped = value.clone();
        *flipped.last_mut().expect("a record has bytes") ^= 1;
        for broken in [vec![], vec![200], value[..3].to_vec(), [&[200], &value[1..]].concat(), flipped] {
            let mut with_broken = all.clone();
            with_broken[at].1 = broken;
            assert!(!findings(&with_broken).is_empty(), "{key:02x?}");
        }
    }
}

#[test]
fn a_record_under_the_key_of_another_is_an_error_where_it_is_read() {
    let all = rich().dump();
    let inodes: Vec<usize> = (0..all.len()).filter(|at| all[*at].0[0] == 1).collect();
    let mut swapped = all.clone();
    swapped[inodes[1]].1 = all[inodes[2]].1.clone();
    let store = MemoryStore::new();
    store
        .batch(Durability::Deferred, &mut |edit| {
            swapped.iter().try_for_each(|(key, value)| edit.put(key, value))
        })
        .expect("puts");
    let view = store.snapshot().expect("a snapshot");
    let inode = |at: usize| {
        let id = all[inodes[at]].0[1..].try_into().expect("eight bytes");
        read::inode(&*view, InodeId(u64::from_be_bytes(id)))
    };
    assert!(inode(1).expect_err("damaged").to_string().contains("checksum"));
    assert!(inode(2).expect("sound").is_some());
}

#[test]
fn a_record_with_any_byte_changed_is_found_and_with_a_checksum_that_holds_does_no_harm() {
    let all = rich().dump();
    for (at, (key, value)) in all.iter().enumerate() {
        for byte in 0..value.len() {
            let mut changed = all.clone();
            changed[at].1[byte] ^= 0x81;
            assert!(!findings(&changed).is_empty(), "{key:02x?} byte {byte}");
            // As only a fault of ours could write it: read, and perhaps found.
            let (header, record) = changed[at].1.split_at_mut(5);
            let parts = [&key[..], &header[..1], record];
            let sum = parts.iter().fold(0, |sum, part| crc32c::crc32c_append(sum, part));
            header[1..].copy_from_slice(&sum.to_le_bytes());
            findings(&changed);
        }
    }
}

#[test]
fn a_layout_that_cannot_be_is_an_error_not_a_division_by_zero() {
    for unit in [0u32, 1, u32::MAX] {
        let bytes = postcard::to_stdvec(&unit).expect("a number");
        assert!(postcard::from_bytes::<StripeUnit>(&bytes).is_err(), "{unit}");
    }
    for columns in [0, COLUMNS_MAX + 1, u32::MAX] {
        let bytes = postcard::to_stdvec(&FileLayout { columns, ..LAYOUT }).expect("numbers");
        assert!(postcard::from_bytes::<FileLayout>(&bytes).is_err(), "{columns}");
    }
}

#[test]
fn a_key_of_no_table_is_found_unless_it_is_another_ones() {
    let mut all = rich().dump();
    all.push((b"\xf0applied".to_vec(), vec![]));
    assert_eq!(findings(&all), Vec::<String>::new());
    all.push((vec![0x7f, 1], vec![]));
    assert_eq!(findings(&all).len(), 1);
}
