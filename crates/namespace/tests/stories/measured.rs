//! The time that the largest of the bounded commands take, on a store on disk:
//! `cargo test --release -p namespace --test stories -- --ignored --nocapture measured`.

#![allow(clippy::disallowed_methods)] // a test may have files

use std::time::Duration;

use namespace::*;
use store::RedbStore;

use crate::world::*;

const MEMORY_BYTES: usize = 256 << 20;

/// The longest and the mean time of `RemoveLeftovers`, until there are none.
fn remove_leftovers(w: &mut World) -> String {
    let (mut times, mut changes_max) = (Vec::new(), 0);
    while read::has_leftovers(&*w.view()).unwrap() {
        let (reply, counts) = w.counted(Command::RemoveLeftovers);
        times.push(counts.time);
        changes_max = changes_max.max(counts.changes);
        assert_eq!(reply, Reply::Done);
    }
    let mean = times.iter().sum::<Duration>() / times.len().max(1) as u32;
    times.sort_unstable();
    let most = times[times.len() * 99 / 100];
    format!("{} commands, {changes_max} changes at most, mean {mean:?}, 99 % in {most:?}", times.len())
}

fn timed(w: &mut World, what: &str, command: Command) -> Reply {
    let (reply, counts) = w.counted(command);
    println!("{what}: {:?}, {} reads, {} changes", counts.time, counts.reads.get(), counts.changes);
    reply
}

#[test]
#[ignore = "it measures"]
fn the_largest_commands() {
    let path = std::env::temp_dir().join(format!("heorot-measured-{}", std::process::id()));
    let mut w = World::over(Box::new(RedbStore::open(&path, MEMORY_BYTES).expect("a store")));
    w.is_large = true;
    let (a, b) = (w.client("a"), w.client("b"));
    let (many, locked) = (w.file("/many"), w.file("/f"));
    let (by_a, by_b) = (w.open(a, "/f", BOTH).unwrap(), w.open(b, "/f", BOTH).unwrap());
    let open = |client, owner: Vec<u8>, inode, deny| {
        let (target, export) = (OpenTarget::Inode(inode), InodeId::ROOT);
        Command::Open(Open { client, owner, target, access: READ, deny, delegate: false, export })
    };
    w.many(200_000, |n| (None, open(a, n.to_be_bytes().to_vec(), many, NONE)));
    w.many(200_000, |n| {
        let owner = LockOwner::New { open: by_a, owner: (n % 100).to_be_bytes().to_vec() };
        let range = ByteRange { start: n * 10, end: n * 10 + 5 };
        (None, Command::Lock { client: a, inode: locked, owner, kind: LockKind::Read, range })
    });
    let lock = |start: u64, len| {
        let owner = LockOwner::New { open: by_b, owner: start.to_be_bytes().to_vec() };
        let range = ByteRange { start, end: start + len };
        Command::Lock { client: b, inode: locked, owner, kind: LockKind::Write, range }
    };
    timed(&mut w, "LOCK between 200,000 ranges", lock(1_500_005, 5));
    timed(&mut w, "LOCK among 200,000 ranges, denied", lock(500_000, 1_000_000));
    w.lapse(a).unwrap();
    timed(&mut w, "ExpireClient of 400,000 states and ranges", Command::ExpireClient { client: a });
    timed(&mut w, "OPEN among leftovers, delayed", open(b, b"x".to_vec(), many, READ));
    timed(&mut w, "LOCK among leftovers, delayed", lock(1_200_000, 1_000_000));
    println!("RemoveLeftovers: {}", remove_leftovers(&mut w));
    std::fs::remove_file(&path).expect("removes the store");
}
