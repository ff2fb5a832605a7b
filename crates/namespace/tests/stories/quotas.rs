//! Quotas: what is charged, when it is refused, and what is counted later.

use namespace::*;
use store::{Durability, StoreError};

use crate::world::*;

const FIRST: VolumeId = VolumeId::FIRST;
const NONE_SET: Limits =
    Limits { bytes_hard: 0, bytes_soft: 0, inodes_hard: 0, inodes_soft: 0, grace_seconds: 0 };

fn owned(dir: InodeId, name: &str, uid: u32, node: NewNode) -> Command {
    let attributes = NewAttributes { mode: 0o644, uid, gid: 100, accessed: None, modified: None };
    Command::Create(Create { dir, name: name.into(), node, attributes, exists: Exists::Refuse })
}

fn chown(uid: u32) -> SetAttributes {
    SetAttributes { uid: Some(uid), ..SetAttributes::default() }
}

#[test]
fn a_volume_is_charged_with_what_du_shows() {
    let mut w = World::new();
    let v = w.volume("/v").unwrap();
    assert_eq!((w.usage(FIRST, Subject::Volume), w.usage(v, Subject::Volume)), ((4096, 1), (4096, 1)));
    w.small_file("/v/small");
    w.write_small("/v/small", 0, "some").unwrap();
    assert_eq!(w.usage(v, Subject::Volume), (4096 + 512, 2));
    w.file("/v/big");
    w.wrote("/v/big", 10_000).unwrap();
    assert_eq!(w.usage(v, Subject::Volume), (4096 + 512 + 12_288, 3));
    // Most of it is a hole, as the data servers tell.
    let Inode { id, epoch, change, .. } = w.stat("/v/big");
    w.apply(Command::SpaceUsed { files: vec![SpaceUsed { inode: id, bytes: 4096, epoch, change }] }).unwrap();
    assert_eq!(w.usage(v, Subject::Volume), (4096 + 512 + 4096, 3));
    w.link("/v/big", "/v/name").unwrap();
    w.rename("/v/name", "/v/other").unwrap();
    w.remove("/v/big").unwrap();
    assert_eq!(w.usage(v, Subject::Volume), (4096 + 512 + 4096, 3), "a name costs nothing");
    w.remove("/v/other").unwrap();
    w.remove("/v/small").unwrap();
    assert_eq!((w.usage(FIRST, Subject::Volume), w.usage(v, Subject::Volume)), ((4096, 1), (4096, 1)));
}

#[test]
fn an_orphan_is_charged_until_its_last_close() {
    let mut w = World::new();
    let client = w.client("a");
    w.small_file("/f");
    let open = w.open(client, "/f", BOTH).unwrap();
    w.remove("/f").unwrap();
    assert_eq!(w.usage(FIRST, Subject::Volume).1, 2);
    w.apply(Command::Close { client, stateid: open }).unwrap();
    assert_eq!(w.usage(FIRST, Subject::Volume).1, 1);
}

#[test]
fn growth_above_a_hard_limit_is_refused_and_nothing_else() {
    let mut w = World::new();
    let v = w.volume("/v").unwrap();
    w.limit(v, Subject::Volume, Limits { bytes_hard: 12_288, inodes_hard: 4, ..NONE_SET }).unwrap();
    w.small_file("/v/a");
    w.write_small("/v/a", 0, &"x".repeat(8192)).unwrap();
    assert_eq!(w.usage(v, Subject::Volume), (12_288, 2));
    assert_eq!(w.write_small("/v/a", 8192, "x"), Err(Error::Quota));
    w.write_small("/v/a", 100, "over what is there").unwrap();
    assert_eq!(w.make("/v/d", NewNode::Directory, Exists::Refuse), Err(Error::Quota), "of 4096 bytes");
    w.make("/v/s", NewNode::Symlink(b"a".to_vec()), Exists::Refuse).unwrap();
    w.make("/v/p", NewNode::Fifo, Exists::Refuse).unwrap();
    assert_eq!(w.make("/v/q", NewNode::Fifo, Exists::Refuse), Err(Error::Quota), "the fifth inode");
    w.link("/v/p", "/v/q").unwrap();
    w.small_file("/elsewhere");
    // What data servers have is charged, whatever the limit is.
    w.remove("/v/s").unwrap();
    w.file("/v/big");
    w.wrote("/v/big", 4096).unwrap();
    assert_eq!(w.usage(v, Subject::Volume), (16_384, 4));
    let room = |w: &World| read::room_bytes(&*w.view(), &w.stat("/v/a"), at(w.seconds)).unwrap();
    assert_eq!(room(&w), 0);
    // A limit below what is used is allowed; less is always possible.
    w.limit(v, Subject::Volume, Limits { bytes_hard: 100, ..NONE_SET }).unwrap();
    w.set("/v/a", SetAttributes { size: Some(10), ..SetAttributes::default() }).unwrap();
    w.remove("/v/big").unwrap();
    w.limit(v, Subject::Volume, NONE_SET).unwrap();
    assert_eq!(room(&w), u64::MAX);
    let above = Limits { bytes_soft: 2, bytes_hard: 1, ..NONE_SET };
    assert_eq!(w.limit(v, Subject::Volume, above), Err(Error::Invalid));
    assert_eq!(w.limit(VolumeId(9), Subject::Volume, NONE_SET), Err(Error::Stale));
}

#[test]
fn a_soft_limit_is_a_hard_one_after_the_time_of_grace() {
    let mut w = World::new();
    let limits = Limits { inodes_soft: 2, inodes_hard: 6, grace_seconds: 5, ..NONE_SET };
    w.limit(FIRST, Subject::Volume, limits).unwrap();
    w.small_file("/a");
    let over = |w: &World| read::usage(&*w.view(), FIRST, Subject::Volume).unwrap().unwrap().inodes_over;
    assert_eq!(over(&w), None);
    w.small_file("/b");
    let since = over(&w).unwrap();
    w.small_file("/c");
    assert_eq!(over(&w), Some(since), "the time goes on");
    w.seconds = since.seconds + 5;
    assert_eq!(w.make("/d", NewNode::Fifo, Exists::Refuse), Err(Error::Quota));
    w.remove("/c").unwrap();
    assert_eq!(over(&w), Some(since));
    w.remove("/b").unwrap();
    assert_eq!(over(&w), None);
    w.small_file("/b");
    assert_eq!(over(&w).map(|time| time.seconds), Some(w.seconds), "it begins again");
}

#[test]
fn users_and_groups_are_counted_from_their_first_limit_on() {
    let mut w = World::new();
    let v = w.volume("/v").unwrap();
    let root = v.root();
    for (name, uid) in [("a", 1), ("b", 1), ("c", 2)] {
        w.apply(owned(root, name, uid, NewNode::Fifo)).unwrap();
    }
    assert_eq!(read::usages(&*w.view(), v).unwrap(), []);
    w.limit(v, Subject::User(1), Limits { inodes_hard: 3, ..NONE_SET }).unwrap();
    assert_eq!(w.usage(v, Subject::User(1)), (0, 2));
    assert_eq!((w.usage(v, Subject::User(2)), w.usage(v, Subject::Group(100))), ((0, 1), (0, 3)));
    w.apply(owned(root, "d", 1, NewNode::Fifo)).unwrap();
    assert_eq!(w.apply(owned(root, "e", 1, NewNode::Fifo)), Err(Error::Quota));
    assert_eq!(w.set("/v/c", chown(1)), Err(Error::Quota), "a file is no present above the limit");
    w.set("/v/a", chown(2)).unwrap();
    assert_eq!((w.usage(v, Subject::User(1)), w.usage(v, Subject::User(2))), ((0, 2), (0, 2)));
    w.apply(owned(root, "e", 1, NewNode::Fifo)).unwrap();
    w.apply(owned(InodeId::ROOT, "x", 1, NewNode::Fifo)).unwrap();
    assert_eq!(w.usage(FIRST, Subject::User(1)), (0, 0), "of another volume, and not counted there");
    // What has nothing, and no limit, is forgotten.
    w.remove("/v/c").unwrap();
    w.remove("/v/a").unwrap();
    let known = read::usages(&*w.view(), v).unwrap();
    let known: Vec<Subject> = known.into_iter().map(|(subject, _)| subject).collect();
    assert_eq!(known, [Subject::User(0), Subject::User(1), Subject::Group(0), Subject::Group(100)]);
}

#[test]
fn many_files_are_counted_in_bounded_commands_while_they_change() {
    const FILES: u64 = 3_000;
    let mut w = World::new();
    let v = w.volume("/v").unwrap();
    w.is_large = true;
    w.many(FILES, |n| (None, owned(v.root(), &format!("f{n}"), (n % 700) as u32, NewNode::Fifo)));
    let limits = Limits { inodes_hard: 5, ..NONE_SET };
    let set = Command::SetLimits { volume: v, subject: Subject::User(1), limits };
    assert_eq!(w.bounded(set), Reply::Done);
    let mut n = 0;
    while read::has_leftovers(&*w.view()).unwrap() {
        assert_eq!(w.findings(), Vec::<String>::new());
        // Below the mark, and above it.
        for (number, uid) in [(3 + n, 5), (FILES - n, 6)] {
            let name = w.name_of(v.root(), InodeId(v.root().0 - 2 + number));
            w.set(&format!("/v/{name}"), chown(uid)).unwrap();
            w.remove(&format!("/v/{name}")).unwrap();
        }
        n += 1;
        assert_eq!(w.bounded(Command::RemoveLeftovers), Reply::Done);
    }
    assert!(n >= FILES / 512, "{n} commands");
    assert_eq!(w.findings(), Vec::<String>::new());
    let usages = read::usages(&*w.view(), v).unwrap();
    let counted: u64 =
        usages.iter().filter(|(of, _)| matches!(of, Subject::User(_))).map(|(_, u)| u.inodes).sum();
    assert_eq!(counted, FILES + 1 - 2 * n);
    assert_eq!(w.apply(owned(v.root(), "more", 1, NewNode::Fifo)).map(drop), Ok(()));
    let more = w.apply(owned(v.root(), "and more", 1, NewNode::Fifo));
    assert_eq!(more, Err(Error::Quota), "{:?}", w.usage(v, Subject::User(1)));
    // A removal forgets users, too, also while they are counted.
    let (dir, name) = w.split("/v");
    w.bounded(Command::RemoveVolume { dir, name, force: true });
    w.remove_leftovers();
    assert_eq!(w.findings(), Vec::<String>::new());
    assert!(w.dump().iter().all(|(key, _)| key[0] != 0x61), "usages of a removed volume");
}

/// The store of a build from before volumes had records.
#[test]
fn a_store_of_before_is_counted_from_its_first_change_on() {
    const FILES: u64 = 2_000;
    let mut w = World::new();
    w.is_large = true;
    w.many(FILES, |n| {
        let make = owned(InodeId::ROOT, &format!("f{n}"), 1, NewNode::Directory);
        (None, make)
    });
    let counters = |w: &World| w.dump().into_iter().find(|(key, _)| key == &[0]).expect("is there");
    let record = |w: &World| w.dump().into_iter().find(|(key, _)| key[0] == 0x60).expect("is there");
    // The counters of that build had the next number of the first volume.
    let old = with_next_inode(&counters(&w).1, 3 + FILES);
    let key = record(&w).0;
    w.store
        .batch(Durability::Deferred, &mut |edit| {
            edit.delete(&key)?;
            edit.put(&[0], &old)?;
            Ok::<(), StoreError>(())
        })
        .unwrap();
    assert_eq!(w.findings(), Vec::<String>::new());
    assert_eq!(w.usage(FIRST, Subject::Volume), (0, FILES + 1), "bytes are not counted yet");
    assert!(!read::has_leftovers(&*w.view()).unwrap());
    let made = w.apply(owned(InodeId::ROOT, "new", 1, NewNode::Directory)).unwrap();
    assert!(matches!(made, Reply::Created { inode: Inode { id: InodeId(id), .. }, .. } if id == 3 + FILES));
    assert!(read::has_leftovers(&*w.view()).unwrap());
    assert_eq!(w.findings(), Vec::<String>::new());
    assert!(w.remove_leftovers() >= (FILES / 512) as usize);
    assert_eq!(w.usage(FIRST, Subject::Volume), (4096 * u128::from(FILES + 2), FILES + 2));
    assert_eq!(w.findings(), Vec::<String>::new());
}

/// The record of the counters with another next inode: its first field, a number of two bytes.
fn with_next_inode(record: &[u8], next: u64) -> Vec<u8> {
    let fields = &record[5..];
    assert_eq!(fields[0], 3, "as the format makes it");
    let number = [(next & 0x7f) as u8 | 0x80, (next >> 7) as u8];
    let fields = [&number[..], &fields[1..]].concat();
    let sum = crc32c::crc32c_append(crc32c::crc32c_append(crc32c::crc32c(&[0]), &[1]), &fields);
    [&[1][..], &sum.to_le_bytes(), &fields].concat()
}
